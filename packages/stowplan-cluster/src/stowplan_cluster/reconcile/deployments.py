"""Deployments: the size of each ReplicaSet at each step of a rollout.

A rollout has at most `replicas + maxSurge` pods and at least `replicas - maxUnavailable` available ones: the new
ReplicaSet grows as the former allows, old ones shrink as the latter does, pods that are not available first. Recreate
waits until all old pods are gone. When the Deployment is scaled during a rollout, its ReplicaSets are scaled in
proportion to their size.

Upstream: pkg/controller/deployment/util/deployment_util.go, sync.go (scale), rolling.go, recreate.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor
from typing import NamedTuple

from stowplan.kube.api.whole_numbers import share, whole_number
from stowplan_cluster.reconcile.views import Deployment, ReplicaSet

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

RECREATE = "Recreate"


class Step(NamedTuple):
    """What to do next; nothing else until that is done."""

    #: The new ReplicaSet's size, if it is to be created; then comes another step.
    create: int | None = None
    #: Sizes of ReplicaSets, by name. All these get `replicas_annotations`.
    sizes: Mapping[str, int] = {}
    #: Whether the Deployment is being scaled, and the rollout does not go on.
    scaling: bool = False


def next_step(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], old_pods_run: Callable[[], bool]
) -> Step:
    """`new`: the ReplicaSet with the Deployment's template; `old`: its others, the oldest first."""
    if deployment.spec.paused or _is_scaling(deployment, new, old):
        return Step(sizes=_scaled_sizes(deployment, new, old), scaling=True)
    if deployment.spec.strategy.type == RECREATE:
        sizes = {one.metadata.name: 0 for one in old if one.spec.replicas}
        if sizes or old_pods_run():
            return Step(sizes=sizes)
    if new is None:
        return Step(create=size_of_new(deployment, 0, wanted(old)))
    size = size_of_new(deployment, new.spec.replicas, wanted([*old, new]))
    if size != new.spec.replicas:
        return Step(sizes={new.metadata.name: size})
    active = [one for one in old if one.spec.replicas > 0]
    sizes = sizes_of_old(deployment, active, new) if active else {}
    changed = (one.metadata.name for one in active if sizes[one.metadata.name] != one.spec.replicas)
    return Step(sizes={name: sizes[name] for name in changed})


def _is_scaling(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> bool:
    """Whether spec.replicas changed since some active ReplicaSet was sized."""
    active = [one for one in (*old, new) if one is not None and one.spec.replicas > 0]
    desired = (number_in(one.metadata.annotations, DESIRED_REPLICAS) for one in active)
    return any(number is not None and number != deployment.spec.replicas for number in desired)


def _scaled_sizes(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Mapping[str, int]:
    sets = [*old, *([new] if new is not None else [])]
    active = [one for one in sets if one.spec.replicas > 0]
    if len(active) <= 1:
        # The newest, if none is active.
        return {one.metadata.name: deployment.spec.replicas for one in (active or sets[-1:])}
    if new is not None and _is_saturated(deployment, new):
        return {one.metadata.name: 0 for one in active if one is not new}
    return {} if deployment.spec.strategy.type == RECREATE else proportional_sizes(deployment, active)


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    replicas = deployment.spec.replicas
    return (
        new.spec.replicas == replicas
        and number_in(new.metadata.annotations, DESIRED_REPLICAS) == replicas
        and new.status.get("availableReplicas", 0) == replicas
    )


def max_surge(deployment: Deployment) -> int:
    if deployment.spec.strategy.type == RECREATE:
        return 0
    return share(deployment.spec.strategy.rolling_update.max_surge, deployment.spec.replicas, round_up=True)


def max_unavailable(deployment: Deployment) -> int:
    replicas = deployment.spec.replicas
    if deployment.spec.strategy.type == RECREATE or not replicas:
        return 0
    unavailable = share(deployment.spec.strategy.rolling_update.max_unavailable, replicas, round_up=False)
    if not unavailable and not max_surge(deployment):
        # Both percentages may resolve to 0; then the rollout would never progress.
        return 1
    return min(unavailable, replicas)


def max_replicas(deployment: Deployment) -> int:
    return deployment.spec.replicas + max_surge(deployment)


def replicas_annotations(deployment: Deployment) -> dict[str, str]:
    return {DESIRED_REPLICAS: str(deployment.spec.replicas), MAX_REPLICAS: str(max_replicas(deployment))}


def number_in(annotations: Mapping[str, str], name: str) -> int | None:
    return whole_number(annotations.get(name, ""))


def revision_of(replica_set: ReplicaSet) -> int:
    return number_in(replica_set.metadata.annotations, REVISION) or 0


def oldest_first(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    return sorted(sets, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))


def wanted(sets: Iterable[ReplicaSet | None]) -> int:
    return sum(one.spec.replicas for one in sets if one is not None)


def reported(sets: Iterable[ReplicaSet | None], count: str) -> int:
    """The sum of a status field over all sets."""
    return sum(one.status.get(count, 0) for one in sets if one is not None)


def size_of_new(deployment: Deployment, new: int, all_sets: int) -> int:
    """The size of the new ReplicaSet, given its current size and the total size of all sets."""
    if deployment.spec.strategy.type == RECREATE or new > deployment.spec.replicas:
        return deployment.spec.replicas
    room = max_replicas(deployment) - all_sets
    return new if room <= 0 else new + min(room, deployment.spec.replicas - new)


def sizes_of_old(deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet) -> dict[str, int]:
    """The sizes of old ReplicaSets, by name; unhealthy pods are removed first."""
    all_sets = [*old, new]
    floor_available = deployment.spec.replicas - max_unavailable(deployment)
    unavailable_new = new.spec.replicas - new.status.get("availableReplicas", 0)
    may_go = wanted(all_sets) - floor_available - unavailable_new
    sizes = {one.metadata.name: one.spec.replicas for one in oldest_first(old)}
    if may_go <= 0:
        return sizes
    for one in oldest_first(old):
        available = one.status.get("availableReplicas", 0)
        gone = max(0, min(may_go, sizes[one.metadata.name] - available))
        sizes[one.metadata.name] -= gone
        may_go -= gone
    # What a set has beyond its size is about to go, although its status may still count it.
    available = (min(one.status.get("availableReplicas", 0), one.spec.replicas) for one in all_sets)
    spare = sum(available) - floor_available
    for name, size in sizes.items():
        gone = max(0, min(spare, size))
        sizes[name] -= gone
        spare -= gone
    return sizes


def proportional_sizes(deployment: Deployment, sets: Sequence[ReplicaSet]) -> dict[str, int]:
    """Distribute a new total over the active ReplicaSets, by name."""
    ceiling = max_replicas(deployment) if deployment.spec.replicas else 0
    to_add = ceiling - wanted(sets)
    age = {one.metadata.uid: index for index, one in enumerate(oldest_first(sets))}
    newer_first = to_add > 0
    ordered = sorted(
        sets,
        key=lambda one: (-one.spec.replicas, -age[one.metadata.uid] if newer_first else age[one.metadata.uid]),
    )
    sizes: dict[str, int] = {}
    added = 0
    for one in ordered:
        share = _share(deployment, one, to_add, added) if to_add else 0
        sizes[one.metadata.name] = one.spec.replicas + share
        added += share
    if ordered and to_add:
        largest = ordered[0].metadata.name
        sizes[largest] = max(0, sizes[largest] + to_add - added)
    return sizes


def _share(deployment: Deployment, one: ReplicaSet, to_add: int, added: int) -> int:
    if not one.spec.replicas or to_add == added:
        return 0
    left = to_add - added
    fraction = _fraction(deployment, one)
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def _fraction(deployment: Deployment, one: ReplicaSet) -> int:
    """The change of a set's size that keeps its share of the total."""
    if not deployment.spec.replicas:
        return -one.spec.replicas
    before = number_in(one.metadata.annotations, MAX_REPLICAS) or deployment.status.get("replicas", 0)
    if not before:
        return 0
    return floor(one.spec.replicas * max_replicas(deployment) / before + 0.5) - one.spec.replicas
