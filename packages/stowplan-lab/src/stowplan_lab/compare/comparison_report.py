"""The report of a comparison, as text and as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from stowplan.ask.explain.text.tables import Block, Grid, Line
from stowplan.kube.timing.waits import COUNTED
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan_lab.compare.comparison import PLACED_DIFFERENTLY, ComparisonRecord, Estimate, MeasureRecord
from stowplan_lab.simulation.report.html import WIDTH, standing_page

NO_DIFFERENCE = "No difference: every pod has the same node at the same time."
_PLAIN = {
    "waits.mean": "mean wait (s)",
    "waits.p95": "p95 wait (s)",
    "waits.longest": "longest wait (s)",
    "unplaced": "pods without node",
    "evictions": "evictions",
    "nodes.mean": "nodes",
    "cost": "cost",
    PLACED_DIFFERENTLY: "other node than recorded (%)",
}
_SHARES = {"utilization": "in use (%)", "fragmentation": "fragmented (%)"}


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
        head = ["", *letters(found), *(f"{letter} − A" for letter in letters(found)[1:])]
        rows = [_row(measure) for measure in found.measures]
        others = [spread(one) for one in found.placed_differently[1:]]
        rows.append(["placed differently (%)", *[""] * len(found.configs), *others])
        yield Grid(rows, header=head, right=frozenset(range(1, len(head))))
        yield Line()
        yield Line(COUNTED)
        if not found.recording:
            yield Line("± is half of a 95 % interval of confidence; * marks differences that chance does not explain.")
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
    how = "a recording, scheduled again" if found.recording else count(len(found.seeds), "seed")
    return f"{how} (interrupted)" if found.interrupted else how


def letters(found: ComparisonRecord) -> list[str]:
    return [chr(ord("A") + i) for i in range(len(found.configs))]


def _row(measure: MeasureRecord) -> Sequence[str]:
    differences = [spread(one, sign=True) + (" *" if one.certain else "") for one in measure.differences[1:]]
    return [title_of(measure.name), *(spread(one) for one in measure.values), *differences]


_LEFT, _RIGHT, _ROW = 30, 12, 26


def comparison_html(found: ComparisonRecord) -> str:
    return standing_page(f"Comparison of configurations: {found.scenario}", "\n".join(_body(found)))


def _body(found: ComparisonRecord) -> Iterator[str]:
    names = letters(found)
    yield f"<h1>Comparison of configurations: {escape(found.scenario)}</h1>"
    listed = "".join(f"<li>{escape(name)}: {escape(one)}</li>" for name, one in zip(names, titles(found), strict=True))
    spans = "" if found.recording else "; whiskers are 95 % intervals of confidence of the mean"
    yield f"<ul>{listed}</ul><p>{how_often(found)}{spans}. {COUNTED}</p>"
    for note in found.notes:
        yield f"<p>{escape(note)}</p>"
    if found.seeds and found.is_same:
        yield f"<p><strong>{NO_DIFFERENCE}</strong></p>"
    for measure in found.measures:
        title = title_of(measure.name)
        yield f"<figure><h2>{escape(title)}</h2>{_picture(title, names, measure.values)}"
        yield _table(names, measure.values, measure.differences) + "</figure>"
    if found.placed_differently:
        rows = zip(names[1:], found.placed_differently[1:], strict=True)
        listed = "".join(f"<li>{name}: {spread(one)}</li>" for name, one in rows)
        yield f"<figure><h2>Pods that are placed differently than in A (%)</h2><ul>{listed}</ul></figure>"
    for failure in found.failures:
        yield f"<p>failed: {escape(failure.config)}, seed {failure.seed}: {escape(failure.error)}</p>"


def _table(names: Sequence[str], values: Sequence[Estimate], differences: Sequence[Estimate]) -> str:
    rows = "".join(
        f"<tr><td>{name}</td><td>{spread(value)}</td><td>{spread(less, sign=True) if i else ''}"
        f"{' *' if less.certain else ''}</td></tr>"
        for i, (name, value, less) in enumerate(zip(names, values, differences, strict=True))
    )
    return f'<div class="wide"><table><tr><th></th><th>mean</th><th>less A</th></tr>{rows}</table></div>'


def _picture(title: str, names: Sequence[str], values: Sequence[Estimate]) -> str:
    """A row per configuration: the mean as a dot, its interval as a whisker."""
    ends = [end for one in values for end in (one.mean, one.low, one.high) if end is not None]
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 1.0
    low, high = low - margin, high + margin

    def x(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    parts = []
    for i, (name, one) in enumerate(zip(names, values, strict=True)):
        y = _ROW * i + _ROW / 2
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="name" x="0" y="{y + 6}">{name}</text>')
        if one.low is not None and one.high is not None:
            parts.append(f'<line class="whisker" x1="{x(one.low):.1f}" x2="{x(one.high):.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="a0" cx="{x(one.mean):.1f}" cy="{y}" r="5"><title>{spread(one)}</title></circle>')
    height = _ROW * len(values)
    said = f"{title}: " + ", ".join(f"{name} {spread(one)}" for name, one in zip(names, values, strict=True))
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img"><title>{escape(said)}</title>{"".join(parts)}</svg>'
