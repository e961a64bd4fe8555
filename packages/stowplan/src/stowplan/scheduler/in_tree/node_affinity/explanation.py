"""Explain missed node requirements, and labels that no node has; remedies drop requirements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import numpy as np

from stowplan.kube.api.label_selectors import DOES_NOT_EXIST, IN, NOT_IN, Requirement
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.node_selectors import compile_node_term
from stowplan.kube.api.types import NodeSelectorTerm, Pod
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import count, joined, requirement_text, sentence
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Change, Remedy, Way, classes, replace, split, with_spec
from stowplan.scheduler.framework.status import Reason
from stowplan.scheduler.in_tree.common.node_selection import requirement_mask, term_mask
from stowplan.scheduler.in_tree.node_affinity.plugin import ENFORCED_AFFINITY, POD_AFFINITY, NodeAffinity

#: Maximum number of missed requirements listed.
_SHOWN = 3


class NodeAffinityExplanation(Explanation):
    filter_repeats_pre_filter = True

    @property
    def _requirements(self) -> list[Requirement]:
        wanted = self.inspection.pod.shape.required_node_affinity
        found = list(wanted.node_selector.requirements) if wanted.node_selector is not None else []
        for term in wanted.required.terms if wanted.required is not None else ():
            found += term.expressions
        return found

    # -- details ------------------------------------------------------------------------------------------------------

    def detail(self, row: int, reason: Reason) -> str:
        if reason.code != POD_AFFINITY.code:
            return ""
        table, one = self.inspection.table, np.array([row], np.intp)
        failing = [r for r in self._requirements if not requirement_mask(table, r, one)[0]]
        texts = [f"wants {requirement_text(r)}, {self._has(r.key, row)}" for r in dict.fromkeys(failing)]
        wanted = self.inspection.pod.shape.required_node_affinity.required
        fields = [f for term in (wanted.terms if wanted is not None else ()) for f in term.fields]
        return sentence(texts) or sentence(f"wants {requirement_text(f)}" for f in dict.fromkeys(fields[:2]))

    def depends_on(self, reason: Reason) -> Columns:
        if reason.code != POD_AFFINITY.code:
            return []
        keys = dict.fromkeys(r.key for r in self._requirements)
        return [self.inspection.table.label(key).codes for key in keys]

    def summary(self, rows: Rows, reason: Reason) -> str:
        if reason.code != POD_AFFINITY.code or len(rows) == 1:
            return super().summary(rows, reason)
        # Each requirement separately, with the number of nodes that miss it.
        table = self.inspection.table
        missed = {r: int((~requirement_mask(table, r, rows)).sum()) for r in self._requirements}
        ranked = sorted(
            ((n, requirement_text(r)) for r, n in missed.items() if n), key=lambda item: (-item[0], item[1])
        )
        return ", ".join(f"{number:,} are not {text}" for number, text in ranked[:_SHOWN])

    def _has(self, key: str, row: int) -> str:
        domain = self.inspection.domain(key, row)
        return f"has {domain}" if domain else f"has no label {key}"

    # -- obstacles ----------------------------------------------------------------------------------------------------

    def obstacles(self) -> Iterator[str]:
        wanted = self.inspection.pod.shape.required_node_affinity
        always: list[Requirement] = list(wanted.node_selector.requirements) if wanted.node_selector is not None else []
        if wanted.required is not None and len(wanted.required.terms) == 1:
            always += wanted.required.terms[0].expressions
        for requirement in always:
            if not (requirement_mask(self.inspection.table, requirement) & self.inspection.valid).any():
                negative = requirement.operator in (NOT_IN, DOES_NOT_EXIST)
                yield (
                    f"every node has label {requirement.key}"
                    if negative
                    else f"no node has label {requirement_text(requirement)}"
                )
        for term in wanted.required.terms if wanted.required is not None else ():
            if term.error:
                yield f"a node affinity term does not parse, so it matches no node: {term.error}"
        if wanted.required is not None and not wanted.required.terms:
            yield "the required node affinity has no terms, so it matches no node"
        enforced = int((self.enforced() & self.inspection.valid).sum())
        if enforced:
            yield f"the configuration's addedAffinity keeps pods of this profile off {count(enforced, 'node')}"

    def enforced(self) -> Mask:
        """Rows that the profile's added affinity rejects."""
        return self.inspection.refused_for(NodeAffinity.name, ENFORCED_AFFINITY)

    # -- remedies -----------------------------------------------------------------------------------------------------

    def remedy(self, mask: Mask) -> Remedy:
        return _DropRequirements(self.inspection, mask & ~self.enforced(), mask)

    def ways_for_pod(self) -> list[Way]:
        """Node affinity that names nodes excludes others before they are filtered."""
        pod = self.inspection.pod.pod
        return [] if _is_of_daemon_set(pod) else [(_drop((), ["the required node affinity"], ()),)]


class _DropRequirements(Remedy):
    """nodeSelector and required node affinity: a class for each set of missed requirements."""

    def __init__(self, inspection: Inspection, by_pod: Mask, mask: Mask) -> None:
        super().__init__(inspection, mask)
        self._pod: Pod = inspection.pod.pod
        wanted = inspection.pod.shape.required_node_affinity
        self._required = wanted.required
        self._spec_terms = _spec_terms(self._pod)
        selector = wanted.node_selector.requirements if wanted.node_selector else ()
        rows = np.flatnonzero(by_pod if not _is_of_daemon_set(self._pod) else np.zeros_like(by_pod))
        columns: list[Mask] = [~requirement_mask(inspection.table, r, rows) for r in selector]
        best, failing = self._cheapest_term(rows)
        self._parts: dict[int, tuple[list[str], int, list[int]]] = {}
        for part in split(np.arange(len(rows)), classes([*columns, best, *failing], len(rows))):
            first = int(part[0])
            keys = [r.key for r, column in zip(selector, columns, strict=True) if column[first]]
            missed = [i for i, column in enumerate(failing) if column[first]]
            if keys or missed or self._termless:
                self._parts[self.add_class(rows[part])] = (keys, int(best[first]), missed)

    @property
    def _termless(self) -> bool:
        """Required affinity without terms, which no node matches."""
        return self._required is not None and not self._spec_terms

    def _cheapest_term(self, rows: Rows) -> tuple[Rows, list[Mask]]:
        """For each row the term (index, -1: none needed) with the fewest missed requirements, and these."""
        best = np.full(len(rows), -1, np.intp)
        if self._required is None or len(self._required.terms) != len(self._spec_terms):
            return best, []
        table = self.inspection.table
        misses, matched = [], np.zeros(len(rows), np.bool_)
        for compiled, term in zip(self._required.terms, self._spec_terms, strict=True):
            matched |= term_mask(table, compiled, rows)
            misses.append([~m for m in _expression_masks(self.inspection, term, rows)])
        numbers = np.array([np.sum(m, axis=0) if m else np.zeros(len(rows), np.intp) for m in misses])
        if not len(numbers):
            return best, []
        chosen = numbers.argmin(axis=0)
        best = np.where(matched, -1, chosen)
        width = max(len(m) for m in misses)
        failing = [np.zeros(len(rows), np.bool_) for _ in range(width)]
        for t, of_term in enumerate(misses):
            for i, column in enumerate(of_term):
                failing[i] |= column & (best == t)
        return best, failing

    def _nearest(self, keys: Sequence[str]) -> list[Way]:
        """Labels that nodes have, if those that are asked for are misspelled: the nearest values, or key."""
        found = []
        for key in keys:
            label = _nearest_label(self.inspection, key, self._pod.spec.node_selector[key])
            if label is None:
                return []
            found.append(_relabel(key, self._pod.spec.node_selector[key], label))
        return [tuple(found)]

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        keys, term, missed = self._parts[kind]
        dropped = [f"nodeSelector {key}={self._pod.spec.node_selector[key]}" for key in keys]
        if self._termless:
            dropped = [*dropped, "the required node affinity (it has no terms)"]
            return [(_drop(keys, dropped, []),)]
        if not missed:
            return [*self._nearest(keys), (_drop(keys, dropped, None),)]
        old = self._spec_terms[term]
        texts = [f"node affinity {text}" for i, text in enumerate(_expression_texts(old)) if i in missed]
        kept = _without(old, missed)
        # An empty term matches no node: without its last requirement, the affinity is dropped.
        terms: list[NodeSelectorTerm] = [] if kept is None else [*self._spec_terms]
        if kept is not None:
            terms[term] = kept
        return [*self._nearest_in(term, keys, missed), (_drop(keys, dropped + texts, terms),)]

    def _nearest_in(self, term: int, keys: Sequence[str], missed: Sequence[int]) -> list[Way]:
        """The same for a term's requirements of one value each."""
        old = self._spec_terms[term]
        if keys or any(i >= len(old.match_expressions) for i in missed):
            return []
        expressions, texts = list(old.match_expressions), []
        for i in missed:
            one = expressions[i]
            label = None
            if one.operator == IN and len(one.values) == 1:
                label = _nearest_label(self.inspection, one.key, one.values[0])
            if label is None:
                return []
            expressions[i] = replace(one, key=label[0], values=label[1:])
            texts.append(f"{'='.join(label)} instead of {one.key}={one.values[0]}")
        terms = [*self._spec_terms]
        terms[term] = replace(old, match_expressions=tuple(expressions))
        data = {"requiredLabels": [f"{e.key}={e.values[0]}" for i, e in enumerate(expressions) if i in missed]}
        text = f"select nodes by {joined(texts)} in node affinity"
        return [(Change("nodeAffinity", text, data, lambda pod: _with_terms(pod, tuple(terms)), cost=len(texts)),)]


def _is_of_daemon_set(pod: Pod) -> bool:
    """Its controller restricts it to one node, and makes another one if that is changed."""
    owner = controller_of(pod.metadata)
    return owner is not None and owner.kind == "DaemonSet"


def _nearest_label(inspection: Inspection, key: str, value: str) -> tuple[str, str] | None:
    """A label that nodes have in place of one that none has; None if none is similar."""
    values = _values(inspection, key)
    if value in values:
        return None
    if values:
        near = get_close_matches(value, values, n=1)
        return (key, near[0]) if near else None
    others = {
        name for row in np.flatnonzero(inspection.valid).tolist() for name in inspection.node(row).metadata.labels
    }
    for other in get_close_matches(key, sorted(others)):
        near = get_close_matches(value, _values(inspection, other), n=1)
        if near:
            return other, near[0]
    return None


def _values(inspection: Inspection, key: str) -> list[str]:
    column = inspection.table.label(key)
    return [column.values[code] for code in np.unique(column.codes[: inspection.table.n]).tolist() if code]


def _spec_terms(pod: Pod) -> list[NodeSelectorTerm]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return [term for term in terms if term.match_expressions or term.match_fields]


def _expression_masks(inspection: Inspection, term: NodeSelectorTerm, rows: Rows) -> list[Mask]:
    """The mask of each requirement of a term."""
    masks = []
    for expression in term.match_expressions:
        single = replace(term, match_expressions=(expression,), match_fields=())
        masks.append(term_mask(inspection.table, compile_node_term(single, ""), rows))
    for field in term.match_fields:
        single = replace(term, match_expressions=(), match_fields=(field,))
        masks.append(term_mask(inspection.table, compile_node_term(single, ""), rows))
    return masks


def _expression_texts(term: NodeSelectorTerm) -> list[str]:
    entries = (*term.match_expressions, *term.match_fields)
    return [requirement_text(Requirement(e.key, e.operator, e.values)) for e in entries]


def _without(term: NodeSelectorTerm, missed: Sequence[int]) -> NodeSelectorTerm | None:
    width = len(term.match_expressions)
    expressions = tuple(e for i, e in enumerate(term.match_expressions) if i not in missed)
    fields = tuple(f for i, f in enumerate(term.match_fields, width) if i not in missed)
    return replace(term, match_expressions=expressions, match_fields=fields) if expressions or fields else None


def _drop(keys: Sequence[str], dropped: Sequence[str], terms: Sequence[NodeSelectorTerm] | None) -> Change:
    """Drop some keys of nodeSelector, and replace the required terms (None: unchanged; empty: drop)."""

    def edited(pod: Pod) -> Pod:
        selector = {key: value for key, value in pod.spec.node_selector.items() if key not in keys}
        pod = with_spec(pod, node_selector=selector)
        return pod if terms is None else _with_terms(pod, tuple(terms))

    text = f"drop {joined(list(dropped))}"
    return Change("nodeAffinity", text, {"drop": list(dropped)}, edited, cost=len(dropped), gives_up=True)


def _relabel(key: str, value: str, label: tuple[str, str]) -> Change:
    """Ask for another label in nodeSelector."""
    now, then = f"{key}={value}", "=".join(label)

    def edited(pod: Pod) -> Pod:
        selector = {k: v for k, v in pod.spec.node_selector.items() if k != key}
        return with_spec(pod, node_selector=selector | dict([label]))

    text = f"select nodes by {then} instead of {now}"
    return Change("nodeAffinity", text, {"nodeSelector": {key: None} | dict([label])}, edited)


def _with_terms(pod: Pod, terms: tuple[NodeSelectorTerm, ...]) -> Pod:
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    if affinity is None or node is None:
        return pod
    required = node.required_during_scheduling_ignored_during_execution
    kept = replace(required, node_selector_terms=terms) if terms and required is not None else None
    node = replace(node, required_during_scheduling_ignored_during_execution=kept)
    return with_spec(pod, affinity=replace(affinity, node_affinity=node))
