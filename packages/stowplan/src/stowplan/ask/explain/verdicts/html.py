"""A verdict as HTML, for notebooks: scores as a heat map, rejections in groups.

Self-contained, without scripts or style sheets, in colors that work on light and dark pages.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stowplan.ask.explain.verdicts.refusals import refusals
from stowplan.scheduler.framework.explanations.formatting import count, listed
from stowplan.scheduler.inspection.html_cells import number_cell, number_head, text_cell, text_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stowplan.ask.explain.verdicts.verdict import Verdict

#: Maximum numbers of nodes and groups shown.
_NODES, _GROUPS = 20, 12


def verdict_html(verdict: Verdict) -> str:
    parts = [f"<div><p><b>{escape(verdict.in_words())}</b></p>"]
    if verdict.node_name:
        parts += _scores(verdict)
    if verdict.diagnosis is not None and verdict.error is None:
        parts += _refused(verdict)
    return "".join([*parts, "</div>"])


def _scores(verdict: Verdict) -> Iterable[str]:
    ranked = verdict.ranked()
    shown = ranked[:_NODES]
    plugins = [name for name, of in verdict.scores.items() if of[ranked].any()]
    most = {name: max(int(verdict.scores[name][row]) for row in ranked) for name in plugins}
    totals = [int(verdict.totals[row]) if len(verdict.totals) else 0 for row in shown]
    yield f"<table><thead><tr>{text_head('node')}{number_head('score', *plugins)}</tr></thead><tbody>"
    for row, total in zip(shown, totals, strict=True):
        name = verdict.names[row]
        cells = (_heat(int(verdict.scores[plugin][row]), most[plugin]) for plugin in plugins)
        yield f"<tr>{text_cell(name, bold=name == verdict.node_name)}{number_cell(total)}{''.join(cells)}</tr>"
    yield "</tbody></table>"
    left = len(ranked) - len(shown)
    if left:
        yield f"<p>… and {count(left, 'more node')}</p>"


def _heat(points: int, most: int) -> str:
    share = points / most if most else 0.0
    return f'<td style="text-align:right;background:rgba(34,139,80,{0.55 * share:.2f})">{points:,}</td>'


def _refused(verdict: Verdict) -> Iterable[str]:
    assert verdict.diagnosis is not None
    groups = refusals(verdict.diagnosis)
    if not groups:
        return
    yield f"<table><thead><tr>{text_head('refused', 'plugin', 'reason', 'nodes')}</tr></thead><tbody>"
    for group in groups[:_GROUPS]:
        cells = (count(len(group.rows), "node"), group.plugin, group.text, _names(verdict, group.rows.tolist()))
        yield f"<tr>{''.join(map(text_cell, cells))}</tr>"
    yield "</tbody></table>"
    left = len(groups) - _GROUPS
    if left > 0:
        yield f"<p>… and {count(left, 'more reason')}</p>"


def _names(verdict: Verdict, rows: Sequence[int]) -> str:
    return listed([verdict.names[row] for row in rows])
