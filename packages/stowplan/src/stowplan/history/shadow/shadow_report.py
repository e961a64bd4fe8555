"""A shadow's report: agreement, reasons for differences, latencies."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stowplan.ask.explain.text.tables import Block, Grid, Line
from stowplan.history.shadow.bind_comparison import Kind
from stowplan.history.shadow.shadow import Judged
from stowplan.kube.metrics.registry import MetricsRegistry, exponential_buckets, family_text

SCHEMA_VERSION = 1
#: Number of differences that are kept individually; all are counted.
_KEPT = 1000
#: Number of latencies that are kept, evenly over time.
_SAMPLES = 100_000
_SHOWN = 20
_BUCKETS = exponential_buckets(0.0001, 2, 20)


class Report:
    def __init__(self) -> None:
        self.kinds: Counter[Kind] = Counter()
        #: By the first plugin of the reason.
        self.plugins: Counter[str] = Counter()
        self.differences: list[Judged] = []
        #: The order of decisions on which the two agree, for those that do.
        self.orders: Counter[str] = Counter()
        #: Of those, the ones that are not ties.
        self._same: Counter[str] = Counter()
        self.notes: list[str] = []
        self._pending: list[float] = []
        self._took: list[float] = []
        self._registry = MetricsRegistry()
        self._counted = self._registry.counter_vec(
            "stowplan_shadow_pods_total", "Pods that the other scheduler bound, by how the two compare.", ("result",)
        )
        self._by_plugin = self._registry.counter_vec(
            "stowplan_shadow_differences_total", "Differences by the plugin that makes most of them.", ("plugin",)
        )
        self._agreement = self._registry.gauge(
            "stowplan_shadow_agreement_ratio", "Agreement outside ties, between 0 and 1."
        )
        seconds = self._registry.histogram_vec(
            "stowplan_shadow_latency_seconds",
            "The other: from when a pod was seen pending to when its bind was seen. Own: one judgement.",
            ("whose",),
            _BUCKETS,
        )
        self._others, self._own = seconds.with_label_values("other"), seconds.with_label_values("own")

    def add(self, judged: Judged) -> None:
        found = judged.comparison
        self.kinds[found.kind] += 1
        self._counted.with_label_values(found.kind.value).inc()
        if found.kind.agrees:
            self.orders[judged.order] += 1
        if found.kind is Kind.SAME:
            self._same[judged.order] += 1
        self._others.observe(judged.pending)
        self._own.observe(judged.took)
        for samples, value in ((self._pending, judged.pending), (self._took, judged.took)):
            samples.append(value)
            if len(samples) > _SAMPLES:
                del samples[::2]
        if found.kind.differs:
            name = found.plugin or found.kind.value
            self.plugins[name] += 1
            self._by_plugin.with_label_values(name).inc()
            if len(self.differences) < _KEPT:
                self.differences.append(judged)

    # -- figures ------------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> int:
        return self.kinds.total()

    @property
    def different(self) -> int:
        return sum(number for kind, number in self.kinds.items() if kind.differs)

    @property
    def not_compared(self) -> int:
        """Pods without a valid comparison."""
        return self.kinds[Kind.SAMPLE] + self.kinds[Kind.EXTENDER]

    @property
    def agreement(self) -> float:
        """Of the pods with a single best node, the share that both placed there; 1.0 if there are none."""
        decided = self.kinds[Kind.SAME] + self.different
        return self.kinds[Kind.SAME] / decided if decided else 1.0

    @property
    def strict_agreement(self) -> float:
        """`agreement`, without pods that only agree if two concurrent binds were decided in the other order."""
        decided = self.kinds[Kind.SAME] + self.different + self.orders["swapped"] - self._same["swapped"]
        return (self.kinds[Kind.SAME] - self._same["swapped"]) / decided if decided else 1.0

    def metrics_text(self) -> str:
        self._agreement.set(self.agreement)
        return "".join(family_text(family) for family in self._registry.families())

    # -- output --------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "Shadow",
            "schemaVersion": SCHEMA_VERSION,
            "pods": self.pods,
            "results": {kind.value: self.kinds[kind] for kind in Kind if self.kinds[kind]},
            "notCompared": self.not_compared,
            "agreementOutsideTies": self.agreement,
            "agreementInSeenOrder": self.strict_agreement,
            "orders": dict(self.orders),
            "differencesByPlugin": dict(self.plugins.most_common()),
            "differences": [_difference(judged) for judged in self.differences],
            "latencySeconds": {
                "other": _percentiles(self._pending),
                "own": _percentiles(self._took),
            },
            "notes": self.notes,
        }

    def page(self) -> list[Block]:
        if not self.pods:
            return [Line("No pod was bound by another scheduler."), *(Line(f"note: {note}") for note in self.notes)]
        kinds = self.kinds
        blocks: list[Block] = [
            Line(
                f"{self.pods:,} pods placed by the other scheduler: {kinds[Kind.SAME]:,} on the best node here, "
                f"{kinds[Kind.TIE]:,} on one of several equally good, {self.different:,} elsewhere"
            ),
            Line(f"agreement outside ties: {100 * self.agreement:.2f} %"),
        ]
        if self.not_compared == self.pods:
            blocks = [Line(f"{self.pods:,} pods placed by the other scheduler, none of which could be compared")]
        if kinds[Kind.SAMPLE]:
            blocks.append(
                Line(f"{kinds[Kind.SAMPLE]:,} not compared: the better nodes may not have been in the other's sample")
            )
        if kinds[Kind.EXTENDER]:
            blocks.append(
                Line(f"{kinds[Kind.EXTENDER]:,} not compared: an extender is interested in them, and was not called")
            )
        if self.orders["swapped"]:
            blocks.append(
                Line(
                    f"{self.orders['swapped']:,} of those that agree do so if it was decided the other way round "
                    f"than a bind of the same moment was seen; without them {100 * self.strict_agreement:.2f} %"
                )
            )
        blocks += [Line(), _latencies(self._pending, self._took)]
        if self.differences:
            rows = [
                (
                    one.pod,
                    one.comparison.node,
                    one.comparison.best,
                    one.comparison.text(),
                )
                for one in self.differences[:_SHOWN]
            ]
            blocks += [Line(), Grid(rows, ("pod", "theirs", "ours", "why"))]
            if self.different > len(rows):
                blocks.append(Line(f"… and {self.different - len(rows):,} more: -o json has them"))
        return [*blocks, *(Line(f"note: {note}") for note in self.notes)]


def _difference(judged: Judged) -> dict[str, Any]:
    found = judged.comparison
    return {
        "pod": judged.pod,
        "at": judged.at,
        "result": found.kind.value,
        "theirs": found.node,
        "ours": found.best,
        "plugin": found.plugin,
        "scores": found.by_plugin,
        "why": found.text(),
    }


def _percentiles(samples: list[float]) -> dict[str, float]:
    ordered = sorted(samples)
    last = len(ordered) - 1
    return {f"p{share}": ordered[round(last * share / 100)] for share in (50, 90, 99)} if ordered else {}


def _latencies(theirs: list[float], ours: list[float]) -> Grid:
    rows = []
    for name, samples in (("theirs, pending until bound", theirs), ("ours, one judgement", ours)):
        rows.append((name, *(f"{seconds * 1000:,.1f} ms" for seconds in _percentiles(samples).values())))
    return Grid(rows, ("latency", "p50", "p90", "p99"))
