"""How many copies of a pod fit: counted on each node, or placed one after the other until one is rejected.

If the pod's filters only read the sums of the node being judged, nodes are independent of each other. The number of
copies is then computed for all nodes at once, by bisection over a hypothesis ("would it fit next to k copies?") that
the plugins' own filters evaluate. Otherwise (spreading, affinity, host ports, volumes, out-of-tree plugins) the result
is `None`, and copies have to be placed one after the other, in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count as counted_from
from itertools import islice
from types import MappingProxyType

import numpy as np

from stowplan.ask.explain.verdicts.verdict import refusals
from stowplan.ask.offline import Cluster
from stowplan.ask.offline.assumptions import Provision
from stowplan.ask.what_if.hypothetical_claims import bind_claims_of, claims_of, with_own_claims
from stowplan.ask.what_if.hypothetical_pods import copy_of, ordinal_names, pods_of
from stowplan.kube.api.device_claims import ResourceClaimSpec
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, Pod, ResourceClaim
from stowplan.kube.claims.claim_terms import class_name_of, is_fully_bound
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.objects import ObjectDependency
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.framework.boundary import declares
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.interface import FilterPlugin
from stowplan.scheduler.framework.runtime.framework import Framework, objects_read
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.in_tree.common.volume_claims import claim_names
from stowplan.scheduler.in_tree.volume_binding.volumes import FREE_BY_CLASS

#: Upper limit per node.
_MOST = 1 << 20
#: Out-of-tree filters need not be monotonic: they may reject one copy and accept two.
_IN_TREE = "stowplan.scheduler.in_tree."
_CLAIMS = ObjectDependency.of_kind(ResourceClaim)


class Limit(PlainStruct, frozen=True):
    """Nodes that take no more for one reason."""

    plugin: str
    reason: str
    rows: Rows


class Room(PlainStruct, frozen=True):
    """The room of each node."""

    #: Number of copies per table row.
    copies: Ints
    #: Why not one more, for nodes that take some and for nodes that take none.
    limits: tuple[Limit, ...]


def room_for(cluster: Cluster, info: PodInfo) -> Room | None:
    """None if the nodes are not independent of each other."""
    framework = cluster.framework_of(info)
    evaluation, outcome = cluster.algorithm.filtered(framework, info)
    if outcome.error is not None or outcome.state is None:
        return None
    if info.pod.spec.scheduling_group is not None and cluster.engine.schedules_groups:
        # Whether one of a gang is placed depends on the others.
        return None
    if cluster.state.nominator or not _independent(framework, outcome.state, info):
        return None
    copies = np.zeros(cluster.state.table.n, np.int64)
    limits: list[Limit] = []
    if not outcome.feasible.all():
        diagnosis = evaluation.diagnosis(outcome.refused) if outcome.diagnosis is None else outcome.diagnosis
        limits += limits_of(diagnosis)
    rows = np.flatnonzero(outcome.feasible)
    if len(rows):
        search = _Search(cluster, framework, outcome.state, info, rows)
        copies[rows] = search.copies()
        limits += search.limits(copies[rows])
    return Room(copies, tuple(limits))


def most_room_for(cluster: Cluster, info: PodInfo) -> Ints | None:
    """Upper bounds of the number of copies per table row, whatever other nodes have; None if unknown."""
    framework = cluster.framework_of(info)
    _, outcome = cluster.algorithm.filtered(framework, info)
    if outcome.error is not None or outcome.state is None or _claims_devices(framework, outcome.state, info):
        return None
    if outcome.ended_early is not None:
        # No node matters to PreFilter.
        return np.zeros(cluster.state.table.n, np.int64)
    # Further filters only reject more.
    state = _of_single_nodes(framework, outcome.state)
    copies = np.zeros(cluster.state.table.n, np.int64)
    rows = np.flatnonzero(cluster.state.table.valid[: cluster.state.table.n])
    rows = rows[_Search(cluster, framework, state, info, rows).take_one()]
    if len(rows):
        copies[rows] = _Search(cluster, framework, state, info, rows).copies()
    return copies


class RoomForAny:
    """Lower bounds of how many pods of these shapes each row takes, whichever they are; for a pod that is one of them.

    As far as only sums decide, as in `FeasibleSets`.
    """

    def __init__(self, cluster: Cluster, shapes: Collection[PodShape]) -> None:
        self._cluster, state = cluster, cluster.state
        vectors = [state.vector_of(shape) for shape in shapes]
        self._requests = np.zeros((max(map(len, vectors)), 1), np.int64)
        for vector in vectors:
            largest = self._requests[: len(vector), 0]
            np.maximum(largest, vector, out=largest)
        self._non_zero = _column(np.max([shape.non_zero_used for shape in shapes], axis=0))
        table, n = state.table, state.table.n
        self._rows = np.flatnonzero(table.valid[:n])
        height = min(len(self._requests), len(table.allocatable))
        free = table.allocatable[:height, :n] - table.requested[:height, :n]
        asked = np.flatnonzero(self._requests[:height, 0])
        copies = table.allowed_pods[:n] - table.pod_count[:n]
        for resource in asked:
            copies = np.minimum(copies, free[resource] // self._requests[resource, 0])
        self._copies = np.maximum(copies, 1)

    def beside_others(self, info: PodInfo) -> Ints:
        """The number by row, if the pod fits there now; the plugins' filters judge the last of them."""
        framework = self._cluster.framework_of(info)
        _, outcome = self._cluster.algorithm.filtered(framework, info)
        if outcome.state is None:
            return np.ones(len(self._copies), np.int64)
        state = _of_single_nodes(framework, outcome.state)
        search = _Search(self._cluster, framework, state, info, self._rows, (self._requests, self._non_zero))
        copies = np.ones(len(self._copies), np.int64)
        takes = search.takes(self._copies[self._rows])
        copies[self._rows[takes]] = self._copies[self._rows[takes]]
        return copies


def _of_single_nodes(framework: Framework, state: CycleState) -> CycleState:
    """For filters that judge nodes alone, without the others."""
    found = state.clone()
    alone = {plugin.name for plugin in framework.filter if _judges_nodes_alone(plugin)}
    found.skip_filter = found.skip_filter | {plugin.name for plugin in framework.filter} - alone
    return found


def _independent(framework: Framework, state: CycleState, info: PodInfo) -> bool:
    if _claims_devices(framework, state, info) or framework.handle.extenders():
        return False
    others = (plugin for plugin in framework.pre_filter if not type(plugin).__module__.startswith(_IN_TREE))
    if not all(declares(plugin.ignores, info.shape, at=("Ignores", plugin)) for plugin in others):
        # It may count pods, as quotas do.
        return False
    return all(map(_judges_nodes_alone, framework.active_filters(state)))


def _claims_devices(framework: Framework, state: CycleState, info: PodInfo) -> bool:
    """Whether the devices for the next copy depend on those of this one."""
    return any(_CLAIMS in objects_read(plugin, info) for plugin in framework.active_filters(state))


def _judges_nodes_alone(plugin: FilterPlugin) -> bool:
    return plugin.reads in (Reads.NODES, Reads.NODE_SUMS) and type(plugin).__module__.startswith(_IN_TREE)


def limits_of(diagnosis: Diagnosis) -> list[Limit]:
    """Why nodes reject a pod."""
    found = refusals(diagnosis)
    return [Limit(refusal.plugin, str(reason), refusal.rows) for refusal in found for reason in refusal.reasons]


def _column(amounts: Sequence[int]) -> Ints:
    return np.array(amounts, np.int64)[:, np.newaxis]


class _Search:
    """All nodes that take at least one copy."""

    def __init__(
        self,
        cluster: Cluster,
        framework: Framework,
        state: CycleState,
        info: PodInfo,
        rows: Rows,
        others: tuple[Ints, Ints] | None = None,
    ) -> None:
        """`others`: what a copy beside the last one uses, if they are other pods."""
        self._cluster, self._framework, self._state, self._info = cluster, framework, state, info
        self._rows = rows
        if others is None:
            others = cluster.state.vector_of(info.shape)[:, np.newaxis], _column(info.shape.non_zero_used)
        self._requests, self._non_zero = others

    def take_one(self) -> Mask:
        return self.takes(np.ones(len(self._rows), np.int64))

    def copies(self) -> Ints:
        """Bisection on all nodes together: `low` copies fit, `high` do not."""
        low = np.ones(len(self._rows), np.int64)
        high = np.full(len(self._rows), 2, np.int64)
        growing = self.takes(high)
        while growing.any():
            low[growing] = high[growing]
            high[growing] *= 2
            if int(high.max()) > _MOST:
                break
            growing &= self.takes(high)
        while (high - low > 1).any():
            middle = (low + high) // 2
            takes = self.takes(middle)
            low, high = np.where(takes, middle, low), np.where(takes, high, middle)
        return low

    def takes(self, copies: Ints) -> Mask:
        """Whether this many copies fit on each node."""
        answer = self._framework.run_filters(self._state, self._info, self._beside(copies - 1))
        if isinstance(answer, Status):
            raise RuntimeError(answer.message)
        return answer[1]

    def _beside(self, copies: Ints) -> HypotheticalNodes:
        nodes = HypotheticalNodes(self._cluster.state, self._rows)
        everywhere = np.arange(len(self._rows))
        nodes.shift(everywhere, self._requests * copies, self._non_zero * copies, 1, pods=copies)
        return nodes

    def limits(self, copies: Ints) -> list[Limit]:
        """Why not one more."""
        answer = self._framework.run_filters(self._state, self._info, self._beside(copies))
        if isinstance(answer, Status):
            raise RuntimeError(answer.message)
        found, left = [], np.ones(len(self._rows), np.bool_)
        for plugin, rejections in answer[0]:
            for entry in rejections.entries:
                rows = np.flatnonzero(entry.mask & left & rejections.mask)
                if len(rows):
                    found.append(Limit(plugin, str(entry.reason), self._rows[rows]))
            left &= ~rejections.mask
        return found


#: Maximum number of copies that are added at once: the scheduler tries those after the first rejected one in vain.
_BATCH = 512


class PlacedCopies(PlainStruct):
    #: The node of each, in order.
    nodes: list[str]
    #: The decision for the first one without a node; None if all have one.
    rejected: Decision | None = None


class Copies:
    def __init__(
        self, cluster: Cluster, pod: Pod, claim_templates: Mapping[str, ResourceClaimSpec] = MappingProxyType({})
    ) -> None:
        self._cluster = cluster
        self.pod = pod
        self._claim_templates = claim_templates
        owner = controller_of(pod.metadata)
        #: The StatefulSet whose pods these are.
        self._set = owner.name if owner is not None and owner.kind == "StatefulSet" else ""
        #: Volumes that provisioners have to create.
        self.provisions: set[Provision] = set()

    def another(self) -> Pod:
        """The first one."""
        return self._made(self._names(), 1)[0]

    def are_alike(self, first: Pod) -> bool:
        """Whether the volumes of a copy, such as the first one, do not matter to the others."""
        objects, shared = self._cluster.state.objects, frozenset(claim_names(self.pod))
        for claim in claims_of(self._cluster, first):
            bound, own = is_fully_bound(claim), claim.metadata.name not in shared
            # A shared claim is bound by the first, claims of their own to different volumes.
            if bound is own or (own and any(objects.indexed(PersistentVolume, FREE_BY_CLASS, class_name_of(claim)))):
                return False
        return not self._set or not self._finds_claims()

    def _finds_claims(self) -> bool:
        """Whether some have a claim that is kept from an earlier pod of their name."""
        namespace = self.pod.metadata.namespace or "default"
        used = {
            name
            for info in pods_of(self._cluster.state, "StatefulSet", namespace, self._set)
            for name in claim_names(info.pod)
        }
        there = self._cluster.state.objects.all(PersistentVolumeClaim)
        kept = {one.metadata.name for one in there if one.metadata.namespace == namespace} - used
        firsts = tuple(f"{volume.name}-{self._set}-" for volume in self.pod.spec.volumes)
        return any(name.startswith(firsts) for name in kept)

    def _names(self) -> Iterator[str]:
        name, namespace = self.pod.metadata.name, self.pod.metadata.namespace or "default"
        if self._set:
            return ordinal_names(self._set, pods_of(self._cluster.state, "StatefulSet", namespace, self._set))
        return (f"{name}-copy-{number}" for number in counted_from(1))

    def _made(self, names: Iterator[str], number: int) -> list[Pod]:
        fresh = [
            with_own_claims(self._cluster, copy_of(self.pod, name), self.pod, self._claim_templates)
            for name in islice(names, number)
        ]
        self.provisions |= bind_claims_of(self._cluster, fresh)
        return fresh

    def place(self, most: int) -> PlacedCopies:
        placed = PlacedCopies([])
        # Pods of a group that are named together would be placed together.
        limit = _BATCH if self.pod.spec.scheduling_group is None else 1
        batch, names = 1, self._names()
        while placed.rejected is None and len(placed.nodes) < most:
            for decision in self._tried(names, min(batch, most - len(placed.nodes))):
                if not decision.node_name:
                    placed.rejected = decision
                    break
                placed.nodes.append(decision.node_name)
            batch = min(2 * batch, limit)
        return placed

    def _tried(self, names: Iterator[str], number: int) -> list[Decision]:
        fresh = self._made(names, number)
        for pod in fresh:
            self._cluster.add(pod)
        return self._cluster.places([f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}" for pod in fresh])
