"""Copies of a pod, placed in the caller's transaction one after the other until one is rejected."""

from __future__ import annotations

from itertools import count as counted_from
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from stowplan.ask.what_if.claims import with_own_claims
from stowplan.ask.what_if.pods import copy_of, ordinal_names, pods_of
from stowplan.ask.what_if.volume_claims import bind_claims_of, claims_of
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.in_tree.common.volume_claims import claim_names, class_name_of
from stowplan.scheduler.in_tree.volume_binding.claims import is_fully_bound
from stowplan.scheduler.in_tree.volume_binding.volumes import FREE_BY_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stowplan.ask.offline import Cluster
    from stowplan.ask.offline.assumptions import Provision
    from stowplan.kube.api.device_claims import ResourceClaimSpec
    from stowplan.kube.api.types import Pod
    from stowplan.scheduler.engine.decision.decision import Decision

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
