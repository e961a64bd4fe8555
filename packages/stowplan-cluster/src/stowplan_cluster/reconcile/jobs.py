"""Jobs: create pods until enough have succeeded.

A reconcile counts the pods that ended since the last one, decides the Job if possible, or else creates and deletes
pods. A decided Job is finished only once all its pods have terminated.

The backoff after failures doubles from ten seconds to ten minutes, until a pod succeeds.

Left out: podFailurePolicy, successPolicy, backoffLimitPerIndex, and pod groups.

Upstream: pkg/controller/job; indexed_job_utils.go has completion indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from stowplan.kube.api.reconcile_events import NORMAL, WARNING, Event
from stowplan.kube.api.whole_numbers import whole_number
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.reconcile.pods import FAILED, Pod, by_deletion_order
from stowplan_cluster.reconcile.views import Job, JobSpec

INDEXED = "Indexed"
ON_FAILURE = "OnFailure"

BACKOFF_SECONDS = 10.0
BACKOFF_LIMIT_SECONDS = 600.0

COMPLETE = "Complete"
JOB_FAILED = "Failed"
FAILURE_TARGET = "FailureTarget"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
#: The conditions of a decided Job, and those that it gets when it is finished.
FINAL = {SUCCESS_CRITERIA_MET: COMPLETE, FAILURE_TARGET: JOB_FAILED}


class Verdict(NamedTuple):
    """The condition that decides a Job."""

    type: str
    reason: str
    message: str


_COMPLETED = Verdict(SUCCESS_CRITERIA_MET, "CompletionsReached", "Reached expected number of succeeded pods")
_BACKOFF_LIMIT = Verdict(FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_MANY = "Too many succeeded pods running after completion count reached"
_DEADLINE = Verdict(FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline")


class Ended(PlainStruct, frozen=True):
    """A pod that succeeded or failed, or that is lost and counts as failed."""

    succeeded: bool
    #: In whole seconds, as in a status.
    at: float
    #: Of an Indexed Job; None: it has none that counts.
    index: int | None = None


class Failures(PlainStruct, frozen=True):
    """Failures since the last success."""

    count: int = 0
    last: float = 0.0

    def after(self, ended: Sequence[Ended]) -> Failures:
        failed = [one.at for one in ended if not one.succeeded]
        if len(failed) == len(ended):
            return Failures(self.count + len(failed), max(failed))
        success = max(one.at for one in ended if one.succeeded)
        later = [at for at in failed if at > success]
        return Failures(len(later), max(later, default=0.0))

    def seconds_left(self, now: float) -> float:
        """How long no pod is created."""
        if not self.count:
            return 0.0
        delay = min(BACKOFF_LIMIT_SECONDS, BACKOFF_SECONDS * 2.0 ** min(self.count - 1, 16))
        return max(0.0, self.last + delay - now)


NO_FAILURES = Failures()


class Progress(PlainStruct, frozen=True, kw_only=True):
    """How far a Job is: what its status says, and what the controller remembers."""

    succeeded: int = 0
    failed: int = 0
    #: In whole seconds, as in a status.
    started: float | None = None
    #: Whether it is, or was, suspended; None: never.
    suspended: bool | None = None
    #: Once it is decided.
    verdict: Verdict | None = None
    failures: Failures = NO_FAILURES


class Pods(PlainStruct, frozen=True, kw_only=True):
    """The pods of a Job."""

    #: Neither finished nor terminating.
    active: int
    #: Terminating and not finished.
    terminating: int
    #: Those that ended, and were not counted yet.
    ended: Sequence[Ended]
    #: Of the containers of pods that have not ended.
    restarts: int
    #: The active ones, in any order.
    list_active: Callable[[], Sequence[Pod]]
    #: Of an Indexed Job. Those that succeeded are completed here, and those of created pods are taken.
    indexes: Indexes | None = None
    #: Active pods that repeat an index, or have none that counts.
    strays: int = 0


def counts_when_terminating(spec: JobSpec, verdict: str | None) -> bool:
    """Whether a pod counts as failed once it is being deleted; otherwise only when it has ended."""
    return spec.pod_replacement_policy != FAILED or verdict == FAILURE_TARGET


class Step(PlainStruct, kw_only=True):
    """What to do."""

    progress: Progress
    create: int = 0
    #: The indexes of the created pods.
    indexes: Sequence[int] = ()
    delete: Sequence[Pod] = ()
    #: Whether deleted pods count as failed.
    counts_deleted: bool = False
    #: Whether the Job is finished.
    finished: bool = False
    #: Whether creation waits for the backoff.
    backs_off: bool = False
    #: Seconds until the next look.
    after: float | None = None


def next_step(job: Job, progress: Progress, pods: Pods, now: float, *, most: int) -> Step:
    """What to do with a Job that is not finished; at most `most` pods are created, and surplus ones deleted."""
    spec = job.spec
    if pods.ended:
        progress = _count(progress, pods)
    if pods.indexes is not None and progress.succeeded != len(pods.indexes.completed):
        progress = replace(progress, succeeded=len(pods.indexes.completed))
    if progress.started is None and not spec.suspend:
        progress = replace(progress, started=float(int(now)))
    verdict = progress.verdict or _failure(spec, progress, pods, now)
    if verdict is not None:
        doomed = pods.list_active() if pods.active else ()
        finished = not doomed and not pods.terminating
        progress = replace(progress, verdict=verdict)
        return Step(progress=progress, delete=doomed, counts_deleted=True, finished=finished)
    step = Step(progress=progress) if job.deleting else _manage(spec, progress, pods, now, most)
    done = progress.succeeded >= (1 if spec.completions is None else spec.completions)
    if done and pods.active == len(step.delete) and not step.create:
        step.progress = replace(progress, verdict=_COMPLETED)
        step.finished = not pods.terminating and not step.delete
        return step
    if spec.suspend != bool(progress.suspended) and not job.deleting:
        step.progress = progress = _suspended_or_resumed(progress, suspend=spec.suspend, now=now)
    if spec.active_deadline_seconds is not None:
        step.after = _sooner(step.after, _seconds_to_deadline(spec, progress, now))
    return step


def events_of(job: Job, before: Progress, step: Step) -> list[Event]:
    """The events to record about a step."""
    found, verdict = [], step.progress.verdict
    if step.progress.suspended != before.suspended:
        what = "suspended" if step.progress.suspended else "resumed"
        found.append(Event(NORMAL, what.title(), f"Job {what}"))
    if step.finished and verdict is not None:
        if verdict.type == FAILURE_TARGET:
            return [Event(WARNING, verdict.reason, verdict.message)]
        if job.spec.completions is not None and step.progress.succeeded > job.spec.completions:
            found.append(Event(WARNING, "TooManySucceededPods", _TOO_MANY))
        found.append(Event(NORMAL, "Completed", "Job completed"))
    return found


def expires_at(job: Job, finished: float) -> float | None:
    """When a Job that has finished is deleted; None: never."""
    seconds = job.spec.ttl_seconds_after_finished
    return None if seconds is None else int(finished) + seconds


def _count(progress: Progress, pods: Pods) -> Progress:
    ended, indexes = pods.ended, pods.indexes
    failed = [one for one in ended if not one.succeeded]
    failures = progress.failures.after(ended) if failed else NO_FAILURES
    succeeded = len(ended) - len(failed)
    if indexes is not None:
        failed = [one for one in failed if one.index is not None]
        for one in ended:
            if one.succeeded and one.index is not None:
                indexes.complete(one.index)
    return replace(
        progress, succeeded=progress.succeeded + succeeded, failed=progress.failed + len(failed), failures=failures
    )


def _failure(spec: JobSpec, progress: Progress, pods: Pods, now: float) -> Verdict | None:
    limit = spec.backoff_limit
    if progress.failed > limit or (0 < pods.restarts >= limit and spec.restart_policy == ON_FAILURE):
        return _BACKOFF_LIMIT
    if spec.active_deadline_seconds is None:
        return None
    left = _seconds_to_deadline(spec, progress, now)
    return _DEADLINE if left is not None and left <= 0 else None


def _seconds_to_deadline(spec: JobSpec, progress: Progress, now: float) -> float | None:
    if spec.active_deadline_seconds is None or spec.suspend or progress.started is None:
        return None
    return progress.started + spec.active_deadline_seconds - now


def _manage(spec: JobSpec, progress: Progress, pods: Pods, now: float, most: int) -> Step:
    """Create or delete pods."""
    if spec.suspend:
        return Step(progress=progress, delete=pods.list_active() if pods.active else ())
    wanted = _wanted(spec, progress, pods.active)
    if pods.active > wanted or pods.strays:
        return Step(progress=progress, delete=_surplus(pods.list_active(), pods.indexes, wanted)[:most])
    terminating = pods.terminating if spec.pod_replacement_policy == FAILED else 0
    missing = min(most, wanted - pods.active - terminating)
    if missing <= 0:
        return Step(progress=progress)
    delay = progress.failures.seconds_left(now) if progress.failures.count else 0.0
    if delay > 0:
        return Step(progress=progress, after=delay, backs_off=True)
    if pods.indexes is None:
        return Step(progress=progress, create=missing)
    indexes = pods.indexes.take(missing)
    return Step(progress=progress, create=len(indexes), indexes=indexes)


def _wanted(spec: JobSpec, progress: Progress, active: int) -> int:
    if spec.completions is None:
        return active if progress.succeeded > 0 else spec.parallelism
    return max(0, min(spec.parallelism, spec.completions - progress.succeeded))


def _surplus(active: Sequence[Pod], indexes: Indexes | None, wanted: int) -> list[Pod]:
    """Excess pods: duplicates of an index, or more than wanted."""
    useful = by_deletion_order(active)
    surplus: list[Pod] = []
    if indexes is not None:
        # Keep the last in deletion order: the one whose loss costs most.
        keep = {index_of(pod, indexes.completions): pod for pod in useful}
        keep.pop(None, None)
        kept = {pod.uid for pod in keep.values()}
        useful = [pod for pod in useful if pod.uid in kept]
        surplus = [pod for pod in active if pod.uid not in kept]
    return [*surplus, *useful[: max(0, len(useful) - wanted)]]


def _suspended_or_resumed(progress: Progress, *, suspend: bool, now: float) -> Progress:
    return replace(progress, suspended=suspend, started=None if suspend else float(int(now)))


def _sooner(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)


COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Pod, completions: int) -> int | None:
    """The pod's index; None if it has none, or one that is no longer below completions."""
    return whole_number(pod.metadata.annotations.get(COMPLETION_INDEX, ""), completions - 1)


def parse_indexes(text: str, completions: int) -> set[int]:
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is not None and high is not None:
            indexes.update(range(low, min(high + 1, completions)))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Format indexes; runs of three or more become ranges."""
    return ",".join(_run(first, last) for first, last in _runs(indexes))


def _runs(indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    for _, group in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        yield run[0], run[-1]


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


class Indexes:
    """Which indexes of a Job are completed, in use by a pod, and next. Each operation takes logarithmic time."""

    def __init__(self, completions: int, completed: set[int] | None = None, used: Iterable[int] = ()) -> None:
        self.completions = completions
        self.completed: set[int] = completed or set()
        self._used = set(used)
        #: A heap of indexes below `_next` that were released; all from there on were not looked at yet.
        self._free: list[int] = []
        self._next = 0

    def use(self, index: int) -> None:
        """A pod with it exists."""
        self._used.add(index)

    def complete(self, index: int) -> None:
        self._used.discard(index)
        if index < self.completions:
            self.completed.add(index)

    def release(self, index: int) -> None:
        """Its pod is gone."""
        if index in self._used:
            self._used.remove(index)
            if index < self._next:
                heappush(self._free, index)

    def take(self, count: int) -> list[int]:
        """Use the first indexes that are neither completed nor in use, at most this many."""
        taken: list[int] = []
        while len(taken) < count and (self._free or self._next < self.completions):
            if self._free:
                index = heappop(self._free)
            else:
                index = self._next
                self._next += 1
            if index < self.completions and index not in self.completed and index not in self._used:
                self._used.add(index)
                taken.append(index)
        return taken

    def resize(self, completions: int) -> None:
        """Change the number of completions; completed indexes beyond it are forgotten."""
        self.completions = completions
        self.completed = {index for index in self.completed if index < completions}
        self._free.clear()
        self._next = 0
