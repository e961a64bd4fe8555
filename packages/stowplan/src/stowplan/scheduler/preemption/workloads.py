"""Victims for a pod group: the workloads, not pods, that have to leave so that the group fits.

A *unit* is evicted as a whole: all pods of a group whose disruption mode is PodGroup, or any other single pod. All
units of lower priority than the group are removed. If the group then fits, they are added back one by one, the most
important first, and those next to which the group still fits are spared. Units whose eviction would violate a
disruption budget are added back first.

Each step is a trial of the whole group; from 1.37 on, only the first one is, and then its pods keep the nodes that it
gave them. If a pod on a node can only take room, many units are added back at once: if the group fits next to all of
them, it fits next to each.

Upstream: pkg/scheduler/framework/preemption/podgrouppreemption.go;
docs/reference/behaviour.md, Preemption for pod groups.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence

from stowplan.kube.config import FeatureGates
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_groups import AnyGroup, is_composite, key_of_group
from stowplan.scheduler.cluster.pod_info import NOT_STARTED, PodInfo, group_key
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.status import Code, Status, unresolvable
from stowplan.scheduler.preemption.disruption_budgets import violating_units
from stowplan.scheduler.preemption.eligibility import disruption_priority

NO_VICTIMS = "No preemption victims found for incoming preemptor"


class Victims(PlainStruct, frozen=True):
    #: Most important first.
    pods: tuple[PodInfo, ...]
    #: Pods whose eviction exceeds a disruption budget.
    pdb_violations: int


class Unit(PlainStruct, eq=False):
    """Pods that are evicted together."""

    pods: list[PodInfo]
    #: Of the group, or of the single pod.
    priority: int
    #: Position of the unit in the order of nodes and their pods.
    met: int
    #: Whether the start of any of its pods counts, from 1.37 on; before, only that of the first one does.
    all_starts: bool = False
    #: Whether it is a composite group, which is more important than PodGroups, and these more than single pods.
    composite: bool = False

    def importance(self) -> tuple[int | bool, ...]:
        """A sort key: the most important unit comes first."""
        first = self.pods[0]
        alone = first.pod.spec.scheduling_group is None
        start = min(info.start_time for info in self.pods) if self.all_starts else first.start_time
        # One that has not started counts as starting at its position.
        started = (start, self.met if start == NOT_STARTED else 0)
        # The reference leaves ties to chance; here pods that are terminating anyway are evicted first.
        kind = not self.composite, alone
        return -self.priority, *kind, 0 if alone else -len(self.pods), *started, first.terminating, self.met


def victims_of(
    cluster: ClusterState, group: AnyGroup, features: FeatureGates, *, at_once: bool
) -> Generator[Sequence[PodInfo], Status, Victims | Status]:
    """The pods whose eviction lets a group fit that may preempt; or why there are none.

    Yields the pods without which to try the group, and receives the result. `at_once`: whether removing pods from nodes
    can only help.
    """
    priority = group.spec.priority or 0
    units = units_for(cluster, group, features)
    return (yield from victims_among([unit for unit in units if unit.priority < priority], cluster, features, at_once))


def units_for(cluster: ClusterState, group: AnyGroup, features: FeatureGates) -> list[Unit]:
    """All units on nodes but the group's own."""
    return units_of(cluster, but=key_of_group(group), by_group=features.emulated_version >= V1_37)


def victims_among(
    units: list[Unit], cluster: ClusterState, features: FeatureGates, at_once: bool
) -> Generator[Sequence[PodInfo], Status, Victims | Status]:
    """Like `victims_of`, among the units that may be evicted."""
    if not units:
        return unresolvable(NO_VICTIMS)
    without_all = yield _pods_of(units)
    if without_all.code != Code.Success:
        return without_all
    units.sort(key=Unit.importance)
    by_group = features.emulated_version >= V1_37
    violating = violating_units(cluster.objects, [unit.pods for unit in units], all_pods=by_group)
    in_turn = [
        *(unit for unit, violates in zip(units, violating, strict=True) if violates),
        *(unit for unit, violates in zip(units, violating, strict=True) if not violates),
    ]
    victims = yield from _not_reprieved(in_turn, at_once=at_once)
    pods = tuple(info for unit in units if unit in victims for info in unit.pods)
    return Victims(pods, sum(count for unit, count in zip(units, violating, strict=True) if unit in victims))


def units_of(cluster: ClusterState, *, but: str | None, by_group: bool) -> list[Unit]:
    """All units on nodes, in the order of their first pods; `but`: the group, or root of a tree, to leave out, if any.

    `by_group`: whether single pods of groups have their group's priority, and the first start of a unit counts. In a
    tree, the highest group that is evicted as a whole is the unit, and the root has the priority.

    The reference may evict a group's own pods in favor of its other pods, which gains nothing.
    """
    units: list[Unit] = []
    of_group: dict[str, Unit] = {}
    for row in cluster.table.order.rows.tolist():
        for info in cluster.row_pods[row]:
            key = group_key(info.pod)
            if key and but is not None and but in (key, cluster.group_trees.root(key)):
                continue
            whole = cluster.group_trees.disrupted_with(key) if key else ""
            if whole in of_group:
                of_group[whole].pods.append(info)
                continue
            priority = disruption_priority(cluster, info) if by_group or whole else info.priority
            unit = Unit([info], priority, len(units), by_group, is_composite(whole))
            units.append(unit)
            if whole:
                of_group[whole] = unit
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
