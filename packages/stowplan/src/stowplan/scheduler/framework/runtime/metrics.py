"""Plugin durations and evaluation counts.

An extension point is timed on each run. Runs begin where the reference's do; results that equal pods share
(`engine/evaluation`) take no time when they are reused. Single plugin calls are timed only in a random sample of
cycles, because there are many of them, including those of signing, as in the reference. A framework without metrics,
such as an offline cluster's, has None in place of `FrameworkMetrics`, so the cost there is one comparison.

`plugin_evaluation_total` counts *rows*. The reference calls plugins once per node, and counts each call. Here a Filter
or Score gets many rows at once and all of them count, including those that an earlier plugin rejected, for which the
reference would not have called it. For equal pods, only the changed rows are evaluated, and counted, again. So the
number says how much a plugin had to judge, in the reference's unit: nodes.

For the same reason, one observation of `plugin_execution_duration_seconds` is one call, for one node or all of them.
Its status is Success unless the plugin failed, as a Filter's rejections differ from node to node.

Traced attempts keep what is observed as their *parts*, of which spans are made once the outcome is known. Keeping them
takes no call, as few attempts are exported in the end.

Upstream: pkg/scheduler/framework/runtime/framework.go and instrumented_plugins.go. There is no counterpart of
metric_recorder.go, as observing directly is cheaper here than deferring it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple

from stowplan.kube.metrics.families import Counter, Histogram, HistogramVec
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from stowplan.scheduler.framework.runtime.framework import Framework

P = ParamSpec("P")
R = TypeVar("R")
Args = TypeVarTuple("Args")

#: Attribute access on an Enum is slow.
_SUCCESS, _ERROR = Code.Success, Code.Error

_POINTS = (
    *("PreEnqueue", "Sign", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Permit"),
    *("PreBindPreFlight", "PreBind", "Bind", "PostBind", "Unreserve", "PodGroupPostFilter"),
)

#: A timed part of an attempt: an extension point or an effect; when it began, or None: when the part before it ended;
#: its seconds; and the code or outcome that it ended with.
Part = tuple[object, float | None, float, object]

#: Share of the cycles in which single plugin calls are timed.
SAMPLED = 0.1

#: Extension points that are no part of an attempt.
_APART = ("PreEnqueue", "Sign")

#: Extension points whose calls are counted, as the configuration names them.
_COUNTED = {"preFilter": "PreFilter", "filter": "Filter", "preScore": "PreScore", "score": "Score"}


class ExtensionPoint:
    """Durations of one extension point, by status."""

    __slots__ = ("_children", "_family", "_name", "_now", "_owner", "_profile")

    def __init__(
        self,
        name: str,
        family: HistogramVec,
        owner: FrameworkMetrics | None,
        *,
        profile: str,
        now: Callable[[], float],
    ) -> None:
        """`owner`: knows the parts of the current attempt; None: the point is no part of it."""
        self._name = name
        self._owner = owner
        self._family = family
        self._profile = profile
        self._now = now
        #: By code; created on first use, as a series is exported once it exists.
        self._children: list[Histogram | None] = [None] * len(Code)

    def ran(self, started: float, code: Code = _SUCCESS, parts: list[Part] | None = None) -> None:
        """Record a run that started then and ends now. `parts`: of an attempt that is not the current one."""
        seconds = self._now() - started
        child = self._children[code] or self._child(code)
        # Inlined `observe`, here and in `PluginTimes`: this runs a dozen times per pod.
        child.counts[bisect_left(child.bounds, seconds)] += 1
        child.sum += seconds
        owner = self._owner
        if owner is not None and owner.traced:
            if parts is None:
                parts = owner.parts
            if parts is not None:
                parts += ((self._name, started + owner.ahead, seconds, code),)

    def took(self, seconds: float, code: Code = _SUCCESS, *, runs: int = 1) -> None:
        """Record runs that took this long each."""
        if runs > 0:
            child = self._children[code] or self._child(code)
            child.counts[bisect_left(child.bounds, seconds)] += runs
            child.sum += seconds * runs
            if self._owner is not None and (parts := self._owner.parts) is not None:
                parts += ((self._name, None, seconds, code),)

    def _child(self, code: Code) -> Histogram:
        child = self._children[code] = self._family.with_label_values(self._name, code.name, self._profile)
        return child


class PluginTimes:
    """Times plugin calls; set on the `CycleState` of a sampled cycle."""

    def __init__(self, family: HistogramVec, *, now: Callable[[], float]) -> None:
        self._family = family
        self._now = now
        #: By plugin and point, then by code.
        self._children: dict[tuple[str, str], list[Histogram | None]] = {}

    def time(self, point: str, plugin: str, call: Callable[[*Args], R], *args: *Args) -> R:
        """Call the function and observe its duration."""
        started, code = self._now(), _ERROR
        try:
            answer = call(*args)
            code = _SUCCESS if answer is None else _code_of(answer)
            return answer
        finally:
            self._took(point, plugin, code, self._now() - started)

    def ended(self, point: str, plugin: str, started: float, answer: Status | None) -> None:
        """Record a call in steps, or of a coroutine, that started then and has this result."""
        self._took(point, plugin, _code_of(answer), self._now() - started)

    def _took(self, point: str, plugin: str, code: Code, seconds: float) -> None:
        children = self._children.get((plugin, point))
        if children is None:
            children = self._children[plugin, point] = [None] * len(Code)
        child = children[code]
        if child is None:
            child = children[code] = self._family.with_label_values(plugin, point, code.name)
        child.counts[bisect_left(child.bounds, seconds)] += 1
        child.sum += seconds


class FrameworkMetrics:
    """One profile's metrics, with references to the children that its cycles update."""

    def __init__(
        self,
        metrics: SchedulerMetrics,
        *,
        profile: str,
        now: Callable[[], float],
        chance: Callable[[], float],
        traced: bool = False,
        ahead: float = 0.0,
    ) -> None:
        """`chance` is uniform in [0, 1). `ahead`: the engine's time minus `now`, for traces."""
        self.scheduler = metrics
        self.profile = profile
        self.now = now
        self._chance = chance
        self._times = PluginTimes(metrics.plugin_execution_duration_seconds, now=now)
        points = metrics.framework_extension_point_duration_seconds
        self.points = {
            name: ExtensionPoint(name, points, None if name in _APART else self, profile=profile, now=now)
            for name in _POINTS
        }
        self.traced = traced
        self.ahead = ahead
        #: The parts of the current attempt so far; None if there is none, or it is not traced.
        self.parts: list[Part] | None = None
        #: Times the calls of the current cycle; None if it is not sampled.
        self.sample: PluginTimes | None = None
        self._hints: dict[bool, Histogram] = {}
        self._hint_results: dict[bool, Counter] = {}
        #: Plugin -> counter of rows or calls.
        self.pre_filter: Mapping[str, Counter] = {}
        self.filter: Mapping[str, Counter] = {}
        self.pre_score: Mapping[str, Counter] = {}
        self.score: Mapping[str, Counter] = {}

    def count_calls_of(self, points: Mapping[str, Sequence[str]]) -> None:
        """Create the counters of all plugins at these points, so that they are exported from now on."""
        found = {point: self._counters(label, points[point]) for point, label in _COUNTED.items()}
        self.pre_filter, self.filter = found["preFilter"], found["filter"]
        self.pre_score, self.score = found["preScore"], found["score"]

    def _counters(self, point: str, plugins: Sequence[str]) -> dict[str, Counter]:
        family = self.scheduler.plugin_evaluation_total
        return {plugin: family.with_label_values(plugin, point, self.profile) for plugin in plugins}

    @staticmethod
    def count(plugins: Sequence[Plugin], counters: Mapping[str, Counter], rows: int) -> None:
        """Count plugins that were called one after the other for the same rows."""
        for plugin in plugins:
            counters[plugin.name].value += rows

    def placements_generated(self, count: int) -> None:
        self.scheduler.generated_placements_total.with_label_values(self.profile).inc(count)

    def placement_evaluated(self, result: Code, started: float) -> None:
        """A group was tried in a placement; errors do not count."""
        if result == Code.Error:
            return
        labels = "feasible" if result == Code.Success else "infeasible", self.profile
        self.scheduler.placement_evaluations_total.with_label_values(*labels).inc()
        durations = self.scheduler.placement_evaluation_duration_seconds
        durations.with_label_values(*labels).observe(self.now() - started)

    def group_preempted(self, result: Code) -> None:
        """A group's search for victims has ended."""
        self.scheduler.workload_preemption_attempts_total.with_label_values(result.name).inc()

    def group_evaluated(self, result: Code, started: float) -> None:
        """The victims for a group were chosen among some; or none help."""
        durations = self.scheduler.preemption_evaluation_duration_seconds
        durations.with_label_values("podgroup", result.name).observe(self.now() - started)

    def draw(self) -> PluginTimes | None:
        """Whether the next run of plugins is sampled."""
        return self._times if self._chance() < SAMPLED else None

    def begin_cycle(self) -> None:
        self.sample = self.draw()
        self.parts = [] if self.traced else None

    def hinted(self, reused: bool, *, seconds: float, used: bool) -> None:
        """Record a lookup of reusable results, in the reference's terms for node hints.

        A hint is an `Evaluation` that is still valid. It is part of the decision, so an existing one counts as used
        whenever the pod is placed.
        """
        known = self._hints.get(reused)
        if known is None:
            durations = self.scheduler.get_node_hint_duration_seconds
            known = self._hints[reused] = durations.with_label_values("hint" if reused else "no_hint", self.profile)
        known.observe(seconds)
        if used or not reused:
            counter = self._hint_results.get(reused)
            if counter is None:
                attempts = self.scheduler.batch_attempts_total
                counter = attempts.with_label_values(self.profile, "hint_used" if reused else "no_hint")
                self._hint_results[reused] = counter
            counter.inc()

    def decided_again(self, seconds: float, *, preparing: float, hint: float, scored: bool) -> None:
        """Record a pod that was placed from an equal pod's results: the total duration, and the lookup's (`hint`).

        `preparing` is PreFilter's part of it. If nodes are `scored` in it, Filter gets that time as well.
        """
        self.points["PreFilter"].took(preparing)
        self.points["Filter"].took(seconds - preparing)
        for point in ("PreScore", "Score") if scored else ():
            self.points[point].took(0.0)
        self.hinted(True, seconds=hint, used=True)

    def decided_together(self, pods: int, seconds: float, *, scored: int, reused: bool) -> None:
        """Record pods that shared one decision as that many decisions; Filter gets all of the time."""
        self.points["PreFilter"].took(0.0, runs=pods)
        for point in ("PreScore", "Score"):
            self.points[point].took(0.0, runs=scored)
        self.points["Filter"].took(seconds / pods, runs=pods)
        self.hinted(reused, seconds=0.0, used=True)
        for _ in range(1, pods):
            self.hinted(True, seconds=0.0, used=True)

    def equal_pods_refused(self, pods: int, *, helped: bool) -> None:
        """Record pods that were rejected like an equal one before them; `helped`: PostFilter ran."""
        for point in ("PreFilter", "Filter"):
            self.points[point].took(0.0, runs=pods)
        if helped:
            self.points["PostFilter"].took(0.0, Code.Unschedulable, runs=pods)
        for _ in range(pods):
            self.hinted(True, seconds=0.0, used=False)


def measured(
    metrics: FrameworkMetrics | None, run: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> tuple[R, float]:
    """The result of a call and its duration in seconds; 0.0 without metrics."""
    if metrics is None:
        return run(*args, **kwargs), 0.0
    started = metrics.now()
    answer = run(*args, **kwargs)
    return answer, metrics.now() - started


def ended(answer: Status | None) -> Code:
    return _SUCCESS if answer is None else answer.code


def timed(
    point: str, code_of: Callable[[Any], Code] | None = None
) -> Callable[[Callable[Concatenate[Framework, P], R]], Callable[Concatenate[Framework, P], R]]:
    """Decorator for functions that run all plugins of an extension point: observe their duration.

    Without `code_of`, the result is always recorded as a success, and so is None in any case.
    """

    def decorate(run: Callable[Concatenate[Framework, P], R]) -> Callable[Concatenate[Framework, P], R]:
        @wraps(run)
        def runs(framework: Framework, /, *args: P.args, **kwargs: P.kwargs) -> R:
            metrics = framework.metrics
            if metrics is None:
                return run(framework, *args, **kwargs)
            started = metrics.now()
            answer = run(framework, *args, **kwargs)
            code = _SUCCESS if code_of is None or answer is None else code_of(answer)
            metrics.points[point].ran(started, code)
            return answer

        return runs

    return decorate


def _code_of(answer: Any) -> Code:
    """The status code of a plugin's result; a result without a status is a success."""
    if isinstance(answer, Status):
        return answer.code
    if isinstance(answer, tuple):
        # Permit's result: a status and a timeout.
        return _code_of(answer[0]) if answer else _SUCCESS
    return _code_of(answer.status) if isinstance(answer, PostFilterResult) else _SUCCESS
