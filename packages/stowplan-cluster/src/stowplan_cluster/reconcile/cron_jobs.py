"""CronJobs: create a Job at each time of a schedule, and delete old ones.

A time that was missed is made up for, unless `startingDeadlineSeconds` have passed; of several, only the last one. With
`Forbid` it waits until the Jobs before it are finished, with `Replace` these are deleted.

Upstream: pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from stowplan.kube.api.cron_schedules import Schedule, parse_schedule
from stowplan.kube.api.reconcile_events import NORMAL, WARNING, Event
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.reconcile.views import CronJob, CronJobSpec

FORBID, REPLACE = "Forbid", "Replace"

#: The annotation of a Job with the time for which it was created.
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"

#: Seconds after a time of the schedule, against clocks that differ.
DELAY = 0.1
#: More missed times than that are reported.
_MANY = 100


class Child(PlainStruct, frozen=True, kw_only=True):
    """A Job that belongs to the CronJob."""

    name: str
    uid: str
    started: float | None = None
    #: Complete or Failed, once it is finished.
    outcome: str = ""
    completed: float | None = None


class Active(NamedTuple):
    """An entry of status.active."""

    name: str
    uid: str


class History(PlainStruct, frozen=True, kw_only=True):
    """What the status says, in seconds since the epoch."""

    active: tuple[Active, ...] = ()
    last_schedule: float | None = None
    last_success: float | None = None


class Step(PlainStruct, kw_only=True):
    """What to do. The created Job is still to be added to the history, with `scheduled`."""

    history: History
    delete: list[Active]
    events: list[Event]
    #: The time for which a Job is created.
    scheduled: float | None = None
    #: Seconds until the next look.
    after: float | None = None


def job_name(cron_job: str, scheduled: float) -> str:
    return f"{cron_job}-{int(scheduled) // 60}"


def scheduled_text(cron: CronJob, scheduled: float) -> str:
    """The value of `SCHEDULED`, in the CronJob's time zone."""
    return datetime.fromtimestamp(scheduled, ZoneInfo(cron.spec.time_zone or "UTC")).isoformat().replace("+00:00", "Z")


def started_now(step: Step, job: Active) -> History:
    """The history once the Job has been created."""
    return replace(step.history, active=(*step.history.active, job), last_schedule=step.scheduled)


def next_step(cron: CronJob, created: float, history: History, children: Sequence[Child], now: float) -> Step:
    """`created`: when the CronJob was."""
    spec = cron.spec
    step = Step(history=history, delete=[], events=[])
    _clean_up(spec, step, children)
    _follow(step, children)
    if cron.deleting or spec.suspend:
        return step
    try:
        schedule = parse_schedule(spec.schedule, spec.time_zone or "UTC")
    except ValueError as problem:
        step.events.append(
            Event(WARNING, "UnparseableSchedule", f'unparseable schedule: "{spec.schedule}" : {problem}')
        )
        return step
    if "TZ" in spec.schedule:
        step.events.append(Event(WARNING, "UnsupportedSchedule", _UNSUPPORTED.format(schedule=spec.schedule)))
    recent = _recent(schedule, _earliest(spec, created, history, now), now)
    if recent is None:
        step.events.append(Event(WARNING, "InvalidSchedule", f"invalid schedule: {spec.schedule} : {_NEVER}"))
        return step
    if recent.time is not None:
        if recent.missed > _MANY:
            step.events.append(Event(WARNING, "TooManyMissedTimes", _TOO_MANY))
        _start(cron, step, recent.time, now)
    step.after = _seconds_to_next(schedule, created, step.history, step.scheduled, now)
    return step


_UNSUPPORTED = (
    'CRON_TZ or TZ used in schedule "{schedule}" is not officially supported, see '
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_NEVER = "time difference between two schedules is less than 1 second"
_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
_ALREADY_ACTIVE = "Not starting job because prior execution is running and concurrency policy is Forbid"


def _start(cron: CronJob, step: Step, scheduled: float, now: float) -> None:
    """Create the Job of a time, unless that is too late, done, or forbidden."""
    spec, history = cron.spec, step.history
    if spec.starting_deadline_seconds is not None and scheduled + spec.starting_deadline_seconds < now:
        at = datetime.fromtimestamp(scheduled, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
        step.events.append(Event(WARNING, "MissSchedule", f"Missed scheduled time to start a job: {at}"))
        return
    name = job_name(cron.metadata.name, scheduled)
    if history.last_schedule == scheduled or any(one.name == name for one in history.active):
        return
    if spec.concurrency_policy == FORBID and history.active:
        step.events.append(Event(NORMAL, "JobAlreadyActive", _ALREADY_ACTIVE))
        return
    if spec.concurrency_policy == REPLACE:
        for one in history.active:
            _delete(step, one)
    step.scheduled = scheduled


def _follow(step: Step, children: Sequence[Child]) -> None:
    """Bring the history up to date with the Jobs that there are."""
    history = step.history
    active, success = list(history.active), history.last_success
    known = {one.uid for one in active}
    for child in children:
        if not child.outcome:
            if child.uid not in known:
                message = f"Saw a job that the controller did not create or forgot: {child.name}"
                step.events.append(Event(WARNING, "UnexpectedJob", message))
            continue
        if child.uid in known:
            active = [one for one in active if one.uid != child.uid]
            message = f"Saw completed job: {child.name}, condition: {child.outcome}"
            step.events.append(Event(NORMAL, "SawCompletedJob", message))
        if child.completed is not None and (success is None or child.completed > success):
            success = child.completed
    there = {child.uid for child in children}
    for one in list(active):
        if one.uid not in there:
            step.events.append(Event(NORMAL, "MissingJob", f"Active job went missing: {one.name}"))
            active.remove(one)
    step.history = replace(history, active=tuple(active), last_success=success)


def _clean_up(spec: CronJobSpec, step: Step, children: Sequence[Child]) -> None:
    """Delete the oldest finished Jobs beyond the limits."""
    for outcome, limit in (
        ("Complete", spec.successful_jobs_history_limit),
        ("Failed", spec.failed_jobs_history_limit),
    ):
        if limit is None:
            continue
        finished = [child for child in children if child.outcome == outcome]
        finished.sort(key=lambda child: (child.started is None, child.started or 0.0, child.name))
        for child in finished[: max(0, len(finished) - limit)]:
            _delete(step, Active(child.name, child.uid))


def _delete(step: Step, job: Active) -> None:
    step.delete.append(job)
    step.events.append(Event(NORMAL, "SuccessfulDelete", f"Deleted job {job.name}"))
    active = tuple(one for one in step.history.active if one.uid != job.uid)
    step.history = replace(step.history, active=active)


class _Recent(NamedTuple):
    """The last time of a schedule until now, and how many there have been, roughly."""

    time: float | None
    missed: int


def _earliest(spec: CronJobSpec, created: float, history: History, now: float) -> float:
    since = created if history.last_schedule is None else history.last_schedule
    if spec.starting_deadline_seconds is not None:
        since = max(since, now - spec.starting_deadline_seconds)
    return since


def _recent(schedule: Schedule, since: float, now: float) -> _Recent | None:
    """None: the schedule has no times."""
    first = schedule.next(since)
    second = None if first is None else schedule.next(first)
    if first is None or second is None:
        return None
    if now < first:
        return _Recent(None, 0)
    if now < second:
        return _Recent(first, 0)
    interval = second - first
    missed = int((now - first) // interval) + 1
    # Not further back than one interval, but no interval is like another in schedules such as 30 6-16/4 * * 1-5.
    found, at = None, schedule.next(first + (missed - 2) * interval)
    while at is not None and at <= now:
        found, at = at, schedule.next(at)
    return _Recent(found, missed)


def _seconds_to_next(
    schedule: Schedule, created: float, history: History, scheduled: float | None, now: float
) -> float | None:
    since = scheduled or history.last_schedule or created
    recent = _recent(schedule, since, now)
    if recent is None or (recent.time is None and recent.missed):
        since = now
    elif recent.time is not None:
        since = recent.time
    following = schedule.next(since)
    return None if following is None else following + DELAY - now
