"""What the runs of an experiment say together: means over seeds, as a table, as JSON and as the paper's figure."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_sharing.experiment import Run

#: Loads of the table, in percent of all GPUs.
TABLE_LOADS = (50, 80, 90, 100, 110, 120, 130)
#: Of the picture.
FIRST_LOAD = 50
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _GAP = 420, 300, 48, 44, 34, 16
_COLOURS = ("#888888", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#d62728")
_DASHES = ("2 3", "8 3", "4 2", "6 2 2 2", "10 3 2 3", "")


@dataclass(frozen=True, slots=True)
class Curve:
    """One policy's measure by load: means over seeds, and the standard deviation of one run."""

    title: str
    means: list[float]
    deviations: list[float]


def curves(runs: Iterable[Run], measure: str, titles: dict[str, str]) -> list[Curve]:
    """A curve per policy that has runs, in the order of `titles`."""
    by_policy: dict[str, list[Run]] = {}
    for run in runs:
        by_policy.setdefault(run.policy, []).append(run)
    found = []
    for policy, title in titles.items():
        of_runs = [getattr(run, measure) for run in sorted(by_policy.get(policy, []), key=lambda run: run.seed)]
        if of_runs:
            # A seed more or less may fall one load short.
            columns = list(zip(*of_runs, strict=False))
            means = [round(fmean(column), 3) for column in columns]
            spread = [round(stdev(column), 3) if len(column) > 1 else 0.0 for column in columns]
            found.append(Curve(title, means, spread))
    return found


def table(of_policies: Sequence[Curve]) -> list[list[str]]:
    """Rows of text: a policy each, a column per load."""
    head = ["Policy", *(str(load) for load in TABLE_LOADS)]
    rows = [
        [
            curve.title,
            *(
                f"{curve.means[load]:.2f} ±{curve.deviations[load]:.2f}" if load < len(curve.means) else "–"
                for load in TABLE_LOADS
            ),
        ]
        for curve in of_policies
    ]
    return [head, *rows]


def figure(allocated: Sequence[Curve], fragments: Sequence[Curve], *, title: str) -> str:
    """Both measures over the load, as an SVG file that stands alone, for light and dark pages."""
    width = 2 * (_WIDTH + _LEFT + _GAP)
    names = [curve.title for curve in allocated]
    legend_top = _TOP + _HEIGHT + _BOTTOM + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {legend_top + 20}" role="img"'
        f' font-family="system-ui, sans-serif" font-size="12"><title>{escape(title)}</title>',
        "<style>svg{background:#fff;color:#222}@media(prefers-color-scheme:dark){svg{background:#16181c;color:#ddd}}"
        "text{fill:currentColor}.grid{stroke:currentColor;opacity:.15}.curve{fill:none;stroke-width:2}</style>",
        f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(title)}</text>',
        _panel(allocated, 0, "GPU allocation (% of all GPUs)"),
        _panel(fragments, _WIDTH + _LEFT + _GAP, "Fragmented GPUs (% of all GPUs)"),
    ]
    for i, name in enumerate(names):
        x = _LEFT + i * (width - _LEFT) // max(1, len(names))
        parts.append(
            f'<line x1="{x}" x2="{x + 26}" y1="{legend_top}" y2="{legend_top}" {_stroke(i)}/>'
            f'<text x="{x + 32}" y="{legend_top + 4}">{escape(name)}</text>'
        )
    return "\n".join((*parts, "</svg>\n"))


def _panel(of_policies: Sequence[Curve], left: float, label: str) -> str:
    last = max((len(curve.means) for curve in of_policies), default=2) - 1
    first = min(FIRST_LOAD, last - 1)
    values = [value for curve in of_policies for value in curve.means[first:]]
    low, high = _bounds(values)
    x0 = left + _LEFT

    def x(load: float) -> float:
        return x0 + (load - first) / (last - first) * _WIDTH

    def y(value: float) -> float:
        return _TOP + (high - value) / (high - low) * _HEIGHT

    parts = [f'<text x="{x0 + _WIDTH / 2}" y="{_TOP + _HEIGHT + 34}" text-anchor="middle">arrived load (%)</text>']
    parts.append(f'<text x="{x0 + 6}" y="{_TOP + 12}">{escape(label)}</text>')
    step = 10 if high - low > 20 else 2 if high - low > 6 else 1
    for value in range(int(low), int(high) + 1, step):
        parts.append(f'<line class="grid" x1="{x0}" x2="{x0 + _WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text x="{x0 - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    parts += (
        f'<text x="{x(load):.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">{load}</text>'
        for load in range(-(-first // 10) * 10, last + 1, 10)
    )
    for i, curve in enumerate(of_policies):
        points = " ".join(f"{x(load):.1f},{y(curve.means[load]):.1f}" for load in range(first, len(curve.means)))
        hint = f"{curve.title}: {curve.means[-1]:.2f} at load {len(curve.means) - 1}"
        parts.append(f'<polyline {_stroke(i)} points="{points}"><title>{escape(hint)}</title></polyline>')
    return "\n".join(parts)


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return float(int(low / 2) * 2), float(int(high / 2) * 2 + 2)


def _stroke(i: int) -> str:
    dash = _DASHES[i % len(_DASHES)]
    return f'class="curve" stroke="{_COLOURS[i % len(_COLOURS)]}"' + (f' stroke-dasharray="{dash}"' if dash else "")
