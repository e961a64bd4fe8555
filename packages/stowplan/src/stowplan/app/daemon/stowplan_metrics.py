"""Collect the `stowplan_*` metrics when they are scraped.

Except for the event loop's lag, which is sampled once a second: anything that blocks the loop, such as a decision, a
page or a plugin, blocks everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.metrics.component import ComponentMetrics
from stowplan.kube.metrics.families import Histogram
from stowplan.kube.timing.times import Times
from stowplan.net.client.http.lanes import Lanes

if TYPE_CHECKING:
    from stowplan.drivers.hang_guard.hang_guard import HangGuard
    from stowplan.drivers.live.scheduler import Scheduler

_SAMPLING_INTERVAL = 1.0


def gather(metrics: ComponentMetrics, scheduler: Scheduler, *, lanes: Lanes | None, guard: HangGuard) -> None:
    """Set the values at each scrape."""
    own = metrics.stowplan

    def refresh() -> None:
        scheduler.refresh_metrics()
        own.stories.set(float(len(scheduler.stories)))
        dropped = scheduler.dropped_events
        if lanes is not None:
            dropped += lanes.dropped
            for lane, number in lanes.waiting.items():
                own.client_requests_waiting.with_label_values(lane).set(float(number))
        own.events_dropped_total.value = float(dropped)
        for plugin, point in guard.guarded | guard.interrupted.keys():
            own.plugin_hangs_total.with_label_values(plugin, point).value = float(guard.interrupted[plugin, point])

    metrics.registry.at_scrape(refresh)


async def sample_lag(lag: Histogram, times: Times) -> None:
    """Observe, until cancelled, how late a timer fires."""
    while True:
        due = times.clock() + _SAMPLING_INTERVAL
        await times.sleep(_SAMPLING_INTERVAL)
        lag.observe(max(0.0, times.clock() - due))
