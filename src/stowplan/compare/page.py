"""A comparison as one self-contained HTML file, with intervals drawn."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stowplan.compare.text import NO_DIFFERENCE, letters, spread, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan.compare.comparison import ComparisonRecord
    from stowplan.compare.statistics import Estimate

_STYLE = """
:root{color-scheme:light dark}body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem}
section{border-top:1px solid #8886;padding:.5rem 0}h2{font-size:1rem;margin:.3rem 0}
svg{width:100%;height:auto;max-width:40rem;display:block}svg text{fill:currentColor;font-size:12px}
svg line{stroke:currentColor}svg .axis{opacity:.25}svg .bar{stroke-width:2}svg .mean{fill:#1f77b4}
.wide{overflow-x:auto}td,th{padding:.1rem .6rem .1rem 0;text-align:right}td:first-child,th:first-child{text-align:left}
"""
_WIDTH, _LEFT, _RIGHT, _ROW = 560, 30, 12, 22


def comparison_html(found: ComparisonRecord) -> str:
    title = f"Comparison of configurations: {found.scenario}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        + "\n".join(_body(found))
        + "</body></html>\n"
    )


def _body(found: ComparisonRecord) -> Iterator[str]:
    names = letters(found)
    listed = "".join(f"<li>{escape(name)}: {escape(one)}</li>" for name, one in zip(names, found.configs, strict=True))
    yield f"<ul>{listed}</ul><p>{len(found.seeds)} seeds; whiskers are 95 % intervals of confidence of the mean.</p>"
    if found.seeds and found.is_same:
        yield f"<p><strong>{NO_DIFFERENCE}</strong></p>"
    for measure in found.measures:
        title = title_of(measure.name)
        yield f"<section><h2>{escape(title)}</h2>{_picture(title, names, measure.values)}"
        yield _table(names, measure.values, measure.differences) + "</section>"
    if found.placed_otherwise:
        rows = zip(names[1:], found.placed_otherwise[1:], strict=True)
        listed = "".join(f"<li>{name}: {spread(one)}</li>" for name, one in rows)
        yield f"<section><h2>Pods that are placed otherwise than in A (%)</h2><ul>{listed}</ul></section>"
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
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    parts = []
    for i, (name, one) in enumerate(zip(names, values, strict=True)):
        y = _ROW * i + _ROW / 2
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="4" y="{y + 4}">{name}</text>')
        if one.low is not None and one.high is not None:
            parts.append(f'<line class="bar" x1="{x(one.low):.1f}" x2="{x(one.high):.1f}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<circle class="mean" cx="{x(one.mean):.1f}" cy="{y}" r="5"><title>{spread(one)}</title></circle>'
        )
    height = _ROW * len(values)
    said = f"{title}: " + ", ".join(f"{name} {spread(one)}" for name, one in zip(names, values, strict=True))
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img"><title>{escape(said)}</title>{"".join(parts)}</svg>'
