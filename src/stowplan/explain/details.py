"""What exactly is wrong with a node, or with a group of them: how much is short, which taint, which label, which pods.

Each reason code has a rule that tells what a node's detail depends on (a few small integers a row) and one that puts
it into words. A group of nodes is summed up by saying each distinct detail once; resources name the closest node.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stowplan.api.label_selectors import SelectorError
from stowplan.api.taints import tolerates
from stowplan.cluster.ports import ports_conflict
from stowplan.explain.grouping import classes, split
from stowplan.explain.words import amount, port_text, requirement_text, selector_text, sentence, taint_text, term_text
from stowplan.in_tree.common.node_selection import requirement_mask
from stowplan.in_tree.pod_topology_spread.plugin import HARD, PodTopologySpread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from stowplan.api.selectors import Requirement
    from stowplan.api.types import Taint
    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.explain.grouping import Refusal
    from stowplan.explain.inspection import Inspection
    from stowplan.framework.status import Reason
    from stowplan.in_tree.pod_topology_spread.plugin import Constraint

    Rows = npt.NDArray[np.intp]
    Columns = list[npt.NDArray[Any]]

#: Distinct details of a group that are spelled out.
_SHOWN = 3


class Shortfall(NamedTuple):
    """One resource on one node, in the scheduler's integers."""

    resource: str
    lacking: int
    used: int
    allocatable: int

    def __str__(self) -> str:
        of = f"{amount(self.resource, self.used)} of {amount(self.resource, self.allocatable)} in use"
        if not self.allocatable:
            of = "it has none"
        return f"{amount(self.resource, self.lacking)} {self.resource} ({of})"


class Details:
    """The details of one verdict's refusals."""

    def __init__(self, inspection: Inspection) -> None:
        self._at = inspection
        self._table = inspection.table
        self._pod = inspection.pod
        #: Reason code -> (what the detail depends on, the detail in words).
        self._rules: dict[str, tuple[Callable[[Reason], Columns], Callable[[int, Reason], str]]] = {
            "TooManyPods": (lambda _: [self._table.allowed_pods], self._pods_allowed),
            "UntoleratedTaint": (lambda _: [self._table.taint_set], self._taints),
            "NodeUnschedulable": (lambda _: [], lambda row, _: "cordoned"),
            "NodeAffinityMismatch": (lambda _: self._label_columns(self._node_requirements), self._labels),
            "NodePortsTaken": (lambda _: self._port_columns(), self._ports),
            "TopologyLabelMissing": (lambda _: self._spread_columns(), self._missing_key),
            "TopologySkew": (self._skew_columns, self._skew),
            "PodAffinity": (lambda _: self._affinity_columns("required_affinity"), self._affinity),
            "PodAntiAffinity": (lambda _: self._affinity_columns("required_anti_affinity"), self._anti_affinity),
            "ExistingPodAntiAffinity": (lambda _: self._avoided_columns(), self._avoiding),
        }
        self._counts = lru_cache(maxsize=64)(self._count_by_domain)

    # -- asked from outside -------------------------------------------------------------------------------------------

    def of_node(self, refusal: Refusal, row: int) -> str:
        """Everything there is to say of one node."""
        return sentence(self._of_reason(row, reason) for reason in refusal.reasons)

    def of_group(self, refusal: Refusal) -> str:
        """The distinct details, most frequent first; for resources the node that lacks least."""
        short = any(reason.code == "InsufficientResource" for reason in refusal.reasons)
        parts = [self._closest(refusal.rows)] if short else []
        for reason in refusal.reasons:
            if reason.code == "NodeAffinityMismatch" and len(refusal.rows) > 1:
                parts.append(self._missed_labels(refusal.rows))
            elif reason.code in self._rules:
                parts.append(self._summary(refusal.rows, reason))
        return sentence(parts)

    def shortfalls(self, row: int) -> list[Shortfall]:
        """What the pod asks for beyond what is free on a node."""
        found = []
        for resource, asked in self._pod.shape.requests.items():
            index = self._table.resources.get(resource)
            allocatable = int(self._table.allocatable[index, row]) if index is not None else 0
            used = int(self._table.requested[index, row]) if index is not None else 0
            if 0 < asked > allocatable - used:
                found.append(Shortfall(resource, asked - allocatable + used, used, allocatable))
        return found

    def relative_shortfall(self, rows: Rows) -> npt.NDArray[np.float64]:
        """The sum over resources of what a node lacks, as a share of what is asked."""
        total = np.zeros(len(rows))
        for resource, asked in self._pod.shape.requests.items():
            index = self._table.resources.get(resource)
            free = np.zeros(len(rows), np.int64)
            if index is not None:
                free = self._table.allocatable[index, rows] - self._table.requested[index, rows]
            if asked > 0:
                total += np.maximum(asked - free, 0) / asked
        return total

    # -- how rules are applied ----------------------------------------------------------------------------------------

    def _of_reason(self, row: int, reason: Reason) -> str:
        if reason.code == "InsufficientResource":
            wanted = dict(reason.detail).get("resource")
            return sentence(f"lacks {short}" for short in self.shortfalls(row) if short.resource == wanted)
        rule = self._rules.get(reason.code)
        return "" if rule is None else rule[1](row, reason)

    def _summary(self, rows: Rows, reason: Reason) -> str:
        columns = [column[rows] for column in self._rules[reason.code][0](reason)]
        counts: dict[str, int] = {}
        for part in split(rows, classes(columns, len(rows)))[:64]:
            text = self._rules[reason.code][1](int(part[0]), reason)
            counts[text] = counts.get(text, 0) + len(part)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if len(ranked) == 1:
            return ranked[0][0] if counts[ranked[0][0]] == len(rows) else f"{ranked[0][0]}, …"
        shown = [f"{number:,}× {text}" for text, number in ranked[:_SHOWN] if text]
        return ", ".join([*shown, "…"] if len(ranked) > _SHOWN else shown)

    def _closest(self, rows: Rows) -> str:
        row = int(rows[int(self.relative_shortfall(rows).argmin())])
        lacking = ", ".join(str(short) for short in self.shortfalls(row))
        name = self._at.names[row]
        return f"{name} lacks {lacking}" if len(rows) == 1 else f"closest: {name} lacks {lacking}"

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _pods_allowed(self, row: int, reason: Reason) -> str:
        return f"{int(self._table.pod_count[row])} of {int(self._table.allowed_pods[row])} pods"

    def untolerated(self, row: int) -> tuple[Taint, ...]:
        """Taints that keep the pod off a node."""
        return tuple(
            taint
            for taint in self._table.taints(row)
            if taint.effect in ("NoSchedule", "NoExecute")
            and not any(tolerates(t, taint, self._compares) for t in self._pod.pod.spec.tolerations)
        )

    @property
    def _compares(self) -> bool:
        return self._at.framework.handle.features.enabled("TaintTolerationComparisonOperators")

    def _taints(self, row: int, reason: Reason) -> str:
        return " ".join(taint_text(taint) for taint in self.untolerated(row))

    @property
    def _node_requirements(self) -> list[Requirement]:
        wanted = self._pod.shape.required_node_affinity
        found = list(wanted.node_selector.requirements) if wanted.node_selector is not None else []
        for term in wanted.required.terms if wanted.required is not None else ():
            found += term.expressions
        return found

    def _label_columns(self, requirements: Sequence[Requirement]) -> Columns:
        return [self._table.label(key).codes for key in dict.fromkeys(r.key for r in requirements)]

    def _labels(self, row: int, reason: Reason) -> str:
        one = np.array([row], np.intp)
        failing = [r for r in self._node_requirements if not requirement_mask(self._table, r, one)[0]]
        texts = [f"wants {requirement_text(r)}, {self._has(r.key, row)}" for r in dict.fromkeys(failing)]
        wanted = self._pod.shape.required_node_affinity.required
        fields = [f for term in (wanted.terms if wanted is not None else ()) for f in term.fields]
        return sentence(texts) or sentence(f"wants {requirement_text(f)}" for f in dict.fromkeys(fields[:2]))

    def _missed_labels(self, rows: Rows) -> str:
        """Each requirement by itself, and how many nodes miss it."""
        missed = {r: int((~requirement_mask(self._table, r, rows)).sum()) for r in self._node_requirements}
        ranked = sorted(
            ((n, requirement_text(r)) for r, n in missed.items() if n), key=lambda item: (-item[0], item[1])
        )
        return ", ".join(f"{number:,} are not {text}" for number, text in ranked[:_SHOWN])

    def _has(self, key: str, row: int) -> str:
        domain = self._at.domain(key, row)
        return f"has {domain}" if domain else f"has no label {key}"

    # -- ports --------------------------------------------------------------------------------------------------------

    def _port_columns(self) -> Columns:
        columns: Columns = []
        for port in self._pod.shape.host_ports:
            column = np.zeros(self._table.n, np.intp)
            column[self._at.cluster.ports.conflicting_rows((port,))] = 1
            columns.append(column)
        return columns

    def _ports(self, row: int, reason: Reason) -> str:
        used = self._at.cluster.ports.on(row)
        taken = [port for port in self._pod.shape.host_ports if ports_conflict((port,), used)]
        holders = [p for p in self._at.cluster.row_pods[row] if ports_conflict(taken, p.shape.host_ports)]
        return f"{' '.join(port_text(port) for port in taken)} held by {_some(holders)}"

    # -- spread -------------------------------------------------------------------------------------------------------

    def _constraints(self) -> tuple[Constraint, ...]:
        plugin = self._at.framework.plugins.get("PodTopologySpread")
        try:
            return plugin.constraints(self._pod.shape, HARD) if isinstance(plugin, PodTopologySpread) else ()
        except SelectorError:
            return ()

    def _spread_columns(self) -> Columns:
        return [(self._table.label(c.key).codes > 0).astype(np.intp) for c in self._constraints()]

    def _missing_key(self, row: int, reason: Reason) -> str:
        return sentence(f"has no label {c.key}" for c in self._constraints() if not self._table.label(c.key).codes[row])

    def _skew_columns(self, reason: Reason) -> Columns:
        key = dict(reason.detail).get("key")
        return [self._table.label(key).codes] if key else []

    def _skew(self, row: int, reason: Reason) -> str:
        detail = dict(reason.detail)
        found = next((c for c in self._constraints() if c.key == detail.get("key")), None)
        if found is None:
            return ""
        domain, number = self._at.domain(found.key, row), self._counts(found, found.key).get(self._code(found.key, row))
        return f"{domain} has {number or 0:,} (maxSkew {found.max_skew})"

    def _code(self, key: str, row: int) -> int:
        return int(self._table.label(key).codes[row])

    def _count_by_domain(self, constraint: Constraint, key: str) -> dict[int, int]:
        """Live pods that a constraint counts, by domain code."""
        codes, namespace = self._table.label(key).codes, self._pod.namespace

        def matches(shape: PodShape) -> bool:
            return shape.namespace == namespace and constraint.selector.matches(shape.labels)

        counts: dict[int, int] = {}
        for info in self._at.pods_like(matches):
            if not info.terminating:
                code = int(codes[info.row])
                counts[code] = counts.get(code, 0) + 1
        return counts

    # -- neighbours ---------------------------------------------------------------------------------------------------

    def _affinity_columns(self, terms: str) -> Columns:
        found = getattr(self._pod.shape, terms)
        return [self._table.label(key).codes for key in dict.fromkeys(term.topology_key for term in found)]

    def _affinity(self, row: int, reason: Reason) -> str:
        """Parity: one pod must match all terms at once, so single terms are not told apart further."""
        terms = self._pod.shape.required_affinity
        missing = [t.topology_key for t in terms if not self._code(t.topology_key, row)]
        if missing:
            return sentence(f"has no label {key}" for key in dict.fromkeys(missing))
        places = ", ".join(dict.fromkeys(self._at.domain(t.topology_key, row) for t in terms))
        wanted = " and ".join(dict.fromkeys(selector_text(t.selector) for t in terms))
        return f"no {wanted} in {places}"

    def _anti_affinity(self, row: int, reason: Reason) -> str:
        near = [t for t in self._pod.shape.required_anti_affinity if self._code(t.topology_key, row)]
        shown = (f"{selector_text(t.selector)} in {self._at.domain(t.topology_key, row)}" for t in near)
        return sentence(dict.fromkeys(shown)) if len(near) == 1 else " or ".join(dict.fromkeys(shown))

    def _avoided_columns(self) -> Columns:
        terms = (term for info in self.avoiding_pods for term in info.shape.required_anti_affinity)
        return [self._table.label(key).codes for key in dict.fromkeys(term.topology_key for term in terms)]

    def _avoiding(self, row: int, reason: Reason) -> str:
        holders = self.avoiding_on(row)
        if not holders:
            return ""
        term = next(t for t in holders[0].shape.required_anti_affinity if _matched(self._at, self._pod, t))
        return f"{_some(holders)} keeps off {term_text(term)}"

    @cached_property
    def avoiding_pods(self) -> list[PodInfo]:
        """Placed pods whose required anti-affinity speaks of the pod."""
        return self._at.pods_like(
            lambda shape: any(_matched(self._at, self._pod, term) for term in shape.required_anti_affinity)
        )

    @cached_property
    def _avoiding_by_domain(self) -> dict[tuple[str, int], list[PodInfo]]:
        """(topology key, domain code) -> pods that keep the pod out of that domain."""
        found: dict[tuple[str, int], list[PodInfo]] = {}
        for info in self.avoiding_pods:
            terms = (term for term in info.shape.required_anti_affinity if _matched(self._at, self._pod, term))
            for key in dict.fromkeys(term.topology_key for term in terms):
                code = self._code(key, info.row)
                if code:
                    found.setdefault((key, code), []).append(info)
        return found

    def avoiding_on(self, row: int) -> list[PodInfo]:
        """Those of them that share a domain with a node."""
        index = self._avoiding_by_domain
        keys = dict.fromkeys(key for key, _ in index)
        near = [info for key in keys for info in index.get((key, self._code(key, row)), ())]
        return list({info.uid: info for info in near}.values())


def _matched(at: Inspection, pod: PodInfo, term: Any) -> bool:
    labels = at.cluster.objects.namespace_labels(pod.namespace)
    found: bool = term.matches(pod.namespace, pod.labels, labels)
    return found


def _some(pods: Sequence[PodInfo]) -> str:
    if not pods:
        return "nobody"
    return pods[0].key if len(pods) == 1 else f"{pods[0].key} and {len(pods) - 1} more"
