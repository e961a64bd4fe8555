"""The test cluster: an engine in simulated time with a manual clock."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from stowplan.api.decode import to_dict
from stowplan.api.documents import Documents
from stowplan.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.api.resources import resource_of
from stowplan.api.types import Event, Namespace, ObjectMeta, Pod
from stowplan.config import load_config
from stowplan.config.features import with_chosen
from stowplan.engine.engine import Engine
from stowplan.engine.inputs import Served, Stopped
from stowplan.engine.watched_kinds import watched_kinds
from stowplan.extenders.asking import asking, extenders_without_binders, posting_to
from stowplan.extenders.calls import Calls
from stowplan.framework.requests import Create, Delete, Patch
from stowplan.guarding.guarded_plugins import guarded_registry
from stowplan.guarding.hang_guard import PLUGIN_TIMEOUT, CallGuard
from stowplan.klog import get_logger
from stowplan.live_testing.events import Events
from stowplan.live_testing.kinds import Definition, Kinds
from stowplan.simulate.driver import VirtualTime
from stowplan.simulate.latency import NO_LATENCY
from stowplan.simulate.object_store import ObjectStore
from stowplan.simulate.stopped_clock import StoppedClock
from stowplan.simulate.virtual_api import VirtualApi

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stowplan.engine.decision.algorithm import Decision
    from stowplan.engine.decision.attempt import Attempt, Failure
    from stowplan.engine.effects import Tell
    from stowplan.framework.interface import Plugin
    from stowplan.inspection.records import StoryRecord
    from stowplan.queue.queued_pod import QueuedPod
    from stowplan.simulate.latency import Latency

#: Seconds since the epoch at which time begins.
START = 1_800_000_000.0
#: Attempts of one pod at one moment after which it will never come to rest.
MAX_ATTEMPTS = 1_000
#: Namespaces that every cluster has.
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAME_LABEL = "kubernetes.io/metadata.name"

_log = get_logger(__name__)


class RestlessError(RuntimeError):
    """The scheduler does not settle although no time passes."""


class LiveCluster:
    """The cluster, the scheduler, and what a test does to them. Objects are dicts, kinds are named as in URLs."""

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | str | os.PathLike[str] | None,
        plugins: Sequence[type[Plugin]],
        seed: int,
        latency: Latency,
        call_extender: Callable[[str, Mapping[str, Any]], Any] | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        plugin_timeout: float = PLUGIN_TIMEOUT,
    ) -> None:
        registry = guarded_registry(plugins, CallGuard(seconds=plugin_timeout))
        self._attempts = _Attempts()
        features = with_chosen(feature_gates or {})
        asked_for = [plugin.name for plugin in plugins]
        configuration = load_config(config, plugins=registry.declarations, features=features, asked_for=asked_for)
        self.engine = Engine(
            configuration,
            registry=registry,
            now=START,
            meter=StoppedClock(),
            random=Random(seed),
            features=features,
            api=VirtualApi(),
            listener=self._attempts,
            extenders=extenders_without_binders(configuration),
        )
        watched = watched_kinds(self.engine.frameworks.values(), report=_log.warning)
        self._kinds = Kinds(watched)
        self._store = ObjectStore()
        self._events = Events()
        self._time = VirtualTime(
            self.engine,
            self._store,
            start=START,
            latency=latency,
            kinds=[one.kind for one in watched],
            tell=self._tell_users,
            ask=None
            if call_extender is None
            else asking(Calls(configuration, Documents(())), posting_to(call_extender)),
        )
        self._attempts.begin(self._time)
        for name in _NAMESPACES:
            self._time.write(Create(obj=Namespace(metadata=ObjectMeta(name=name, labels={_NAME_LABEL: name}))))

    def _begin(self, objects: Sequence[Mapping[str, Any]]) -> None:
        for obj in objects:
            self._put(obj)
        if self._kinds.off:
            self._time.submit(Served(self._kinds.off, served=False))
        self.settle()

    def _end(self) -> None:
        self._time.close()
        for framework in self.engine.frameworks.values():
            for problem in framework.close():
                _log.warning(problem)

    def plugin(self, name: str, profile: str = DEFAULT_SCHEDULER_NAME) -> Plugin:
        """The instance of a plugin that a profile works with."""
        return self.engine.frameworks[profile].plugins[name]

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self._time.now

    # -- doing --------------------------------------------------------------------------------------------------------

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects of any kind, in this order; definitions of custom resources as well."""
        for obj in objects:
            off = self._kinds.off
            self._put(obj)
            if off != self._kinds.off:
                self._time.submit(Served(off - self._kinds.off, served=True))
            self.settle()

    def _put(self, obj: Mapping[str, Any]) -> None:
        made = self._time.write(Create(obj=self._kinds.decoded(obj)))
        if isinstance(made, Definition):
            self._kinds.define(made)

    def patch(
        self, plural: str, name: str, patch: Mapping[str, Any], *, namespace: str = "default", subresource: str = ""
    ) -> None:
        """Merge a patch into an object; into its status only with `subresource="status"`."""
        kind = self._kinds.named(plural)
        body = dict(patch)
        request = Patch(
            kind=kind, namespace=_scoped(kind, namespace), name=name, body=body, type_="merge", subresource=subresource
        )
        self._time.write(request)
        self.settle()

    def delete(self, plural: str, name: str, *, namespace: str = "default") -> None:
        """Delete an object at once, without grace."""
        kind = self._kinds.named(plural)
        self._time.write(Delete(kind=kind, namespace=_scoped(kind, namespace), name=name), grace=0)
        self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass: timeouts come, backoffs end."""
        self._time.advance(seconds)
        self._attempts.check()

    def settle(self) -> None:
        """Let everything happen that needs no time, such as what follows from `allow` and `reject` of a waiting pod."""
        self._time.run(until=self._time.now)
        self._attempts.check()

    # -- looking ------------------------------------------------------------------------------------------------------

    def get(self, plural: str, name: str, *, namespace: str = "default") -> dict[str, Any]:
        """An object, with the fields that the scheduler reads; NotFound if there is none."""
        kind = self._kinds.named(plural)
        return to_dict(self._store.get(kind, _scoped(kind, namespace), name))

    def node_of(self, pod: str, *, namespace: str = "default") -> str:
        """Where a pod is; "" while it is nowhere."""
        return self._store.get(Pod, namespace, pod).spec.node_name

    def why_pending(self, pod: str, *, namespace: str = "default") -> str:
        """What its PodScheduled condition says; "" if it says nothing."""
        conditions = self._store.get(Pod, namespace, pod).status.conditions
        return next((one.message for one in conditions if one.type == "PodScheduled"), "")

    def story(self, pod: str, *, namespace: str = "default") -> StoryRecord:
        """What happened to a pod and why, step by step; a pod that is gone has its story, too."""
        found = self.engine.stories.of(f"{namespace}/{pod}")
        if found is None:
            raise LookupError(f'pod "{namespace}/{pod}" has no story')
        return found.record()

    def events(self, about: str = "", reason: str = "") -> list[dict[str, Any]]:
        """The Events, in order: all of them, or those about objects of that name, or with that reason."""
        found = (
            event
            for event in self._store.list(Event)
            if about in ("", event.regarding.name) and reason in ("", event.reason)
        )
        return [to_dict(event) for event in sorted(found, key=lambda event: event.event_time or "")]

    def _tell_users(self, tell: Tell) -> None:
        for request in self._events.told(tell, self._time.now):
            self._time.write(request)


def _scoped(kind: Any, namespace: str) -> str:
    return namespace if resource_of(kind).namespaced else ""


class _Attempts:
    """Ends a run in which a pod is tried again and again at one moment."""

    def __init__(self) -> None:
        self._at = START
        self._counts: Counter[str] = Counter()
        self._restless = ""

    def begin(self, time: VirtualTime) -> None:
        self._time = time

    def check(self) -> None:
        if self._restless:
            raise RestlessError(self._restless)

    def decided(self, decision: Decision) -> None:
        if self._at != self._time.now:
            self._at = self._time.now
            self._counts.clear()
        key = decision.pod.key
        self._counts[key] += 1
        if self._counts[key] == MAX_ATTEMPTS:
            self._restless = f"pod {key} was tried {MAX_ATTEMPTS} times at one moment: something wakes it at once"
            self._time.at(self._at, Stopped())

    def failed(self, queued: QueuedPod, failure: Failure) -> None:
        """Nothing: attempts are counted when they are decided."""

    def bound(self, attempt: Attempt) -> None:
        """Nothing, either."""


@contextmanager
def live_cluster(
    *objects: Mapping[str, Any],
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    plugins: Sequence[type[Plugin]] = (),
    seed: int = 1,
    latency: Latency = NO_LATENCY,
    call_extender: Callable[[str, Mapping[str, Any]], Any] | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    plugin_timeout: float = PLUGIN_TIMEOUT,
) -> Iterator[LiveCluster]:
    """A cluster with these objects and a scheduler that is ready.

    `seed` decides wherever chance does; `latency` says how long requests, news and the ends of evicted pods take, if
    not nothing. `call_extender` answers for the extenders of `config`: it gets the URL of a call and its body, and
    returns the answer, as JSON would hold them; nobody is asked to bind. `feature_gates` are those that differ from the
    defaults. `plugin_timeout`: seconds after which a call of a plugin that hangs is broken off; 0: never.
    """
    cluster = LiveCluster(
        config=config,
        plugins=plugins,
        seed=seed,
        latency=latency,
        call_extender=call_extender,
        feature_gates=feature_gates,
        plugin_timeout=plugin_timeout,
    )
    try:
        cluster._begin(objects)
        yield cluster
    finally:
        cluster._end()
