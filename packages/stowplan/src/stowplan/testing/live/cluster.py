"""The test cluster: an engine in simulated time with a manual clock."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec

from stowplan.drivers.hang_guard.guarded_plugins import guarded_registry
from stowplan.drivers.hang_guard.hang_guard import PLUGIN_TIMEOUT, CallGuard
from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.latency import NO_LATENCY, Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.stopped_clock import StoppedClock
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.custom_objects import CustomObject, custom_resource
from stowplan.kube.api.decode import (
    KINDS,
    DecodeError,
    UnknownKindError,
    convert,
    decode_object,
    to_dict,
    validate_object,
)
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.types import Event, Namespace, ObjectMeta, Pod
from stowplan.kube.config import load_config
from stowplan.kube.config.features import with_chosen
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import version_or_default
from stowplan.net.client.events.event_forms import EventsV1, namespace_of_event
from stowplan.net.client.events.event_series import EventKey, EventSeries, RecordedEvent
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.effects import EmitEvent
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.inputs import Served, Stopped
from stowplan.scheduler.engine.schedule_one import Attempt, Failure
from stowplan.scheduler.engine.watched_kind import WatchedKind
from stowplan.scheduler.engine.watched_kinds import watched_kinds
from stowplan.scheduler.extenders.calls import Calls, asking, extenders_without_binders, posting_to
from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.requests import Create, Delete, Patch, Request
from stowplan.scheduler.inspection.records import StoryRecord
from stowplan.scheduler.queue.queued_pod import QueuedPod


class Events:
    """Stores recorded Events, with series."""

    def __init__(self) -> None:
        self._series = EventSeries()
        self._form = EventsV1()
        self._nanoseconds = 0

    def record(self, event: EmitEvent, now: float) -> list[Request]:
        """The request that stores a recorded Event."""
        over = [self._again(event) for event in self._series.finish(now)]
        # Used in names, so it must be unique.
        self._nanoseconds = max(int(now * 1e9), self._nanoseconds + 1)
        instance = f"{event.profile}-localhost"
        key = EventKey(event.type_, event.action, event.reason, event.profile, instance, event.regarding, event.related)
        due = self._series.observe(key, event.note, time=now, nanoseconds=self._nanoseconds)
        if due is None:
            return over
        return [*over, self._again(due) if due.is_series else self._new(due)]

    def _new(self, event: RecordedEvent) -> Request:
        event.name = f"{event.key.regarding.name}.{event.nanoseconds:x}"
        return Create(obj=self._form.create(event, series=False))

    def _again(self, event: RecordedEvent) -> Request:
        """How often it has occurred."""
        if event.final:
            self._series.forget(event)
        namespace = namespace_of_event(event.key.regarding)
        return Patch(kind=Event, namespace=namespace, name=event.name, body=self._form.patch(event), type_="merge")


#: Simulated time starts here, in seconds since the epoch.
START = 1_800_000_000.0
#: Maximum number of attempts of one pod without time passing, after which the test fails.
MAX_ATTEMPTS = 1_000
#: The initial namespaces of a cluster.
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAME_LABEL = "kubernetes.io/metadata.name"

_log = get_logger(__name__)


class NeverIdleError(RuntimeError):
    """The scheduler keeps working without time passing: an event that a pod's own attempt causes wakes it again."""


class LiveCluster:
    """An in-memory cluster with a running scheduler. Objects are dicts; kinds are named by their plural, as in URLs.

    Examples:
        >>> with live_cluster(a_node("n1").obj()) as live:
        ...     live.create(a_pod("web-0").requests(cpu="8").obj())
        ...     live.patch("nodes", "n1", {"status": {"allocatable": {"cpu": "16"}}}, subresource="status")
        ...     live.advance(2)
        ...     live.node_of("web-0")
        'n1'
    """

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | str | os.PathLike[str] | None,
        plugins: Sequence[type[Plugin]],
        seed: int,
        latency: Latency,
        call_extender: Callable[[str, Mapping[str, Any]], Any] | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        emulated_version: str | None = None,
        plugin_timeout: float = PLUGIN_TIMEOUT,
    ) -> None:
        registry = guarded_registry(plugins, CallGuard(seconds=plugin_timeout))
        agenda = Agenda(START)
        self._attempts = _Attempts(agenda)
        features = with_chosen(feature_gates or {}, version_or_default(emulated_version))
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
            agenda=agenda,
            latency=latency,
            kinds=[one.kind for one in watched],
            on_event=self._record_event,
            ask=None
            if call_extender is None
            else asking(Calls(configuration, Documents(())), posting_to(call_extender)),
        )
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
        """The plugin instance of a profile."""
        return self.engine.frameworks[profile].plugins[name]

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self._time.now

    # -- actions -------------------------------------------------------------------------------------------------------

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects of any kind in this order, including CustomResourceDefinitions."""
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
        """Apply a merge patch to an object. To patch its status, pass `subresource="status"`."""
        kind = self._kinds.named(plural)
        body = dict(patch)
        request = Patch(
            kind=kind, namespace=_scoped(kind, namespace), name=name, body=body, type_="merge", subresource=subresource
        )
        self._time.write(request)
        self.settle()

    def delete(self, plural: str, name: str, *, namespace: str = "default") -> None:
        """Delete an object immediately, without a grace period."""
        kind = self._kinds.named(plural)
        self._time.write(Delete(kind=kind, namespace=_scoped(kind, namespace), name=name), grace=0)
        self.settle()

    def advance(self, seconds: float) -> None:
        """Advance the time, so that timeouts expire and backoffs end."""
        self._time.advance(seconds)
        self._attempts.check()

    def settle(self) -> None:
        """Process everything that takes no time, for example after calling `allow` or `reject` on a waiting pod."""
        self._time.run(until=self._time.now)
        self._attempts.check()

    # -- queries -------------------------------------------------------------------------------------------------------

    def get(self, plural: str, name: str, *, namespace: str = "default") -> dict[str, Any]:
        """An object, with the fields that the scheduler reads; raises NotFound."""
        kind = self._kinds.named(plural)
        return to_dict(self._store.get(kind, _scoped(kind, namespace), name))

    def node_of(self, pod: str, *, namespace: str = "default") -> str:
        """The pod's node; "" if it has none."""
        return self._store.get(Pod, namespace, pod).spec.node_name

    def why_pending(self, pod: str, *, namespace: str = "default") -> str:
        """The message of its PodScheduled condition; "" if there is none."""
        conditions = self._store.get(Pod, namespace, pod).status.conditions
        return next((one.message for one in conditions if one.type == "PodScheduled"), "")

    def story(self, pod: str, *, namespace: str = "default") -> StoryRecord:
        """What happened to a pod and why, step by step; also for deleted pods."""
        found = self.engine.stories.of(f"{namespace}/{pod}")
        if found is None:
            raise LookupError(f'pod "{namespace}/{pod}" has no story')
        return found.record()

    def events(self, about: str = "", reason: str = "") -> list[dict[str, Any]]:
        """Recorded Events in order, optionally only those about objects of this name, or with this reason."""
        found = (
            event
            for event in self._store.list(Event)
            if about in ("", event.regarding.name) and reason in ("", event.reason)
        )
        return [to_dict(event) for event in sorted(found, key=lambda event: event.event_time or "")]

    def _record_event(self, event: EmitEvent) -> None:
        for request in self._events.record(event, self._time.now):
            self._time.write(request)


def _scoped(kind: Any, namespace: str) -> str:
    return namespace if resource_of(kind).namespaced else ""


class _Attempts:
    """Stops a run in which a pod is tried again and again without time passing."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._at = START
        self._counts: Counter[str] = Counter()
        self._restless = ""

    def check(self) -> None:
        if self._restless:
            raise NeverIdleError(self._restless)

    def decided(self, decision: Decision) -> None:
        if self._at != self._agenda.now:
            self._at = self._agenda.now
            self._counts.clear()
        key = decision.pod.key
        self._counts[key] += 1
        if self._counts[key] == MAX_ATTEMPTS:
            self._restless = f"pod {key} was tried {MAX_ATTEMPTS} times at one moment: something wakes it at once"
            self._agenda.put(self._at, Stopped())

    def failed(self, queued: QueuedPod, failure: Failure) -> None:
        """No-op: attempts are counted when they are decided."""

    def bound(self, attempt: Attempt) -> None:
        """No-op."""


@contextmanager
def live_cluster(
    *objects: Mapping[str, Any],
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    plugins: Sequence[type[Plugin]] = (),
    seed: int = 1,
    latency: Latency = NO_LATENCY,
    call_extender: Callable[[str, Mapping[str, Any]], Any] | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    emulated_version: str | None = None,
    plugin_timeout: float = PLUGIN_TIMEOUT,
) -> Iterator[LiveCluster]:
    """Create a cluster with these objects and a running scheduler.

    * `seed`: seed of the scheduler's random source.
    * `latency`: durations of requests, watch updates and graceful pod deletions; by default all are zero.
    * `call_extender`: answers for the extenders of `config`. It gets the URL and the body of a call and returns the
      response body, both as JSON values. Extenders are never asked to bind.
    * `feature_gates`: gates that differ from their defaults.
    * `emulated_version`: the version of kube-scheduler to decide as, such as "1.36"; None: the default.
    * `plugin_timeout`: seconds after which a plugin call is interrupted; 0: never.

    Examples:
        >>> with live_cluster(a_node("n1").obj()) as live:
        ...     live.create(a_pod("web-0").requests(cpu="8").obj())
        ...     live.why_pending("web-0")[:43]
        '0/1 nodes are available: 1 Insufficient cpu'
    """
    cluster = LiveCluster(
        config=config,
        plugins=plugins,
        seed=seed,
        latency=latency,
        call_extender=call_extender,
        feature_gates=feature_gates,
        emulated_version=emulated_version,
        plugin_timeout=plugin_timeout,
    )
    try:
        cluster._begin(objects)
        yield cluster
    finally:
        cluster._end()


Definition = custom_resource("customresourcedefinitions.v1.apiextensions.k8s.io", namespaced=False)

_UNKNOWN = "the cluster has no kind {kind!r} of {api_version!r}: create its CustomResourceDefinition first"


class Kinds:
    def __init__(self, watched: Iterable[WatchedKind]) -> None:
        self._by_plural: dict[str, type[ApiStruct]] = {str(resource_of(kind)): kind for kind in KINDS.values()}
        self._by_plural[str(resource_of(Definition))] = Definition
        #: (apiVersion, kind) -> type, from definitions.
        self._defined: dict[tuple[str, str], type[ApiStruct]] = {
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): Definition
        }
        self._watched = [one for one in watched if issubclass(one.kind, CustomObject)]
        self._missing = list(self._watched)

    def named(self, plural: str) -> type[ApiStruct]:
        """The kind of a plural such as `pods`, or with its group, `licences.shop.example.com`."""
        found = self._by_plural.get(plural)
        if found is None:
            raise ValueError(f"the cluster has no {plural!r}: want a plural, with its group if it has one")
        return found

    def decoded(self, obj: Mapping[str, Any]) -> ApiStruct:
        """The typed object of a dict, independent of it; raises ValueError if it is invalid."""
        api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
        custom = self._defined.get((api_version, kind))
        try:
            if custom is not None:
                return convert(msgspec.json.decode(msgspec.json.encode(obj)), custom)
            found = decode_object(obj)
            validate_object(found)
        except UnknownKindError as e:
            raise ValueError(_UNKNOWN.format(kind=kind, api_version=api_version)) from e
        except DecodeError as e:
            raise ValueError(f'{kind} "{(obj.get("metadata") or {}).get("name", "")}": {e}') from e
        return found

    # -- definitions --------------------------------------------------------------------------------------------------

    @property
    def off(self) -> frozenset[str]:
        """Plugins that need a kind which is not served."""
        return frozenset().union(*(watched.needed_by for watched in self._missing))

    def define(self, definition: CustomObject) -> None:
        """Serve the kind of a CustomResourceDefinition."""
        spec = definition.content["spec"]
        group, names = spec["group"], spec["names"]
        for version in spec["versions"]:
            resource = f"{names['plural']}.{version['name']}.{group}"
            kind = self._type_of(resource, namespaced=spec.get("scope") != "Cluster")
            self._defined[f"{group}/{version['name']}", names["kind"]] = kind
            if version.get("storage") or len(spec["versions"]) == 1:
                self._by_plural[str(resource_of(kind))] = kind
        self._missing = [one for one in self._missing if one.kind not in self._defined.values()]

    def _type_of(self, resource: str, *, namespaced: bool) -> type[CustomObject]:
        for watched in self._watched:
            if issubclass(watched.kind, CustomObject) and watched.kind.resource == resource:
                # A plugin has declared a type for it.
                return watched.kind
        return custom_resource(resource) if namespaced else custom_resource(resource, namespaced=False)
