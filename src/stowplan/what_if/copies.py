"""Copies of a pod, placed in the caller's transaction one after the other until one is rejected."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from stowplan.structs import PlainStruct
from stowplan.what_if.claims import with_own_claims
from stowplan.what_if.pods import copy_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stowplan.api.device_claims import ResourceClaimSpec
    from stowplan.api.types import Pod
    from stowplan.engine.decision.decision import Decision
    from stowplan.offline import Cluster

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
        self._made = 0

    def another(self) -> Pod:
        self._made += 1
        fresh = copy_of(self.pod, f"{self.pod.metadata.name}-copy-{self._made}")
        return with_own_claims(self._cluster, fresh, self.pod, self._claim_templates)

    def place(self, most: int) -> PlacedCopies:
        placed = PlacedCopies([])
        # Pods of a group that are named together would be placed together.
        limit = _BATCH if self.pod.spec.scheduling_group is None else 1
        batch = 1
        while placed.rejected is None and len(placed.nodes) < most:
            for decision in self._tried(min(batch, most - len(placed.nodes))):
                if not decision.node_name:
                    placed.rejected = decision
                    break
                placed.nodes.append(decision.node_name)
            batch = min(2 * batch, limit)
        return placed

    def _tried(self, number: int) -> list[Decision]:
        fresh = [self.another() for _ in range(number)]
        for pod in fresh:
            self._cluster.add(pod)
        return self._cluster.places([f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}" for pod in fresh])
