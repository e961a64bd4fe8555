"""Verdicts as HTML, for notebooks: scores as a heat map, rejections in groups; a pod group's topology domains.

Self-contained, without scripts or style sheets, in colors that work on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from stowplan.ask.explain.verdicts.verdict import nodes_of_placed, refusals, refusals_of
from stowplan.scheduler.framework.explanations.formatting import count, listed
from stowplan.scheduler.inspection.html_cells import number_cell, number_head, text_cell, text_head

if TYPE_CHECKING:
    from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
    from stowplan.ask.explain.verdicts.verdict import Verdict
    from stowplan.scheduler.engine.groups.group_questions import DomainJudgement

#: Maximum numbers of nodes, groups and domains shown.
_NODES, _GROUPS, _DOMAINS = 20, 12, 20


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


def group_html(verdict: GroupVerdict) -> str:
    best = verdict.best
    parts = [f"<div><p><b>{escape(verdict.in_words())}</b></p>"]
    if best is not None:
        parts += _domains(verdict)
        parts += _nodes(best)
    return "".join([*parts, "</div>"])


def _domains(verdict: GroupVerdict) -> Iterable[str]:
    ranked = verdict.ranked
    head = text_head("domain") + number_head("nodes", "fit", "lacking") + text_head("why not")
    yield f"<table><thead><tr>{head}</tr></thead><tbody>"
    for domain in ranked[:_DOMAINS]:
        refusals = [] if domain.works else refusals_of(domain)
        why = "; ".join(f"{count(one.pods, 'pod')}: {one.reason}" for one in refusals[:2])
        numbers = (len(domain.nodes), len(domain.placed), verdict.lacking(domain))
        name = text_cell(domain.name or "the whole cluster", bold=domain.works)
        yield f"<tr>{name}{''.join(map(number_cell, numbers))}{text_cell(why)}</tr>"
    yield "</tbody></table>"
    if len(ranked) > _DOMAINS:
        yield f"<p>… and {count(len(ranked) - _DOMAINS, 'more domain')}</p>"


def _nodes(best: DomainJudgement) -> Iterable[str]:
    found = nodes_of_placed(best)
    if not found:
        return
    yield f"<table><thead><tr>{text_head('node', 'pods that fit together')}</tr></thead><tbody>"
    for node, keys in list(found.items())[:_NODES]:
        yield f"<tr>{text_cell(node)}{text_cell(listed(keys))}</tr>"
    yield "</tbody></table>"
    if len(found) > _NODES:
        yield f"<p>… and {count(len(found) - _NODES, 'more node')}</p>"
