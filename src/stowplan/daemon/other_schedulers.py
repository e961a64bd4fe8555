"""Detect another scheduler of the same name that holds no lease.

Two schedulers of one name bind each other's pods, and count room that the other has given away. A lease shows a
scheduler that elects a leader; one that does not (another `stowplan run`, a kube-scheduler with --leader-elect=false)
is known by what it does:

* **before the start**, by Events: a scheduler signs them with its name and host. It tells of every pod that it binds,
  and of one that fits nowhere each time that is tried, every five minutes at least. A scheduler without work is silent,
  one that has just ended is not told apart, and one on this very host signs as we do.
* **while we work**, by bindings: a pod of ours comes to a node that we did not give it. That is certain, but for pods
  that people bind by hand, and for a binding of ours whose answer was lost.

Both are told, neither ends the process: a wrong guess must not stop scheduling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stowplan.api.api_errors import ApiError
from stowplan.api.port import Unreachable
from stowplan.api.timestamps import parse_timestamp
from stowplan.api.types import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from stowplan.api.port import Api

#: Seconds: after that long at most, a scheduler tries again what fits nowhere.
_RECENT = 300.0
#: Events that are looked at; there may be tens of thousands.
_LOOKED_AT = 1000
_INTERVAL = 1.0


class Watched(Protocol):
    """`live.scheduler.Scheduler`."""

    @property
    def bound_by_others(self) -> tuple[str, str] | None: ...


async def recently_heard(api: Api, names: Iterable[str], *, hostname: str, now: float) -> str:
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
        # It is a courtesy: who may not read Events may schedule all the same.
        return None
    ages = ((now - _time_of(event), event) for event in listing.items if event.reporting_instance != own)
    recent = [(age, event) for age, event in ages if age < _RECENT]
    return min(recent, key=lambda one: one[0], default=None)


def _time_of(event: Event) -> float:
    """When it was last seen; long ago if it does not say."""
    series = event.series.last_observed_time if event.series is not None else None
    try:
        return parse_timestamp(series or event.event_time or "")
    except ValueError:
        return float("-inf")


async def noticed(
    scheduler: Watched, *, sleep: Callable[[float], Awaitable[None]], report: Callable[[str], None]
) -> None:
    """Report the first pod bound by another scheduler."""
    while (found := scheduler.bound_by_others) is None:
        await sleep(_INTERVAL)
    pod, node = found
    report(
        f"pod {pod} was bound to {node}, and not by this scheduler: either a person did that, or another scheduler of "
        "the same name is at work, and both race for the same pods; use --scheduler-name NAME to run next to it"
    )
