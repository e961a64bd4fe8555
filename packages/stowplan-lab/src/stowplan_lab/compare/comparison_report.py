"""The report of a comparison, as text and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stowplan.ask.explain.text.tables import Block, Grid, Line
from stowplan.kube.timing.waits import COUNTED
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.ui.report_records import AxisRecord, ChartRecord, LayerRecord, ReportRecord, SectionRecord, TableRecord
from stowplan_lab.compare.comparison import PLACED_DIFFERENTLY, ComparisonRecord, Estimate, MeasureRecord

PLUS_MINUS = "± is half of a 95 % confidence interval; * marks differences that chance does not explain."
NO_DIFFERENCE = "No difference: every pod has the same node at the same time."
_PLAIN = {
    "waits.mean": "mean wait (s)",
    "waits.p95": "p95 wait (s)",
    "gangs.mean": "mean wait of gangs (s)",
    "gangs.longest": "longest wait of a gang (s)",
    "waits.longest": "longest wait (s)",
    "unplaced": "pods without node",
    "evictions": "evictions",
    "nodes.mean": "nodes",
    "cost": "cost",
    PLACED_DIFFERENTLY: "other node than recorded (%)",
}
_SHARES = {"utilization": "in use (%)", "fragmentation": "fragmented (%)", "busiest": "load of the busiest node (%)"}


def title_of(measure: str) -> str:
    kind, _, resource = measure.partition(".")
    return _PLAIN.get(measure) or f"{resource} {_SHARES.get(kind, kind)}".strip()


def amount(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.2f}"


def spread(found: Estimate, *, sign: bool = False) -> str:
    """Mean ± half of the interval."""
    text = ("+" if sign and found.mean > 0 else "") + amount(found.mean)
    return text if found.high is None else f"{text} ±{amount(found.high - found.mean)}"


def comparison_page(found: ComparisonRecord) -> list[Block]:
    return list(_blocks(found))


def _blocks(found: ComparisonRecord) -> Iterator[Block]:
    yield Line(((found.scenario, "name"), (f", {how_often(found)}", "")))
    for letter, name in zip(letters(found), titles(found), strict=True):
        yield Line(f"{letter}: {name}", indent=2)
    yield Line()
    if found.seeds and found.is_same:
        yield Line(NO_DIFFERENCE)
        yield Line()
    if found.seeds:
        head, rows = _table(found)
        yield Grid(rows, header=head, right=frozenset(range(1, len(head))))
        yield Line()
        yield Line(COUNTED)
        if len(found.seeds) > 1 or not found.recording:
            yield Line(PLUS_MINUS)
    for note in found.notes:
        yield Line(note)
    for failure in found.failures:
        yield Line(f"failed: {failure.config}, seed {failure.seed}: {failure.error}")


def titles(found: ComparisonRecord) -> list[str]:
    """The configurations, with their versions where these are not all the same."""
    versions = found.emulated_versions
    if len(set(versions)) < 2:
        return list(found.configs)
    named = zip(found.configs, versions, strict=True)
    return [name if name.endswith(version) else f"{name}, as Kubernetes {version}" for name, version in named]


def how_often(found: ComparisonRecord) -> str:
    how = count(len(found.seeds), "seed")
    if found.recording:
        how = "a recording, scheduled again" + (f" with {how}" if len(found.seeds) > 1 else "")
    return f"{how} (interrupted)" if found.interrupted else how


def letters(found: ComparisonRecord) -> list[str]:
    return [chr(ord("A") + i) for i in range(len(found.configs))]


def _table(found: ComparisonRecord) -> tuple[list[str], list[Sequence[str]]]:
    """Its head and rows."""
    head = ["", *letters(found), *(f"{letter} − A" for letter in letters(found)[1:])]
    rows: list[Sequence[str]] = [_row(measure) for measure in found.measures]
    others = [spread(one) for one in found.placed_differently[1:]]
    rows.append(["placed differently (%)", *[""] * len(found.configs), *others])
    return head, rows


def _row(measure: MeasureRecord) -> Sequence[str]:
    differences = [_difference(one) for one in measure.differences[1:]]
    return [title_of(measure.name), *(spread(one) for one in measure.values), *differences]


def _difference(less: Estimate) -> str:
    return spread(less, sign=True) + (" *" if less.certain else "")


def comparison_report(found: ComparisonRecord) -> ReportRecord:
    spans = "" if found.recording and len(found.seeds) < 2 else "; whiskers are 95 % confidence intervals of the mean"
    named = tuple(f"{letter}: {name}" for letter, name in zip(letters(found), titles(found), strict=True))
    return ReportRecord(
        title=f"Comparison of configurations: {found.scenario}",
        lines=(*named, f"{how_often(found)}{spans}. {COUNTED}"),
        headline=NO_DIFFERENCE if found.seeds and found.is_same else "",
        notes=(*found.notes, *(f"failed: {one.config}, seed {one.seed}: {one.error}" for one in found.failures)),
        sections=tuple(_sections(found)),
    )


def _sections(found: ComparisonRecord) -> Iterator[SectionRecord]:
    if not found.seeds:
        return
    head, rows = _table(found)
    table = TableRecord(head=("measure", *head[1:]), rows=tuple(map(tuple, rows)))
    yield SectionRecord(name="measures", title="All measures", caption=PLUS_MINUS, table=table)
    for one in found.measures:
        better = "more" if one.name.startswith("utilization") else "less"
        caption = f"Difference from A; {better} is better."
        chart = _differences(letters(found), one)
        yield SectionRecord(name=one.name, title=title_of(one.name), caption=caption, chart=chart)


def _differences(names: Sequence[str], measure: MeasureRecord) -> ChartRecord:
    pairs = list(zip(measure.values, measure.differences, strict=True))
    labels = [
        spread(value) if i == 0 else f"{spread(value)}, {_difference(less)}" for i, (value, less) in enumerate(pairs)
    ]
    layer = LayerRecord(
        kind="dot",
        x=tuple(one.mean for one in measure.differences),
        low=tuple(one.low for one in measure.differences),
        high=tuple(one.high for one in measure.differences),
        labels=tuple(labels),
    )
    return ChartRecord(x=AxisRecord(name="difference from A"), bands=tuple(names), layers=(layer,))
