"""A comparison as one self-contained HTML file, with intervals drawn."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stowplan.kube.timing.waits import COUNTED
from stowplan_lab.compare.text import NO_DIFFERENCE, how_often, letters, spread, title_of
from stowplan_lab.simulation.report.html import standing_page
from stowplan_lab.simulation.report.pictures import WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan_lab.compare.comparison import ComparisonRecord
    from stowplan_lab.compare.statistics import Estimate

_LEFT, _RIGHT, _ROW = 30, 12, 26


def comparison_html(found: ComparisonRecord) -> str:
    return standing_page(f"Comparison of configurations: {found.scenario}", "\n".join(_body(found)))


def _body(found: ComparisonRecord) -> Iterator[str]:
    names = letters(found)
    yield f"<h1>Comparison of configurations: {escape(found.scenario)}</h1>"
    listed = "".join(f"<li>{escape(name)}: {escape(one)}</li>" for name, one in zip(names, found.configs, strict=True))
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
