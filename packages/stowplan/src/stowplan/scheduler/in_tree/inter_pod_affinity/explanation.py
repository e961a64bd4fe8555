"""Explain missing pods near a node, or pods that repel the pod; remedies drop terms or move pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.pod_info import AffinityTerm, PodInfo
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import (
    joined,
    namespaces_text,
    pods_text,
    selector_text,
    sentence,
    term_text,
)
from stowplan.scheduler.framework.explanations.inspection import mask_of
from stowplan.scheduler.framework.explanations.remedy import (
    Change,
    Remedy,
    Way,
    classes,
    move,
    replace,
    split,
    with_spec,
)
from stowplan.scheduler.framework.status import Reason
from stowplan.scheduler.in_tree.inter_pod_affinity.plugin import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    InterPodAffinity,
)

#: Maximum number of pods that a suggestion moves.
_MAX_MOVED = 3


class InterPodAffinityExplanation(Explanation):
    # -- details ------------------------------------------------------------------------------------------------------

    def detail(self, row: int, reason: Reason) -> str:
        if reason.code == AFFINITY.code:
            return self._lonely(row)
        return self._near(row) if reason.code == ANTI_AFFINITY.code else self._kept_off(row)

    def depends_on(self, reason: Reason) -> Columns:
        shape = self.inspection.pod.shape
        if reason.code == AFFINITY.code:
            return self._columns(shape.required_affinity)
        if reason.code == ANTI_AFFINITY.code:
            return self._columns(shape.required_anti_affinity)
        return self._columns(term for info in self._avoiding_pods for term in info.shape.required_anti_affinity)

    def _columns(self, terms: Iterable[AffinityTerm]) -> Columns:
        return [self.inspection.table.label(key).codes for key in dict.fromkeys(term.topology_key for term in terms)]

    def _lonely(self, row: int) -> str:
        """Parity: one pod must match all terms at once, so terms are not listed separately."""
        terms = self.inspection.pod.shape.required_affinity
        missing = [t.topology_key for t in terms if not self._code(t.topology_key, row)]
        if missing:
            return sentence(f"has no label {key}" for key in dict.fromkeys(missing))
        places = ", ".join(dict.fromkeys(self.inspection.domain(t.topology_key, row) for t in terms))
        wanted = " and ".join(dict.fromkeys(selector_text(t.selector) for t in terms))
        return f"no {wanted} in {places}"

    def _near(self, row: int) -> str:
        near = [t for t in self.inspection.pod.shape.required_anti_affinity if self._code(t.topology_key, row)]
        shown = (f"{selector_text(t.selector)} in {self.inspection.domain(t.topology_key, row)}" for t in near)
        return sentence(dict.fromkeys(shown)) if len(near) == 1 else " or ".join(dict.fromkeys(shown))

    def _kept_off(self, row: int) -> str:
        holders = self.avoiding_on(row)
        if not holders:
            return ""
        term = next(t for t in holders[0].shape.required_anti_affinity if self._matched_by(t))
        return f"{pods_text(holders)} keeps off {term_text(term)}"

    def _code(self, key: str, row: int) -> int:
        return int(self.inspection.table.label(key).codes[row])

    # -- repelling pods ------------------------------------------------------------------------------------------------

    def _matched_by(self, term: AffinityTerm) -> bool:
        pod = self.inspection.pod
        labels = self.inspection.cluster.objects.namespace_labels(pod.namespace)
        return term.matches(pod.namespace, pod.labels, labels)

    @cached_property
    def _avoiding_pods(self) -> list[PodInfo]:
        """Placed pods whose required anti-affinity matches the pod."""
        return self.inspection.pods_like(
            lambda shape: any(self._matched_by(term) for term in shape.required_anti_affinity)
        )

    @cached_property
    def _avoiding_by_domain(self) -> dict[tuple[str, int], list[PodInfo]]:
        """(topology key, domain code) -> pods that repel the pod from that domain."""
        found: dict[tuple[str, int], list[PodInfo]] = {}
        for info in self._avoiding_pods:
            terms = (term for term in info.shape.required_anti_affinity if self._matched_by(term))
            for key in dict.fromkeys(term.topology_key for term in terms):
                code = self._code(key, info.row)
                if code:
                    found.setdefault((key, code), []).append(info)
        return found

    def avoiding_on(self, row: int) -> list[PodInfo]:
        """Repelling pods that share a domain with a node."""
        index = self._avoiding_by_domain
        keys = dict.fromkeys(key for key, _ in index)
        near = [info for key in keys for info in index.get((key, self._code(key, row)), ())]
        return list({info.uid: info for info in near}.values())

    def matching(self, term: AffinityTerm) -> list[PodInfo]:
        """Placed pods that match a term."""
        labels = self.inspection.cluster.objects.namespace_labels
        return self.inspection.pods_like(lambda s: term.matches(s.namespace, s.labels, labels(s.namespace)))

    # -- obstacles and remedies ---------------------------------------------------------------------------------------

    def obstacles(self) -> Iterator[str]:
        if InterPodAffinity.name not in self.inspection.masks:
            return
        table = self.inspection.table
        for term in self.inspection.pod.shape.required_affinity:
            if not table.label(term.topology_key).codes[: table.n].any():
                yield f"no node has label {term.topology_key}, which a podAffinity term wants"
            if not self.matching(term):
                yield f"no running pod matches {selector_text(term.selector)} ({namespaces_text(term)})"

    def remedy(self, mask: Mask) -> Remedy:
        return _DropTermsOrMove(self, mask)


class _DropTermsOrMove(Remedy):
    """The pod's own terms, evaluated one by one, and the repelling pods."""

    def __init__(self, explanation: InterPodAffinityExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        self._explanation = explanation
        shape = self.inspection.pod.shape
        self._near, self._far = shape.required_affinity, shape.required_anti_affinity
        rows = np.flatnonzero(mask)
        away = self._alone(range(len(self._near)), (), AFFINITY)[rows]
        far = [self._alone((), (i,), ANTI_AFFINITY)[rows] for i in range(len(self._far))]
        kept_off = self._alone((), (), EXISTING_ANTI_AFFINITY)[rows]
        self._parts: dict[int, tuple[bool, list[int], bool]] = {}
        for part in split(np.arange(len(rows)), classes([away, *far, kept_off], len(rows))):
            first = part[0]
            found = (bool(away[first]), [i for i, column in enumerate(far) if column[first]], bool(kept_off[first]))
            self._parts[self.add_class(rows[part])] = found

    def _alone(self, near: Sequence[int], far: Sequence[int], reason: Reason) -> Mask:
        """Rows rejected for one reason if the pod has only some of its terms."""
        pod = self.inspection.pod.pod
        pod = _without_terms(pod, "pod_affinity", [i for i in range(len(self._near)) if i not in near])
        pod = _without_terms(pod, "pod_anti_affinity", [i for i in range(len(self._far)) if i not in far])
        diagnosis = self.inspection.filtered(self.inspection.cluster.pod_info(pod))
        return mask_of(diagnosis, InterPodAffinity.name, reason, self.inspection.table.n)

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        away, far, kept_off = self._parts[kind]
        rest: Way = ()
        if far:
            rest = (_drop_terms("pod_anti_affinity", far, [term_text(self._far[i]) for i in far]),)
        if kept_off:
            holders = self._explanation.avoiding_on(int(rows[0]))
            if not 0 < len(holders) <= _MAX_MOVED:
                return []
            rest = (*rest, move(holders))
        if not away:
            return [rest, *self._moves(far, kept_off, rows)]
        texts = [term_text(term) for term in self._near]
        single: list[list[int]] = [[i] for i in range(len(texts))] if len(texts) > 1 else []
        drops = [
            _drop_terms("pod_affinity", some, [texts[i] for i in some]) for some in [*single, list(range(len(texts)))]
        ]
        return [(drop, *rest) for drop in drops]

    def _moves(self, far: Sequence[int], kept_off: bool, rows: Rows) -> list[Way]:
        """Move a term's only match near the node, instead of dropping the term."""
        if kept_off or len(far) != 1:
            return []
        term, row = self._far[far[0]], int(rows[0])
        codes = self.inspection.table.label(term.topology_key).codes
        near = [info for info in self._explanation.matching(term) if codes[info.row] == codes[row]]
        return [(move(near),)] if len(near) == 1 else []


def _drop_terms(attribute: str, indexes: Sequence[int], texts: Sequence[str]) -> Change:
    """Drop some required terms of `pod_affinity` or `pod_anti_affinity`."""
    label = "podAffinity" if attribute == "pod_affinity" else "podAntiAffinity"
    text = f"drop {label} {joined([f'({text})' for text in texts])}"
    data = {"drop": list(texts), "terms": list(indexes)}
    return Change(
        label, text, data, lambda pod: _without_terms(pod, attribute, indexes), cost=len(indexes), gives_up=True
    )


def _without_terms(pod: Pod, attribute: str, indexes: Sequence[int]) -> Pod:
    affinity = pod.spec.affinity
    group = getattr(affinity, attribute) if affinity is not None else None
    if affinity is None or group is None:
        return pod
    terms = group.required_during_scheduling_ignored_during_execution
    kept = tuple(term for i, term in enumerate(terms) if i not in indexes)
    group = replace(group, required_during_scheduling_ignored_during_execution=kept)
    return with_spec(pod, affinity=replace(affinity, **{attribute: group}))
