"""Decide a recording again with another configuration: same arrivals and departures.

What others did is taken from the recording: pods and nodes that came, changed and went, volumes, budgets. What the
scheduler did is left out, as this one does that itself: binds, statuses, evictions. The engine runs in simulated time,
on an object store (`simulate`); what it writes there takes no time.

A recording of our own scheduler says when each pod was tried, so a pod is tried at these moments, and whenever that
scheduler had been idle for a second. With the same configuration and chance the same decisions come out; a test has
that. One that only followed a cluster does not say so: there, pods are tried as soon as they can be.

Pods go when they went then, however long they have run now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.api.api_errors import ApiError
from stowplan.api.changes import Change
from stowplan.api.types import Pod
from stowplan.config import DEFAULT_FEATURES, load_config
from stowplan.engine.dumped import objects_of, set_chance
from stowplan.engine.engine import Engine
from stowplan.engine.inputs import Changes, Schedule, Served, Started
from stowplan.engine.settings import EngineSettings
from stowplan.framework.requests import Create, Delete, Update
from stowplan.recordings.files import entries_of, files_of_run, header_of
from stowplan.simulate.driver import VirtualTime
from stowplan.simulate.object_store import ObjectStore
from stowplan.simulate.virtual_api import VirtualApi
from stowplan.timing.manual_time import ManualTime
from stowplan.timing.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.cluster.state import ClusterState
    from stowplan.config import Configuration
    from stowplan.engine.decision.algorithm import Decision
    from stowplan.engine.decision.attempt import Attempt, Failure
    from stowplan.engine.effects import Effect
    from stowplan.engine.input_log.recording import Header
    from stowplan.engine.inputs import Input
    from stowplan.framework.requests import Request
    from stowplan.framework.runtime.registry import Registry
    from stowplan.queue.queued_pod import QueuedPod

#: Seconds without a recorded attempt after which pods are tried as soon as they can be.
IDLE_SECONDS = 1.0
#: Grace of a deletion whose end the recording tells of.
_UNTIL_IT_GOES = 10**9


@dataclass(slots=True, kw_only=True)
class PodHistory:
    """A pod that had to be placed, then and now."""

    key: str
    came: float
    #: "" where it was placed nowhere.
    node_then: str = ""
    node_now: str = ""
    bound_then: float | None = None
    bound_now: float | None = None
    went: float | None = None


@dataclass(kw_only=True)
class Anew:
    """What became of everybody."""

    began: float
    ended: float = 0.0
    #: By UID, in the order in which they came.
    pods: dict[str, PodHistory] = field(default_factory=dict)
    #: What the store refused of what others did then, as it did not come to that now.
    refused: int = 0

    @property
    def placed_otherwise(self) -> list[PodHistory]:
        return [pod for pod in self.pods.values() if pod.node_then != pod.node_now]


def decide_anew(path: str, registry: Registry, configuration: Configuration | None) -> Anew:
    """A run with all its files; None: with the recorded configuration. Raise RecordingError, ConfigError."""
    files = files_of_run(path)
    run = DecidedAnew(header_of(files[0]), registry, configuration)
    for entry in entries_of(files):
        run.take(entry.now, entry.input)
    return run.end()


class _PacedEngine:
    """The engine as its driver sees it, which tries no pod when it is not time."""

    def __init__(self, engine: Engine, *, paced: bool) -> None:
        self._engine = engine
        self._paced = paced
        #: Attempts that may be made now.
        self.turns = 0
        self.is_idle = False
        self.attach = engine.attach
        self.run_plugin = engine.run_plugin

    @property
    def wants_turn(self) -> bool:
        return (not self._paced or self.is_idle or self.turns > 0) and self._engine.wants_turn

    def step(self, input_: Input, now: float) -> Sequence[Effect]:
        if type(input_) is Schedule:
            self.turns -= 1
        return self._engine.step(input_, now)


class DecidedAnew:
    """One run over a recording, step by step."""

    def __init__(self, header: Header, registry: Registry, configuration: Configuration | None) -> None:
        self.waits = Waits()
        features = DEFAULT_FEATURES.with_gates(header.gates)
        if configuration is None:
            configuration = load_config(header.configuration, plugins=registry.declarations, features=features)
        chance = None
        if header.chance is not None:
            chance = Random()
            set_chance(chance, header.chance)
        self._engine = Engine(
            configuration,
            registry=registry,
            now=header.now,
            meter=ManualTime(),
            random=chance,
            features=features,
            settings=EngineSettings(max_in_unschedulable=header.max_in_unschedulable, stories=False, events=False),
            api=VirtualApi(),
            listener=self,
        )
        self._paced = _PacedEngine(self._engine, paced=header.decides)
        self._time = VirtualTime(self._paced, ObjectStore(), start=header.now)
        self._found = Anew(began=header.now)
        #: When a pod was tried last; never idle before the scheduler had begun.
        self._tried_at = header.now if header.dump is not None else inf
        #: Whether the first list of pods has come.
        self._listed = False
        if header.dump is not None:
            for _, obj in objects_of(header.dump):
                for request in self._requests(Change(None, obj), header.now):
                    self._write(request)
            self._listed = True

    @property
    def state(self) -> ClusterState:
        """As it is now; to be read only."""
        return self._engine.state

    # -- what the engine tells ----------------------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """An attempt is over."""

    def failed(self, queued: QueuedPod, failure: Failure) -> None:
        """A pod returns to the queue."""

    def bound(self, attempt: Attempt) -> None:
        pod = self._found.pods.get(attempt.pod.uid)
        if pod is not None:
            pod.node_now, pod.bound_now = attempt.node_name, self._time.now
            self.waits.add(pod.bound_now - pod.came)

    # -- what was recorded --------------------------------------------------------------------------------------------

    def take(self, now: float, input_: Input) -> None:
        """Apply a recorded input at its time."""
        paced = self._paced
        paced.is_idle = type(input_) is not Schedule and now - self._tried_at > IDLE_SECONDS
        self._time.advance(max(0.0, now - self._time.now))
        if isinstance(input_, Changes):
            for change in input_.changes:
                for request in self._requests(change, now):
                    self._write(request)
            if input_.kind is Pod:
                self._listed = True
        elif isinstance(input_, Schedule):
            paced.turns, self._tried_at = 1, now
        elif isinstance(input_, Started):
            self._tried_at = now
        elif isinstance(input_, Served):
            self._time.submit(input_)
        self._time.advance(0.0)
        paced.turns = 0

    def end(self) -> Anew:
        self._paced.is_idle = True
        self._time.advance(0.0)
        self._found.ended = self._time.now
        self._time.close()
        return self._found

    def _write(self, request: Request, grace: int = 0) -> None:
        try:
            self._time.write(request, grace=grace)
        except ApiError:
            # It has come to something else.
            self._found.refused += 1

    def _requests(self, change: Change[Any], now: float) -> list[Request]:
        """What others did."""
        old, new = change.old, change.new
        if new is None:
            assert old is not None, "something has changed"
            metadata = old.metadata
            gone = self._found.pods.get(metadata.uid)
            if gone is not None:
                gone.went = now
            return [Delete(kind=type(old), namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)]
        if isinstance(new, Pod) and self._is_ours(new):
            return self._of_our_pod(old, new, now)
        return [Create(obj=new) if old is None else Update(obj=_any_version(new))]

    def _is_ours(self, pod: Pod) -> bool:
        return (pod.spec.scheduler_name or "default-scheduler") in self._engine.frameworks

    def _of_our_pod(self, old: Pod | None, new: Pod, now: float) -> list[Request]:
        uid = new.metadata.uid
        if old is None:
            if not new.spec.node_name:
                key = f"{new.metadata.namespace}/{new.metadata.name}"
                self._found.pods[uid] = PodHistory(key=key, came=now)
            return [Create(obj=new)]
        history = self._found.pods.get(uid)
        if history is None:
            return [Update(obj=_any_version(new))]
        if new.spec.node_name and not history.node_then:
            history.node_then, history.bound_then = new.spec.node_name, now
        return self._updated(old, new)

    def _updated(self, old: Pod, new: Pod) -> list[Request]:
        """The new version, but for what a scheduler says of a pod."""
        metadata = new.metadata
        try:
            here = self._time.store.get(Pod, metadata.namespace, metadata.name)
        except ApiError:
            return []
        wanted = replace(
            _any_version(new),
            spec=replace(new.spec, node_name=here.spec.node_name),
            status=replace(
                new.status,
                conditions=here.status.conditions,
                nominated_node_name=here.status.nominated_node_name,
            ),
        )
        if metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            going = Delete(kind=Pod, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
            self._write(going, grace=_UNTIL_IT_GOES)
        return [Update(obj=wanted)]


def _any_version(obj: Any) -> Any:
    return replace(obj, metadata=replace(obj.metadata, resource_version=""))


def percentiles(values: Sequence[float], shares: Sequence[int] = (50, 90, 99)) -> dict[str, float]:
    """p50 and on; empty without values."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {f"p{share}": ordered[round(last * share / 100)] for share in shares} if ordered else {}


def waits(found: Anew, when: Callable[[PodHistory], float | None]) -> list[float]:
    """Seconds from when pods came until they were bound."""
    return [bound - pod.came for pod in found.pods.values() if (bound := when(pod)) is not None]
