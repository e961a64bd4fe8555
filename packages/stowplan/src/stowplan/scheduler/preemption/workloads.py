"""Victims for a pod group: the workloads, not pods, that have to leave so that the group fits.

A *unit* is evicted as a whole: all pods of a group whose disruption mode is PodGroup, or any other single pod. All
units of lower priority than the group are removed. If the group then fits, they are added back one by one, the most
important first, and those next to which the group still fits are spared. Units whose eviction would violate a
disruption budget are added back first.

Each step is a trial of the whole group. If a pod on a node can only take room, many units are added back at once: if
the group fits next to all of them, it fits next to each.

Upstream: pkg/scheduler/framework/preemption/podgrouppreemption.go;
docs/reference/behaviour.md, Preemption for pod groups.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence

from stowplan.kube.api.types import PodGroup
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import NOT_STARTED, PodInfo, group_key
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.status import Code, Status, unresolvable, unschedulable
from stowplan.scheduler.preemption.disruption_budgets import violating_units
from stowplan.scheduler.preemption.eligibility import NEVER

NO_VICTIMS = "No preemption victims found for incoming preemptor"


class Unit(PlainStruct, eq=False):
    """Pods that are evicted together."""

    pods: list[PodInfo]
    #: Of the group, or of the single pod.
    priority: int
    #: Position of the unit in the order of nodes and their pods.
    met: int

    def importance(self) -> tuple[int | bool, ...]:
        """A sort key: the most important unit comes first."""
        first = self.pods[0]
        alone = first.pod.spec.scheduling_group is None
        # Parity: only the first pod's start time counts; one that has not started counts as starting at its position.
        started = (first.start_time, self.met if first.start_time == NOT_STARTED else 0)
        # The reference leaves ties to chance; here pods that are terminating anyway are evicted first.
        return -self.priority, alone, 0 if alone else -len(self.pods), *started, first.terminating, self.met


def victims_of(
    cluster: ClusterState, group: PodGroup, pods: Sequence[PodInfo], *, at_once: bool
) -> Generator[Sequence[PodInfo], Status, tuple[PodInfo, ...] | Status]:
    """The pods whose eviction lets the group fit, most important first; or why there are none.

    Yields the pods without which to try the group, and receives the result. `at_once`: whether removing pods from nodes
    can only help.
    """
    if any(info.pod.spec.preemption_policy == "Never" for info in pods):
        return unschedulable(NEVER)
    priority = group.spec.priority or 0
    units = [unit for unit in units_of(cluster, but=group_key(pods[0].pod)) if unit.priority < priority]
    if not units:
        return unresolvable(NO_VICTIMS)
    without_all = yield _pods_of(units)
    if without_all.code != Code.Success:
        return without_all
    units.sort(key=Unit.importance)
    violating = violating_units(cluster.objects, [unit.pods for unit in units])
    in_turn = [
        *(unit for unit, violates in zip(units, violating, strict=True) if violates),
        *(unit for unit, violates in zip(units, violating, strict=True) if not violates),
    ]
    victims = yield from _not_reprieved(in_turn, at_once=at_once)
    return tuple(info for unit in units if unit in victims for info in unit.pods)


def units_of(cluster: ClusterState, *, but: str) -> list[Unit]:
    """All units on nodes, in the order of their first pods; `but`: the group to leave out.

    The reference may evict a group's own pods in favor of its other pods, which gains nothing.
    """
    units: list[Unit] = []
    of_group: dict[str, Unit] = {}
    for row in cluster.table.order.rows.tolist():
        for info in cluster.row_pods[row]:
            key = group_key(info.pod)
            if key == but:
                continue
            group = cluster.objects.get(PodGroup, key) if key else None
            if group is None or group.spec.disruption_mode != "PodGroup":
                units.append(Unit([info], info.priority, len(units)))
            elif key in of_group:
                of_group[key].pods.append(info)
            else:
                of_group[key] = Unit([info], group.spec.priority or 0, len(units))
                units.append(of_group[key])
    return units


def _not_reprieved(units: Sequence[Unit], *, at_once: bool) -> Generator[Sequence[PodInfo], Status, Collection[Unit]]:
    """Add the units back in this order if the group still fits; return the others.

    With `at_once`, the number of units tried together grows with success and shrinks with failure.
    """
    off = dict.fromkeys(units)
    # It does not fit next to all of them.
    begin, step = 0, max(1, len(units) // 2) if at_once else 1
    while begin < len(units):
        batch = units[begin : begin + step]
        for unit in batch:
            del off[unit]
        fits = yield _pods_of(off)
        if fits.code == Code.Success:
            begin += len(batch)
            step *= 2 if at_once else 1
            continue
        off |= dict.fromkeys(batch)
        if len(batch) == 1:
            # A victim.
            begin += 1
        step = max(1, len(batch) // 2)
    return off.keys()


def _pods_of(units: Iterable[Unit]) -> list[PodInfo]:
    return [info for unit in units for info in unit.pods]
