"""What has to be allocated for a pod on which nodes, and the search results.

With extended resources, the devices to allocate depend on the node: resources that the node lists come from a device
plugin. Filter and Score need many nodes, Reserve and explanations one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from stowplan.kube.api.device_claims import DeviceClaim
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.arrays import Mask, Rows, Verdicts
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import ClaimDemand, Features
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import DevicePick, Verdict
from stowplan.scheduler.in_tree.dynamic_resources.answers import Answers
from stowplan.scheduler.in_tree.dynamic_resources.demand import CompiledClaim, Demand, Demands
from stowplan.scheduler.in_tree.dynamic_resources.extended_resources import Variant, in_memory_claim, variant
from stowplan.scheduler.in_tree.dynamic_resources.inventory import Inventory
from stowplan.scheduler.in_tree.dynamic_resources.node_allocatable import (
    Footprint,
    NamedClaim,
    PickedDevice,
    footprint,
)


class Finding:
    def __init__(self, cluster: ClusterState, features: Features, demands: Demands, *, filter_timeout: float) -> None:
        self._cluster = cluster
        self._features = features
        self._demands = demands
        self._filter_timeout = filter_timeout

    @cached_property
    def inventory(self) -> Inventory:
        """Created with the first pod that needs devices, so that clusters without such pods do not pay for it."""
        return Inventory(self._cluster, self._features)

    @cached_property
    def answers(self) -> dict[bool, Answers]:
        """For attempts, and for questions (True)."""
        return {
            asking: Answers(self.inventory, self._features, filter_timeout=self._filter_timeout, asking=asking)
            for asking in (False, True)
        }

    @staticmethod
    def lacking(nodes: Nodes, resource: str) -> Mask:
        """Nodes on which no device plugin serves a resource."""
        index = nodes.table.resources.get(resource)
        return np.ones(len(nodes), np.bool_) if index is None else nodes.allocatable(index) <= 0

    def asked(
        self, pod: PodInfo, demand: Demand, nodes: Nodes, mask: Mask
    ) -> Iterator[tuple[tuple[CompiledClaim, ...], Rows]]:
        """The claims to allocate, with the positions of the nodes for which they are."""
        present = np.flatnonzero(nodes.take(nodes.table.valid) & mask)
        if demand.extended is None:
            if demand.waiting and len(present):
                yield demand.waiting, present
            return
        if all(name not in nodes.table.resources for name, _ in demand.extended.classes):
            # No node has a device plugin for them: there is only one variant.
            extra = self._compiled_variant(pod, dict(demand.extended.classes))
            if len(present) and (demand.waiting or extra):
                yield (*demand.waiting, *extra), present
            return
        lacking = np.zeros(len(nodes), np.intp)
        for i, (name, _) in enumerate(demand.extended.classes):
            lacking += self.lacking(nodes, name).astype(np.intp) << i
        for bits in np.unique(lacking[present]).tolist():
            classes = {name: c for i, (name, c) in enumerate(demand.extended.classes) if bits >> i & 1}
            extra = self._compiled_variant(pod, classes) if classes else ()
            if demand.waiting or extra:
                yield (*demand.waiting, *extra), present[lacking[present] == bits]

    def _compiled_variant(self, pod: PodInfo, classes: dict[str, str]) -> tuple[CompiledClaim, ...]:
        """The generated claim for these resources; empty if only containers that need no devices request them."""
        devices = variant(pod, classes).devices
        return (self._demands.compiled(in_memory_claim(pod, devices)),) if devices.requests else ()

    def verdicts(self, asked: tuple[CompiledClaim, ...], nodes: Nodes, places: Rows, *, asking: bool) -> Verdicts:
        """Verdicts for the nodes at these positions; the others are feasible."""
        self.inventory.refresh()
        rows = places if nodes.rows is None else nodes.rows[places]
        found = np.full(len(nodes), Verdict.FOUND.value, np.int8)
        found[places] = self.answers[asking].verdicts(asked_by(asked), rows)
        return found

    def footprint(self, pod: PodInfo, asked: tuple[CompiledClaim, ...], row: int, *, asking: bool) -> Footprint | None:
        """What the pod takes of its node along with its allocation; raises MappingError."""
        answer = self.answers[asking].answer(asked_by(asked), row)
        claims = self._demands.waiting_by_entry(pod)
        if len(answer.picks) > len(claims):
            claims.append(NamedClaim(in_memory_claim(pod, DeviceClaim()), ""))
        version = self._features.emulated_version
        # Until 1.36, only what is allocated now counts.
        held = [] if version < V1_37 else [(held, self._devices_of(held)) for held in self._demands.held_by_entry(pod)]
        return footprint(pod, claims, answer.picks, self.inventory.world(row), held, version)

    def _devices_of(self, held: NamedClaim) -> list[PickedDevice]:
        """The devices of an allocated claim, as far as they are still published."""
        allocation = held.claim.status.allocation
        found = []
        for result in allocation.devices.results if allocation is not None else ():
            device = self.inventory.published((result.driver, result.pool), result.device)
            if device is not None:
                consumed = result.consumed_capacity
                amounts = None if consumed is None else tuple((k, parse_quantity(v)) for k, v in consumed.items())
                found.append((DevicePick(0, 0, 0, amounts), device))
        return found

    def asked_on(self, pod: PodInfo, row: int) -> Iterator[tuple[CompiledClaim, ...]]:
        """The claims to allocate on one node; raises RefusedError."""
        view = Nodes(self._cluster, np.array([row], np.intp))
        for asked, _ in self.asked(pod, self._demands.of(pod), view, np.ones(1, np.bool_)):
            if not any(claim.problem for claim in asked):
                yield asked

    def variant_on(self, pod: PodInfo, demand: Demand, view: Nodes) -> Variant:
        assert demand.extended is not None
        return variant(pod, {name: c for name, c in demand.extended.classes if self.lacking(view, name)[0]})


def asked_by(claims: tuple[CompiledClaim, ...]) -> tuple[ClaimDemand, ...]:
    """The claims that can be allocated on some node."""
    return tuple(claim.asked for claim in claims if claim.asked is not None)
