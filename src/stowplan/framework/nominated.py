"""Filters with the pods that are promised a node counted in.

A node must take the pod both as it is and with the pods of equal or higher priority that preemption promised it to:
they are not there yet, but the room is theirs. Only nodes with such pods need the second look.

Upstream: RunFilterPluginsWithNominatedPods in pkg/scheduler/framework/runtime/framework.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.cluster.hypothetical import HypotheticalNodes
from stowplan.framework.pod_shift import PodShift
from stowplan.framework.rejections import Entry, Rejections
from stowplan.framework.status import Status

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.cluster.view import Nodes
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.runtime import Framework

_NOWHERE = np.zeros(0, np.intp)

Filtered = tuple[list[tuple[str, Rejections]], "npt.NDArray[np.bool_]"]


def promised(cluster: ClusterState, pod: PodInfo) -> dict[int, list[PodInfo]]:
    """Row -> nominated pods that the pod must leave room for."""
    found: dict[int, list[PodInfo]] = {}
    for name in cluster.nominator.nodes():
        row = cluster.table.row_of.get(name)
        pods = _ahead_of(pod, cluster.nominator.on(name))
        if row is not None and pods:
            found[row] = pods
    return found


def _ahead_of(pod: PodInfo, promised_to: list[PodInfo]) -> list[PodInfo]:
    """Those of a node's nominated pods that the pod must leave room for.

    Where the pod is promised the node itself, its equals that came later must leave room for it, not it for them: else
    two promises that both hold would keep each other off the node, and each pod would have others evicted elsewhere.
    """
    found = []
    later = False
    for other in promised_to:
        if other.uid == pod.uid:
            later = True
        elif other.priority > pod.priority or (other.priority == pod.priority and not later):
            found.append(other)
    return found


def add_pods(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    nodes: HypotheticalNodes,
    pods: dict[int, list[PodInfo]],
) -> Status | None:
    """Let pods come to positions of a hypothetical view, and tell the (cloned) state."""
    cluster = framework.handle.cluster
    for rank in range(max(len(of_node) for of_node in pods.values())):
        chosen = [(position, of_node[rank]) for position, of_node in pods.items() if rank < len(of_node)]
        positions = np.array([position for position, _ in chosen], np.intp)
        nodes.shift(positions, *_amounts(cluster, [info for _, info in chosen]), 1)
        for position, info in chosen:
            nodes.add_pod(position, info)
        assert nodes.rows is not None
        status = framework.shift_pods(
            state, pod, PodShift(nodes.rows[positions], [info for _, info in chosen], 1), nodes
        )
        if status is not None:
            return status
    return None


def _amounts(cluster: ClusterState, pods: list[PodInfo]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """What pods take, and what they count for in scores: a column a pod."""
    codes = {shape: i for i, shape in enumerate(dict.fromkeys(info.shape for info in pods))}
    vectors = [cluster.vector(shape.used) for shape in codes]
    requests = np.zeros((max(len(vector) for vector in vectors), len(codes)), np.int64)
    for i, vector in enumerate(vectors):
        requests[: len(vector), i] = vector
    non_zero = np.array([shape.non_zero_used for shape in codes], np.int64).T
    columns = [codes[info.shape] for info in pods]
    return requests[:, columns], non_zero[:, columns]


def first_pass(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: HypotheticalNodes, pods: dict[int, list[PodInfo]]
) -> Filtered | Status:
    """The filters over a view to which nominated pods (by position) were added; state and view stay as they are."""
    assert nodes.rows is not None
    world = nodes.at(np.arange(len(nodes)))
    with_pods = state.clone()
    status = add_pods(framework, with_pods, pod, world, pods)
    return framework.run_filters(with_pods, pod, world) if status is None else status


def fits(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    nodes: HypotheticalNodes,
    nominated: dict[int, list[PodInfo]],
) -> Filtered | Status:
    """Both passes over a view; `nominated` is by row."""
    assert nodes.rows is not None
    positions = np.flatnonzero(np.isin(nodes.rows, list(nominated))) if nominated else _NOWHERE
    if not len(positions):
        return framework.run_filters(state, pod, nodes)
    part = {i: nominated[row] for i, row in enumerate(nodes.rows[positions].tolist())}
    first = first_pass(framework, state, pod, nodes.at(positions), part)
    if isinstance(first, Status):
        return first
    second = framework.run_filters(state, pod, nodes)
    if isinstance(second, Status):
        return second
    return _joined(first, second, positions, len(nodes))


def _joined(first: Filtered, second: Filtered, positions: npt.NDArray[np.intp], length: int) -> Filtered:
    """What the first pass refused stands; the second decides about the rest."""
    found = [(name, _spread_out(rejections, positions, length)) for name, rejections in first[0]]
    passed = second[1].copy()
    passed[positions] &= first[1]
    return [*found, *second[0]], passed


def _spread_out(rejections: Rejections, positions: npt.NDArray[np.intp], length: int) -> Rejections:
    def wide(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        found = np.zeros(length, np.bool_)
        found[positions] = mask
        return found

    return Rejections(
        wide(rejections.mask), lambda: [Entry(wide(e.mask), e.code, e.reason) for e in rejections.entries]
    )


def statuses_with_nominated_pods(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: Nodes
) -> dict[str, Status] | Status:
    """Both passes over any view: the nodes that do not take the pod by name, each with its first refusal."""
    cluster = framework.handle.cluster
    if isinstance(nodes, HypotheticalNodes):
        # The filters leave marks on the view that they are given.
        view = nodes.at(np.arange(len(nodes)))
    else:
        view = HypotheticalNodes(cluster, _present_rows(nodes))
    answer = fits(framework, state, pod, view, promised(cluster, pod))
    if isinstance(answer, Status):
        return answer
    found, passed = answer
    names = view.names()
    refused = {}
    for i in np.flatnonzero(~passed).tolist():
        plugin, rejections = next((name, rejections) for name, rejections in found if rejections.mask[i])
        refused[names[i]] = rejections.status(i).with_plugin(plugin)
    return refused


def _present_rows(nodes: Nodes) -> npt.NDArray[np.intp]:
    present = np.flatnonzero(nodes.take(nodes.table.valid))
    return present if nodes.rows is None else nodes.rows[present]
