"""Room for pods that fit nowhere: pods on other nodes make place.

A node is looked for on which a pod would fit if some of the node's pods were not there; as few as possible of them
leave, those of the lowest priority first. Nobody but the scheduler says where pods go, so the node is cordoned while
these pods find another one, and the new pod is placed when all have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from stowplan.ask.offline import Cluster
from stowplan.ask.rebalance.moves import Moves, Outcome
from stowplan.ask.what_if.hypothetical_pods import copy_of
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.decision import Decision

#: Nodes that are tried for a pod.
_TRIED = 100


class Room(PlainStruct):
    """What has to be done."""

    #: Nodes that are cordoned while pods leave.
    nodes: list[str] = field(default_factory=list)
    #: Wanted pods -> their nodes; none if there is no room for all.
    placed: dict[str, str] = field(default_factory=dict)
    why_not: str = ""


def make_room(moves: Moves, wanted: Sequence[Pod]) -> Room:
    """Make room for all these pods, which are in the cluster, or leave everything as it is."""
    cluster, room = moves.cluster, Room()
    leaving = _Search(moves).leaving(wanted, room)
    if leaving is None:
        return room
    # Now without stand-ins, as it will happen.
    with moves.attempt() as attempt:
        for name in room.nodes:
            moves.cordon(name)
        for info, why in leaving:
            if moves.move(info, why) is not Outcome.MOVED:
                room.why_not = f"{info.key} on {info.node_name} would have to move, and does not"
                return room
        moves.uncordon(room.nodes)
        decisions = scheduled_without_preemption(cluster, wanted)
        without = [decision for decision in decisions if not decision.node_name]
        if without:
            room.why_not = f"{without[0].pod.key}: {without[0].message}"
        else:
            room.placed = {decision.pod.key: decision.node_name for decision in decisions}
            attempt.succeed()
    return room


def scheduled_without_preemption(cluster: Cluster, pods: Sequence[Pod]) -> list[Decision]:
    """Decisions for pending pods; nobody is evicted for them."""
    for pod in pods:
        cluster.add(replace(pod, spec=replace(pod.spec, preemption_policy="Never")))
    ours = [cluster.pod(cluster.pod(pod).key) for pod in pods]
    return cluster.schedule([info.key for info in ours if cluster.engine.framework_for(info) is not None])


class _Search:
    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self._cluster: Cluster = moves.cluster

    def leaving(self, wanted: Sequence[Pod], room: Room) -> list[tuple[PodInfo, str]] | None:
        """Who would have to leave, and why; None if that does not help. Changes nothing."""
        cluster, found = self._cluster, list[tuple[PodInfo, str]]()
        with self._moves.attempt():
            for number, pod in enumerate(wanted):
                if self._moves.is_stopped():
                    room.why_not = "it was stopped before that was known"
                    return None
                # A stand-in without its group, which may not wait for others.
                alone = copy_of(pod, f"{pod.metadata.name}-room-{number}")
                alone = replace(alone, spec=replace(alone.spec, scheduling_group=None))
                cluster.add(alone)
                (decision,) = cluster.places([cluster.pod(alone).key])
                node = decision.node_name
                if not node:
                    why = f"makes room for {pod.metadata.name}"
                    node, leaving = self._vacated(decision.pod, why)
                    found += [(info, why) for info in leaving]
                if not node:
                    room.why_not = f"{pod.metadata.name}: {decision.message.partition('. ')[0]}"
                    return None
                if node not in room.nodes:
                    # Nobody else is to take the room.
                    self._moves.cordon(node)
                    room.nodes.append(node)
        return found

    def _vacated(self, pod: PodInfo, why: str) -> tuple[str, list[PodInfo]]:
        """The node that has taken the pod, after these pods left it; "" if there is none."""
        cluster = self._cluster
        for row in self._promising(pod):
            name = cluster.state.table.names[row]
            with self._moves.attempt() as attempt:
                leaving = self._fewest(pod, row)
                self._moves.cordon(name)
                if leaving and all(self._moves.move(info, why) is Outcome.MOVED for info in leaving):
                    cluster.place(pod.key, name)
                    attempt.succeed()
                    return name, leaving
        return "", []

    def _promising(self, pod: PodInfo) -> Iterator[int]:
        """Rows that would have the room without their movable pods, those first where the least has to leave."""
        table, state = self._cluster.state.table, self._cluster.state
        wanted = self._amounts(pod)
        free = table.allocatable[:, : table.n] - table.requested[:, : table.n]
        lacking = np.maximum(wanted[:, None] - free, 0)
        shares = (lacking / np.maximum(table.allocatable[:, : table.n], 1)).max(axis=0)
        rows = [row for row in np.argsort(shares, kind="stable").tolist() if table.valid[row] and shares[row] <= 1]
        tried = 0
        for row in self._moves.until_stopped(rows):
            movable = [self._amounts(info) for info in state.row_pods[row] if self._moves.is_movable(info)]
            if movable and (np.sum(movable, axis=0) >= lacking[:, row]).all():
                tried += 1
                yield row
            if tried == _TRIED:
                return

    def _amounts(self, info: PodInfo) -> Ints:
        table = self._cluster.state.table
        amounts = np.zeros(len(table.allocatable), np.int64)
        for name, amount in info.shape.requests.items():
            amounts[table.resource(name)] = amount
        return amounts

    def _fewest(self, pod: PodInfo, row: int) -> list[PodInfo]:
        """The pods that have to leave a row's node, as few as possible; none if that does not suffice."""
        state = self._cluster.state
        movable = sorted(filter(self._moves.is_movable, state.row_pods[row]), key=lambda info: -info.priority)
        name = state.table.names[row]
        with self._cluster.transaction():
            for info in movable:
                state.remove_pod(info.uid)
            if not self._fits(pod, row):
                return []
            leaving = []
            for info in movable:
                state.assume(info, name)
                if not self._fits(pod, row):
                    state.forget(info)
                    leaving.append(info)
        return leaving

    def _fits(self, pod: PodInfo, row: int) -> bool:
        framework = self._cluster.engine.framework_for(pod)
        if framework is None:
            return False
        found = self._cluster.algorithm.evaluation(framework, pod).filter(pod)
        return found.error is None and found.ended_early is None and bool(found.feasible[row])
