"""Stories: recent attempts, queue moves and verdicts of each pod, with their causes.

Everything that happens to a pod is a step of its story. Memory is bounded in three ways: the number of pods (the least
recently updated story is dropped first), the number of steps per pod (the first few and the last ones are kept), and
the number of decisions over all pods. A step contains text and numbers, never the arrays and objects of a decision.

Writing is on the hot path and does next to nothing; text is formatted when a story is read.

Upstream has no counterpart: its log lines at verbosity 4 and above have some of it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.inspection.records import DecisionRecord, StepRecord, StoryRecord, WakeRecord
from stowplan.scheduler.queue.queued_pod import Place, QueuedPod

#: Number of steps that are kept of a long story's beginning.
_FIRST = 4
#: Number of wakes that are kept, and of pods in each.
_WAKES, _WOKEN = 200, 20
#: A plugin may return a separate message per node, so messages have no natural limit.
LONGEST_TEXT = 2_000

DECIDED, DELETED = "decided", "deleted"
_BACKING_OFF = (Place.BACKOFF, Place.ERROR_BACKOFF)


class AttemptOutcome(NamedTuple):
    """The stored outcome of an attempt; a tuple, because one is created per attempt."""

    #: When the decision was made, in seconds since the epoch.
    time: float
    key: str
    uid: str
    scheduler_name: str
    attempt: int
    #: Duration of the attempt up to this point.
    seconds: float
    #: The chosen node; "" if there is none.
    node_name: str = ""
    #: The name of the failure's status code; "" if there is a node.
    code: str = ""
    message: str = ""
    #: Plugins whose rejections an event has to resolve, and those of them that returned Pending.
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    #: (plugin, number of nodes that it was the first to reject), the highest number first.
    refused: tuple[tuple[str, int], ...] = ()
    #: The node that PostFilter nominated the pod to; None: the nomination is unchanged.
    nominated_node_name: str | None = None
    #: The first victims, their number, and the number of budget violations.
    victims: tuple[str, ...] = ()
    victims_total: int = 0
    pdb_violations: int = 0

    def record(self) -> DecisionRecord:
        return DecisionRecord(
            time=time_text(self.time),
            pod=self.key,
            uid=self.uid,
            scheduler_name=self.scheduler_name,
            **self.fields(),
        )

    def fields(self) -> dict[str, Any]:
        """The fields of an `AttemptRecord`."""
        return {
            "attempt": self.attempt,
            "milliseconds": round(self.seconds * 1000, 3),
            "node": self.node_name,
            "code": self.code,
            "message": self.message,
            "unschedulable_plugins": self.unschedulable_plugins,
            "pending_plugins": self.pending_plugins,
            "refused": dict(self.refused),
            "nominated_node": self.nominated_node_name or "",
            "victims": self.victims,
            "victims_total": self.victims_total,
            "pdb_violations": self.pdb_violations,
        }


class Requeued(NamedTuple):
    """An event that requeued rejected pods."""

    time: float
    event: str
    #: The changed object; None if there is none.
    by: Any
    pods: int
    #: The first of the pods, and the plugins that had rejected them.
    keys: tuple[str, ...]
    rejectors: frozenset[str]

    def record(self) -> WakeRecord:
        return WakeRecord(
            time=time_text(self.time),
            event=self.event,
            by="" if self.by is None else _object_text(self.by),
            count=self.pods,
            pods=self.keys,
            rejected_by=tuple(sorted(self.rejectors)),
        )


def _object_text(obj: Any) -> str:
    metadata = obj.metadata
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return f"{type(obj).__name__} {name}"


class Step(PlainStruct, frozen=True):
    """Something that happened to a pod."""

    time: float
    what: str
    cause: str = ""
    detail: str = ""
    outcome: AttemptOutcome | None = None

    def record(self) -> StepRecord:
        fields = {} if self.outcome is None else self.outcome.fields()
        return StepRecord(time=time_text(self.time), what=self.what, cause=self.cause, detail=self.detail, **fields)


class Story(PlainStruct, frozen=True):
    """The stored story of a pod, oldest step first."""

    key: str
    uid: str
    beginning: tuple[Step, ...]
    #: Number of dropped steps between `beginning` and `end`.
    forgotten: int = 0
    end: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self.beginning, *self.end)

    def record(self) -> StoryRecord:
        return StoryRecord(
            pod=self.key,
            uid=self.uid,
            steps=tuple(step.record() for step in self.steps),
            forgotten=self.forgotten,
            steps_before_gap=len(self.beginning) if self.forgotten else 0,
        )

    def lines(self) -> list[str]:
        """One line per step, with its time."""
        lines = [_line(step) for step in self.beginning]
        if self.forgotten:
            lines.append(f"… {self.forgotten:,} steps are forgotten …")
        return [*lines, *(_line(step) for step in self.end)]


def _line(step: Step) -> str:
    return f"{time_text(step.time)}  {step.record().text()}"


def time_text(seconds: float) -> str:
    """`2026-01-02T03:04:05.678Z`."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


#: (time, what or place, cause, detail) as stored; a move's detail is the gating plugin or the end of its backoff.
_Entry = tuple[float, str | Place, str, str | float | None]


class _Kept:
    """A story as stored."""

    __slots__ = ("entries", "forgotten", "gone", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        self.entries: list[_Entry | AttemptOutcome] = []
        self.forgotten = 0
        self.gone = False


class Stories:
    """The stories of a running scheduler; times are `now()`, in seconds since the epoch."""

    def __init__(
        self, *, now: Callable[[], float], pods: int = 20_000, steps: int = 32, decisions: int = 1_000
    ) -> None:
        if min(pods, decisions) < 1 or steps <= _FIRST:
            raise ValueError(f"want at least 1 pod, 1 decision and {_FIRST + 1} steps")
        self.now = now
        self._pods = pods
        self._steps = steps
        #: By UID; the least recently updated first.
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._decisions: deque[AttemptOutcome] = deque(maxlen=decisions)
        self._wakes: deque[Requeued] = deque(maxlen=_WAKES)

    #: Whether stories are stored.
    kept = True

    # -- writing ------------------------------------------------------------------------------------------------------

    def step(self, key: str, uid: str, what: str, cause: str, detail: str = "") -> None:
        """Record a step other than a move or decision: `step(key, uid, "waits on permit", "Quota", "up to 30s")`."""
        self._append(key, uid, (self.now(), what, cause, detail[:LONGEST_TEXT]))

    def moved(self, queued: QueuedPod, place: Place, cause: str) -> None:
        """The queue moved a pod."""
        info = queued.pod
        self._append(info.key, info.uid, (self.now(), place, cause, queued.gating_plugin or queued.backoff_expiration))

    def decided(self, outcome: AttemptOutcome) -> None:
        """An attempt has ended."""
        self._decisions.append(outcome)
        self._append(outcome.key, outcome.uid, outcome)

    def woken(self, pods: Sequence[QueuedPod], event: str, by: Any) -> None:
        """An event requeued these pods; `by` is the changed object."""
        first = pods[:_WOKEN]
        rejectors = frozenset[str]().union(*(queued.rejectors for queued in first))
        self._wakes.append(Requeued(self.now(), event, by, len(pods), tuple(q.key for q in first), rejectors))

    def gone(self, uid: str) -> None:
        """The pod was deleted; its story is kept until it is the oldest, which this does not delay."""
        kept = self._kept.get(uid)
        if kept is not None and not kept.gone:
            kept.gone = True
            self._write(kept, (self.now(), DELETED, "", ""))

    def _append(self, key: str, uid: str, entry: _Entry | AttemptOutcome) -> None:
        kept = self._kept.get(uid)
        if kept is None:
            kept = self._kept[uid] = _Kept(key)
            if len(self._kept) > self._pods:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(uid)
        self._write(kept, entry)

    def _write(self, kept: _Kept, entry: _Entry | AttemptOutcome) -> None:
        entries = kept.entries
        entries.append(entry)
        if len(entries) > self._steps:
            del entries[_FIRST]
            kept.forgotten += 1

    # -- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: str) -> Story | None:
        """The story of a pod by `namespace/name`; of several pods with the name, the one that still exists."""
        found: tuple[str, _Kept] | None = None
        for uid, kept in reversed(self._kept.items()):
            if kept.key == key and (found is None or not kept.gone):
                found = uid, kept
                if not kept.gone:
                    break
        return None if found is None else _story(*found)

    def last_decisions(self, count: int) -> list[AttemptOutcome]:
        """Newest first."""
        return list(islice(reversed(self._decisions), max(count, 0)))

    def last_wakes(self) -> list[Requeued]:
        """Newest first."""
        return list(reversed(self._wakes))


class NoStories(Stories):
    """Stores nothing."""

    kept = False

    def __init__(self) -> None:
        super().__init__(now=lambda: 0.0)

    def step(self, key: str, uid: str, what: str, cause: str, detail: str = "") -> None:
        pass

    def moved(self, queued: QueuedPod, place: Place, cause: str) -> None:
        pass

    def woken(self, pods: Sequence[QueuedPod], event: str, by: Any) -> None:
        pass

    def gone(self, uid: str) -> None:
        pass


def _story(uid: str, kept: _Kept) -> Story:
    steps = tuple(_step(entry) for entry in kept.entries)
    if not kept.forgotten:
        return Story(kept.key, uid, steps)
    return Story(kept.key, uid, steps[:_FIRST], kept.forgotten, steps[_FIRST:])


def _step(entry: _Entry | AttemptOutcome) -> Step:
    if isinstance(entry, AttemptOutcome):
        return Step(entry.time, DECIDED, outcome=entry)
    time, what, cause, detail = entry
    if isinstance(what, str):
        return Step(time, what, cause, str(detail))
    place = "left the queue" if what is Place.GONE else what.value
    if isinstance(detail, str):
        return Step(time, place, cause, f"gated by {detail}")
    until = f"until {time_text(detail)}" if detail is not None and what in _BACKING_OFF else ""
    return Step(time, place, cause, until)
