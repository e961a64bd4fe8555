"""The expected pod count of a pod's owner: its spec.replicas, or that of its Deployment.

Upstream: pkg/controller/disruption/disruption.go (the finders).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from stowplan.kube.api.decode import decode_json
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.scale import scale_of
from stowplan_cluster.controllers.views import Scaled
from stowplan_cluster.controllers.workload_views import (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)

if TYPE_CHECKING:
    from stowplan.kube.api.meta import OwnerReference
    from stowplan_cluster.apiserver.registry import Registry
    from stowplan_cluster.apiserver.store import Stored

_BUILT_IN = frozenset(kind.storage for kind in (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS))


class ScaleError(ValueError):
    """The owner's scale cannot be determined."""


class Scale(PlainStruct):
    #: uid of the scaled object; None if it does not exist.
    uid: str | None = None
    replicas: int = 0
    #: uids of all objects that were read.
    sources: list[str] = field(default_factory=list)


class OwnerScales:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def of(self, owner: OwnerReference, namespace: str) -> Scale:
        resource = self._registry.catalogue.of_kind(owner.api_version, owner.kind)
        if resource is None:
            raise ScaleError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        scale = Scale(sources=[owner.uid])
        stored = self._find(resource.storage, namespace, owner)
        if stored is None:
            return scale
        if resource.storage in _BUILT_IN:
            self._read(scale, stored)
            if resource.storage == REPLICA_SETS.storage:
                self._follow_deployment(scale, stored)
            return scale
        if "scale" not in resource.subresources:
            raise ScaleError(f"{resource.qualified} does not implement the scale subresource")
        scale.uid = stored.uid
        scale.replicas = scale_of(self._registry, resource, stored)["spec"]["replicas"]
        return scale

    def _follow_deployment(self, scale: Scale, stored: Stored) -> None:
        references = decode_json(stored.data, Scaled).metadata.owner_references
        reference = next((one for one in references if one.controller and one.kind == DEPLOYMENTS.kind), None)
        if reference is None:
            return
        scale.uid = None
        scale.sources.append(reference.uid)
        deployment = self._find(DEPLOYMENTS.storage, stored.namespace, reference)
        if deployment is not None:
            self._read(scale, deployment)

    def _find(self, storage: str, namespace: str, owner: OwnerReference) -> Stored | None:
        stored = self._registry.store.get(storage, namespace, owner.name)
        return stored if stored is not None and stored.uid == owner.uid else None

    def _read(self, scale: Scale, stored: Stored) -> None:
        scale.uid, scale.replicas = stored.uid, decode_json(stored.data, Scaled).spec.replicas
