"""Place, count and remove many pods at once.

Counters are updated once per shape and column instead of once per pod, and so is their undo in a transaction. The
result is the same as that of one pod after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.pods_on_nodes import PodsOnNodes


def attach_all(state: PodsOnNodes, infos: Sequence[PodInfo], node_names: Iterable[str]) -> None:
    """Append pods that are neither placed nor pending to the pods of known nodes."""
    for info, name in zip(infos, node_names, strict=True):
        state._hold(info.shape)
        info.node_name, info.row = name, state.table.row_of[name]
        state._placed[info.uid] = info
        state.row_pods[info.row].append(info)
        if info.pod.spec.scheduling_group is not None:
            state.pod_groups.attached(info)
        state._index(info)
    # Before they are counted: their slots say which shape each has.
    state.pods.add_all(infos)
    _touch(state, infos)
    _count(state, infos, 1)


def take_off_last(state: PodsOnNodes, infos: Sequence[PodInfo]) -> None:
    """Undo `attach_all`: these pods are the last ones on their nodes."""
    # Uncounted first, by rows and slots that are still theirs.
    _touch(state, infos)
    _count(state, infos, -1)
    # Slots are reused last in, first out, so the next placement finds them in the order of before.
    for info in reversed(infos):
        state.row_pods[info.row].pop()
        state._forget_place(info)


def count_on(state: PodsOnNodes, pods_of: dict[int, list[PodInfo]]) -> None:
    """Count the pods of formerly unknown nodes, by row."""
    for row, pods in pods_of.items():
        for info in pods:
            info.row = row
    infos = [*chain.from_iterable(pods_of.values())]
    if not infos:
        return
    state.pods.row[[info.slot for info in infos]] = [info.row for info in infos]
    _count(state, infos, 1)


def count_off(state: PodsOnNodes, infos: Sequence[PodInfo]) -> None:
    """Stop counting pods of nodes that are no longer known."""
    if not infos:
        return
    # Before they lose the rows by which they are counted.
    _count(state, infos, -1)
    state.pods.row[[info.slot for info in infos]] = -1
    for info in infos:
        info.row = -1


def _touch(state: PodsOnNodes, infos: Iterable[PodInfo]) -> None:
    if state._touched is not None:
        state._touched.update(info.uid for info in infos)


def _count(state: PodsOnNodes, infos: Sequence[PodInfo], sign: int) -> None:
    """Add pods to all per-row sums, or remove them."""
    table, pods = state.table, state.pods
    rows, shapes = np.array([info.row for info in infos], np.intp), pods.shape[[info.slot for info in infos]]
    # Not `column[rows] += …`, which adds once where a row occurs several times.
    for column, amounts in zip(table.requested, pods.shape_requests, strict=False):
        np.add.at(column, rows, sign * amounts[shapes])
    for column, amounts in zip(table.non_zero_requested, pods.shape_non_zero, strict=True):
        np.add.at(column, rows, sign * amounts[shapes])
    np.add.at(table.pod_count, rows, sign)
    equal: dict[tuple[PodShape, bool], list[PodInfo]] = {}
    for info in infos:
        equal.setdefault((info.shape, info.terminating), []).append(info)
        state._book_uses(info, info.row, sign)
    for (shape, terminating), alike in equal.items():
        if len(alike) == 1:
            state.matches.count(shape, alike[0].row, sign, terminating=terminating)
            state.held.count(shape, alike[0].row, sign)
            continue
        at, times = np.unique([info.row for info in alike], return_counts=True)
        state.matches.count_all(shape, at, sign * times, terminating=terminating)
        state.held.count_all(shape, at, sign * times)
    # One entry per pod, as for single placements: a run of equal pods ends by their number.
    state.changes.extend(rows.tolist())
