"""For each plugin: what kinds of refused nodes it has, and what change would make it accept a node of each kind.

A plugin's remedy gives every row a class: 0, it does not refuse the row; -1, nothing that can be changed here helps;
otherwise rows of one class need the same change (tolerate these taints, drop those requirements). Combining the
classes of all plugins tells for every node what it would take, without trying changes at random.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stowplan.api.taints import UNSCHEDULABLE
from stowplan.explain import changes as c
from stowplan.explain.changes import CONDITION_PREFIXES, Change, Dial
from stowplan.explain.grouping import classes, split
from stowplan.explain.shrinking import shrink
from stowplan.explain.words import port_text, requirement_text, term_text
from stowplan.in_tree.common.node_selection import requirement_mask, term_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from stowplan.api.types import Node, NodeSelectorTerm, Pod, Taint
    from stowplan.explain.details import Details
    from stowplan.explain.inspection import Inspection

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]

Step = Change | Dial
#: One way to get a node accepted: all steps together.
Way = tuple[Step, ...]

HOPELESS = -1
_BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


class Remedy(Protocol):
    """What a plugin's refusals would take to be lifted."""

    classes: npt.NDArray[np.intp]

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        """Ways to lift the refusals of one class; `rows` are the nodes that are to be gained."""
        ...


class _Classified:
    """Rows in classes by what they have in common; subclasses say what to do about it."""

    def __init__(self, at: Inspection, mask: Mask) -> None:
        self.at = at
        self.classes = np.where(mask, HOPELESS, 0).astype(np.intp)
        self._made = 0

    def _class(self, rows: Rows) -> int:
        self._made += 1
        self.classes[rows] = self._made
        return self._made


class Cordons(_Classified):
    def __init__(self, at: Inspection, mask: Mask) -> None:
        super().__init__(at, mask)
        if mask.any():
            self._class(np.flatnonzero(mask))

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        return _one_or_all(self.at, rows, c.uncordon)


class Taints(_Classified):
    """Ordinary taints can be tolerated; those that stand for a condition go when the node recovers."""

    def __init__(self, at: Inspection, mask: Mask, details: Details) -> None:
        super().__init__(at, mask)
        rows = np.flatnonzero(mask)
        sets = classes((at.table.taint_set[rows], at.table.unschedulable[rows]), len(rows))
        self._found: dict[int, tuple[Taint, ...]] = {}
        for part in split(rows, sets):
            taints = details.untolerated(int(part[0]))
            if at.table.unschedulable[part[0]]:
                # The cordon's own taint goes with the cordon.
                taints = tuple(taint for taint in taints if taint.key != UNSCHEDULABLE)
            if taints:
                self._found[self._class(part)] = taints
            else:
                self.classes[part] = 0

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        conditions = [t for t in self._found[kind] if t.key.startswith(CONDITION_PREFIXES)]
        others = [t for t in self._found[kind] if not t.key.startswith(CONDITION_PREFIXES)]
        tolerating: Way = (c.tolerate(others),) if others else ()
        if not conditions:
            return [tolerating]
        recover: Callable[[Sequence[Node]], Change] = partial(c.recover, taints=conditions)
        return [(*way, *tolerating) for way in _one_or_all(self.at, rows, recover)]


def _one_or_all(at: Inspection, rows: Rows, change: Callable[[Sequence[Node]], Change]) -> list[Way]:
    """The change on the first node, and on all of them."""
    nodes = [node for row in rows.tolist() if (node := at.table.nodes[row]) is not None]
    ways: list[Way] = [(change(nodes[:1]),)]
    return [*ways, (change(nodes),)] if len(nodes) > 1 else ways


class Resources(_Classified):
    """A class for each set of resources that are short; how much is up to the node that lacks least."""

    def __init__(self, at: Inspection, mask: Mask, details: Details) -> None:
        super().__init__(at, mask)
        self._details = details
        rows = np.flatnonzero(mask)
        short, possible = [], np.ones(len(rows), np.bool_)
        for resource, asked in at.pod.shape.requests.items():
            index = at.table.resources.get(resource)
            free = np.zeros(len(rows), np.int64)
            if index is not None:
                free = at.table.allocatable[index, rows] - at.table.requested[index, rows]
            short.append((free < asked) & (asked > 0))
            # A pod may do without a device, but not without cpu or memory.
            possible &= ~short[-1] | (free > 0 if resource in _BASE_RESOURCES else free >= 0)
        possible &= at.table.pod_count[rows] < at.table.allowed_pods[rows]
        lacking = rows[possible]
        for part in split(np.arange(len(lacking)), classes([s[possible] for s in short], len(lacking))):
            self._class(lacking[part])

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        row = int(rows[int(self._details.relative_shortfall(rows).argmin())])
        shortfalls = self._details.shortfalls(row)
        asked = self.at.pod.shape.requests
        targets = {s.resource: asked[s.resource] - s.lacking for s in shortfalls}
        name = self.at.names[row]
        note = f"{name} lacks {' and '.join(str(s) for s in shortfalls)}"
        found = shrink(self.at.pod.pod, targets, note=note, about=name)
        return [] if found is None else [(found,)]


class NodeRequirements(_Classified):
    """nodeSelector and required node affinity: a class for each set of requirements that a node misses."""

    def __init__(self, at: Inspection, mask: Mask) -> None:
        super().__init__(at, mask)
        self._pod: Pod = at.pod.pod
        self._selector = at.pod.shape.required_node_affinity.node_selector
        self._required = at.pod.shape.required_node_affinity.required
        self._spec_terms = _spec_terms(self._pod)
        rows = np.flatnonzero(mask & self._refused_by_pod())
        columns: list[Mask] = [
            ~requirement_mask(at.table, r, rows) for r in (self._selector.requirements if self._selector else ())
        ]
        self._selector_width = len(columns)
        best, failing = self._cheapest_term(rows)
        self._parts: dict[int, tuple[list[str], int, list[int]]] = {}
        for part in split(np.arange(len(rows)), classes([*columns, best, *failing], len(rows))):
            first = int(part[0])
            keys = [
                r.key
                for r, col in zip(self._selector.requirements if self._selector else (), columns, strict=True)
                if col[first]
            ]
            missed = [i for i, column in enumerate(failing) if column[first]]
            if keys or missed or self._termless:
                self._parts[self._class(rows[part])] = (keys, int(best[first]), missed)

    @property
    def _termless(self) -> bool:
        """Required affinity without any term: no node will ever do."""
        return self._required is not None and not self._spec_terms

    def _refused_by_pod(self) -> Mask:
        """Not by what the profile adds."""
        enforced = np.zeros(self.at.table.n, np.bool_)
        for plugin, entry, _ in self.at.diagnosis.entries() if self.at.diagnosis is not None else ():
            if plugin == "NodeAffinity" and entry.reason.code == "EnforcedNodeAffinityMismatch":
                enforced |= entry.mask
        return ~enforced

    def _cheapest_term(self, rows: Rows) -> tuple[npt.NDArray[np.intp], list[Mask]]:
        """For each row the term (index, -1: none needed) that misses least, and what of it is missed."""
        best = np.full(len(rows), -1, np.intp)
        if self._required is None or len(self._required.terms) != len(self._spec_terms):
            return best, []
        table = self.at.table
        misses, matched = [], np.zeros(len(rows), np.bool_)
        for compiled, term in zip(self._required.terms, self._spec_terms, strict=True):
            matched |= term_mask(table, compiled, rows)
            misses.append([~m for m in _expression_masks(self.at, term, rows)])
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

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        keys, term, missed = self._parts[kind]
        dropped = [f"nodeSelector {key}={self._pod.spec.node_selector[key]}" for key in keys]
        if self._termless:
            dropped = [*dropped, "the required node affinity (it has no terms)"]
            return [(c.drop_node_requirements(keys, dropped, []),)]
        if not missed:
            return [(c.drop_node_requirements(keys, dropped, None),)]
        old = self._spec_terms[term]
        texts = [f"node affinity {text}" for i, text in enumerate(_expression_texts(old)) if i in missed]
        kept = _without(old, missed)
        # A term with nothing in it matches no node: without its last requirement the affinity goes altogether.
        terms: list[NodeSelectorTerm] = [] if kept is None else [*self._spec_terms]
        if kept is not None:
            terms[term] = kept
        return [(c.drop_node_requirements(keys, dropped + texts, terms),)]


def _spec_terms(pod: Pod) -> list[NodeSelectorTerm]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return [term for term in terms if term.match_expressions or term.match_fields]


def _expression_masks(at: Inspection, term: NodeSelectorTerm, rows: Rows) -> list[Mask]:
    """Where each requirement of a term holds, one after the other."""
    from stowplan.api.selectors import compile_node_term

    masks = []
    for expression in term.match_expressions:
        single = c.replace(term, match_expressions=(expression,), match_fields=())
        masks.append(term_mask(at.table, compile_node_term(single, ""), rows))
    for field in term.match_fields:
        single = c.replace(term, match_expressions=(), match_fields=(field,))
        masks.append(term_mask(at.table, compile_node_term(single, ""), rows))
    return masks


def _expression_texts(term: NodeSelectorTerm) -> list[str]:
    from stowplan.api.selectors import Requirement

    entries = (*term.match_expressions, *term.match_fields)
    return [requirement_text(Requirement(e.key, e.operator, e.values)) for e in entries]


def _without(term: NodeSelectorTerm, missed: Sequence[int]) -> NodeSelectorTerm | None:
    width = len(term.match_expressions)
    expressions = tuple(e for i, e in enumerate(term.match_expressions) if i not in missed)
    fields = tuple(f for i, f in enumerate(term.match_fields, width) if i not in missed)
    return c.replace(term, match_expressions=expressions, match_fields=fields) if expressions or fields else None


class Ports(_Classified):
    def __init__(self, at: Inspection, mask: Mask) -> None:
        super().__init__(at, mask)
        self._ports = at.pod.shape.host_ports
        rows = np.flatnonzero(mask)
        taken = []
        for port in self._ports:
            column = np.zeros(at.table.n, np.bool_)
            column[at.cluster.ports.conflicting_rows((port,))] = True
            taken.append(column[rows])
        self._parts: dict[int, list[tuple[str, str, int]]] = {}
        for part in split(np.arange(len(rows)), classes(taken, len(rows))):
            held = [port for port, column in zip(self._ports, taken, strict=True) if column[part[0]]]
            if held:
                self._parts[self._class(rows[part])] = held

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        ports = self._parts[kind]
        return [(c.drop_ports(ports, [port_text(port) for port in ports]),)]


class Spread(_Classified):
    """Each hard constraint is judged alone: which nodes exceed its skew, which lack its key."""

    def __init__(self, at: Inspection, mask: Mask) -> None:
        super().__init__(at, mask)
        self._constraints = at.pod.pod.spec.topology_spread_constraints
        hard = [i for i, x in enumerate(self._constraints) if x.when_unsatisfiable == "DoNotSchedule"]
        rows = np.flatnonzero(mask)
        missing, skewed = {}, {}
        for i in hard:
            missing[i], skewed[i] = self._alone(i, rows)
        self._parts: dict[int, tuple[list[int], list[int]]] = {}
        if not hard and len(rows):
            # The profile's constraints apply as the pod has none.
            self._parts[self._class(rows)] = ([], [])
            return
        columns = [*missing.values(), *skewed.values()]
        for part in split(np.arange(len(rows)), classes(columns, len(rows))):
            first = part[0]
            lacking, over = [i for i in hard if missing[i][first]], [i for i in hard if skewed[i][first]]
            if lacking or over:
                self._parts[self._class(rows[part])] = (lacking, over)

    def _alone(self, index: int, rows: Rows) -> tuple[Mask, Mask]:
        pod = c.with_spec(self.at.pod.pod, topology_spread_constraints=(self._constraints[index],))
        diagnosis = self.at.filtered(self.at.cluster.pod_info(pod))
        missing, skewed = np.zeros(self.at.table.n, np.bool_), np.zeros(self.at.table.n, np.bool_)
        for name, rejections in diagnosis.filtered if diagnosis is not None else ():
            if name == "PodTopologySpread":
                for entry in rejections.entries:
                    (missing if entry.reason.code == "TopologyLabelMissing" else skewed)[:] |= entry.mask
        return missing[rows], skewed[rows]

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        lacking, over = self._parts[kind]
        if not lacking and not over:
            return [(_own_constraints(),)]
        dropped: Way = (
            (c.drop_constraints(lacking, [self._constraints[i].topology_key for i in lacking]),) if lacking else ()
        )
        # What drops constraints goes last: the others are told by their position.
        raised = (*(self._raise(i) for i in over), *dropped)
        fewer = [self._lower(i) for i in over if (self._constraints[i].min_domains or 1) > 1]
        ways: list[Way] = [(*fewer, *dropped)] if fewer and len(fewer) == len(over) else []
        return [*ways, raised]

    def _raise(self, index: int) -> Dial:
        constraint = self._constraints[index]
        old, high = constraint.max_skew, constraint.max_skew + len(self.at.cluster.placed_pods()) + 1

        def at(skew: int) -> Change:
            text = f"raise maxSkew of the {constraint.topology_key} constraint from {old} to {skew}"
            data = {"topologyKey": constraint.topology_key, "constraint": index, "maxSkew": skew}
            return c.set_constraint(index, {"max_skew": skew}, text, data)

        return Dial(old + 1, high, at)

    def _lower(self, index: int) -> Dial:
        constraint = self._constraints[index]
        old = constraint.min_domains or 1

        def at(by: int) -> Change:
            text = f"lower minDomains of the {constraint.topology_key} constraint from {old} to {old - by}"
            data = {"topologyKey": constraint.topology_key, "constraint": index, "minDomains": old - by}
            return c.set_constraint(index, {"min_domains": old - by}, text, data)

        return Dial(1, old - 1, at)


def _own_constraints() -> Change:
    from stowplan.api.types import TopologySpreadConstraint

    soft = (
        TopologySpreadConstraint(
            max_skew=1, topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway"
        ),
    )
    data: dict[str, Any] = {"topologySpreadConstraints": "own"}
    text = "give the pod topologySpreadConstraints of its own (the profile's default ones refuse it)"
    return Change("topologySpread", text, data, lambda pod: c.with_spec(pod, topology_spread_constraints=soft))


class Neighbours(_Classified):
    """Inter-pod affinity: the pod's own terms, judged one by one, and what other pods keep away."""

    def __init__(self, at: Inspection, mask: Mask, details: Details) -> None:
        super().__init__(at, mask)
        self._details = details
        shape = at.pod.shape
        self._near, self._far = shape.required_affinity, shape.required_anti_affinity
        rows = np.flatnonzero(mask)
        away = self._alone(range(len(self._near)), (), "PodAffinity")[rows]
        far = [self._alone((), (i,), "PodAntiAffinity")[rows] for i in range(len(self._far))]
        kept_off = self._alone((), (), "ExistingPodAntiAffinity")[rows]
        self._parts: dict[int, tuple[bool, list[int], bool]] = {}
        for part in split(np.arange(len(rows)), classes([away, *far, kept_off], len(rows))):
            first = part[0]
            found = (bool(away[first]), [i for i, column in enumerate(far) if column[first]], bool(kept_off[first]))
            self._parts[self._class(rows[part])] = found

    def _alone(self, near: Sequence[int], far: Sequence[int], code: str) -> Mask:
        """Rows refused for one reason when the pod has only some of its terms."""
        drop_near = c.drop_pod_terms("pod_affinity", [i for i in range(len(self._near)) if i not in near], ["-"])
        drop_far = c.drop_pod_terms("pod_anti_affinity", [i for i in range(len(self._far)) if i not in far], ["-"])
        pod, found = self.at.pod.pod, np.zeros(self.at.table.n, np.bool_)
        for change in (drop_near, drop_far):
            pod = pod if change.on_pod is None else change.on_pod(pod)
        diagnosis = self.at.filtered(self.at.cluster.pod_info(pod))
        for name, rejections in diagnosis.filtered if diagnosis is not None else ():
            for entry in rejections.entries if name == "InterPodAffinity" else ():
                if entry.reason.code == code:
                    found |= entry.mask
        return found

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        away, far, kept_off = self._parts[kind]
        rest: Way = ()
        if far:
            rest = (c.drop_pod_terms("pod_anti_affinity", far, [term_text(self._far[i]) for i in far]),)
        if kept_off:
            holders = self._details.avoiding_on(int(rows[0]))
            if not 0 < len(holders) <= 3:
                return []
            rest = (*rest, c.move(holders))
        if not away:
            return [rest, *self._moves(far, kept_off, rows)]
        texts = [term_text(term) for term in self._near]
        single: list[list[int]] = [[i] for i in range(len(texts))] if len(texts) > 1 else []
        drops = [
            c.drop_pod_terms("pod_affinity", some, [texts[i] for i in some])
            for some in [*single, list(range(len(texts)))]
        ]
        return [(drop, *rest) for drop in drops]

    def _moves(self, far: Sequence[int], kept_off: bool, rows: Rows) -> list[Way]:
        """Instead of dropping a term, its one match near the node may leave."""
        if kept_off or len(far) != 1:
            return []
        term, row = self._far[far[0]], int(rows[0])
        codes = self.at.table.label(term.topology_key).codes
        labels = self.at.cluster.objects.namespace_labels
        near = [
            info
            for info in self.at.pods_like(lambda s: term.matches(s.namespace, s.labels, labels(s.namespace)))
            if codes[info.row] == codes[row]
        ]
        return [(c.move(near),)] if len(near) == 1 else []


def remedies(at: Inspection, details: Details) -> dict[str, Remedy]:
    """Of every plugin that refuses some node."""
    masks = dict(at.masks)
    found: dict[str, Remedy] = {}
    for plugin, mask in masks.items():
        remedy: Remedy
        if plugin == "NodeUnschedulable":
            remedy = Cordons(at, mask)
        elif plugin == "TaintToleration":
            remedy = Taints(at, mask, details)
        elif plugin == "NodeResourcesFit":
            remedy = Resources(at, mask, details)
        elif plugin == "NodeAffinity":
            remedy = NodeRequirements(at, mask)
        elif plugin == "NodePorts":
            remedy = Ports(at, mask)
        elif plugin == "PodTopologySpread":
            remedy = Spread(at, mask)
        elif plugin == "InterPodAffinity":
            remedy = Neighbours(at, mask, details)
        else:
            remedy = _Hopeless(at, mask)
        found[plugin] = remedy
    return found


class _Hopeless(_Classified):
    """A plugin of which nothing is known here."""

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        return []
