"""Recompute every counter of a `ClusterState` and report differences.

Counters and indexes are updated incrementally with every change of a node or pod; here they are recomputed from nodes
and placed pods alone. For debugging and tests only: the cost grows with the cluster, and no scheduling code imports
this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from stowplan.scheduler.cluster.arrays import Values
from stowplan.scheduler.cluster.disks import DiskIndex
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.ports import UsedPorts
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.terms import _CountMatrix, domain_sums, held_terms
from stowplan.scheduler.cluster.volumes import MountedVolumes

#: Number of differing rows reported per column.
_MAX_ROWS_SHOWN = 5


class _ContributionKey(NamedTuple):
    """Everything that a pod's contribution to the counters depends on."""

    shape: PodShape
    row: int
    terminating: bool


def problems_of(state: ClusterState) -> list[str]:
    """Differences between the state and a recount; empty if it is consistent."""
    return [
        *_problems_of_nodes(state),
        *_problems_of_lists(state),
        *_problems_of_placed_pods(state),
        *_problems_of_shapes(state),
        *_problems_of_counters(state),
        *state.pending.problems(),
        *state.nominator.problems(),
        *state.assumed.problems(),
        *state.in_flight.problems(),
        *_problems_of_pods_without_node(state),
    ]


# -- nodes and the lists of their pods ---------------------------------------------------------------------------------


def _problems_of_nodes(state: ClusterState) -> Iterator[str]:
    table = state.table
    named = {node.metadata.name: row for row, node in enumerate(table.nodes) if node is not None}
    if named != table.row_of:
        yield f"the nodes are on the rows {named}, the table finds them on {table.row_of}"
    valid = [row for row in range(table.n) if table.valid[row]]
    if valid != sorted(named.values()):
        yield f"rows {valid} are valid, nodes are on {sorted(named.values())}"
    if table.count != len(named):
        yield f"{table.count} nodes are counted, {len(named)} are there"
    free = sorted(set(range(table.n)) - set(named.values()))
    if sorted(table._free) != free:
        yield f"rows {sorted(table._free)} are listed as free, unused are {free}"


def _problems_of_lists(state: ClusterState) -> Iterator[str]:
    """Check that every placed pod is listed exactly once, by its node or by an unknown one."""
    found: dict[str, str] = {}
    for where, row, pods in _lists(state):
        if row < 0 and not pods:
            yield f"{where}: kept without pods"
        if row < 0 and where in state.table.row_of:
            yield f"node {where}: there, and its pods are kept as those of an unknown node"
        order = [state.pods.order.item(info.slot) for info in pods]
        if order != sorted(order):
            yield f"node {where}: lists its pods in another order than the pod table, which has {order}"
        for info in pods:
            if info.uid in found:
                yield f"pod {info.key} ({info.uid}): listed by node {found[info.uid]}, and by node {where}"
            found[info.uid] = where
            if state.placed(info.uid) is not info:
                yield f"pod {info.key} ({info.uid}): listed by node {where}, but it is not placed"
            if (info.node_name, info.row) != (where, row):
                yield f"pod {info.key}: listed by node {where} (row {row}), on {info.node_name} (row {info.row})"
    for uid, info in state._placed.items():
        if uid not in found:
            yield f"pod {info.key} ({uid}): on node {info.node_name}, which does not list it"


def _lists(state: ClusterState) -> Iterator[tuple[str, int, list[PodInfo]]]:
    """Each node's name, its row (-1 if unknown), and its pods."""
    for row, pods in enumerate(state.row_pods):
        yield _name_of(state, row), row, pods
    for name, pods in state._on_unknown_nodes.items():
        yield name, -1, pods


def _name_of(state: ClusterState, row: int) -> str:
    names = state.table.names
    return (names[row] if row < len(names) else "") or f"(none, row {row})"


def _problems_of_placed_pods(state: ClusterState) -> Iterator[str]:
    pods = state.pods
    for uid, info in state._placed.items():
        name, slot = f"pod {info.key} ({info.uid})", info.slot
        if info.uid != uid:
            yield f"{name}: placed under the UID {uid}"
        if not 0 <= slot < pods.n or pods.infos[slot] is not info:
            yield f"{name}: not in its slot {slot} of the pod table"
            continue
        columns = ("row", "priority", "start_time", "shape", "terminating")
        has = (info.row, info.priority, info.start_time, info.shape.id, info.terminating)
        for column, value in zip(columns, has, strict=True):
            if getattr(pods, column)[slot] != value:
                yield f"{name}: {column} is {value}, {getattr(pods, column)[slot]} in the pod table"
    slots = sum(info is not None for info in pods.infos)
    if slots != len(state._placed):
        yield f"{slots} slots of the pod table are taken, by {len(state._placed)} placed pods"
    yield from state.pod_groups.problems(state._placed.values())
    for index in state._indexes.values():
        yield from index.placed.problems(state._placed.values())
    for uid in state._assumed - state._placed.keys():
        yield f"pod {uid}: assumed, but on no node"


def _problems_of_pods_without_node(state: ClusterState) -> Iterator[str]:
    for info in state.pending.values():
        placed = state.placed(info.uid)
        if placed is not None and not state.is_assumed(info.uid):
            yield f"pod {info.key} ({info.uid}): pending, and on node {placed.node_name} without being assumed"
    for node_name in state.nominator.nodes():
        for info in state.nominator.on(node_name):
            if state.pending.by_uid(info.uid) is None:
                yield f"pod {info.key} ({info.uid}): nominated to node {node_name}, but it is not pending"


# -- counters ----------------------------------------------------------------------------------------------------------


def _problems_of_shapes(state: ClusterState) -> Iterator[str]:
    holders = Counter(info.shape for info in state._placed.values())
    known = state.held._slots_of.keys() | state.matches._shapes.keys() | state._columns.keys()
    for id_ in sorted(known ^ {shape.id for shape in holders}):
        yield f"shape {id_}: {'counted, though no' if id_ in known else 'not counted, though a'} placed pod has it"
    for shape, pods in holders.items():
        if shape.refs != pods:
            yield f"shape {shape.id}: {pods} placed pods have it, {shape.refs} are counted"


def _problems_of_counters(state: ClusterState) -> Iterator[str]:
    # Pods on unknown nodes are not counted.
    pods = Counter(
        _ContributionKey(info.shape, info.row, info.terminating) for info in state._placed.values() if info.row >= 0
    )
    yield from _problems_of_sums(state, pods)
    yield from _problems_of_matches(state, pods)
    yield from _problems_of_held_terms(state, pods)
    yield from _problems_of_domain_sums(state, state.matches)
    yield from _problems_of_domain_sums(state, state.held)
    yield from _problems_of_rare_things(state, pods)


def _problems_of_sums(state: ClusterState, pods: Counter[_ContributionKey]) -> Iterator[str]:
    table = state.table
    requested, count = np.zeros_like(table.requested), np.zeros_like(table.pod_count)
    non_zero = np.zeros_like(table.non_zero_requested)
    for alike, number in pods.items():
        vector = state.vector(alike.shape.used)
        requested[: len(vector), alike.row] += number * vector
        non_zero[:, alike.row] += np.multiply(number, alike.shape.non_zero_used)
        count[alike.row] += number
    yield from _differences(state, "pod_count", table.pod_count, count)
    for i, resource in enumerate(table.resources):
        yield from _differences(state, f"requested {resource}", table.requested[i], requested[i])
    for i, resource in enumerate(("cpu", "memory")):
        yield from _differences(state, f"non-zero requested {resource}", table.non_zero_requested[i], non_zero[i])


def _problems_of_matches(state: ClusterState, pods: Counter[_ContributionKey]) -> Iterator[str]:
    shapes = {alike.shape for alike in pods}
    for term, slot in state.matches.items():
        matching = {shape for shape in shapes if term.matches(shape)}
        wanted = np.zeros(state.table.capacity, np.int64)
        for alike, number in pods.items():
            if alike.shape in matching and not (term.live_only and alike.terminating):
                wanted[alike.row] += number
        yield from _differences(state, f"pods that match {term}", state.matches.counts[slot], wanted)


def _problems_of_held_terms(state: ClusterState, pods: Counter[_ContributionKey]) -> Iterator[str]:
    shapes = {info.shape for info in state._placed.values() if info.shape.has_pod_affinity}
    wanted = {term: np.zeros(state.table.capacity, np.int64) for shape in shapes for term in held_terms(shape)}
    for alike, number in pods.items():
        for term in held_terms(alike.shape) if alike.shape in shapes else ():
            wanted[term][alike.row] += number
    known = dict(state.held.items())
    for term in known.keys() - wanted.keys():
        yield f"{term}: counted, though no placed pod holds it"
    for term in wanted.keys() - known.keys():
        yield f"{term}: not counted, though placed pods hold it"
    for term in known.keys() & wanted.keys():
        yield from _differences(state, f"pods that hold {term}", state.held.counts[known[term]], wanted[term])


def _problems_of_domain_sums(state: ClusterState, matrix: _CountMatrix) -> Iterator[str]:
    for slot, known in matrix._sums.items():
        for of_domain in known:
            counts = matrix.counts[slot, : state.table.n]
            wanted = domain_sums(of_domain.column, counts, of_domain.eligible)
            if not np.array_equal(of_domain.sums, wanted):
                what = f"{type(matrix).__name__}, slot {slot}, sums by {of_domain.column.key}"
                yield f"{what}: {of_domain.sums.tolist()}, a recount says {wanted.tolist()}"


def _problems_of_rare_things(state: ClusterState, pods: Counter[_ContributionKey]) -> Iterator[str]:
    """Check host ports, inline disks and claims, which few pods have."""
    ports, disks, claims = UsedPorts(), DiskIndex(), Counter[str]()
    for (shape, row, _), number in pods.items():
        for _ in range(number if shape.host_ports or shape.disks else 0):
            if shape.host_ports:
                ports.add(row, shape.host_ports)
            disks.add(row, shape.disks)
        for claim in shape.claim_names:
            # A claim that a pod names twice counts twice.
            claims[f"{shape.namespace}/{claim}"] += number
    yield from _unequal("host ports by row", state.ports._rows, ports._rows)
    yield from _unequal("rows by host port", state.ports._users, ports._users)
    yield from _unequal("disks", state.disks._rows, disks._rows)
    yield from _unequal("claims in use", state.claim_users, claims)
    volumes = MountedVolumes()
    for info in state._placed.values():
        if info.row >= 0 and (uses := info.volume_uses):
            volumes.book(info.row, uses, 1)
    yield from _unequal("volumes by row", state.volumes._rows, volumes._rows)


def _unequal(what: str, known: dict[Any, Any], wanted: dict[Any, Any]) -> Iterator[str]:
    for key in [*known, *(key for key in wanted if key not in known)]:
        if known.get(key) != wanted.get(key):
            yield f"{what}: {key} has {known.get(key)}, a recount says {wanted.get(key)}"


def _differences(state: ClusterState, what: str, known: Values, wanted: Values) -> Iterable[str]:
    rows = np.flatnonzero(known != wanted).tolist()
    for row in rows[:_MAX_ROWS_SHOWN]:
        yield f"node {_name_of(state, row)}: {what} is {known[row]}, a recount of its pods says {wanted[row]}"
