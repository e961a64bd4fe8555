"""The report of a simulation: figures, charts, and causes of waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from stowplan.kube.timing.waits import COUNTED, Waits
from stowplan.ui.report_records import (
    AxisRecord,
    ChartRecord,
    LayerKind,
    LayerRecord,
    ReportRecord,
    SectionRecord,
    TableRecord,
)
from stowplan_lab.simulation.report.series import ABSENT, Sampler
from stowplan_lab.simulation.report.summary_text import cost_text, hours_title, parts_table, span_text
from stowplan_lab.simulation.results.simulation_records import SampleRow, SummaryRecord

#: In Markdown, as in docs/use/simulate.md.
LEFT_OUT = (
    "Effects of actual usage on pods: they run as long with too little as with enough.",
    "`podFailurePolicy`, `successPolicy` and `backoffLimitPerIndex` of Jobs.",
    "Updates that are in progress in the initial cluster: they count as complete.",
    "`persistentVolumeClaimRetentionPolicy` of StatefulSets: claims are kept.",
    "ResourceClaims that are made from templates for the pods of workloads.",
    "Attaching and resizing volumes, failures of provisioners, and finalizers that protect volumes in use.",
    "Admission by webhooks, policies and PodSecurity; the limits of LimitRanges for claims.",
    "Changes of ResourceQuotas, LimitRanges, classes and budgets during a simulation.",
    "How the autoscaler would anticipate the spreading of pods over new nodes: pods that are still unschedulable when"
    " the nodes exist are evaluated again.",
    "Zones in the eviction of pods: taints are neither rate-limited nor held back when a whole zone is down.",
    "Events, managed fields, and reports of Deployments such as their progress deadline.",
)


#: Of a heat map.
_ROWS, _COLUMNS = 48, 96
_MOST_CAUSES = 6
_OTHER, _OTHER_COLOUR = "other causes", 7
#: Limits of the waiting-time buckets, in seconds.
_BOUNDS = (0.0, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, float("inf"))
_TIME = AxisRecord(name="time", unit="seconds")
_SHARE = AxisRecord(unit="ratio")

Values = Iterable[tuple[str, Sequence[float]]]


def simulation_report(
    summary: SummaryRecord, sampler: Sampler, waits: Waits, events: Sequence[tuple[float, str]]
) -> ReportRecord:
    ended = ", interrupted" if summary.interrupted else ""
    return ReportRecord(
        title=summary.name,
        lines=(
            f"{span_text(summary.simulated)} simulated{ended}, seed {summary.seed}, "
            f"as Kubernetes {summary.emulated_version}",
            *filter(None, [summary.description]),
        ),
        facts=tuple(_facts(summary)),
        notes=summary.notes,
        sections=tuple(_sections(summary, sampler, waits, tuple(events))),
    )


def _sections(
    summary: SummaryRecord, sampler: Sampler, waits: Waits, marks: tuple[tuple[float, str], ...]
) -> Iterator[SectionRecord]:
    rows = sampler.rows
    times = tuple(row.time for row in rows)

    def over_time(name: str, title: str, caption: str, layers: Iterable[LayerRecord], y: AxisRecord) -> SectionRecord:
        chart = ChartRecord(x=_TIME, y=y, layers=tuple(layers), marks=marks)
        return SectionRecord(name=name, title=title, caption=caption, chart=chart)

    pods, nodes = AxisRecord(name="pods", unit="count"), AxisRecord(name="nodes", unit="count")
    caption = "Share of what the nodes have. Dashed: with what waits."
    yield over_time("use", "Resources used and requested", caption, _use(rows, times), _SHARE)
    caption = "By the result of the last attempt, or not tried yet."
    yield over_time("pending", "Pending pods", caption, _causes(rows, times), pods)
    caption = f"Of {waits.count:,} pods. {COUNTED}"
    yield _bars("waits", "How long pods waited for a node", caption, _wait_bars(waits), pods)
    causes = [
        (one.cause, one.seconds, f"{span_text(one.seconds)} in {one.pods:,} waits") for one in summary.causes[:12]
    ]
    caption = "Time spent waiting, of all pods together."
    if causes:
        yield _bars("why", "What pods waited for", caption, causes, AxisRecord(unit="seconds"))
    if replicas := _each(rows, "replicas"):
        caption = "Of workloads with an autoscaler."
        yield over_time("replicas", "Replicas", caption, _layers(times, replicas, "step"), pods)
    if busiest := _each(rows, "busiest"):
        caption = "Of the node with the highest load, by what workloads use: share of what it can allocate."
        yield over_time("busiest", "The busiest node", caption, _layers(times, busiest), _SHARE)
    cost = f"They cost {cost_text(summary)}." if summary.cost else ""
    yield over_time("nodes", "Nodes", cost, _groups(rows, times), nodes)
    caption = "A row per node, or some of a group together: the resource that is scarcest there."
    fullness = _heat(sampler, summary.simulated)
    yield SectionRecord(name="heat", title="How full the nodes were", caption=caption, chart=fullness)
    caption = "Share of the free amount on nodes where a typical pod does not fit."
    yield over_time("fragmentation", "Fragmentation", caption, _layers(times, _each(rows, "fragmentation")), _SHARE)
    for kind, parts in summary.parts.items():
        head, *table = parts_table(summary, parts)
        idle = ", ".join(f"{hours:,.1f} {hours_title(name)}" for name, hours in summary.idle_hours.items() if hours)
        caption = f"{COUNTED} Nobody requested {idle}." if idle else COUNTED
        if summary.cost:
            caption += (
                f" A pod pays for its share of a node; {cost_text(summary, summary.cost_idle)} were for the rest."
            )
        of_kind = TableRecord(head=head, rows=tuple(table))
        yield SectionRecord(name=f"by-{kind}", title=f"By {kind}", caption=caption, table=of_kind)
    missing = TableRecord(head=("not modelled",), rows=tuple((one.replace("`", ""),) for one in LEFT_OUT))
    yield SectionRecord(title="Not modelled", table=missing, folded=True)


def _facts(summary: SummaryRecord) -> Iterator[tuple[str, str]]:
    waits = summary.waits
    yield "pods", f"{summary.arrived:,}"
    yield "placements", f"{summary.placements:,}"
    yield "evictions", f"{summary.evictions:,}"
    yield "pending at the end", f"{summary.ends.get('pending', 0):,}"
    yield "median wait", span_text(waits.p50)
    yield "p95 wait", span_text(waits.p95)
    yield "longest wait", span_text(waits.longest)
    yield "nodes, mean", f"{summary.nodes_mean:,.1f}"
    for name, share in summary.utilization.items():
        yield f"{name} in use", f"{share:.1%}"
    if summary.cost:
        yield "cost", cost_text(summary)


def _layers(times: tuple[float, ...], found: Values, kind: LayerKind = "line") -> Iterator[LayerRecord]:
    for colour, (name, values) in enumerate(found):
        yield LayerRecord(kind=kind, name=name, x=times, y=tuple(values), colour=colour)


def _bars(name: str, title: str, caption: str, bars: Sequence[tuple[str, float, str]], x: AxisRecord) -> SectionRecord:
    names, values, labels = zip(*bars, strict=True) if bars else ((), (), ())
    chart = ChartRecord(x=x, bands=names, layers=(LayerRecord(kind="bar", x=values, labels=labels),))
    return SectionRecord(name=name, title=title, caption=caption, chart=chart)


def _use(rows: Sequence[SampleRow], times: tuple[float, ...]) -> Iterator[LayerRecord]:
    resources = sorted({name for row in rows for name, amount in row.allocatable.items() if amount})
    read: dict[str, Callable[[SampleRow], dict[str, int]]] = {
        "": lambda row: row.used,
        " with what waits": lambda row: row.asked,
    }
    for colour, name in enumerate(resources):
        for words, amounts in read.items():
            shares = [
                amounts(row).get(name, 0) / row.allocatable[name] if row.allocatable.get(name) else 0.0 for row in rows
            ]
            if not words or any(shares):
                y, dashed = tuple(round(one, 4) for one in shares), bool(words)
                yield LayerRecord(kind="line", name=name + words, x=times, y=y, colour=colour, dashed=dashed)


def _causes(rows: Sequence[SampleRow], times: tuple[float, ...]) -> Iterator[LayerRecord]:
    totals: dict[str, int] = {}
    for row in rows:
        for cause, number in row.pending_by.items():
            totals[cause] = totals.get(cause, 0) + number
    ranked = sorted(totals, key=lambda cause: (-totals[cause], cause))
    shown, others = ranked[:_MOST_CAUSES], ranked[_MOST_CAUSES:]
    yield from _layers(times, ((one, [row.pending_by.get(one, 0) for row in rows]) for one in shown), "area")
    if others:
        rest = tuple(sum(row.pending_by.get(cause, 0) for cause in others) for row in rows)
        yield LayerRecord(kind="area", name=_OTHER, x=times, y=rest, colour=_OTHER_COLOUR)


def _each(rows: Sequence[SampleRow], field: str) -> list[tuple[str, list[float]]]:
    """The values for each name in a mapping of the rows."""
    found = [getattr(row, field) for row in rows]
    names = sorted({name for values in found for name in values})
    return [(name, [values.get(name, 0) for values in found]) for name in names]


def _groups(rows: Sequence[SampleRow], times: tuple[float, ...]) -> Iterator[LayerRecord]:
    groups = _each(rows, "nodes_by_group")
    yield from _layers(times, groups, "step")
    if len(groups) != 1:
        nodes = tuple(row.nodes for row in rows)
        yield LayerRecord(kind="step", name="all nodes", x=times, y=nodes, colour=_OTHER_COLOUR)


def _wait_bars(waits: Waits) -> list[tuple[str, float, str]]:
    longer = [waits.count - waits.none, *(waits.above(bound) for bound in _BOUNDS[1:-1]), 0]
    found: list[tuple[str, float, str]] = [("none", waits.none, _share_text(waits.none, waits.count))]
    for index, bound in enumerate(_BOUNDS[1:]):
        number = longer[index] - longer[index + 1]
        low = span_text(_BOUNDS[index])
        name = f"more than {low}" if bound == _BOUNDS[-1] else f"up to {span_text(bound)}"
        found.append((name, number, _share_text(number, waits.count)))
    while len(found) > 1 and not found[-1][1]:
        found.pop()
    return found


def _share_text(number: int, of: int) -> str:
    return f"{number:,} ({number / of:.1%})" if of else "0"


def _heat(sampler: Sampler, last: float) -> ChartRecord | None:
    """Averages of neighbours if there are more nodes or samples than the chart can show."""
    names = list(sampler.nodes)
    if not names or not last:
        return None
    columns = min(_COLUMNS, max(1, len(sampler.heat) - 1))
    sums = np.zeros((len(names), columns))
    counts = np.zeros((len(names), columns))
    for sample in sampler.heat:
        column = min(columns - 1, int(columns * sample.time / last))
        there = sample.percent != ABSENT
        n = len(sample.percent)
        sums[:n, column] += np.where(there, sample.percent, 0)
        counts[:n, column] += there
    bands, rows = [], []
    per_row = -(-len(names) // _ROWS)
    for group in sorted({*sampler.groups}):
        of_group = [i for i, one in enumerate(sampler.groups) if one == group]
        for part in (of_group[i : i + per_row] for i in range(0, len(of_group), per_row)):
            total, number = sums[part].sum(axis=0), counts[part].sum(axis=0)
            bands.append(names[part[0]] if len(part) == 1 else f"{names[part[0]]} … {names[part[-1]]}")
            values = zip(total.tolist(), number.tolist(), strict=True)
            rows.append(tuple(round(t / n / 100, 2) if n else None for t, n in values))
    limits = tuple(round(last * column / columns, 3) for column in range(columns + 1))
    layer = LayerRecord(kind="cells", x=limits, rows=tuple(rows))
    return ChartRecord(x=_TIME, y=_SHARE, bands=tuple(bands), layers=(layer,))
