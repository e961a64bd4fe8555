"""What happened to every pod: one entry each, from its arrival until it is gone, and sums over all of them.

The ledger sees every change in the store and is notified of every attempt by the engine. An entry is dropped after its
pod is gone and its row was written, so memory depends on the existing pods only.

Waiting time is attributed to causes: from each failed attempt on, the plugins that rejected the pod are the cause until
the next attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Protocol

from msgspec import field

from stowplan.kube.api.pod import FINISHED, Pod, PodSpec
from stowplan.kube.api.pod_requests import pod_requests, to_vector
from stowplan.kube.api.port import Change
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.waits import WaitingPods
from stowplan.scheduler.engine.decision.decision import NO_NODES, Decision
from stowplan.scheduler.engine.schedule_one import Attempt, Failure
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan_cluster.reconcile.kubelet import NO_BACK_OFF, BackOff
from stowplan_lab.simulation.results.parts import Parts
from stowplan_lab.simulation.results.simulation_records import DecisionRow

#: Causes of waiting other than plugins.
NOT_TRIED, GATED, NO_NODE, GROUP, ERROR = "not tried yet", "SchedulingGates", "no nodes", "pod group", "error"
#: Ends of pods.
FINISHED_WELL, FAILED, PREEMPTED, DELETED, RUNNING, PENDING, REFUSED = (
    "finished",
    "failed",
    "preempted",
    "deleted",
    "running",
    "pending",
    "refused",
)
_MOST_SIZES = 4096


class Owner(Protocol):
    """The controller that created a pod and may recreate it."""

    def lost(self, entry: Entry, /) -> None:
        """The pod is deleted before it finished."""

    def finished(self, entry: Entry, /) -> None:
        """The pod has run to its end, or has `failed`."""


class Origin(PlainStruct, eq=False, kw_only=True):
    """What is known about a pod before it arrives."""

    workload: str = ""
    #: Run time in seconds; None: forever.
    lifetime: float | None = None
    owner: Owner | None = None
    #: Number of runs that fail before one succeeds, and after how many seconds (None: its run time).
    failures: int = 0
    fails_after: float | None = None
    #: Called whenever the pod has started, or stopped with its node, and when it is gone.
    on_change: Callable[[Entry], object] | None = None

    def without_owner(self) -> Origin:
        return Origin(workload=self.workload, lifetime=self.lifetime, on_change=self.on_change)


_UNKNOWN = Origin()


class Entry(PlainStruct, eq=False, kw_only=True):
    """An existing pod."""

    #: As it arrived.
    pod: Pod
    origin: Origin
    arrived: float
    #: Resource -> amount, in the scheduler's integers.
    requests: Mapping[str, int]
    attempts: int = 0
    #: Plugin -> number of failed attempts in which it rejected the pod.
    reasons: dict[str, int] = field(default_factory=dict)
    message: str = ""
    cause: str = NOT_TRIED
    cause_since: float = 0.0
    node: str = ""
    placed: float | None = None
    #: When it starts, and when it ends by itself.
    starts: float = inf
    #: Whether it ran before its node failed.
    has_run: bool = False
    ends: float = inf
    #: Number of times it was started again after a failure, and whether it has failed for good.
    restarts: int = 0
    failed: bool = False
    back_off: BackOff = NO_BACK_OFF
    #: Since when it is not Ready any more.
    unready_since: float | None = None
    #: None: it pays for nothing, or not any more.
    bill: Bill | None = None
    cost: float = 0.0
    evicted: float | None = None
    #: Why it was deleted, once known.
    why: str = ""

    @property
    def key(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


class Bill(PlainStruct, frozen=True):
    """What a pod pays for: a share of a node of a group, from the time at which one had cost so much."""

    group: str
    share: float
    since: float


class Prices(Protocol):
    """The costs of nodes."""

    def bill(self, node: str, requests: Mapping[str, int], /) -> Bill | None:
        """For a pod that gets a node now."""

    def due(self, bill: Bill, /) -> float:
        """The amount of the bill up to now."""


class CauseSum(PlainStruct):
    """Waiting attributed to one cause."""

    pods: int = 0
    seconds: float = 0.0


class Ledger:
    """A `simulate.cluster.Watcher` and an engine's `DecisionListener`."""

    def __init__(self, start: float, *, now: Callable[[], float], row: Callable[[DecisionRow], object]) -> None:
        """`now`: the simulation's time; `row` gets the row of a pod, once it is complete."""
        self._start = start
        self._now = now
        self._row = row
        self._entries: dict[str, Entry] = {}
        self._origins: dict[str, Origin] = {}
        #: id of a spec -> the spec, which is kept so that the id stays valid, and its requests.
        self._sizes: dict[int, tuple[PodSpec, Mapping[str, int]]] = {}
        self.waiting = WaitingPods()
        #: Number of pods by end.
        self.ends: Counter[str] = Counter()
        self.arrived = 0
        self.placements = 0
        self.attempts = 0
        self.running = 0
        #: Pods without a node, by their current cause of waiting.
        self.pending: Counter[str] = Counter()
        self.causes: dict[str, CauseSum] = {}
        #: Attempts that failed with an error, and what the first one was.
        self.errors = 0
        self.first_error = ""
        #: Resource -> requests of pods without a node.
        self.asked: Counter[str] = Counter()
        #: Resource -> amount × seconds of placed pods.
        self.used_seconds: Counter[str] = Counter()
        #: Sizes of pods that arrived, with their number.
        self.shapes: Counter[tuple[tuple[str, int], ...]] = Counter()
        #: Called after a failed attempt.
        self.on_failure: list[Callable[[Entry], None]] = []
        self.parts = Parts()
        self.prices: Prices | None = None
        #: What complete rows have paid.
        self.billed = 0.0

    def expect(self, uid: str, origin: Origin) -> None:
        """The pod with this UID is about to arrive."""
        self._origins[uid] = origin

    def of(self, uid: str) -> Entry | None:
        return self._entries.get(uid)

    def entries(self) -> list[Entry]:
        """Of the existing pods, in order of arrival."""
        return list(self._entries.values())

    # -- the store ----------------------------------------------------------------------------------------------------

    def changed(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        if type(new if old is None else old) is not Pod:
            return
        if new is None or (new.status.phase in FINISHED and old is not None):
            self._gone(old)
        elif old is None:
            self._arrived(new)
        elif new.spec.node_name and not old.spec.node_name:
            self._placed(new)
        if new is not None and new.metadata.deletion_timestamp and not (old and old.metadata.deletion_timestamp):
            self._leaves(new)

    def _arrived(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        origin = self._origins.pop(uid, _UNKNOWN)
        if pod.status.phase in FINISHED:
            return
        now = self._now()
        entry = Entry(pod=pod, origin=origin, arrived=now, requests=self._requests(pod))
        entry.cause_since = now
        self._entries[uid] = entry
        self.arrived += 1
        if pod.spec.node_name:
            self._on_node(entry, pod.spec.node_name, now)
            return
        self.waiting.arrived(uid, now)
        if pod.spec.scheduling_gates:
            entry.cause = GATED
        self.pending[entry.cause] += 1
        for resource, amount in entry.requests.items():
            self.asked[resource] += amount

    def _placed(self, pod: Pod) -> None:
        entry, now = self._entries[pod.metadata.uid], self._now()
        self._stops_waiting(entry, now)
        self._on_node(entry, pod.spec.node_name, now)
        self.placements += 1
        self.waiting.placed(pod.metadata.uid, now)

    def _on_node(self, entry: Entry, node: str, now: float) -> None:
        entry.placed, entry.node = now, node
        self.running += 1
        if self.prices is not None:
            entry.bill = self.prices.bill(node, entry.requests)

    def settle(self, entry: Entry) -> None:
        """The pod pays up to now, and for nothing from now on."""
        if entry.bill is not None and self.prices is not None:
            entry.cost += self.prices.due(entry.bill)
            entry.bill = None

    def _leaves(self, pod: Pod) -> None:
        """It was marked for deletion, and will be gone after its grace period."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is None:
            return
        if entry.evicted is None and entry.node:
            entry.evicted = self._now()
        entry.why = entry.why or (PREEMPTED if entry.node else DELETED)
        self._notify_owner(entry)

    def _gone(self, pod: Pod) -> None:
        entry = self._entries.pop(pod.metadata.uid, None)
        if entry is None:
            return
        now = self._now()
        if entry.node:
            self.running -= 1
            self._count_use(entry, now)
        else:
            self._stops_waiting(entry, now)
            self.waiting.gone(pod.metadata.uid, now)
        done = now >= entry.ends and not entry.why
        if done:
            entry.why = FAILED if entry.failed else FINISHED_WELL
        elif not entry.why:
            # Without a grace period, the mark and the deletion are one change.
            entry.why = PREEMPTED if entry.node else DELETED
            if entry.node:
                entry.evicted = now
        if not done:
            self._notify_owner(entry)
        elif entry.origin.owner is not None:
            entry.origin.owner.finished(entry)
        if entry.origin.on_change is not None:
            entry.origin.on_change(entry)
        self._close(entry, now, entry.why)

    def _notify_owner(self, entry: Entry) -> None:
        """Notify the owner once, although a pod is first marked and deleted later."""
        owner = entry.origin.owner
        if owner is not None:
            entry.origin = entry.origin.without_owner()
            owner.lost(entry)

    def _close(self, entry: Entry, ended: float | None, how: str) -> None:
        self.ends[how] += 1
        self.settle(entry)
        self.billed += entry.cost
        row = self._row_of(entry, ended, how)
        self.parts.add(row, _since(self._start, self._now()))
        self._row(row)

    def _count_use(self, entry: Entry, until: float) -> None:
        assert entry.placed is not None
        seconds = until - entry.placed
        for resource, amount in entry.requests.items():
            self.used_seconds[resource] += amount * seconds  # type: ignore[assignment]

    def _row_of(self, entry: Entry, ended: float | None, how: str) -> DecisionRow:
        start, placed, group = self._start, entry.placed, entry.pod.spec.scheduling_group
        return DecisionRow(
            pod=entry.key,
            workload=entry.origin.workload,
            gang="" if group is None else f"{entry.pod.metadata.namespace}/{group.pod_group_name}",
            labels=dict(entry.pod.metadata.labels),
            requests=dict(entry.requests),
            arrived=_since(start, entry.arrived),
            attempts=entry.attempts,
            reasons=entry.reasons,
            message=entry.message,
            placed=None if placed is None else _since(start, placed),
            node=entry.node,
            evicted=None if entry.evicted is None else _since(start, entry.evicted),
            ended=None if ended is None else _since(start, ended),
            restarts=entry.restarts,
            end=how,
            cost=round(entry.cost, 6),
        )

    def _requests(self, pod: Pod) -> Mapping[str, int]:
        """Computed once for pods that share their spec."""
        known = self._sizes.get(id(pod.spec))
        if known is None:
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            known = self._sizes[id(pod.spec)] = pod.spec, amounts_of_pod(pod)
        if len(self.shapes) < _MOST_SIZES:
            self.shapes[tuple(known[1].items())] += 1
        return known[1]

    # -- the engine ---------------------------------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        self.attempts += 1
        entry = self._entries.get(decision.pod.uid)
        if entry is not None:
            entry.attempts += 1

    def bound(self, attempt: Attempt) -> None:
        """The store has the node already."""

    def failed(self, queued: QueuedPod, failure: Failure) -> None:
        entry = self._entries.get(queued.pod.uid)
        if entry is None or entry.node:
            return
        entry.message = failure.message
        plugins = sorted(filter(None, failure.unschedulable_plugins | failure.pending_plugins))
        for plugin in plugins:
            entry.reasons[plugin] = entry.reasons.get(plugin, 0) + 1
        self._waits_for(entry, ", ".join(plugins) or self._cause_without_plugin(entry, failure))
        for callback in self.on_failure:
            callback(entry)

    def _cause_without_plugin(self, entry: Entry, failure: Failure) -> str:
        if failure.status.rejected:
            # A pod for which there is a node is held back if the others of its gang have none.
            return NO_NODE if failure.message == NO_NODES else GROUP
        self.errors += 1
        self.first_error = self.first_error or f"pod {entry.key}: {failure.message}"
        return ERROR

    def _waits_for(self, entry: Entry, cause: str) -> None:
        self._account(entry, self._now())
        if cause != entry.cause:
            self._leave_cause(entry)
            entry.cause = cause
            self.pending[cause] += 1
            self.causes.setdefault(cause, CauseSum()).pods += 1

    def _account(self, entry: Entry, now: float) -> None:
        if now > entry.cause_since:
            known = self.causes.get(entry.cause)
            if known is None:
                known = self.causes[entry.cause] = CauseSum(1)
            known.seconds += now - entry.cause_since
            entry.cause_since = now

    def _leave_cause(self, entry: Entry) -> None:
        self.pending[entry.cause] = left = self.pending[entry.cause] - 1
        if not left:
            del self.pending[entry.cause]

    def _stops_waiting(self, entry: Entry, now: float) -> None:
        self._account(entry, now)
        self._leave_cause(entry)
        for resource, amount in entry.requests.items():
            self.asked[resource] -= amount

    # -- the end ------------------------------------------------------------------------------------------------------

    def refuse(self, pod: Pod, why: str) -> None:
        """The API server rejected the pod."""
        origin = self._origins.pop(pod.metadata.uid, _UNKNOWN)
        self.arrived += 1
        now = self._now()
        entry = Entry(pod=pod, origin=origin, arrived=now, requests=amounts_of_pod(pod), message=why)
        self._close(entry, now, REFUSED)

    def finish(self) -> None:
        """The simulation has ended: write the rows of the remaining pods."""
        now = self._now()
        for entry in self._entries.values():
            if entry.node:
                self._count_use(entry, now)
            else:
                self._account(entry, now)
            self._close(entry, None, entry.why or (RUNNING if entry.node else PENDING))


def amounts_of_pod(pod: Pod) -> dict[str, int]:
    """Its requests, in the scheduler's integers."""
    return {name: amount for name, amount in to_vector(pod_requests(pod)).items() if amount}


def _since(start: float, at: float) -> float:
    """Seconds since the start; differences of large floats have meaningless digits."""
    return round(at - start, 6)
