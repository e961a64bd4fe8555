"""A simulation as one HTML page: figures, charts, and causes of waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

import numpy as np

from stowplan.kube.timing.waits import COUNTED, Waits
from stowplan_lab.simulation.report.html import COLOURS, Bar, Series, areas, bars, figure, heat, lines, standing_page
from stowplan_lab.simulation.report.left_out import LEFT_OUT
from stowplan_lab.simulation.report.series import ABSENT, Sampler
from stowplan_lab.simulation.report.summary_text import span_text
from stowplan_lab.simulation.results.simulation_records import SampleRow, SummaryRecord

#: Of a heat map.
_ROWS, _COLUMNS = 48, 96
_MOST_CAUSES = 6
_OTHER = "other causes"
#: Limits of the waiting-time buckets, in seconds.
_BOUNDS = (0.0, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, float("inf"))


def report_page(summary: SummaryRecord, sampler: Sampler, waits: Waits) -> str:
    return standing_page(summary.name, "".join(_body(summary, sampler, waits)))


def _body(summary: SummaryRecord, sampler: Sampler, waits: Waits) -> Iterator[str]:
    rows = sampler.rows
    times = [row.time for row in rows]
    ended = ", interrupted" if summary.interrupted else ""
    yield f"<h1>{escape(summary.name)}</h1><p>{span_text(summary.simulated)} simulated{ended}, seed {summary.seed}</p>"
    yield f"<dl>{''.join(_facts(summary))}</dl>"
    for note in summary.notes:
        yield f"<p>{escape(note)}</p>"

    def over_time(
        name: str,
        title: str,
        caption: str,
        series: Sequence[Series],
        text: Callable[[float], str],
        *,
        picture: str = "",
        draw: Callable[..., str] = lines,
    ) -> str:
        drawn = draw(f"{picture or title} over time", times, series, span_text, text)
        return figure(title, caption, drawn, name, series)

    caption = "Share of what the nodes have. Dashed: with what waits."
    title = "Resources used and requested"
    yield over_time("use", title, caption, list(_use(rows)), _percent, picture=f"{title},")
    caption = "By the result of the last attempt, or not tried yet."
    by_cause = "Pending pods by cause,"
    yield over_time("pending", "Pods that waited", caption, _causes(rows), _number, picture=by_cause, draw=areas)
    distribution = bars("Distribution of waits", _wait_bars(waits))
    yield figure("How long pods waited for a node", f"Of {waits.count:,} pods. {COUNTED}", distribution, "waits")
    reasons = [
        Bar(one.cause, one.seconds, f"{span_text(one.seconds)} in {one.pods:,} waits") for one in summary.causes[:12]
    ]
    caption = "Time spent waiting, of all pods together."
    yield figure("What waited, and why", caption, bars("Waiting by cause", reasons), "why")
    if replicas := _each(rows, "replicas"):
        yield over_time("replicas", "Replicas", "Of workloads with an autoscaler.", replicas, _number)
    cost = f"They cost {summary.cost:,.2f}." if summary.cost else ""
    yield over_time("nodes", "Nodes", cost, _groups(rows), _number)
    caption = "A row per node (or some of them together): the resource that is scarcest there; the darker, the fuller."
    end = summary.simulated
    fullness = heat("How full each node was, over time", end, _heat_rows(sampler, end), span_text)
    yield figure("How full the nodes were", caption, fullness, "heat")
    caption = "Share of the free amount on nodes where a typical pod does not fit."
    yield over_time("fragmentation", "Fragmentation", caption, _each(rows, "fragmentation"), _percent)
    missing = "".join(f"<li>{escape(one.replace('`', ''))}</li>" for one in LEFT_OUT)
    yield f"<details><summary>Not modelled</summary><ul>{missing}</ul></details>"


def _facts(summary: SummaryRecord) -> Iterator[str]:
    waits = summary.waits
    facts = [
        ("pods", f"{summary.arrived:,}"),
        ("placements", f"{summary.placements:,}"),
        ("evictions", f"{summary.evictions:,}"),
        ("pending at the end", f"{summary.ends.get('pending', 0):,}"),
        ("median wait", span_text(waits.p50)),
        ("p95 wait", span_text(waits.p95)),
        ("longest wait", span_text(waits.longest)),
        ("nodes, mean", f"{summary.nodes_mean:,.1f}"),
        *((f"{name} in use", f"{share:.1%}") for name, share in summary.utilization.items()),
        *([("cost", f"{summary.cost:,.2f}")] if summary.cost else []),
    ]
    for name, value in facts:
        yield f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _use(rows: Sequence[SampleRow]) -> Iterator[Series]:
    resources = sorted({name for row in rows for name, amount in row.allocatable.items() if amount})
    for colour, name in enumerate(resources):
        for values, dashed in (("used", False), ("asked", True)):
            shares = [
                getattr(row, values).get(name, 0) / row.allocatable[name] if row.allocatable.get(name) else 0.0
                for row in rows
            ]
            if not dashed or any(shares):
                yield Series(f"{name}{' with what waits' if dashed else ''}", shares, dashed, colour)


def _causes(rows: Sequence[SampleRow]) -> list[Series]:
    totals: dict[str, int] = {}
    for row in rows:
        for cause, number in row.pending_by.items():
            totals[cause] = totals.get(cause, 0) + number
    ranked = sorted(totals, key=lambda cause: (-totals[cause], cause))
    shown, others = ranked[:_MOST_CAUSES], ranked[_MOST_CAUSES:]
    found = [Series(cause, [row.pending_by.get(cause, 0) for row in rows], colour=i) for i, cause in enumerate(shown)]
    if others:
        rest = [sum(row.pending_by.get(cause, 0) for cause in others) for row in rows]
        found.append(Series(_OTHER, rest, colour=COLOURS - 1))
    return found


def _each(rows: Sequence[SampleRow], field: str) -> list[Series]:
    """A series for each name in a mapping of the rows."""
    found = [getattr(row, field) for row in rows]
    names = sorted({name for values in found for name in values})
    return [Series(name, [values.get(name, 0) for values in found], colour=i) for i, name in enumerate(names)]


def _groups(rows: Sequence[SampleRow]) -> list[Series]:
    found = _each(rows, "nodes_by_group")
    if len(found) != 1:
        found.append(Series("all nodes", [row.nodes for row in rows], colour=COLOURS - 1))
    return found


def _wait_bars(waits: Waits) -> list[Bar]:
    longer = [waits.count - waits.none, *(waits.above(bound) for bound in _BOUNDS[1:-1]), 0]
    found = [Bar("none", waits.none, _share_text(waits.none, waits.count))]
    for index, bound in enumerate(_BOUNDS[1:]):
        number = longer[index] - longer[index + 1]
        low = span_text(_BOUNDS[index])
        name = f"more than {low}" if bound == _BOUNDS[-1] else f"up to {span_text(bound)}"
        found.append(Bar(name, number, _share_text(number, waits.count)))
    while len(found) > 1 and not found[-1].value:
        found.pop()
    return found


def _share_text(number: int, of: int) -> str:
    return f"{number:,} ({number / of:.1%})" if of else "0"


def _heat_rows(sampler: Sampler, last: float) -> list[tuple[str, list[int | None]]]:
    """Average neighbors if there are more nodes or samples than the chart can show."""
    names = list(sampler.nodes)
    if not names or not last:
        return []
    columns = min(_COLUMNS, max(1, len(sampler.heat) - 1))
    per_row = -(-len(names) // _ROWS)
    sums = np.zeros((len(names), columns))
    counts = np.zeros((len(names), columns))
    for sample in sampler.heat:
        column = min(columns - 1, int(columns * sample.time / last))
        there = sample.percent != ABSENT
        n = len(sample.percent)
        sums[:n, column] += np.where(there, sample.percent, 0)
        counts[:n, column] += there
    rows = []
    for first in range(0, len(names), per_row):
        total, number = sums[first : first + per_row].sum(axis=0), counts[first : first + per_row].sum(axis=0)
        end = names[min(first + per_row, len(names)) - 1]
        name = names[first] if per_row == 1 else f"{names[first]} … {end}"
        values = [round(t / n) if n else None for t, n in zip(total.tolist(), number.tolist(), strict=True)]
        rows.append((name, values))
    return rows
