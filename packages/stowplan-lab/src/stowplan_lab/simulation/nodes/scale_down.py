"""Model how the cluster autoscaler removes underused nodes: it drains them if their pods fit elsewhere.

A node of a group with `autoscale` is a candidate while the larger of its shares of cpu and memory is below
`utilization`. After `idle`, the scheduler's own filters determine whether its pods, one after the other, would fit on
other nodes; if so, it is drained, subject to budgets, and removed. One node is removed at a time, none within `idle`
after a node was added, and none with a pod without a controller or with
`cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`. Candidates are only reconsidered after a pod or node was
added or removed.

Upstream: kubernetes/autoscaler, cluster-autoscaler/FAQ.md, "How does scale-down work?".
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stowplan.ask.what_if.pods import Fate, fate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stowplan.kube.api.pod import Pod
    from stowplan.scheduler.engine.engine import Engine
    from stowplan_lab.simulation.nodes.drains import Drains
    from stowplan_lab.simulation.nodes.fleet import Fleet
    from stowplan_lab.simulation.results.ledger import Entry
    from stowplan_lab.simulation.world import World

REMOVED = "node removed"
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_COUNTED = ("cpu", "memory")
#: Maximum number of candidates per run.
_MOST_TRIED = 10


class ScaleDown:
    def __init__(
        self, world: World, fleet: Fleet, engine: Engine, drains: Drains, removed: Callable[[str], object]
    ) -> None:
        """`removed` removes a drained node."""
        self._world = world
        self._fleet = fleet
        self._engine = engine
        self._drains = drains
        self._removed = removed
        self._groups = [
            group for group in fleet.groups.values() if group.spec.autoscale and group.spec.autoscale.utilization > 0
        ]
        #: Candidate -> since when it is one.
        self._low_since: dict[str, float] = {}
        self._emptying = ""
        self._planned = False
        self._added_at = -inf
        #: The time of the next run.
        self._wakes_at = inf

    def added(self) -> None:
        self._added_at = self._world.now

    def consider(self) -> None:
        """A pod or node was added or removed: run at the next multiple of the interval."""
        if self._groups and not self._planned:
            self._planned = True
            interval = self._world.models.autoscaler_interval or 1.0
            self._world.later(interval - (self._world.now - self._world.start) % interval, self._look)

    def _look(self) -> None:
        self._planned = False
        now = self._world.now
        low = dict(self._low())
        self._low_since = {node: self._low_since.get(node, now) for node in low}
        if self._emptying or not low:
            return
        due = {node: self._due(node) for node in low}
        ready = [node for node in sorted(low, key=lambda name: (low[name], name)) if due[node] <= now]
        going = next((node for node in ready[:_MOST_TRIED] if self._can_go(node)), None)
        if going is not None:
            self._empty(going)
            return
        self._wake(min((at for at in due.values() if at > now), default=inf))

    def _due(self, node: str) -> float:
        limits = self._fleet.groups[self._fleet.group_of[node]].spec.autoscale
        assert limits is not None
        return max(self._low_since[node], self._added_at) + limits.idle

    def _wake(self, at: float) -> None:
        if at < self._wakes_at:
            self._wakes_at = at
            self._world.later(at - self._world.now, self._woken)

    def _woken(self) -> None:
        if self._world.now >= self._wakes_at:
            self._wakes_at = inf
            self.consider()

    def _low(self) -> Iterator[tuple[str, float]]:
        """Candidates and their utilization; empty nodes are removed elsewhere."""
        table = self._engine.state.table
        counted = [table.resources[name] for name in _COUNTED if name in table.resources]
        for group in self._groups:
            limits = group.spec.autoscale
            assert limits is not None
            names = [node for node in group.names if node in table.row_of]
            if not names or len(group.names) <= limits.min:
                continue
            cells = np.ix_(counted, [table.row_of[node] for node in names])
            shares = (table.requested[cells] / np.maximum(table.allocatable[cells], 1)).max(axis=0)
            for index in np.flatnonzero(shares < limits.utilization).tolist():
                node = names[index]
                if not self._fleet.nodes[node].spec.unschedulable and self._movable(node):
                    yield node, float(shares[index])

    def _movable(self, node: str) -> list[Entry]:
        """Pods that would have to move."""
        return [
            entry
            for entry in self._world.entries_on(node)
            if not entry.why and fate_of(entry.pod) is not Fate.BELONGS_TO_NODE
        ]

    def _can_go(self, node: str) -> bool:
        pods = [entry.pod for entry in self._movable(node)]
        stays = any(fate_of(pod) is Fate.LOST or pod.metadata.annotations.get(_SAFE) == "false" for pod in pods)
        return not stays and self._fit_elsewhere(node, pods)

    def _fit_elsewhere(self, node: str, pods: Sequence[Pod]) -> bool:
        state, algorithm = self._engine.state, self._engine.algorithm
        with state.transaction():
            for pod in pods:
                state.remove_pod(pod.metadata.uid)
            for pod in pods:
                info = state.pod_info(replace(pod, spec=replace(pod.spec, node_name="")))
                framework = self._engine.framework_for(info)
                if framework is None:
                    return False
                _, outcome = algorithm.filtered(framework, info)
                if outcome.error is not None:
                    return False
                feasible = np.array(outcome.feasible)
                feasible[state.table.row_of[node]] = False
                if not feasible.any():
                    return False
                state.assume(info, state.table.names[int(feasible.argmax())])
        return True

    def _empty(self, node: str) -> None:
        self._emptying = node
        self._low_since.pop(node, None)
        self._drains.begin(node, REMOVED, partial(self._emptied, node))

    def _emptied(self, node: str) -> None:
        self._emptying = ""
        self._removed(node)
        self.consider()
