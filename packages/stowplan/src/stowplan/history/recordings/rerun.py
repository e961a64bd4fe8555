"""Reschedule a recording with another configuration: same arrivals and departures.

Changes by others are taken from the recording: pods and nodes that were added, changed and deleted, volumes, budgets.
Changes by the scheduler are skipped, because this one makes its own: binds, statuses, evictions. The engine runs in
simulated time, on an object store (`simulate`); its writes take no time.

A recording of our own scheduler contains when each pod was tried, so pods are tried at these times, and whenever that
scheduler had been idle for a second. With the same configuration and random state the decisions are the same, which a
test verifies. A recording that only followed a cluster has no attempts: there, pods are tried as soon as possible.

Pods are deleted when they were deleted in the recording, however long they have been running.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random
from typing import Any

from msgspec import field
from msgspec.structs import replace

from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.history.recordings.recording_files import entries_of, files_of_run, header_of
from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod
from stowplan.kube.config import load_config
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import ManualTime
from stowplan.kube.timing.waits import WaitingPods, Waits
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.dumped import objects_of, set_chance
from stowplan.scheduler.engine.effects import Effect
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.input_log.recording import Header
from stowplan.scheduler.engine.inputs import Changes, Input, Schedule, Served, Started
from stowplan.scheduler.engine.schedule_one import Attempt, Failure
from stowplan.scheduler.framework.requests import Create, Delete, Request, Update
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan.scheduler.queue.queued_pod import QueuedPod

#: Seconds without a recorded attempt after which pods are tried as soon as possible.
IDLE_SECONDS = 1.0
#: Grace period of a deletion whose end is in the recording.
_UNTIL_IT_GOES = 10**9


class PodHistory(PlainStruct, kw_only=True):
    """A pod that had to be scheduled, in the recording and in this run."""

    key: str
    came: float
    #: "" if it was not placed.
    node_then: str = ""
    node_now: str = ""


class RerunResult(PlainStruct, kw_only=True):
    """The result for all pods."""

    #: What decided in this run.
    version: KubernetesVersion
    began: float
    ended: float = 0.0
    #: In the recording, and in this run.
    waits_then: Waits = field(default_factory=Waits)
    waits_now: Waits = field(default_factory=Waits)
    #: By UID, in order of arrival.
    pods: dict[str, PodHistory] = field(default_factory=dict)
    #: Number of recorded changes that the store rejected, because this run is in another state.
    refused: int = 0

    @property
    def placed_differently(self) -> list[PodHistory]:
        return [pod for pod in self.pods.values() if pod.node_then != pod.node_now]


def rerun(
    path: str, registry: Registry, config: str | None, version: KubernetesVersion | None = None, *, seed: int = 0
) -> RerunResult:
    """Reschedule a run with all its files; None: with the recorded configuration, as the recorded version.

    `seed`: chooses among equally good nodes; 0: the recorded random state. Raises RecordingError, ConfigError.
    """
    files = files_of_run(path)
    run = Rerun(header_of(files[0]).as_version(version, registry.declarations), registry, config, seed=seed)
    for entry in entries_of(files):
        run.take(entry.now, entry.input)
    return run.end()


class _PacedEngine:
    """The engine as seen by its driver, which only tries pods at the recorded times."""

    def __init__(self, engine: Engine, *, paced: bool) -> None:
        self._engine = engine
        self._paced = paced
        #: Number of attempts that may be made now.
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


class Rerun:
    """One run over a recording, step by step."""

    def __init__(self, header: Header, registry: Registry, config: str | None, *, seed: int = 0) -> None:
        #: The waits in the recording, and in this run.
        self.waiting_then, self.waiting_now = WaitingPods(), WaitingPods()
        features = header.features
        source = header.configuration if config is None else config
        configuration = load_config(source, plugins=registry.declarations, features=features)
        chance = Random(seed) if seed else None
        if not seed and header.chance is not None:
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
        self._time = VirtualTime(self._paced, ObjectStore(), agenda=Agenda(header.now))
        self._found = RerunResult(version=features.emulated_version, began=header.now)
        #: When a pod was last tried; never idle before the scheduler started.
        self._tried_at = header.now if header.dump is not None else inf
        if header.dump is not None:
            for _, obj in objects_of(header.dump):
                for request in self._requests(Change(None, obj), header.now):
                    self._write(request)

    @property
    def state(self) -> ClusterState:
        """The current state; read-only."""
        return self._engine.state

    # -- notifications of the engine -----------------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """An attempt has ended."""

    def failed(self, queued: QueuedPod, failure: Failure) -> None:
        """A pod returns to the queue."""

    def bound(self, attempt: Attempt) -> None:
        pod = self._found.pods.get(attempt.pod.uid)
        if pod is not None:
            pod.node_now = attempt.node_name
            self.waiting_now.placed(attempt.pod.uid, self._time.now)

    # -- recorded inputs -----------------------------------------------------------------------------------------------

    def take(self, now: float, input_: Input) -> None:
        """Apply a recorded input at its time."""
        paced = self._paced
        paced.is_idle = type(input_) is not Schedule and now - self._tried_at > IDLE_SECONDS
        self._time.advance(max(0.0, now - self._time.now))
        if isinstance(input_, Changes):
            for change in input_.changes:
                for request in self._requests(change, now):
                    self._write(request)
        elif isinstance(input_, Schedule):
            paced.turns, self._tried_at = 1, now
        elif isinstance(input_, Started):
            self._tried_at = now
        elif isinstance(input_, Served):
            self._time.submit(input_)
        self._time.advance(0.0)
        paced.turns = 0

    def end(self) -> RerunResult:
        self._paced.is_idle = True
        self._time.advance(0.0)
        found, now = self._found, self._time.now
        found.ended, found.waits_then, found.waits_now = now, self.waiting_then.until(now), self.waiting_now.until(now)
        self._time.close()
        return found

    def _write(self, request: Request, grace: int = 0) -> None:
        try:
            self._time.write(request, grace=grace)
        except ApiError:
            # This run is in another state.
            self._found.refused += 1

    def _requests(self, change: Change[Any], now: float) -> list[Request]:
        """The requests of other clients."""
        old, new = change.old, change.new
        if new is None:
            assert old is not None, "something has changed"
            metadata = old.metadata
            self.waiting_then.gone(metadata.uid, now)
            self.waiting_now.gone(metadata.uid, now)
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
                self.waiting_then.arrived(uid, now)
                self.waiting_now.arrived(uid, now)
            return [Create(obj=new)]
        history = self._found.pods.get(uid)
        if history is None:
            return [Update(obj=_any_version(new))]
        if new.spec.node_name and not history.node_then:
            history.node_then = new.spec.node_name
            self.waiting_then.placed(uid, now)
        return self._updated(old, new)

    def _updated(self, old: Pod, new: Pod) -> list[Request]:
        """The new version, without what a scheduler writes to a pod."""
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
