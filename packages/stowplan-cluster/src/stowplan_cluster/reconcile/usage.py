"""What pods use of cpu and memory: nothing runs, so it is what somebody says, as a kubelet would report it.

    300m                                  each pod, always
    60%                                   of what its containers request
    {each: [[0s, 20%], [10m, 90%]]}       points over time, with straight lines between them
    {total: 12}                           all pods of the workload together, shared among those that are ready
    {total: [[0s, 2], [1h, 12]], every: 2h}       repeated
    {total: {low: 2, high: 12, peak: 14h}}        a day: the highest at that time of day (UTC)

Times of points count from a start that the caller names. A pod's amount is spread over its containers as their requests
are, evenly if they request nothing, and a container never uses more than its limit. Without a word of anybody a
container uses half of what it requests.

As with metrics-server, nothing is reported of containers in their first window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import cos, isfinite, pi
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from stowplan.kube.api.durations import parse_duration
from stowplan.kube.api.meta import ResourceList
from stowplan.kube.api.pod import Container, ResourceRequirements
from stowplan.kube.api.quantity import QuantityError, milli_value, parse_quantity
from stowplan_cluster.reconcile.replica_counts import Amounts, Measured, Requests

CPU, MEMORY = "cpu", "memory"
RESOURCES = (CPU, MEMORY)
#: Annotations of pods and of workloads, with a JSON value or a plain amount.
ANNOTATION = "stowplan.io/usage-"

WINDOW_SECONDS = 15.0
DAY = 86_400.0

EACH, TOTAL = "each", "total"
_LOW, _HIGH, _PEAK, _EVERY = "low", "high", "peak", "every"


class UsageError(ValueError):
    """What is wrong with a curve."""


class Curve(NamedTuple):
    """The usage of one resource over time."""

    #: (seconds since the start, amount), in order; milli-units, or percent.
    points: tuple[tuple[float, float], ...]
    #: Whether amounts are percentages of requests.
    relative: bool = False
    #: Whether they are those of all pods together.
    shared: bool = False
    #: The points are repeated after so many seconds; 0: never.
    every: float = 0.0
    #: The time of day of the second of two amounts; the first is that of twelve hours later.
    peak: float | None = None

    def at(self, now: float, start: float) -> float:
        if self.peak is not None:
            (_, low), (_, high) = self.points
            return low + (high - low) * (1 + cos(2 * pi * ((now - self.peak) % DAY) / DAY)) / 2
        passed = now - start
        if self.every and passed >= 0:
            passed %= self.every
        return _between(self.points, passed)


def _between(points: Sequence[tuple[float, float]], passed: float) -> float:
    before = points[0]
    for after in points:
        if passed < after[0]:
            if after is before:
                break
            share = (passed - before[0]) / (after[0] - before[0])
            return before[1] + (after[1] - before[1]) * share
        before = after
    return before[1]


#: Resource -> its curve, and since when its times count, in epoch seconds.
Load = Mapping[str, tuple[Curve, float]]

NO_LOAD: Load = MappingProxyType({})
_HALF = Curve(((0.0, 50.0),), relative=True), 0.0


class ContainerAmounts(NamedTuple):
    name: str
    requests: Amounts
    limits: Amounts


class Consumer(NamedTuple):
    """A running pod."""

    name: str
    containers: Sequence[ContainerAmounts]
    #: Since when its containers have been running, in epoch seconds.
    since: float
    ready: bool


def running_containers(containers: Iterable[Container], init_containers: Iterable[Container]) -> list[Container]:
    """The containers of a pod that run as long as it does."""
    return [*containers, *(one for one in init_containers if one.restart_policy == "Always")]


def amounts_of(containers: Iterable[Container]) -> tuple[ContainerAmounts, ...]:
    return tuple(
        ContainerAmounts(one.name, in_milli(one.resources.requests), in_milli(one.resources.limits))
        for one in containers
    )


def requests_of(containers: Sequence[ContainerAmounts], resources: ResourceRequirements | None) -> Requests:
    """`resources`: those of the pod as a whole."""
    by_name = {one.name: one.requests for one in containers}
    own = in_milli(resources.requests) if resources is not None else {}
    if not own:
        return Requests(by_name)
    total: Counter[str] = Counter()
    for one in containers:
        total.update(one.requests)
    return Requests(by_name, {**total, **own})


def in_milli(amounts: ResourceList) -> dict[str, int]:
    return {name: milli_value(parse_quantity(amount)) for name, amount in amounts.items()}


def is_measured(one: Consumer, now: float) -> bool:
    return one.since + WINDOW_SECONDS <= now


def measured(one: Consumer, load: Load, sharing: int, now: float) -> Measured:
    """The usage of a pod that has been running for a window; `sharing`: the ready pods of its workload."""
    found: dict[str, dict[str, int]] = {container.name: {} for container in one.containers}
    for resource in RESOURCES:
        curve, start = load.get(resource, _HALF)
        amount = curve.at(now, start)
        if curve.shared:
            amount = amount / sharing if one.ready and sharing else 0.0
        for container, share in zip(one.containers, _shares(one.containers, resource, curve.relative), strict=True):
            used = int(amount * share)
            found[container.name][resource] = min(used, container.limits.get(resource, used))
    # Parity: times of measurement are whole seconds.
    return Measured(float(int(now)), WINDOW_SECONDS, found)


def _shares(containers: Sequence[ContainerAmounts], resource: str, relative: bool) -> list[float]:
    requests = [container.requests.get(resource, 0) for container in containers]
    if relative:
        return [request / 100 for request in requests]
    total = sum(requests)
    return [request / total for request in requests] if total else [1 / len(containers)] * len(containers)


# -- reading -----------------------------------------------------------------------------------------------------------


def load_of(annotations: Mapping[str, str], start: float) -> Load:
    """The load that annotations describe; raise UsageError."""
    found = {}
    for resource in RESOURCES:
        if text := annotations.get(ANNOTATION + resource):
            try:
                found[resource] = curve_in(text), start
            except UsageError as error:
                raise UsageError(f"{ANNOTATION}{resource}: {error}") from None
    return found


@lru_cache(maxsize=1024)
def curve_in(annotation: str) -> Curve:
    value: object = annotation
    if annotation.lstrip()[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(annotation)
        except msgspec.DecodeError as error:
            raise UsageError(f"want an amount, or a curve as JSON: {error}") from None
    return read_curve(value)


def read_curve(value: object) -> Curve:
    """Raise UsageError, with the field that is wrong."""
    if not isinstance(value, Mapping):
        amount, relative = _amount(value, "")
        return Curve(((0.0, amount),), relative)
    modes = [mode for mode in (EACH, TOTAL) if mode in value]
    others = [str(name) for name in value if name not in (EACH, TOTAL, _EVERY)]
    if len(modes) != 1 or others:
        got = ", ".join([*modes, *others]) or "nothing"
        raise UsageError(f"want an amount such as 300m or 60%, or one of each, total; got {got}")
    (mode,) = modes
    curve = _course(value[mode], mode)
    if mode == TOTAL and curve.relative:
        raise UsageError("total: want an amount such as 12 or 24Gi; a percentage is of each pod's request")
    if _EVERY in value:
        curve = curve._replace(every=_repeated(value[_EVERY], curve))
    return curve._replace(shared=mode == TOTAL)


def _course(value: object, path: str) -> Curve:
    if isinstance(value, Mapping):
        return _day(value, path)
    if not isinstance(value, list):
        amount, relative = _amount(value, path)
        return Curve(((0.0, amount),), relative)
    if not value:
        raise UsageError(f"{path}: want one point or more, such as [[0s, 2], [1h, 12]]; got none")
    points: list[tuple[float, float]] = []
    kinds = set()
    for index, point in enumerate(value):
        where = f"{path}[{index}]"
        if not isinstance(point, list) or len(point) != 2:
            raise UsageError(f"{where}: want a time and an amount, such as [1h, 12]")
        at = _seconds(point[0], where)
        amount, relative = _amount(point[1], where)
        if points and at <= points[-1][0]:
            raise UsageError(f"{where}: want times in order, each once")
        points.append((at, amount))
        kinds.add(relative)
    if len(kinds) > 1:
        raise UsageError(f"{path}: want either amounts or percentages, got both")
    return Curve(tuple(points), kinds.pop())


def _day(value: Mapping[Any, Any], path: str) -> Curve:
    if set(value) != {_LOW, _HIGH, _PEAK}:
        raise UsageError(f"{path}: want low, high and peak, got {', '.join(map(str, value)) or 'nothing'}")
    low, relative = _amount(value[_LOW], f"{path}.{_LOW}")
    high, other = _amount(value[_HIGH], f"{path}.{_HIGH}")
    if relative is not other:
        raise UsageError(f"{path}: want either amounts or percentages, got both")
    if high < low:
        raise UsageError(f"{path}: high is below low")
    peak = _seconds(value[_PEAK], f"{path}.{_PEAK}")
    if peak >= DAY:
        raise UsageError(f"{path}.{_PEAK}: want a time of day below 24h, got {value[_PEAK]}")
    return Curve(((0.0, low), (0.0, high)), relative, peak=peak)


def _repeated(value: object, curve: Curve) -> float:
    every = _seconds(value, _EVERY)
    if curve.peak is not None or len(curve.points) < 2:
        raise UsageError(f"{_EVERY}: only a list of points is repeated")
    if every <= 0 or every < curve.points[-1][0]:
        raise UsageError(f"{_EVERY}: must not be shorter than the points, got {value}")
    return every


def _amount(value: object, path: str) -> tuple[float, bool]:
    """(milli-units or percent, whether it is the latter)."""
    at = f"{path}: " if path else ""
    wanted = f"{at}want an amount such as 300m or 2Gi, or a percentage of the request such as 60%, got {value!r}"
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise UsageError(wanted)
    is_share = isinstance(value, str) and value.endswith("%")
    try:
        found = float(value[:-1]) if is_share else float(milli_value(parse_quantity(value)))  # type: ignore[index]
    except (QuantityError, ValueError):
        raise UsageError(wanted) from None
    if not isfinite(found) or found < 0:
        raise UsageError(wanted)
    return found, is_share


def _seconds(value: object, path: str) -> float:
    try:
        found = float(value) if isinstance(value, (int, float)) else parse_duration(str(value)).seconds
    except ValueError:
        found = -1.0
    if isinstance(value, bool) or not isfinite(found) or found < 0:
        raise UsageError(f"{path}: want a time such as 90s, 5m or 1h30m, got {value!r}")
    return found
