"""Stowplan's own metrics, prefixed "stowplan_".

Set at the scrape (`registry.at_scrape`), unless noted; vectors have no children before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.metrics.registry import exponential_buckets

if TYPE_CHECKING:
    from stowplan.kube.metrics.families import Counter, CounterVec, Gauge, GaugeVec, Histogram
    from stowplan.kube.metrics.registry import MetricsRegistry


class StowplanMetrics:
    """One attribute per metric, named without "stowplan_"."""

    def __init__(self, registry: MetricsRegistry, *, version: str) -> None:
        registry.gauge_vec(
            "stowplan_build_info", "Always 1; the label tells which Stowplan runs.", ("version",)
        ).with_label_values(version).set(1.0)
        #: Observed once a second: how late a timer of the event loop fired.
        self.event_loop_lag_seconds: Histogram = registry.histogram(
            "stowplan_event_loop_lag_seconds",
            "By how much the event loop was late for a timer, in seconds: how long a decision or a page held it up.",
            exponential_buckets(0.001, 2, 14),
        )
        self.client_requests_waiting: GaugeVec = registry.gauge_vec(
            "stowplan_client_requests_waiting",
            "Requests that wait for their turn at the client's rate limit, by the lane they wait in.",
            ("lane",),
        )
        self.events_dropped_total: Counter = registry.counter(
            "stowplan_events_dropped_total", "Events about pods that were not sent, as too many waited already."
        )
        self.stories: Gauge = registry.gauge("stowplan_stories", "Pods whose story is kept in memory.")
        #: Counted directly, by the file watch.
        self.config_reloads_total: CounterVec = registry.counter_vec(
            "stowplan_config_reloads_total",
            "Changes of the configuration file that came into force (swapped) or were wrong (refused).",
            ("result",),
        )
        #: Counted directly, by the hang guard.
        self.plugin_hangs_total: CounterVec = registry.counter_vec(
            "stowplan_plugin_hangs_total",
            "Calls of a plugin that did not come back in time.",
            ("plugin", "extension_point"),
        )
