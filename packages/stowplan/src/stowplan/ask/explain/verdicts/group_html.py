"""A group verdict as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stowplan.ask.explain.verdicts.group_domains import nodes_of_placed, refusals_of
from stowplan.scheduler.framework.explanations.formatting import count, listed
from stowplan.scheduler.inspection.html_cells import number_cell, number_head, text_cell, text_head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
    from stowplan.scheduler.engine.groups.group_questions import DomainJudgement

#: Maximum numbers of domains and nodes shown.
_DOMAINS, _NODES = 20, 20


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
