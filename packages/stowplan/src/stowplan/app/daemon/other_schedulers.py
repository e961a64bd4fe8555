"""Detect another scheduler of the same name that holds no lease.

Two schedulers of the same name bind each other's pods, and use resources that the other has already assigned. A lease
shows a scheduler with leader election; one without (another `stowplan run`, a kube-scheduler with --leader-elect=false)
is detected by its activity:

* **before the start**, by Events, which contain the scheduler's name and host. There is one for every bound pod, and
  one for each attempt of an unschedulable pod, at least every five minutes. Idle schedulers are not detected, ones that
  have just ended are not distinguished, and one on the same host has the same signature as this one.
* **while running**, by bindings: a pod of ours is bound to a node that we did not choose. That is certain, except for
  pods that are bound by hand, and for a binding of ours whose response was lost.

Both are reported; neither ends the process, because a false positive must not stop scheduling.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.port import Api, Unreachable
from stowplan.kube.api.types import Event

if TYPE_CHECKING:
    from stowplan.drivers.live.scheduler import Scheduler

#: Seconds within which a scheduler retries unschedulable pods.
_RECENT = 300.0
#: Number of events that are read; there may be tens of thousands.
_LOOKED_AT = 1000
_INTERVAL = 1.0


async def recently_reported_scheduler(api: Api, names: Iterable[str], *, hostname: str, now: float) -> str:
    """A message about another scheduler that recently used one of these names; "" if there is none."""
    for name in names:
        found = await _last_of_another(api, name, f"{name}-{hostname}", now)
        if found is not None:
            seconds, event = found
            pod = f"{event.regarding.namespace}/{event.regarding.name}"
            return (
                f"{event.reporting_instance} reported pod {pod} {max(0, round(seconds))} s ago ({event.reason}): if it "
                f"still schedules for {name}, both will race for the same pods; use --scheduler-name NAME to run next "
                "to it"
            )
    return ""


async def _last_of_another(api: Api, name: str, own: str, now: float) -> tuple[float, Event] | None:
    try:
        listing = await api.list(Event, field_selector=f"reportingController={name}", limit=_LOOKED_AT)
    except (ApiError, Unreachable):
        # The check is optional: scheduling does not require permission to read Events.
        return None
    ages = ((now - _time_of(event), event) for event in listing.items if event.reporting_instance != own)
    recent = [(age, event) for age, event in ages if age < _RECENT]
    return min(recent, key=lambda one: one[0], default=None)


def _time_of(event: Event) -> float:
    """When it last occurred; long ago if unknown."""
    series = event.series.last_observed_time if event.series is not None else None
    try:
        return parse_timestamp(series or event.event_time or "")
    except ValueError:
        return float("-inf")


async def report_other_scheduler(
    scheduler: Scheduler, *, sleep: Callable[[float], Awaitable[None]], report: Callable[[str], None]
) -> None:
    """Report the first pod bound by another scheduler."""
    while (found := scheduler.bound_by_others) is None:
        await sleep(_INTERVAL)
    pod, node = found
    report(
        f"pod {pod} was bound to {node}, and not by this scheduler: either a person did that, or another scheduler of "
        "the same name is at work, and both race for the same pods; use --scheduler-name NAME to run next to it"
    )
