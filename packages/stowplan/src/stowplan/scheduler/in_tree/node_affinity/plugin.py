"""Filter nodes by nodeSelector and required node affinity; score by preferred node affinity.

An administrator can add an affinity to every pod of a profile (`addedAffinity`). Required selectors are masks over the
node table, cached until a node changes (see node_selection.py); preferred terms are weights summed over such masks. A
required affinity that names nodes (`metadata.name In [...]`, as in DaemonSet pods) restricts the attempt to them in
PreFilter.

Upstream: pkg/scheduler/framework/plugins/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api import node_selectors
from stowplan.kube.api.affinity import PREFERRED_TERMS, REQUIRED_TERMS
from stowplan.kube.api.field_errors import aggregate
from stowplan.kube.api.label_selectors import IN, SelectorError
from stowplan.kube.api.types import Node, NodeSelector, NodeSelectorTerm, Pod
from stowplan.kube.api.types import NodeAffinity as NodeAffinitySpec
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, Hint, on, queue_if
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, error, unresolvable
from stowplan.scheduler.in_tree.common.node_selection import matches_required_affinity, matches_selector, preference
from stowplan.scheduler.in_tree.common.normalization import default_normalize
from stowplan.scheduler.in_tree.node_affinity.declaration import DECLARATION, NodeAffinityArgs

WeightedTerms = tuple[tuple[int, node_selectors.NodeTerm], ...]


POD_AFFINITY = Reason("NodeAffinityMismatch", "node(s) didn't match Pod's node affinity/selector")
ENFORCED_AFFINITY = Reason("EnforcedNodeAffinityMismatch", "node(s) didn't match scheduler-enforced node affinity")
CONFLICT = Reason("NodeAffinityConflict", "pod affinity terms conflict")
PRE_FILTER_STATE = "PreFilterNodeAffinity"
PRE_SCORE_STATE = "PreScoreNodeAffinity"


class NodeAffinity(
    PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, TemplateSigned, ReadsNoObjects, EnqueueExtensions
):
    declaration = DECLARATION
    short_name = "node affinity"
    reads = Reads.NODES
    normalizes_by_bounds = True

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.added_affinity if args is not None else None
        #: Required of every node in addition to the pod's own terms.
        self._added_required = _added_required(added)
        #: Preferences in addition to the pod's own; None if there are none.
        self._added_preferred = _added_preferred(added)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        required = _required_selector(pod.pod)
        if required is None and self._added_required is None and not pod.pod.spec.node_selector:
            return SKIP
        state.write(PRE_FILTER_STATE, pod.shape.required_node_affinity)
        names = None if required is None else _named_nodes(required)
        if names is None:
            return None
        return PreFilterResult(names) if names else unresolvable(CONFLICT)

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        wanted: node_selectors.RequiredNodeAffinity = state.get(PRE_FILTER_STATE) or pod.shape.required_node_affinity
        refused = ~matches_required_affinity(nodes, wanted)
        if self._added_required is None:
            return Rejections.where(refused, POD_AFFINITY, Code.UnschedulableAndUnresolvable) if refused.any() else None
        excluded = ~matches_selector(nodes, self._added_required)
        mask = refused | excluded
        return Rejections(mask, lambda: _entries(excluded, refused)) if mask.any() else None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        try:
            preferred = _preferred_terms(pod.pod)
        except SelectorError as e:
            return error(e)
        if preferred is None and self._added_preferred is None:
            return SKIP
        state.write(PRE_SCORE_STATE, preferred or ())
        return None

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        preferred: WeightedTerms | None = state.get(PRE_SCORE_STATE)
        if preferred is None:
            try:
                preferred = _preferred_terms(pod.pod) or ()
            except SelectorError as e:
                return error(e)
        if not self._added_preferred:
            return preference(nodes, preferred)
        return preference(nodes, self._added_preferred) + preference(nodes, preferred)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints | Status:
        return default_normalize(scores, feasible)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(NODE, Action.Add | Action.UpdateNodeLabel, self._after_node_change, by_shape=True),)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        added = self._added_required
        if added is not None and not added.matches(new.metadata.labels, new.metadata.name):
            return Hint.SKIP
        wanted = pod.shape.required_node_affinity
        if not wanted.match_or_error(new.metadata.labels, new.metadata.name):
            return Hint.SKIP
        # Parity: whether the old node matched the added affinity is not checked.
        return queue_if(old is None or not wanted.match_or_error(old.metadata.labels, old.metadata.name))


def _entries(excluded: Mask, refused: Mask) -> tuple[Entry, ...]:
    code = Code.UnschedulableAndUnresolvable
    return Entry(excluded, code, ENFORCED_AFFINITY), Entry(refused & ~excluded, code, POD_AFFINITY)


def _added_required(added: NodeAffinitySpec | None) -> node_selectors.NodeSelectorMatcher | None:
    selector = added.required_during_scheduling_ignored_during_execution if added is not None else None
    if selector is None:
        return None
    if errors := node_selectors.node_selector_errors(selector):
        raise SelectorError(f"parsing addedAffinity.{REQUIRED_TERMS}: {aggregate(errors)}")
    return node_selectors.compile_node_selector(selector)


def _added_preferred(added: NodeAffinitySpec | None) -> WeightedTerms | None:
    terms = added.preferred_during_scheduling_ignored_during_execution if added is not None else None
    if not terms:
        return None
    try:
        return node_selectors.compile_preferred_terms(terms)
    except SelectorError as e:
        raise SelectorError(f"parsing addedAffinity.{PREFERRED_TERMS}: {e}") from None


def _affinity_of(pod: Pod) -> NodeAffinitySpec | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None


def _required_selector(pod: Pod) -> NodeSelector | None:
    affinity = _affinity_of(pod)
    return affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None


def _preferred_terms(pod: Pod) -> WeightedTerms | None:
    """The pod's preferred terms; None if it has no list of them; SelectorError if one does not parse."""
    affinity = _affinity_of(pod)
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else None
    return None if terms is None else node_selectors.compile_preferred_terms(terms)


def _named_nodes(required: NodeSelector) -> frozenset[str] | None:
    """The node names to which the selector's terms restrict the pod; None if some term has no such restriction."""
    if not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        of_term = _named_by_term(term)
        if of_term is None:
            return None
        names |= of_term
    return frozenset(names)


def _named_by_term(term: NodeSelectorTerm) -> set[str] | None:
    lists = [set(f.values) for f in term.match_fields if f.key == node_selectors.NODE_NAME_FIELD and f.operator == IN]
    return set.intersection(*lists) if lists else None
