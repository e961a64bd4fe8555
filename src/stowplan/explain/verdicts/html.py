"""A verdict as HTML, for notebooks: scores as a heat map, rejections in groups.

Self-contained, without scripts or style sheets, in colors that work on light and dark pages.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stowplan.explain.verdicts.refusals import refusals
from stowplan.framework.explanations.formatting import count, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stowplan.explain.verdicts.verdict import Verdict

#: Maximum numbers of nodes and groups shown.
_NODES, _GROUPS = 20, 12
_RIGHT = ' style="text-align:right"'


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
    yield "<table><thead><tr><th>node</th><th>score</th>"
    yield "".join(f"<th>{escape(name)}</th>" for name in plugins)
    yield "</tr></thead><tbody>"
    for row, total in zip(shown, totals, strict=True):
        name = escape(verdict.names[row])
        chosen = f"<b>{name}</b>" if verdict.names[row] == verdict.node_name else name
        cells = (_heat(int(verdict.scores[plugin][row]), most[plugin]) for plugin in plugins)
        yield f"<tr><td>{chosen}</td><td{_RIGHT}>{total:,}</td>{''.join(cells)}</tr>"
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
    yield "<table><thead><tr><th>refused</th><th>plugin</th><th>reason</th><th>nodes</th></tr></thead><tbody>"
    for group in groups[:_GROUPS]:
        names = _names(verdict, group.rows.tolist())
        number = count(len(group.rows), "node")
        yield f"<tr><td{_RIGHT}>{number}</td><td>{escape(group.plugin)}</td><td>{escape(group.text)}</td>"
        yield f"<td>{escape(names)}</td></tr>"
    yield "</tbody></table>"
    left = len(groups) - _GROUPS
    if left > 0:
        yield f"<p>… and {count(left, 'more reason')}</p>"


def _names(verdict: Verdict, rows: Sequence[int]) -> str:
    return listed([verdict.names[row] for row in rows])
