"""Explain maxSkew violations and missing topology labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from stowplan.kube.api.label_selectors import SelectorError
from stowplan.kube.api.types import Pod, TopologySpreadConstraint
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.pod_info import PodShape
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import joined, sentence
from stowplan.scheduler.framework.explanations.inspection import Inspection, mask_of
from stowplan.scheduler.framework.explanations.remedy import (
    Change,
    Dial,
    Remedy,
    Way,
    classes,
    replace,
    split,
    with_spec,
)
from stowplan.scheduler.framework.status import Reason
from stowplan.scheduler.in_tree.pod_topology_spread.constraints import HARD, Constraint
from stowplan.scheduler.in_tree.pod_topology_spread.plugin import PodTopologySpread
from stowplan.scheduler.in_tree.pod_topology_spread.skew import MISSING_LABEL, SKEWED


class PodTopologySpreadExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: PodTopologySpread) -> None:
        super().__init__(inspection)
        try:
            self._constraints: tuple[Constraint, ...] = plugin.constraints(inspection.pod.shape, HARD)
        except SelectorError:
            self._constraints = ()
        self._counts = lru_cache(maxsize=64)(self._count_by_domain)

    # -- details ------------------------------------------------------------------------------------------------------

    def detail(self, row: int, reason: Reason) -> str:
        return self._missing(row) if reason.code == MISSING_LABEL.code else self._skew(row, reason)

    def depends_on(self, reason: Reason) -> Columns:
        table = self.inspection.table
        if reason.code == MISSING_LABEL.code:
            return [(table.label(c.key).codes > 0).astype(np.intp) for c in self._constraints]
        key = dict(reason.detail).get("key")
        return [table.label(key).codes] if key else []

    def _missing(self, row: int) -> str:
        return sentence(f"has no label {c.key}" for c in self._constraints if not self._code(c.key, row))

    def _skew(self, row: int, reason: Reason) -> str:
        key = dict(reason.detail).get("key")
        found = next((c for c in self._constraints if c.key == key), None)
        if found is None:
            return ""
        domain, number = self.inspection.domain(found.key, row), self._counts(found).get(self._code(found.key, row))
        return f"{domain} has {number or 0:,} (maxSkew {found.max_skew})"

    def _code(self, key: str, row: int) -> int:
        return int(self.inspection.table.label(key).codes[row])

    def _count_by_domain(self, constraint: Constraint) -> dict[int, int]:
        """Live pods that a constraint counts, by domain code."""
        codes, namespace = self.inspection.table.label(constraint.key).codes, self.inspection.pod.namespace

        def matches(shape: PodShape) -> bool:
            return shape.namespace == namespace and constraint.selector.matches(shape.labels)

        counts: dict[int, int] = {}
        for info in self.inspection.pods_like(matches):
            if not info.terminating:
                code = int(codes[info.row])
                counts[code] = counts.get(code, 0) + 1
        return counts

    # -- obstacles and remedies ---------------------------------------------------------------------------------------

    def obstacles(self) -> Iterator[str]:
        table = self.inspection.table
        for constraint in self.inspection.pod.pod.spec.topology_spread_constraints:
            key = constraint.topology_key
            if constraint.when_unsatisfiable == "DoNotSchedule" and not table.label(key).codes[: table.n].any():
                yield f"no node has label {key}, which a topologySpreadConstraint wants"

    def remedy(self, mask: Mask) -> Remedy:
        return _Loosen(self.inspection, mask)


class _Loosen(Remedy):
    """Each hard constraint is evaluated alone: which nodes exceed its skew, which lack its key."""

    def __init__(self, inspection: Inspection, mask: Mask) -> None:
        super().__init__(inspection, mask)
        self._constraints = inspection.pod.pod.spec.topology_spread_constraints
        hard = [i for i, x in enumerate(self._constraints) if x.when_unsatisfiable == "DoNotSchedule"]
        rows = np.flatnonzero(mask)
        missing, skewed = {}, {}
        for i in hard:
            missing[i], skewed[i] = self._alone(i, rows)
        self._parts: dict[int, tuple[list[int], list[int]]] = {}
        if not hard and len(rows):
            # The profile's default constraints apply, because the pod has none.
            self._parts[self.add_class(rows)] = ([], [])
            return
        columns = [*missing.values(), *skewed.values()]
        for part in split(np.arange(len(rows)), classes(columns, len(rows))):
            first = part[0]
            lacking, over = [i for i in hard if missing[i][first]], [i for i in hard if skewed[i][first]]
            if lacking or over:
                self._parts[self.add_class(rows[part])] = (lacking, over)

    def _alone(self, index: int, rows: Rows) -> tuple[Mask, Mask]:
        pod = with_spec(self.inspection.pod.pod, topology_spread_constraints=(self._constraints[index],))
        diagnosis = self.inspection.filtered(self.inspection.cluster.pod_info(pod))
        name, n = PodTopologySpread.name, self.inspection.table.n
        return mask_of(diagnosis, name, MISSING_LABEL, n)[rows], mask_of(diagnosis, name, SKEWED, n)[rows]

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        lacking, over = self._parts[kind]
        if not lacking and not over:
            return [(_own_constraints(),)]
        dropped: Way = (
            (_drop_constraints(lacking, [self._constraints[i].topology_key for i in lacking]),) if lacking else ()
        )
        # Dropped constraints come last, because the other changes refer to constraints by position.
        raised = (*(self._raise(i) for i in over), *dropped)
        fewer = [self._lower(i) for i in over if (self._constraints[i].min_domains or 1) > 1]
        ways: list[Way] = [(*fewer, *dropped)] if fewer and len(fewer) == len(over) else []
        return [*ways, raised]

    def _raise(self, index: int) -> Dial:
        constraint = self._constraints[index]
        old, high = constraint.max_skew, constraint.max_skew + len(self.inspection.cluster.placed_pods()) + 1

        def at(skew: int) -> Change:
            text = f"raise maxSkew of the {constraint.topology_key} constraint from {old} to {skew}"
            data = {"topologyKey": constraint.topology_key, "constraint": index, "maxSkew": skew}
            return _set_constraint(index, {"max_skew": skew}, text, data)

        return Dial(old + 1, high, at)

    def _lower(self, index: int) -> Dial:
        constraint = self._constraints[index]
        old = constraint.min_domains or 1

        def at(by: int) -> Change:
            text = f"lower minDomains of the {constraint.topology_key} constraint from {old} to {old - by}"
            data = {"topologyKey": constraint.topology_key, "constraint": index, "minDomains": old - by}
            return _set_constraint(index, {"min_domains": old - by}, text, data)

        return Dial(1, old - 1, at)


def _set_constraint(index: int, fields: dict[str, Any], text: str, data: dict[str, Any]) -> Change:
    """Replace fields of a topology spread constraint."""

    def edited(pod: Pod) -> Pod:
        constraints = list(pod.spec.topology_spread_constraints)
        constraints[index] = replace(constraints[index], **fields)
        return with_spec(pod, topology_spread_constraints=tuple(constraints))

    return Change("topologySpread", text, data, edited, gives_up=True)


def _drop_constraints(indexes: Sequence[int], keys: Sequence[str]) -> Change:
    def edited(pod: Pod) -> Pod:
        kept = (c for i, c in enumerate(pod.spec.topology_spread_constraints) if i not in indexes)
        return with_spec(pod, topology_spread_constraints=tuple(kept))

    text = f"drop the topologySpreadConstraint on {joined(list(keys))}"
    data = {"drop": list(keys), "constraints": list(indexes)}
    return Change("topologySpread", text, data, edited, cost=len(indexes), gives_up=True)


def _own_constraints() -> Change:
    soft = (
        TopologySpreadConstraint(
            max_skew=1, topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway"
        ),
    )
    data: dict[str, Any] = {"topologySpreadConstraints": "own"}
    text = "give the pod topologySpreadConstraints of its own (the profile's default ones refuse it)"
    return Change("topologySpread", text, data, lambda pod: with_spec(pod, topology_spread_constraints=soft))
