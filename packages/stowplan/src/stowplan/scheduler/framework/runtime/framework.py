"""Call a profile's plugins.

The framework runs each extension point in the profile's order and handles the results as the reference does: which
statuses end the attempt, how errors are wrapped, which plugin a status names. A plugin that raises fails the pod's
attempt with an Error status that names the plugin; the exception never reaches the scheduling loop.

Upstream: pkg/scheduler/framework/runtime/framework.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from stowplan.kube.config import Profile
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.objects import ANY_OBJECT, ObjectDependency, ObjectWatch
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.answers import (
    checked_scores,
    failed_post_filter,
    filter_result,
    out_of_range,
    post_filter_result,
    pre_filter_result,
)
from stowplan.scheduler.framework.boundary import Raised, call, call_steps, nothing
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Plugin, Reads, SignPlugin
from stowplan.scheduler.framework.diagnosis import Diagnosis, Rejections
from stowplan.scheduler.framework.events import EVERYTHING, ClusterEventWithHint, with_implied
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    MAX_SCORE,
    MIN_SCORE,
    EnqueueExtensions,
    FilterPlugin,
    NodePodExtensions,
    PodExtensions,
    PostFilterPlugin,
    PostFilterSteps,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.runtime.applicable_plugins import ApplicablePlugins
from stowplan.scheduler.framework.runtime.metrics import FrameworkMetrics
from stowplan.scheduler.framework.runtime.nominated_pods import statuses_with_nominated_pods
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError, ProfilePlugins
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan.scheduler.framework.status import SKIP, Code, Status, typed, unexpected, wrapped

_log = get_logger(__name__)

#: Attribute access on an Enum is slow.
_SKIP = Code.Skip
#: Extension points whose plugins can reject a pod, and are therefore asked for their events.
_REFUSING_POINTS = ("preEnqueue", "preFilter", "filter", "reserve", "permit")


class PreFiltered(PlainStruct, frozen=True):
    """The result of PreFilter: the nodes to consider, or a rejection."""

    status: Status | None = None
    node_names: frozenset[str] | None = None
    #: Plugins that restricted the nodes.
    narrowed_by: tuple[str, ...] = ()


class Framework(ProfilePlugins):
    """The plugins of a profile, and the methods to run them."""

    def __init__(
        self, profile: Profile, registry: Registry, handle: Handle, metrics: FrameworkMetrics | None = None
    ) -> None:
        super().__init__(profile, registry, handle)
        self.metrics = metrics
        #: Plugins that failed to sign a pod.
        self._unsigned: set[str] = set()
        #: Plugin -> its own events. A plugin is asked once, so that it cannot fail when a kind is served later.
        self._own_events: dict[str, Sequence[ClusterEventWithHint]] = {}
        if self.metrics is not None:
            self.metrics.count_calls_of(self.points)
        handle.set_framework(self)

    # -- signatures ---------------------------------------------------------------------------------------------------

    def signature(self, pod: PodInfo) -> Any:
        """A hashable value, equal for pods that this profile cannot tell apart; None if results cannot be shared."""
        if self._signers is None:
            return None
        if self.metrics is None:
            return self._sign(pod)
        started = self.metrics.now()
        signature = self._sign(pod)
        self.metrics.points["Sign"].ran(started)
        return signature

    def _sign(self, pod: PodInfo) -> Any:
        times = None if self.metrics is None else self.metrics.sample
        # Results that were cached with other plugins enabled are not valid now.
        applicable = self.applicable_plugins(pod.shape)
        versions = self._sign_versions(applicable.signers, pod)
        # What is known is asked again to be timed; not if a recording counts the calls, which samples must not change.
        is_timed = times is not None and all(plugin.hang_guard is None for plugin in applicable.signers)
        known = None if versions is None or is_timed else pod.shape.memo("signature", versions)
        if known is not None:
            return known
        same = pod.shape if self._by_shape else pod.shape.template
        fragments: list[Any] = [self.switched_off, same, applicable.signing]
        for plugin in applicable.signers:
            failed, at = partial(self._note_unsigned, plugin.name), ("Sign", plugin)
            fragment = call(plugin.sign_pod, pod, check=_fragment, required=True, failed=failed, times=times, at=at)
            if fragment is None:
                return None
            fragments.append(fragment)
        found = tuple(fragments)
        return found if versions is None else pod.shape.remember("signature", versions, found)

    def _note_unsigned(self, plugin: str, why: BaseException, by: Callable[..., Any]) -> None:
        """Log that scheduling is slower than the plugin's author expects, once per plugin.

        A signer that fails, or returns something unhashable, only disables sharing for this pod.
        """
        if plugin not in self._unsigned:
            self._unsigned.add(plugin)
            _log.error(None, "A plugin failed to sign a pod, which shares no results", plugin=plugin, cause=typed(why))

    def _sign_versions(self, signers: tuple[SignPlugin, ...], pod: PodInfo) -> list[Hashable] | None:
        """The version of what the signature depends on beyond the pod's shape; None if some plugin has none."""
        versions: list[Hashable] = []
        for plugin in signers:
            version = call(plugin.sign_version, pod, check=None, failed=nothing, at=("Sign", plugin))
            if version is None:
                return None
            versions.append(version)
        versions.append(self._arrangement)
        return versions

    # -- plugins to call -----------------------------------------------------------------------------------------------

    def applicable_plugins(self, shape: PodShape) -> ApplicablePlugins:
        """The plugins that apply to pods of the shape."""
        found: ApplicablePlugins | None = shape.memo("applicable plugins", self._arrangement)
        return found or shape.remember(
            "applicable plugins", self._arrangement, self.everyone.by(shape, self.pre_filter)
        )

    def plugins_to_call(self, state: CycleState, pod: PodInfo) -> ApplicablePlugins:
        """The plugins to call for a pod; all of them in a sampled cycle, whose calls are timed."""
        return self.applicable_plugins(pod.shape) if state.plugin_times is None else self.everyone

    # -- lookup objects -----------------------------------------------------------------------------------------------

    def watch_objects(self, pod: PodInfo, plugin: Plugin) -> ObjectWatch:
        """The lookup objects that a plugin's results for a pod depend on."""
        return ObjectWatch(self.handle.cluster.objects, objects_read(plugin, pod))

    # -- before and during filtering ----------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: PodInfo) -> Status | None:
        for plugin in self.pre_enqueue:
            status = call(plugin.pre_enqueue, pod, at=("PreEnqueue", plugin))
            if status is not None and status.code != Code.Success:
                return status.with_plugin(plugin.name)
        return None

    def run_pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFiltered:
        refused: Status | None = None
        names: frozenset[str] | None = None
        narrowed: list[str] = []
        state.skip_filter, skip = set(), self.plugins_to_call(state, pod).skip_filter
        for plugin in self.pre_filter:
            if plugin.name in skip:
                state.skip_filter.add(plugin.name)
                continue
            answer = self.ask_pre_filter(plugin, state, pod, nodes)
            if answer is None:
                continue
            if isinstance(answer, PreFilterResult):
                if answer.node_names is not None:
                    narrowed.append(plugin.name)
                    names = answer.node_names if names is None else names & answer.node_names
                    if not names:
                        return PreFiltered(_unsatisfied(narrowed), names, tuple(narrowed))
            elif answer.code == Code.Skip:
                state.skip_filter.add(plugin.name)
            elif answer.code == Code.UnschedulableAndUnresolvable:
                return PreFiltered(answer.with_plugin(plugin.name))
            elif answer.code == Code.Unschedulable:
                # Parity: the last plugin that returns Unschedulable wins.
                refused = answer.with_plugin(plugin.name)
            elif answer.code != Code.Success:
                return PreFiltered(wrapped(f'running PreFilter plugin "{plugin.name}"', answer))
        return PreFiltered(refused, names, tuple(narrowed))

    def ask_pre_filter(
        self, plugin: PreFilterPlugin, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        """One plugin's result."""
        state.writer, times, check = plugin.name, state.plugin_times, pre_filter_result
        answer = call(plugin.pre_filter, state, pod, nodes, check=check, times=times, at=("PreFilter", plugin))
        state.writer = ""
        # Nearly all plugins that skip return this object.
        if answer is not SKIP and self.metrics is not None and not (state.asking or _skips(answer)):
            self.metrics.pre_filter[plugin.name].value += 1
        return answer

    def active_filters(self, state: CycleState) -> list[FilterPlugin]:
        skipped = state.skip_filter
        return [plugin for plugin in self.filter if plugin.name not in skipped]

    def run_filter(
        self, plugin: FilterPlugin, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> Rejections | Status | None:
        """One plugin's result; a Status is an error that ends the attempt."""
        if self.metrics is not None and not state.asking:
            self.metrics.filter[plugin.name].value += len(nodes)
        answer = self.ask_filter(plugin, state, pod, nodes)
        if isinstance(answer, Status) and nodes.candidates is not None and not nodes.candidates.any():
            # The plugins before it left no node, so upstream would not have called it.
            return None
        return answer

    def ask_filter(
        self, plugin: FilterPlugin, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> Rejections | Status | None:
        """Like `run_filter`, for callers that count many plugins together, and know whether nodes are left."""
        state.writer, times = plugin.name, state.plugin_times
        answer = call(plugin.filter, state, pod, nodes, check=filter_result, times=times, at=("Filter", plugin))
        state.writer = ""
        return wrapped(f'running "{plugin.name}" filter plugin', answer) if isinstance(answer, Status) else answer

    def run_filters(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> tuple[list[tuple[str, Rejections]], Mask] | Status:
        """Run all filters over a view: rejections by plugin, and the mask of positions that passed."""
        passed = np.ones(len(nodes), np.bool_)
        found: list[tuple[str, Rejections]] = []
        for plugin in self.active_filters(state):
            nodes.candidates = passed
            answer = self.run_filter(plugin, state, pod, nodes)
            if isinstance(answer, Status):
                return answer
            if answer is not None:
                found.append((plugin.name, answer))
                passed = passed & ~answer.mask
        return found, passed

    def has_active_pod_extensions(self, state: CycleState) -> bool:
        """Whether some plugin must be told about pods that are hypothetically added or removed."""
        kinds = (PodExtensions, NodePodExtensions)
        return any(isinstance(p, kinds) and p.name not in state.skip_filter for p in self.pre_filter)

    def has_node_level_filters(self, state: CycleState) -> bool:
        """Whether some filter may look at single pods of a node: true unless all declare that they do not."""
        return any(p.reads in (Reads.ANYTHING, Reads.NODE_PODS) for p in self.active_filters(state))

    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift, nodes: HypotheticalNodes) -> Status | None:
        """Tell the plugins that took part in PreFilter that pods were added or removed; `nodes` already shows it."""
        for plugin in self.pre_filter:
            if plugin.name in state.skip_filter:
                continue
            what = "AddPod" if shift.sign > 0 else "RemovePod"
            for answer in self._shifted(f"PreFilterExtension{what}", plugin, state, pod, shift, nodes):
                if answer is not None and answer.code != Code.Success:
                    return wrapped(f'running {what} on PreFilter plugin "{plugin.name}"', answer)
        return None

    @staticmethod
    def _shifted(
        point: str,
        plugin: PreFilterPlugin,
        state: CycleState,
        pod: PodInfo,
        shift: PodShift,
        nodes: HypotheticalNodes,
    ) -> Iterator[Status | None]:
        """One plugin's results: of all pods together, or of one pod after the other."""
        times = state.plugin_times
        if isinstance(plugin, PodExtensions):
            yield call(plugin.shift_pods, state, pod, shift, times=times, at=(point, plugin))
        elif isinstance(plugin, NodePodExtensions):
            method = plugin.add_pod if shift.sign > 0 else plugin.remove_pod
            for row, shifted in zip(shift.rows.tolist(), shift.pods, strict=True):
                node = nodes.info(nodes.position_of(row))
                yield call(method, state, pod, shifted, node, times=times, at=(point, plugin))

    def run_post_filter(
        self, plugin: PostFilterPlugin, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, *, waits: bool
    ) -> PostFilterSteps:
        """One plugin's result; if the caller `waits`, this yields what the plugin's steps yield."""
        started, at = self.now(), ("PostFilter", plugin)
        check, failed = partial(post_filter_result, pod), partial(failed_post_filter, plugin)
        result = yield from call_steps(
            plugin.post_filter, state, pod, diagnosis, check=check, failed=failed, waits=waits, at=at
        )
        if state.plugin_times is not None:
            state.plugin_times.ended("PostFilter", plugin.name, started, result.status)
        return result

    def statuses_with_nominated_pods(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> dict[str, Status] | Status:
        return statuses_with_nominated_pods(self, state, pod, nodes)

    @contextmanager
    def unmeasured(self) -> Iterator[None]:
        """Disable counting and timing within this context, which only answers a question."""
        before, of_plugins = self.metrics, self.handle.metrics
        self.metrics = self.handle.metrics = None
        try:
            yield
        finally:
            self.metrics, self.handle.metrics = before, of_plugins

    def now(self) -> float:
        """The metrics' stopwatch; 0.0 without metrics."""
        return 0.0 if self.metrics is None else self.metrics.now()

    # -- scoring ------------------------------------------------------------------------------------------------------

    def run_pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.skip_score = set()
        for plugin in self.pre_score:
            answer = self.ask_pre_score(plugin, state, pod, nodes)
            if answer is None or answer.code == Code.Success:
                continue
            if answer.code != Code.Skip:
                return wrapped(f'running PreScore plugin "{plugin.name}"', answer)
            state.skip_score.add(plugin.name)
        return None

    def ask_pre_score(self, plugin: PreScorePlugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """One plugin's result."""
        state.writer = plugin.name
        answer = call(plugin.pre_score, state, pod, nodes, times=state.plugin_times, at=("PreScore", plugin))
        state.writer = ""
        # Nearly all plugins that skip return this object.
        if answer is not SKIP and self.metrics is not None and not (state.asking or _skips(answer)):
            self.metrics.pre_score[plugin.name].value += 1
        return answer

    def active_scores(self, state: CycleState) -> list[ScorePlugin]:
        skipped = state.skip_score
        return [plugin for plugin in self.score if plugin.name not in skipped]

    def run_score(self, plugin: ScorePlugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        """One plugin's raw scores over a view."""
        if self.metrics is not None and not state.asking:
            self.metrics.score[plugin.name].value += len(nodes)
        return self.ask_score(plugin, state, pod, nodes)

    def ask_score(self, plugin: ScorePlugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        """Like `run_score`, for callers that run many plugins and count them together."""
        state.writer, times, check = plugin.name, state.plugin_times, partial(checked_scores, len(nodes))
        answer = call(plugin.score, state, pod, nodes, check=check, required=True, times=times, at=("Score", plugin))
        state.writer = ""
        if isinstance(answer, Status):
            return wrapped(f'running Score plugins: plugin "{plugin.name}" failed with', answer)
        return answer

    def normalize(
        self,
        plugin: ScorePlugin,
        state: CycleState,
        pod: PodInfo,
        scores: Ints,
        feasible: Mask,
    ) -> Ints | Status:
        """Normalize raw scores, and check that those of feasible nodes are in range."""
        if plugin.normalizes:
            check, at = partial(checked_scores, len(scores)), ("ScoreExtensionNormalize", plugin)
            args, times = (state, pod, scores, feasible), state.plugin_times
            answer = call(plugin.normalize, *args, check=check, required=True, times=times, at=at)
            if isinstance(answer, Status):
                return wrapped(f'running Normalize on Score plugins: plugin "{plugin.name}" failed with', answer)
            scores = answer
        # Infeasible nodes may be outside, too, but seldom any is.
        if not plugin.in_range and len(scores) and (scores.min() < MIN_SCORE or scores.max() > MAX_SCORE):
            outside = feasible & ((scores < MIN_SCORE) | (scores > MAX_SCORE))
            if outside.any():
                wrong = int(scores[outside][0])
                return out_of_range("Score", plugin.name, wrong)
        return scores

    # -- events -------------------------------------------------------------------------------------------------------

    def registered_events(self, *, implied: bool = True) -> dict[str, list[ClusterEventWithHint]]:
        """Plugin -> events that may help pods that it rejected; `implied`: include those that the framework adds."""
        registered: dict[str, list[ClusterEventWithHint]] = {}
        for point in _REFUSING_POINTS:
            for name in self.points[point]:
                if name not in registered:
                    own = self._events_of(name)
                    registered[name] = (
                        with_implied(own, self.handle.features.emulated_version) if implied else list(own)
                    )
        return registered

    def _events_of(self, plugin: str) -> Sequence[ClusterEventWithHint]:
        if plugin not in self._own_events:
            self._own_events[plugin] = _own_events(self.plugins[plugin])
        return self._own_events[plugin]


def objects_read(plugin: Plugin, pod: PodInfo) -> Collection[ObjectDependency]:
    """The lookup objects that a plugin's results for a pod depend on."""
    found = call(plugin.reads_objects, pod, check=tuple, required=True, failed=_any_object, at=("ReadsObjects", plugin))
    return found if all(isinstance(dependency, ObjectDependency) for dependency in found) else (ANY_OBJECT,)


def _any_object(cause: BaseException, by: Callable[..., Any]) -> tuple[ObjectDependency, ...]:
    """If a plugin fails to name what it reads, watch everything: only the optimization is lost."""
    return (ANY_OBJECT,)


def _skips(answer: object) -> bool:
    return isinstance(answer, Status) and answer.code is _SKIP


def _own_events(plugin: Plugin) -> Sequence[ClusterEventWithHint]:
    if not isinstance(plugin, EnqueueExtensions):
        return EVERYTHING
    at = "EventsToRegister", plugin
    own = call(plugin.events_to_register, check=tuple, required=True, failed=Raised, at=at)
    if isinstance(own, Raised):
        raise PluginInitError(f'registering the events of plugin "{plugin.name}": {own}') from own.cause
    for event in own:
        if not isinstance(event, ClusterEventWithHint):
            wrong = unexpected("what `on` makes of a resource and an action", event)
            raise PluginInitError(f'registering the events of plugin "{plugin.name}": {wrong}')
    return tuple(_with_guarded_hint(event, plugin) for event in own)


def _with_guarded_hint(event: ClusterEventWithHint, plugin: Plugin) -> ClusterEventWithHint:
    """A hint is called by whoever has the event, which does not say whose it is."""
    if plugin.hang_guard is None or event.hint is None:
        return event
    return replace(event, hint=partial(plugin.hang_guard.call, plugin.name, "QueueingHint", event.hint))


def _fragment(answer: Any) -> tuple[Any, ...] | None:
    """A plugin's part of a signature; None: the pod has none."""
    if isinstance(answer, Status):
        return None
    # Most plugins sign nothing.
    fragment = tuple(answer.items()) if answer else ()
    hash(fragment)
    return fragment


def _unsatisfied(plugins: Sequence[str]) -> Status:
    """The status if the restrictions of several PreFilter plugins have no node in common."""
    if len(plugins) == 1:
        return Status(Code.UnschedulableAndUnresolvable, (f"node(s) didn't satisfy plugin {plugins[0]}",))
    named = " ".join(sorted(plugins))
    return Status(Code.UnschedulableAndUnresolvable, (f"node(s) didn't satisfy plugin(s) [{named}] simultaneously",))
