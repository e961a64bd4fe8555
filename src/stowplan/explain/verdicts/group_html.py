"""A group verdict as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stowplan.explain.verdicts.group_domains import nodes_of_placed, refusals_of
from stowplan.framework.explanations.formatting import count, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.engine.groups.group_questions import DomainJudgement
    from stowplan.explain.verdicts.group_verdict import GroupVerdict

#: Maximum numbers of domains and nodes shown.
_DOMAINS, _NODES = 20, 20
_RIGHT = ' style="text-align:right"'


def group_html(verdict: GroupVerdict) -> str:
    best = verdict.best
    parts = [f"<div><p><b>{escape(verdict.in_words())}</b></p>"]
    if best is not None:
        parts += _domains(verdict)
        parts += _nodes(best)
    return "".join([*parts, "</div>"])


def _domains(verdict: GroupVerdict) -> Iterable[str]:
    ranked = verdict.ranked
    yield "<table><thead><tr><th>domain</th><th>nodes</th><th>fit</th><th>lacking</th><th>why not</th></tr></thead>"
    yield "<tbody>"
    for domain in ranked[:_DOMAINS]:
        name = escape(domain.name or "the whole cluster")
        told = [] if domain.works else refusals_of(domain)
        why = escape("; ".join(f"{count(one.pods, 'pod')}: {one.reason}" for one in told[:2]))
        numbers = (len(domain.nodes), len(domain.placed), verdict.lacking(domain))
        cells = "".join(f"<td{_RIGHT}>{number:,}</td>" for number in numbers)
        yield f"<tr><td>{f'<b>{name}</b>' if domain.works else name}</td>{cells}<td>{why}</td></tr>"
    yield "</tbody></table>"
    if len(ranked) > _DOMAINS:
        yield f"<p>… and {count(len(ranked) - _DOMAINS, 'more domain')}</p>"


def _nodes(best: DomainJudgement) -> Iterable[str]:
    found = nodes_of_placed(best)
    if not found:
        return
    yield "<table><thead><tr><th>node</th><th>pods that fit together</th></tr></thead><tbody>"
    for node, keys in list(found.items())[:_NODES]:
        yield f"<tr><td>{escape(node)}</td><td>{escape(listed(keys))}</td></tr>"
    yield "</tbody></table>"
    if len(found) > _NODES:
        yield f"<p>… and {count(len(found) - _NODES, 'more node')}</p>"
