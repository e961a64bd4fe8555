"""How fast an autoscaler may follow what is measured: stabilization windows, rates, and the limits of its spec.

Scaling down follows the highest recommendation of the last five minutes, or of the window in `behavior`; scaling up the
lowest one of its own window, which is empty by default. Without a `behavior`, the replicas at most double in one step,
or become four; with one, its policies limit the change per period.

`Memory` is what a controller remembers of an autoscaler between two looks. It is lost when it restarts.

Upstream: pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import NamedTuple

from stowplan.kube.api.meta import MAX_INT32, ApiStruct, QuantityValue

DOWNSCALE_WINDOW_SECONDS = 300.0

PODS = "Pods"
DISABLED, LEAST = "Disabled", "Min"


class ScalingPolicy(ApiStruct, frozen=True, kw_only=True):
    type: str = PODS
    value: int = 0
    period_seconds: int = 0


class ScalingRules(ApiStruct, frozen=True, kw_only=True):
    #: None: the default of the direction.
    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[ScalingPolicy, ...] = ()
    tolerance: QuantityValue | None = None


class Behavior(ApiStruct, frozen=True, kw_only=True):
    scale_up: ScalingRules = ScalingRules()
    scale_down: ScalingRules = ScalingRules()


class Stamped(NamedTuple):
    """A recommendation, or the size of a change."""

    number: int
    at: float


class Memory:
    def __init__(self) -> None:
        self.recommendations: list[Stamped] = []
        #: Changes that were carried out.
        self.ups: list[Stamped] = []
        self.downs: list[Stamped] = []

    def begin(self, replicas: int, now: float) -> None:
        """The first look: the replicas found count as a recommendation."""
        if not self.recommendations:
            self.recommendations.append(Stamped(replicas, now))

    def recommend(self, number: int, now: float, is_old: Callable[[Stamped], bool]) -> None:
        _put(self.recommendations, Stamped(number, now), is_old)

    def rescaled(self, behavior: Behavior | None, before: int, after: int, now: float) -> None:
        """Only policies read it."""
        if behavior is None:
            return
        rules, changes = (behavior.scale_up, self.ups) if after > before else (behavior.scale_down, self.downs)
        since = now - max((policy.period_seconds for policy in rules.policies), default=0)
        _put(changes, Stamped(abs(after - before), now), lambda one: one.at < since)


def _put(entries: list[Stamped], entry: Stamped, is_old: Callable[[Stamped], bool]) -> None:
    """Replace the last old entry. Parity: earlier ones may still count where a longer window is asked for."""
    old = [index for index, one in enumerate(entries) if is_old(one)]
    if old:
        entries[old[-1]] = entry
    else:
        entries.append(entry)


class Limits(NamedTuple):
    least: int
    most: int


class Why(NamedTuple):
    """Of a condition."""

    reason: str
    message: str


_WITHIN = Why("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = Why("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = Why("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST_UP = Why("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN = Why("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_READY = Why("ReadyForNewScale", "recommended size matches current size")
_UP_STABILIZED = Why(
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_DOWN_STABILIZED = Why(
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)


class Pace(NamedTuple):
    """The number of replicas to have next."""

    replicas: int
    #: Of the condition AbleToScale.
    able: Why
    #: Of the condition ScalingLimited, and whether it is true.
    limit: Why
    is_limited: bool


def paced(
    behavior: Behavior | None, memory: Memory, current: int, recommended: int, limits: Limits, now: float
) -> Pace:
    if behavior is None:
        stable, able = _stabilized(memory, recommended, now), _DOWN_STABILIZED
        replicas, limit = _limited(current, stable, limits)
    else:
        stable = _stabilized_by(behavior, memory, current, recommended, now)
        able = _UP_STABILIZED if recommended >= current else _DOWN_STABILIZED
        replicas, limit = _limited_by(behavior, memory, current, stable, limits, now)
    return Pace(replicas, able if stable != recommended else _READY, limit, replicas != stable)


def _stabilized(memory: Memory, recommended: int, now: float) -> int:
    since = now - DOWNSCALE_WINDOW_SECONDS
    highest = max([recommended, *(one.number for one in memory.recommendations if one.at >= since)])
    memory.recommend(recommended, now, lambda one: one.at < since)
    return highest


def _limited(current: int, wanted: int, limits: Limits) -> tuple[int, Why]:
    fastest = max(2 * current, 4)
    most, why = (fastest, _TOO_FAST_UP) if limits.most > fastest else (limits.most, _TOO_MANY)
    if wanted < limits.least:
        return limits.least, _TOO_FEW
    return (most, why) if wanted > most else (wanted, _WITHIN)


def _stabilized_by(behavior: Behavior, memory: Memory, current: int, recommended: int, now: float) -> int:
    down_window = behavior.scale_down.stabilization_window_seconds
    up_since = now - (behavior.scale_up.stabilization_window_seconds or 0)
    down_since = now - (DOWNSCALE_WINDOW_SECONDS if down_window is None else down_window)
    recent = memory.recommendations
    lowest = min([recommended, *(one.number for one in recent if one.at > up_since)])
    highest = max([recommended, *(one.number for one in recent if one.at > down_since)])
    memory.recommend(recommended, now, lambda one: one.at < min(up_since, down_since))
    return min(max(current, lowest), highest)


def _limited_by(
    behavior: Behavior, memory: Memory, current: int, wanted: int, limits: Limits, now: float
) -> tuple[int, Why]:
    if wanted > current:
        fastest = max(current, _fastest_up(behavior.scale_up, memory, current, now))
        most, why = (fastest, _TOO_FAST_UP) if limits.most > fastest else (limits.most, _TOO_MANY)
        return (most, why) if wanted > most else (wanted, _WITHIN)
    if wanted < current:
        fastest = min(current, _fastest_down(behavior.scale_down, memory, current, now))
        least, why = (fastest, _TOO_FAST_DOWN) if limits.least < fastest else (limits.least, _TOO_FEW)
        return (least, why) if wanted < least else (wanted, _WITHIN)
    return wanted, _WITHIN


def _fastest_up(rules: ScalingRules, memory: Memory, current: int, now: float) -> int:
    """The highest number that the policies permit."""
    if rules.select_policy == DISABLED:
        return current
    proposed = []
    for policy in rules.policies:
        before = _at_start(policy, memory, current, now)
        # Rounded up: otherwise few replicas would never grow.
        grown = before + policy.value if policy.type == PODS else ceil(before * (1 + policy.value / 100))
        proposed.append(grown)
    return min(proposed, default=MAX_INT32) if rules.select_policy == LEAST else max(proposed, default=0)


def _fastest_down(rules: ScalingRules, memory: Memory, current: int, now: float) -> int:
    """The lowest number that the policies permit."""
    if rules.select_policy == DISABLED:
        return current
    proposed = []
    for policy in rules.policies:
        before = _at_start(policy, memory, current, now)
        left = before - policy.value if policy.type == PODS else int(before * (1 - policy.value / 100))
        proposed.append(left)
    # With "Min" the smallest change counts.
    return max(proposed, default=0) if rules.select_policy == LEAST else min(proposed, default=MAX_INT32)


def _at_start(policy: ScalingPolicy, memory: Memory, current: int, now: float) -> int:
    """The replicas when the policy's period began."""
    since = now - policy.period_seconds
    return current - _sum_since(memory.ups, since) + _sum_since(memory.downs, since)


def _sum_since(changes: Iterable[Stamped], since: float) -> int:
    return sum(one.number for one in changes if one.at > since)
