"""Shared by the models of a simulation: time, objects, random sources, the ledger of pods, and pods that were refused.

Pods of controllers that the API server refused, because of a quota, are tried again: as on a cluster, after a delay
that doubles with each failure, or when a pod of the same controller ends. Tries that must fail, because nothing has
become free since the last one, are only counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from math import inf
from random import Random
from typing import Any

from msgspec import field

from stowplan.drivers.virtual_time.driver import Call, VirtualTime
from stowplan.kube.api.api_errors import ApiError, Forbidden
from stowplan.kube.api.meta import ApiStruct, ObjectMeta, timestamp
from stowplan.kube.api.pod import Pod, PodCondition, PodSpec
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.key_queue import delay_after
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.requests import Create, Delete
from stowplan_cluster.reconcile.pods import PENDING, RUNNING, ContainerStatus, PodStatus
from stowplan_cluster.reconcile.pods import Pod as ReportedPod
from stowplan_lab.simulation.definition.scenario_fields import ModelsSpec
from stowplan_lab.simulation.results.ledger import Entry, Ledger, Origin, Owner


class SimulationContext:
    def __init__(self, time: VirtualTime, ledger: Ledger, state: ClusterState, models: ModelsSpec, seed: int) -> None:
        self.time = time
        self.store = time.store
        self.ledger = ledger
        #: The scheduler's cluster state; read-only.
        self.state = state
        self.models = models
        self._seed = seed
        self.start = time.now
        self.refused = RefusedPods(self)
        #: The pods of nodes that were removed.
        self.missing: dict[str, list[Entry]] = {}
        #: Outcome of Jobs -> their number.
        self.jobs: Counter[str] = Counter()
        #: Notes for the user.
        self.notes: dict[str, None] = {}
        #: What the scenario had happen: seconds since the start, and what.
        self.events: list[tuple[float, str]] = []

    @property
    def now(self) -> float:
        return self.time.now

    def chance(self, name: str) -> Random:
        """A separate random stream per purpose, so that draws of one do not affect the others."""
        return Random(f"{self._seed}/{name}")

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        self.time.at(self.now + seconds, Call(action))

    def soon(self, action: Callable[[], object]) -> None:
        """Run an action later at the same time; for use within a change."""
        self.time.at(self.now, Call(action))

    def note(self, text: str) -> None:
        self.notes[text] = None

    def put(self, obj: ApiStruct, about: str = "") -> None:
        """Create an object; one that the API server rejects is noted."""
        try:
            self.time.write(Create(obj=obj))
        except ApiError as error:
            self.note(f"{about}{error}")

    # -- pods ---------------------------------------------------------------------------------------------------------

    def arrive(self, pod: Pod, origin: Origin) -> None:
        """A pod arrives. One that the API server rejects is recorded as such, or tried again by its controller."""
        self.ledger.expect(pod.metadata.uid, origin)
        try:
            self.time.write(Create(obj=pod))
        except ApiError as error:
            if isinstance(error, Forbidden) and origin.owner is not None:
                self.refused.put(origin.owner, pod, origin, str(error))
            else:
                self.ledger.refuse(pod, str(error))

    def delete(self, entry: Entry, why: str, *, at_once: bool = False) -> None:
        """Delete a pod; `at_once`: without a grace period, because there is no kubelet."""
        entry.why = why
        if entry.node and entry.evicted is None:
            entry.evicted = self.now
        metadata = entry.pod.metadata
        request = Delete(kind=Pod, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
        self.time.write(request, grace=0 if at_once else None)

    def is_available(self, uid: str, min_ready: float) -> bool:
        """Whether the pod has been running for this many seconds, and is not about to be deleted."""
        entry = self.ledger.of(uid)
        return entry is not None and not entry.why and entry.starts + min_ready <= self.now

    def available_later(self, uids: Iterable[str], min_ready: float) -> Iterator[tuple[Entry, float]]:
        """The running pods that have not run for this many seconds yet, and when a controller sees that they have."""
        for uid in uids:
            entry = self.ledger.of(uid)
            if entry is not None and not entry.why and entry.starts <= self.now < entry.starts + min_ready:
                yield entry, entry.starts + self.models.controller_delay + min_ready

    def reported(self, name: str, uid: str) -> ReportedPod:
        """The pod as its kubelet reports it; one that the API server rejected has no node."""
        entry = self.ledger.of(uid)
        if entry is None:
            return ReportedPod(metadata=ObjectMeta(name=name, uid=uid))
        containers = (ContainerStatus(restart_count=entry.restarts),) if entry.restarts else ()
        status = PodStatus(phase=RUNNING if entry.has_run else PENDING, container_statuses=containers)
        if entry.starts <= self.now:
            ready = PodCondition(type="Ready", status="True", last_transition_time=timestamp(entry.starts))
            status = PodStatus(phase=RUNNING, conditions=(ready,), container_statuses=containers)
        return ReportedPod(metadata=entry.pod.metadata, spec=PodSpec(node_name=entry.node), status=status)

    def entries_on(self, node: str) -> list[Entry]:
        """The pods of a node, in the order of their placement."""
        entries = self.missing.get(node)
        if entries is None:
            row = self.state.table.row_of.get(node)
            infos: Any = () if row is None else self.state.row_pods[row]
            entries = [entry for info in infos if (entry := self.ledger.of(info.uid)) is not None]
        # The scheduler may have assumed pods there that are not bound yet.
        return [entry for entry in entries if entry.node == node and self.ledger.of(entry.pod.metadata.uid) is entry]


class _Waiting(PlainStruct, eq=False):
    """What a controller has not been able to create."""

    workload: str
    namespace: str
    pods: deque[tuple[Pod, Origin]] = field(default_factory=deque)
    #: Failures in a row, when the last one was, and when it tries again.
    failures: int = 0
    failed: float = -inf
    due: float = 0.0
    message: str = ""

    def fail(self, now: float, why: str) -> None:
        self.message = why
        if self.failed != now:
            self.failed = now
            self.failures += 1
        self.due = now + delay_after(self.failures)


class RefusedPods:
    def __init__(self, context: SimulationContext) -> None:
        self._context = context
        self._waiting: dict[Owner, _Waiting] = {}

    def put(self, owner: Owner, pod: Pod, origin: Origin, why: str) -> None:
        waiting = self._waiting.setdefault(owner, _Waiting(origin.workload, pod.metadata.namespace))
        waiting.pods.append((pod, origin))
        waiting.fail(self._context.now, why)

    def drop(self, uids: Collection[str]) -> None:
        """These pods are no longer wanted."""
        for waiting in self._waiting.values():
            waiting.pods = deque(one for one in waiting.pods if one[0].metadata.uid not in uids)

    def released(self, pod: Pod, workload: str) -> None:
        """A pod has finished or is gone, so that there may be room for others."""
        now = self._context.now
        for waiting in self._waiting.values():
            if not waiting.pods or waiting.namespace != pod.metadata.namespace:
                continue
            if waiting.workload == workload:
                waiting.due = now + self._context.models.controller_delay
            while waiting.due < now:
                waiting.failures += 1
                waiting.due += delay_after(waiting.failures)
            self._context.later(waiting.due - now, partial(self._retry, waiting, waiting.due))

    def finish(self) -> None:
        """The simulation has ended."""
        ledger = self._context.ledger
        for waiting in self._waiting.values():
            for pod, origin in waiting.pods:
                ledger.expect(pod.metadata.uid, origin)
                ledger.refuse(pod, waiting.message)

    def _retry(self, waiting: _Waiting, due: float) -> None:
        if waiting.due != due:
            return
        pods, waiting.pods = waiting.pods, deque()
        while pods and not waiting.pods:
            # One that is refused again is put back.
            self._context.arrive(*pods.popleft())
        waiting.pods.extend(pods)
        if not waiting.pods:
            waiting.failures = 0
