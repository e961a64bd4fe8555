"""Run filters with nominated pods added to their nodes.

A node must fit the pod both as it is and with the pods of equal or higher priority that are nominated to it: these are
not on the node yet, but its free resources are theirs. Only nodes with such pods need the second pass.

Upstream: RunFilterPluginsWithNominatedPods in pkg/scheduler/framework/runtime/framework.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
from stowplan.scheduler.framework.interface import NodePodExtensions
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.status import Status

if TYPE_CHECKING:
    from stowplan.scheduler.framework.runtime.framework import Framework

_NOWHERE = np.zeros(0, np.intp)

Filtered = tuple[list[tuple[str, Rejections]], Mask]


def nominated_ahead(
    cluster: ClusterState, pod: PodInfo, names: Iterable[str] | None = None
) -> dict[int, list[PodInfo]]:
    """Row -> the nominated pods that take precedence over the pod, of some nodes or of all."""
    nominator, row_of = cluster.nominator, cluster.table.row_of
    uid, priority = pod.uid, pod.priority
    found: dict[int, list[PodInfo]] = {}
    for name in nominator.nodes() if names is None else names:
        row = row_of.get(name)
        if row is None:
            continue
        pods = nominator.on(name)
        if len(pods) != 1:
            pods = _ahead_of(pod, pods)
        elif pods[0].priority < priority or pods[0].uid == uid:
            # Nearly all nodes have a single nominated pod, and each attempt of a preemptor visits thousands of them.
            continue
        if pods:
            found[row] = pods
    return found


def _ahead_of(pod: PodInfo, nominated: list[PodInfo]) -> list[PodInfo]:
    """Those of a node's nominated pods that take precedence over the pod.

    If the pod itself is nominated to the node, equal pods that came later do not. Otherwise two nominations would
    exclude each other from the node, and each pod would preempt elsewhere.
    """
    found = []
    later = False
    for other in nominated:
        if other.uid == pod.uid:
            later = True
        elif other.priority > pod.priority or (other.priority == pod.priority and not later):
            found.append(other)
    return found


class _Rank(PlainStruct, frozen=True):
    """The n-th nominated pod of each node that has so many."""

    positions: Rows
    shift: PodShift
    #: What each pod requests, and what scoring counts it as: one column per pod.
    requests: Ints
    non_zero: Ints


class Arrivals:
    """The nominated pods of a view's nodes, prepared once and added as often as needed."""

    def __init__(self, cluster: ClusterState, rows: Rows, nominations: dict[int, list[PodInfo]]) -> None:
        """`rows` are the view's, `nominations` are by row."""
        self._cluster = cluster
        #: Positions in the view.
        self.positions = _NOWHERE
        if nominations:
            expecting = np.zeros(cluster.table.n, np.bool_)
            expecting[list(nominations)] = True
            self.positions = np.flatnonzero(expecting[rows])
        self._rows = rows[self.positions]
        self._pods = [nominations[row] for row in self._rows.tolist()]
        self._ranks: list[_Rank] | None = None

    def __bool__(self) -> bool:
        return bool(len(self.positions))

    def _ranked(self) -> list[_Rank]:
        counts = np.array([len(of_node) for of_node in self._pods])
        return [self._rank(n, np.flatnonzero(counts > n)) for n in range(int(counts.max()))]

    def _rank(self, n: int, positions: Rows) -> _Rank:
        pods = [of_node[n] for of_node in self._pods if len(of_node) > n]
        shift = PodShift.of_pods(self._rows[positions], pods, 1)
        vectors = [self._cluster.vector_of(shape) for shape in shift.shapes]
        requests = np.zeros((max(map(len, vectors)), len(vectors)), np.int64)
        for i, vector in enumerate(vectors):
            requests[: len(vector), i] = vector
        non_zero = np.array([shape.non_zero_used for shape in shift.shapes], np.int64).T
        return _Rank(positions, shift, requests[:, shift.shape_index], non_zero[:, shift.shape_index])

    def come(self, framework: Framework, state: CycleState, pod: PodInfo, nodes: HypotheticalNodes) -> Status | None:
        """Add the nominated pods to a view of exactly the nodes that have some, and update the (cloned) state."""
        listed, extended = lists_pods(framework, state, pod), framework.has_active_pod_extensions(state)
        if self._ranks is None:
            self._ranks = self._ranked()
        for rank in self._ranks:
            nodes.shift(rank.positions, rank.requests, rank.non_zero, 1)
            if listed:
                for position, info in zip(rank.positions.tolist(), rank.shift.pods, strict=True):
                    nodes.add_pod(position, info)
            status = framework.shift_pods(state, pod, rank.shift, nodes) if extended else None
            if status is not None:
                return status
        return None


def lists_pods(framework: Framework, state: CycleState, pod: PodInfo) -> bool:
    """Whether some plugin may look at single pods of a node, not only at sums."""
    if pod.shape.host_ports or pod.shape.disks or framework.has_node_level_filters(state):
        return True
    return any(isinstance(p, NodePodExtensions) and p.name not in state.skip_filter for p in framework.pre_filter)


def first_pass(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: HypotheticalNodes, arrivals: Arrivals
) -> Filtered | Status:
    """Filter the nodes that have nominated pods with those added. State and view stay unchanged."""
    world = nodes.at(arrivals.positions)
    with_pods = state.clone()
    status = arrivals.come(framework, with_pods, pod, world)
    return framework.run_filters(with_pods, pod, world) if status is None else status


def fits(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: HypotheticalNodes, arrivals: Arrivals
) -> Filtered | Status:
    """Both passes over a view."""
    if not arrivals:
        return framework.run_filters(state, pod, nodes)
    first = first_pass(framework, state, pod, nodes, arrivals)
    if isinstance(first, Status):
        return first
    second = framework.run_filters(state, pod, nodes)
    if isinstance(second, Status):
        return second
    return _joined(first, second, arrivals.positions, len(nodes))


def refusals(filtered: list[tuple[str, Rejections]], length: int) -> dict[int, Status]:
    """Position -> its first rejection; equal ones are one object."""
    found: dict[int, Status] = {}
    left = np.ones(length, np.bool_)
    for plugin, rejections in filtered:
        at = np.flatnonzero(rejections.mask & left)
        if len(at):
            left &= ~rejections.mask
            found.update(zip(at.tolist(), _statuses(plugin, rejections, at), strict=True))
    return found


def _statuses(plugin: str, rejections: Rejections, positions: Rows) -> list[Status]:
    masks = [entry.mask[positions] for entry in rejections.entries]
    #: Which of the plugin's reasons apply -> the resulting status.
    known: dict[tuple[bool, ...], Status] = {}
    statuses = []
    reasons = zip(*(mask.tolist() for mask in masks), strict=True) if masks else repeat((), len(positions))
    for position, held in zip(positions.tolist(), reasons, strict=True):
        status = known.get(held)
        if status is None:
            status = known[held] = rejections.status(position).with_plugin(plugin)
        statuses.append(status)
    return statuses


def _joined(first: Filtered, second: Filtered, positions: Rows, length: int) -> Filtered:
    """Combine the passes: rejections of the first are final, the second decides the rest."""
    found = [(name, _spread_out(rejections, positions, length)) for name, rejections in first[0]]
    passed = second[1].copy()
    passed[positions] &= first[1]
    return [*found, *second[0]], passed


def _spread_out(rejections: Rejections, positions: Rows, length: int) -> Rejections:
    def wide(mask: Mask) -> Mask:
        found = np.zeros(length, np.bool_)
        found[positions] = mask
        return found

    return Rejections(
        wide(rejections.mask), lambda: [Entry(wide(e.mask), e.code, e.reason) for e in rejections.entries]
    )


def statuses_with_nominated_pods(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: Nodes
) -> dict[str, Status] | Status:
    """Both passes over any view: the rejected nodes by name, each with its first rejection."""
    cluster = framework.handle.cluster
    if isinstance(nodes, HypotheticalNodes):
        # The filters modify the view that they get.
        view = nodes.at(np.arange(len(nodes)))
    else:
        view = HypotheticalNodes(cluster, _present_rows(nodes))
    assert view.rows is not None
    answer = fits(framework, state, pod, view, Arrivals(cluster, view.rows, nominated_ahead(cluster, pod)))
    if isinstance(answer, Status):
        return answer
    names = view.names()
    return {names[i]: status for i, status in sorted(refusals(answer[0], len(view)).items())}


def _present_rows(nodes: Nodes) -> Rows:
    present = np.flatnonzero(nodes.take(nodes.table.valid))
    return present if nodes.rows is None else nodes.rows[present]
