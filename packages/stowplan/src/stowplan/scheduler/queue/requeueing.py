"""Decide whether an event requeues a pod, and whether after backoff.

Plugins register the events that may help pods that they rejected, mostly with a queueing hint for each. Which
registrations an event matches is looked up when it first occurs. Hints that read no more of a pod than its shape are
asked once for all unschedulable pods of one shape, and those about objects that pods name, such as their claims, for
the pods that name the changed one.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (isPodWorthRequeuing),
docs/reference/behaviour.md, Return after an attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from stowplan.kube.api.types import Pod
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.scheduler.cluster.pod_info import PodInfo, uid_of
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.events import (
    EVERYTHING,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    ClusterEventWithHint,
    Hint,
    NamedObjects,
    with_implied,
)
from stowplan.scheduler.framework.extender import EXTENDER
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import typed
from stowplan.scheduler.queue.in_flight import InFlightEvent
from stowplan.scheduler.queue.metrics import ERROR, QUEUE, QUEUE_SKIP, QueueMetrics
from stowplan.scheduler.queue.observer import QueueObserver
from stowplan.scheduler.queue.queued_pod import QueuedPod, log_keys
from stowplan.scheduler.queue.unschedulable import Group

_log = get_logger(__name__)


class Strategy(Enum):
    """How a pod is requeued after an event."""

    SKIP = "Skip"
    AFTER_BACKOFF = "AfterBackoff"
    IMMEDIATELY = "Immediately"


class Listener(NamedTuple):
    """A plugin's registration that covers an event."""

    plugin: str
    registered: ClusterEventWithHint


class HintQuestion(NamedTuple):
    """The registrations to check for pods of one rejection."""

    listeners: tuple[Listener, ...]
    #: Plugins whose Queue means "immediately".
    pending_plugins: frozenset[str] | set[str]
    #: Whether pods of one shape get one answer.
    by_shape: bool
    #: How pods name the objects, if no listener says Queue to pods that do not name the changed one; else empty.
    named: tuple[NamedObjects, ...]

    def concerns_all(self, happened: InFlightEvent) -> bool:
        """Whether the hint has to be called for pods that do not name the changed object, too."""
        if not self.named:
            return True
        return any(n.concerns_all is not None and n.concerns_all(happened.old, happened.new) for n in self.named)


class Interest:
    """The registrations that cover an event, per profile; and their plugins, over all profiles."""

    def __init__(
        self, event: ClusterEvent, registrations: Mapping[str, Mapping[str, Sequence[ClusterEventWithHint]]]
    ) -> None:
        #: (profile, plugin) -> listeners.
        self.listeners: dict[tuple[str, str], tuple[Listener, ...]] = {}
        for profile, plugins in registrations.items():
            for plugin, registered in plugins.items():
                if covering := tuple(Listener(plugin, r) for r in registered if r.event.covers(event)):
                    self.listeners[profile, plugin] = covering
        self.plugins = frozenset(plugin for _, plugin in self.listeners)
        self.label = event.label

    def question(self, profile: str, plugins: Iterable[str], pending: frozenset[str] | set[str]) -> HintQuestion:
        """The registrations to check for pods that these plugins rejected."""
        listeners: list[Listener] = []
        for plugin in plugins:
            listeners += self.listeners.get((profile, plugin), ())
        by_shape = all(listener.registered.hint is None or listener.registered.by_shape for listener in listeners)
        named = dict.fromkeys(listener.registered.named for listener in listeners)
        each = () if None in named else tuple(n for n in named if n is not None)
        return HintQuestion(tuple(listeners), pending, by_shape, each)


class Requeueing:
    """The registrations of all profiles, and their results for pods and events."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        metrics: QueueMetrics,
        observer: QueueObserver,
        emulated_version: KubernetesVersion,
    ) -> None:
        self._version = emulated_version
        self._frameworks = frameworks
        self._metrics = metrics
        self._observer = observer
        self.read_registrations()

    def read_registrations(self) -> None:
        """Read the events that all plugins register; drop what was derived from earlier ones."""
        # All of it at once: what was derived from a former set of plugins would leave pods waiting for ever.
        self._registered = {name: _registered(framework) for name, framework in self._frameworks.items()}
        self._interests: dict[ClusterEvent, Interest] = {}
        #: (plugin, event) of hints that raised; each is reported once, or a broken hint would flood the log.
        self._reported: set[tuple[str, str]] = set()
        #: Plugins that registered for all events, in any profile.
        self.registered_for_all = self.interest(UNSCHEDULABLE_TIMEOUT).plugins

    def rejecting_plugins(self) -> set[tuple[str, str]]:
        """(profile, plugin) of all plugins that can reject pods."""
        return {(profile, plugin) for profile, plugins in self._registered.items() for plugin in plugins}

    def interest(self, event: ClusterEvent) -> Interest:
        found = self._interests.get(event)
        if found is None:
            found = self._interests[event] = Interest(event, self._registered)
        return found

    # -- one pod ------------------------------------------------------------------------------------------------------

    def strategy(self, queued: QueuedPod, happened: InFlightEvent) -> Strategy:
        """How an event requeues a pod that plugins rejected."""
        event = happened.event
        if event.is_wildcard:
            another = happened.new is not None and not _is(happened.new, queued.pod)
            return Strategy.SKIP if another else Strategy.AFTER_BACKOFF
        interest = self.interest(event)
        question = interest.question(queued.profile, sorted(queued.rejectors), queued.pending_plugins)
        return self._ask(question, queued.pod, happened, interest.label)

    def strategy_after(
        self, queued: QueuedPod, events: Iterable[InFlightEvent]
    ) -> tuple[Strategy, InFlightEvent | None]:
        """How the events during its attempt requeue a pod, and the one that decides so."""
        found: tuple[Strategy, InFlightEvent | None] = Strategy.SKIP, None
        verbose = _log.v(5)
        for happened in events:
            if verbose.enabled:
                verbose.info("Checking event for in-flight pod", pod=queued.pod, event=happened.event.label)
            strategy = self.strategy(queued, happened)
            if strategy is Strategy.IMMEDIATELY:
                return strategy, happened
            if strategy is Strategy.AFTER_BACKOFF:
                if not queued.pending_plugins:
                    return strategy, happened
                if found[1] is None:
                    found = strategy, happened
        return found

    def _ask(self, question: HintQuestion, pod: PodInfo, happened: InFlightEvent, label: str) -> Strategy:
        found = Strategy.SKIP
        for listener in question.listeners:
            if self._hint(listener, pod, happened, label) is Hint.SKIP:
                continue
            if listener.plugin in question.pending_plugins:
                return Strategy.IMMEDIATELY
            if not question.pending_plugins:
                return Strategy.AFTER_BACKOFF
            found = Strategy.AFTER_BACKOFF
        return found

    def _hint(self, listener: Listener, pod: PodInfo, happened: InFlightEvent, label: str) -> Hint:
        function = listener.registered.hint
        started = self._metrics.now()
        hint: Hint | Raised = Hint.QUEUE
        if function is not None:
            hint = call(function, pod, happened.old, happened.new, check=None, failed=Raised)
        if not isinstance(hint, Raised):
            self._metrics.hinted(listener.plugin, label, QUEUE_SKIP if hint is Hint.SKIP else QUEUE, started)
            return hint
        self._metrics.hinted(listener.plugin, label, ERROR, started)
        # Parity: a hint that fails counts as Queue.
        if (listener.plugin, label) not in self._reported:
            self._reported.add((listener.plugin, label))
            self._observer.problem(
                f'the hint of plugin "{listener.plugin}" failed on event {label} for pod {pod.key}, '
                f"pods that it fails on are tried again: {typed(hint.cause)}"
            )
        return Hint.QUEUE

    # -- many pods ----------------------------------------------------------------------------------------------------

    def helped(
        self, groups: Iterable[Group], happened: InFlightEvent, pre_check: Callable[[PodInfo], bool] | None
    ) -> Iterator[tuple[QueuedPod, Strategy]]:
        """The pods of some groups that an event (no wildcard) may help."""
        interest = self.interest(happened.event)
        own_key = _key_of(happened)
        for group in groups:
            rejection = group.rejection
            if rejection.gating_plugin and rejection.gating_plugin not in interest.plugins:
                continue
            rejectors = sorted(rejection.unschedulable_plugins | rejection.pending_plugins)
            question = interest.question(rejection.profile, rejectors, rejection.pending_plugins)
            # The log has a line for each pod that is not helped.
            if not _log.v(5).enabled and not question.concerns_all(happened):
                yield from self._helped_that_name(question, group, happened, pre_check)
                continue
            # A copy, as hints may activate pods.
            for pods in list(group.by_shape.values()):
                yield from self._helped_of_shape(question, pods, own_key, happened, pre_check)

    def _helped_that_name(
        self, question: HintQuestion, group: Group, happened: InFlightEvent, pre_check: Callable[[PodInfo], bool] | None
    ) -> Iterator[tuple[QueuedPod, Strategy]]:
        """The pods of a group that name the changed object, and that the event may help."""
        label = self.interest(happened.event).label
        name = _name_of(happened.old if happened.new is None else happened.new)
        pods: dict[str, QueuedPod] = {}
        for named in question.named:
            pods.update(group.naming(named, name))
        # Others are not asked: they name another object, and every hint would say Skip.
        for queued in pods.values():
            if pre_check is not None and not pre_check(queued.pod):
                continue
            strategy = self._ask(question, queued.pod, happened, label)
            if strategy is not Strategy.SKIP:
                yield queued, strategy

    def _helped_of_shape(
        self,
        question: HintQuestion,
        pods: Mapping[str, QueuedPod],
        own_key: str | None,
        happened: InFlightEvent,
        pre_check: Callable[[PodInfo], bool] | None,
    ) -> Iterator[tuple[QueuedPod, Strategy]]:
        label = self.interest(happened.event).label
        verbose = _log.v(5)
        others: Strategy | None = None
        if question.by_shape:
            # If the changed object is one of the pods, its hint is asked separately.
            sample = next((queued for key, queued in pods.items() if key != own_key), None)
            others = Strategy.SKIP if sample is None else self._ask(question, sample.pod, happened, label)
            if others is Strategy.SKIP:
                if verbose.enabled:
                    self.log_skipped((queued for key, queued in pods.items() if key != own_key), label, pre_check)
                own = pods.get(own_key) if own_key is not None else None
                pods = {} if own is None else {own.pod.key: own}
        for key, queued in list(pods.items()):
            if pre_check is not None and not pre_check(queued.pod):
                continue
            strategy = others
            if strategy is None or key == own_key:
                strategy = self._ask(question, queued.pod, happened, label)
            if strategy is not Strategy.SKIP:
                yield queued, strategy
            elif verbose.enabled:
                self.log_skipped((queued,), label)

    def log_skipped(
        self, pods: Iterable[QueuedPod], label: str, pre_check: Callable[[PodInfo], bool] | None = None
    ) -> None:
        """Log what the event does not help, if it passes `pre_check`."""
        what = "pod" if self._version < V1_37 else "entity"
        for queued in dict.fromkeys(queued.entry or queued for queued in pods):
            if pre_check is None or pre_check(queued.pod):
                _log.v(5).info(
                    f"Event is not making {what} schedulable", **log_keys(queued, self._version), event=label
                )


def _registered(framework: Framework) -> dict[str, list[ClusterEventWithHint]]:
    found = dict(framework.registered_events())
    if framework.handle.extenders():
        found[EXTENDER] = with_implied(EVERYTHING, framework.handle.features.emulated_version)
    return found


def _is(obj: Any, pod: PodInfo) -> bool:
    """Whether a changed object is a version of the pod: by UID, or by name if the object has none."""
    return isinstance(obj, Pod) and uid_of(obj) == pod.uid


def _name_of(obj: Any) -> str:
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"


def _key_of(happened: InFlightEvent) -> str | None:
    """`namespace/name` of the changed pod; None if the changed object is no pod."""
    changed = happened.old if happened.new is None else happened.new
    return _name_of(changed) if isinstance(changed, Pod) else None
