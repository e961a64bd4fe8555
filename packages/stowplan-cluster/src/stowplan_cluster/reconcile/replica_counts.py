"""How many replicas the usage of some pods asks for.

The ratio of usage to target is applied to the number of pods that are measured. Pods that are not ready yet, or that
nothing was measured of, only dampen a change: where the others ask for more, they count as idle, and where they ask for
less, as using what was requested. Within the tolerance, and where that would turn the direction, the number stays.

Amounts are integers in milli-units, as upstream's.

Upstream: pkg/controller/podautoscaler/replica_calculator.go, metrics/utilization.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from stowplan_cluster.reconcile.pods import FAILED, PENDING

CPU = "cpu"

#: A pod that started less than this long ago counts only once it was ready for a whole window of measurement.
CPU_INITIALIZATION_SECONDS = 300.0
#: A pod that was not ready later than that has been ready before.
INITIAL_READINESS_SECONDS = 30.0

Amounts = Mapping[str, int]


class CountError(ValueError):
    """Why no number can be computed."""


class Requests(NamedTuple):
    """What pods of one template request."""

    #: Container -> resource -> amount; init containers only if they are sidecars.
    containers: Mapping[str, Amounts]
    #: Requests of the pod as a whole; None: it has none of its own.
    pod: Amounts | None = None


class ScaledPod(NamedTuple):
    """A pod of a scale target."""

    name: str
    phase: str
    requests: Requests
    deleting: bool = False
    #: The status of its Ready condition; None: it has no such condition.
    ready: bool | None = None
    ready_since: float = 0.0
    #: status.startTime
    started: float | None = None


class Measured(NamedTuple):
    """Usage of a pod, at the end of a window."""

    at: float
    window: float
    #: Container -> resource -> amount.
    containers: Mapping[str, Amounts]


class Tolerances(NamedTuple):
    down: float
    up: float

    def cover(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Count(NamedTuple):
    replicas: int
    #: Of the pods that are measured, on average.
    average: int
    #: The same as a percentage of their requests; None: the target is no percentage.
    utilization: int | None = None


class Target(NamedTuple):
    """What to keep the usage of one resource at."""

    resource: str
    #: Only of this container; "": of the pod.
    container: str
    #: Exactly one of both is set.
    utilization: int | None = None
    average: int | None = None


def count_for(
    target: Target,
    current: int,
    pods: Sequence[ScaledPod],
    measured: Mapping[str, Measured],
    tolerances: Tolerances,
    now: float,
) -> Count:
    """Raise CountError if nothing useful was measured."""
    if not measured:
        raise CountError(
            f"unable to get metrics for resource {target.resource}: no metrics returned from resource metrics API"
        )
    values = _values(target, measured)
    if not pods:
        raise CountError("no pods returned by selector while calculating replica count")
    groups = _grouped(target.resource, pods, values, measured, now)
    for name in (*groups.ignored, *groups.unready):
        values.pop(name, None)
    if not values:
        raise CountError("did not receive metrics for targeted pods (pods might be unready)")
    scale = _utilization_scale(target, pods) if target.average is None else _AverageScale(target.average)
    return _counted(scale, current, values, groups, tolerances)


def _counted(
    scale: _UtilizationScale | _AverageScale,
    current: int,
    values: dict[str, int],
    groups: _Groups,
    tolerances: Tolerances,
) -> Count:
    ratio, average, utilization = scale.ratio(values)
    stay = Count(current, average, utilization)
    # Pods that start are likely to take over work.
    grows_beside_unready = bool(groups.unready) and ratio > 1.0
    if not grows_beside_unready and not groups.missing:
        return stay if tolerances.cover(ratio) else Count(ceil(ratio * groups.ready), average, utilization)
    if ratio < 1.0:
        values.update((name, scale.assumed(name)) for name in groups.missing)
    elif ratio > 1.0:
        values.update(dict.fromkeys(groups.missing, 0))
    if grows_beside_unready:
        values.update(dict.fromkeys(groups.unready, 0))
    dampened = scale.ratio(values)[0]
    if tolerances.cover(dampened) or (ratio < 1.0 < dampened) or (dampened < 1.0 < ratio):
        return stay
    wanted = ceil(dampened * len(values))
    if (dampened < 1.0 and wanted > current) or (dampened > 1.0 and wanted < current):
        return stay
    return Count(wanted, average, utilization)


class _AverageScale(NamedTuple):
    """The target is an amount per pod."""

    target: int

    def ratio(self, values: Amounts) -> tuple[float, int, int | None]:
        average = sum(values.values()) // len(values)
        return average / self.target, average, None

    def assumed(self, name: str) -> int:
        """Of a pod that is not measured, where the others use little."""
        return self.target


class _UtilizationScale(NamedTuple):
    """The target is a percentage of the requests."""

    target: int
    requests: Amounts

    def ratio(self, values: Amounts) -> tuple[float, int, int | None]:
        known = [name for name in values if name in self.requests]
        requested = sum(self.requests[name] for name in known)
        if not requested:
            raise CountError("no metrics returned matched known pods")
        used = sum(values[name] for name in known)
        utilization = used * 100 // requested
        return utilization / self.target, used // len(known), utilization

    def assumed(self, name: str) -> int:
        return self.requests[name] * max(100, self.target) // 100


def _utilization_scale(target: Target, pods: Sequence[ScaledPod]) -> _UtilizationScale:
    if target.utilization is None:
        raise CountError(
            "invalid resource metric source: neither an average utilization target nor an average value (usage) "
            "target was set"
        )
    return _UtilizationScale(target.utilization, {pod.name: _request(target, pod) for pod in pods})


def _request(target: Target, pod: ScaledPod) -> int:
    resource, wanted = target.resource, target.container
    if pod.requests.pod is not None and not wanted:
        if resource not in pod.requests.pod:
            raise CountError(f"missing pod-level request for {resource} in Pod {pod.name}")
        return pod.requests.pod[resource]
    containers = pod.requests.containers
    if wanted and wanted not in containers:
        raise CountError(f"container {wanted} not found in Pod {pod.name}")
    total = 0
    for name in (wanted,) if wanted else containers:
        if resource not in containers[name]:
            raise CountError(f"missing request for {resource} in container {name} of Pod {pod.name}")
        total += containers[name][resource]
    return total


def _values(target: Target, measured: Mapping[str, Measured]) -> dict[str, int]:
    """Usage by pod, of those of which it is complete."""
    found = {}
    for pod, one in measured.items():
        of = one.containers if not target.container else {target.container: one.containers.get(target.container, {})}
        amounts = [container.get(target.resource) for container in of.values()]
        if amounts and None not in amounts:
            found[pod] = sum(amount for amount in amounts if amount is not None)
    return found


class _Groups(NamedTuple):
    ready: int
    unready: Collection[str]
    missing: Collection[str]
    ignored: Collection[str]


def _grouped(
    resource: str, pods: Sequence[ScaledPod], values: Amounts, measured: Mapping[str, Measured], now: float
) -> _Groups:
    ready = 0
    unready: list[str] = []
    missing: list[str] = []
    ignored: list[str] = []
    for pod in pods:
        if pod.deleting or pod.phase == FAILED:
            ignored.append(pod.name)
        elif pod.phase == PENDING:
            unready.append(pod.name)
        elif pod.name not in values:
            missing.append(pod.name)
        elif resource == CPU and _is_unready(pod, measured[pod.name], now):
            unready.append(pod.name)
        else:
            ready += 1
    return _Groups(ready, unready, missing, ignored)


def _is_unready(pod: ScaledPod, measured: Measured, now: float) -> bool:
    """Whether the pod's use of cpu may be that of its start."""
    if pod.ready is None or pod.started is None:
        return True
    if pod.started + CPU_INITIALIZATION_SECONDS > now:
        return not pod.ready or measured.at < pod.ready_since + measured.window
    return not pod.ready and pod.started + INITIAL_READINESS_SECONDS > pod.ready_since
