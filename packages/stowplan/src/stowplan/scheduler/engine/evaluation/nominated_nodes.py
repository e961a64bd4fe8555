"""Nodes without room for a pod next to the pods nominated to them.

With hundreds of preemptors, hundreds of nodes need the filters' second pass for each incoming pod. But between a pod
and the next equal one, few nominations and few of their nodes change. So the verdicts are cached by row, and only those
are recomputed whose nominations or pods changed, provided that the participating filters read nothing but the node
being judged. The result is the same, bit for bit.

Upstream: RunFilterPluginsWithNominatedPods in pkg/scheduler/framework/runtime/framework.go evaluates each node again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.runtime import nominated_pods as nominated
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status


class NominatedNodes:
    """The nominated nodes as seen by pods of one signature."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._cluster = framework.handle.cluster
        #: What the verdicts depend on besides pods, nominations and lookup objects; None: they must not be reused.
        self._stamp: tuple[int, int, frozenset[str]] | None = None
        self._examined: Mask = np.zeros(0, np.bool_)
        self._position = -1
        self._version = -1
        #: Row -> why it does not fit the pod; rows that do are absent.
        self._refused: dict[int, Status] = {}
        #: Rows evaluated for a pod that is nominated to them. Not reused: for the pod itself its nomination does not
        #: count as used room, for equal pods it does.
        self._own: set[int] = set()

    def forget(self) -> None:
        """Recompute all nodes next time, as after a change of lookup objects."""
        self._stamp = None

    def refused(self, state: CycleState, pod: PodInfo, examined: Mask) -> dict[int, Status] | Status:
        """Row -> why the pod does not fit with the nominated pods added; a Status is an error."""
        cluster = self._cluster
        stamp = (cluster.table.generation, pod.priority, frozenset(state.skip_filter))
        kept = stamp == self._stamp and np.array_equal(examined, self._examined) and self._row_by_row(state)
        rows = self._stale() if kept else None
        # Invalid until this completes.
        self._stamp = None
        own = cluster.table.row_of.get(cluster.nominator.node_of(pod.uid))
        if rows is None:
            self._refused = {}
            failed = self._judge(state, pod, nominated.nominated_ahead(cluster, pod), examined)
        else:
            rows |= self._own | ({own} if own is not None else set())
            for row in rows:
                # Only refusals are stored below: without this, a row that fits by now would keep its last one.
                self._refused.pop(row, None)
            names = [name for row in rows if (name := cluster.table.names[row])]
            failed = self._judge(state, pod, nominated.nominated_ahead(cluster, pod, names), examined)
        if failed is not None:
            return failed
        self._own = {own} if own is not None else set()
        self._stamp, self._examined = stamp, examined
        self._position, self._version = cluster.changes.position, cluster.nominator.version
        # A copy, as results of rejected pods are kept, and this dict is updated for the next pod.
        return self._refused.copy()

    def _stale(self) -> set[int] | None:
        """Rows whose verdict may have changed; None for all."""
        rows = self._cluster.changes.since(self._position)
        names = self._cluster.nominator.changed_since(self._version)
        # The logs do not reach back so far, or the numbers are of a transaction that was undone.
        if rows is None or names is None:
            return None
        return {*rows, *self._rows_of(names)}

    def _rows_of(self, names: Iterable[str]) -> Iterable[int]:
        row_of = self._cluster.table.row_of
        # A nomination may be to a node that does not exist (yet).
        return (row_of[name] for name in names if name in row_of)

    def _row_by_row(self, state: CycleState) -> bool:
        """Whether a verdict depends on the node being judged alone."""
        if self._framework.has_active_pod_extensions(state):
            return False
        return all(p.name in state.skip_filter for p in self._framework.cluster_dependent_filters)

    def _judge(
        self, state: CycleState, pod: PodInfo, nominations: dict[int, list[PodInfo]], examined: Mask
    ) -> Status | None:
        rows = np.array(sorted(row for row in nominations if examined[row]), np.intp)
        if not len(rows):
            return None
        nodes = HypotheticalNodes(self._cluster, rows)
        answer = nominated.first_pass(
            self._framework, state, pod, nodes, nominated.Arrivals(self._cluster, rows, nominations)
        )
        if isinstance(answer, Status):
            return answer
        for position, status in nominated.refusals(answer[0], len(rows)).items():
            self._refused[int(rows[position])] = status
        return None
