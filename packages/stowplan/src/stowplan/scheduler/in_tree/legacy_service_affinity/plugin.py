"""Place pods of a service on nodes with equal labels, or spread them over a label's values: ServiceAffinity up to 1.22.

Used by policies (`serviceAffinity`, `serviceAntiAffinity`) and v1beta1 configurations.

The filter takes the required label values from the pod's own node selector. Missing ones come from the node of the
*anchor*: the first pod in node order that has the incoming pod's labels, if that pod belongs to a service. If
preemption removes every such pod from the anchor's node, the next one becomes the anchor for this node; pods that are
added back are last in that order and never matter, as any node agrees with itself.

Upstream: pkg/scheduler/framework/plugins/serviceaffinity/service_affinity.go of 1.16 to 1.22.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import field

from stowplan.kube.api.label_selectors import selector_from_map
from stowplan.kube.api.types import Service
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Counts, Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.terms import PodTerm
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ShapeSigned
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import NODE, POD, SERVICE, Action, ClusterEventWithHint, on
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    MAX_SCORE,
    EnqueueExtensions,
    FilterPlugin,
    PodExtensions,
    PreFilterPlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.status import Reason, Status
from stowplan.scheduler.in_tree.legacy_service_affinity.declaration import DECLARATION, LegacyServiceAffinityArgs

OTHER_LABELS = Reason("ServiceAffinity", "node(s) didn't match service affinity")
_FILTER_KEY, _SCORE_KEY = "PreFilterLegacyServiceAffinity", "ScoreLegacyServiceAffinity"


class _Anchor(PlainStruct):
    #: Row of the anchor's node; −1 without an anchor.
    row: int = -1
    #: Row of the next node with such a pod; −1 if there is none.
    next_row: int = -1
    #: The number of such pods on the anchor's node, and those removed in the node's hypothetical state.
    count: int = 0
    gone: set[str] = field(default_factory=set)

    def clone(self) -> _Anchor:
        return _Anchor(self.row, self.next_row, self.count, set(self.gone))

    @property
    def is_gone(self) -> bool:
        return self.row >= 0 and len(self.gone) >= self.count


class LegacyServiceAffinity(PreFilterPlugin, PodExtensions, FilterPlugin, ScorePlugin, ShapeSigned, EnqueueExtensions):
    declaration = DECLARATION
    short_name = "service"
    #: Any pod or service may change the anchor. Few profiles have this plugin, so it is recomputed in each cycle.
    reads = Reads.ANYTHING

    def __init__(self, args: LegacyServiceAffinityArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        found = args or LegacyServiceAffinityArgs()
        self._affinity = found.affinity_labels
        self._spread = found.anti_affinity_labels_preference

    # -- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._affinity:
            state.write(_FILTER_KEY, self._anchor(pod.shape))
        return None

    def _anchor(self, shape: PodShape) -> _Anchor:
        if next(self._services(shape), None) is None:
            return _Anchor()
        table = self.handle.cluster.table
        counts = self._counts(shape, shape.labels, live_only=False)
        order = table.order.rows
        having = order[counts[order] > 0]
        if not len(having):
            return _Anchor()
        return _Anchor(
            row=int(having[0]),
            next_row=int(having[1]) if len(having) > 1 else -1,
            count=int(counts[having[0]]),
        )

    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift) -> Status | None:
        anchor: _Anchor | None = state.get(_FILTER_KEY)
        if anchor is None or anchor.row < 0 or shift.sign > 0:
            return None
        for i in np.flatnonzero(shift.rows == anchor.row).tolist():
            other = shift.pods[i]
            if other.namespace == pod.namespace and _has(other.shape.labels, pod.shape.labels):
                anchor.gone.add(other.pod.metadata.name)
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        if not self._affinity:
            return None
        # A configuration can omit PreFilter.
        anchor: _Anchor = state.get(_FILTER_KEY) or self._anchor(pod.shape)
        refused = self._refused(pod, nodes, anchor.row)
        if anchor.is_gone:
            own = np.arange(len(nodes)) == anchor.row if nodes.rows is None else nodes.rows == anchor.row
            refused[own] = self._refused(pod, nodes, anchor.next_row)[own]
        return Rejections.where(refused, OTHER_LABELS) if refused.any() else None

    def _refused(self, pod: PodInfo, nodes: Nodes, anchor: int) -> Mask:
        """The nodes without a label value that the pod's node selector or the anchor's node requires."""
        refused = np.zeros(len(nodes), np.bool_)
        selected = pod.pod.spec.node_selector
        for key in self._affinity:
            column, codes = nodes.label(key), nodes.codes(key)
            if key in selected:
                code = column.code(selected[key])
                refused |= (codes != code) | (code == 0)
            elif anchor >= 0 and column.codes[anchor]:
                refused |= codes != column.codes[anchor]
        return refused

    # -- score --------------------------------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        """The number of pods of the pod's service per node."""
        # Normalization needs the codes of the same nodes, whether all or a subset.
        state.write(_SCORE_KEY, [nodes.codes(key).copy() for key in self._spread])
        selector = next(self._services(pod.shape), {})
        if not selector:
            return np.zeros(len(nodes), np.int64)
        counts = self._counts(pod.shape, selector, live_only=True)
        return nodes.take(counts).astype(np.int64)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints | Status:
        """The fewer pods share a node's value of a label, the better; averaged over the labels."""
        counted = np.where(feasible, scores, 0)
        total = int(counted.sum())
        reached = np.zeros(len(scores), np.float64)
        for codes in state.read(_SCORE_KEY):
            if total:
                # Parity: in this order, because the result is truncated.
                shared = np.bincount(codes, weights=counted)[codes].astype(np.int64)
                own = float(MAX_SCORE) * ((total - shared).astype(np.float64) / float(total))
            else:
                own = np.full(len(scores), float(MAX_SCORE))
            reached += np.where(codes != 0, own, 0.0) / float(len(self._spread))
        return reached.astype(np.int64)

    # -- services and pods --------------------------------------------------------------------------------------------

    def _services(self, shape: PodShape) -> Iterator[Mapping[str, str]]:
        """The selectors of services that select the pod."""
        for service in self.handle.cluster.objects.in_namespace(Service, shape.namespace):
            selector = service.spec.selector
            if selector is not None and _has(shape.labels, selector):
                yield selector

    def _counts(self, shape: PodShape, labels: Mapping[str, str], *, live_only: bool) -> Counts:
        """The number of pods of the namespace with these labels, by row."""
        cluster = self.handle.cluster
        term = PodTerm(((frozenset((shape.namespace,)), selector_from_map(labels)),), live_only=live_only)
        counts: Counts = cluster.matches.counts[cluster.matches.slot(term, cluster.pods)]
        return counts

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            on(NODE, Action.Add | Action.UpdateNodeLabel),
            on(POD, Action.All),
            on(SERVICE, Action.All),
        )


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
