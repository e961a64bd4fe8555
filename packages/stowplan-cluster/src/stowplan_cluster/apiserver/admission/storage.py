"""Default storage classes, resize checks, and protection finalizers of claims and volumes.

Upstream: plugin/pkg/admission/storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.storage_classes import Candidate, default_class
from stowplan_cluster.apiserver.admission.cluster import Plugin, refusal
from stowplan_cluster.apiserver.objects import metadata_of

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

_CLAIMS, _VOLUMES = "persistentvolumeclaims", "persistentvolumes"
_CLASSES = "storageclasses.storage.k8s.io"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
CLAIM_FINALIZER, VOLUME_FINALIZER = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_FINALIZERS = {_CLAIMS: CLAIM_FINALIZER, _VOLUMES: VOLUME_FINALIZER}


def _annotations(obj: JsonObject) -> dict[str, str]:
    annotations: dict[str, str] = (obj.get("metadata") or {}).get("annotations") or {}
    return annotations


class DefaultStorageClass(Plugin):
    name = "DefaultStorageClass"
    handles = frozenset({_CLAIMS})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        spec = obj["spec"]
        if _CLASS_ANNOTATION in _annotations(obj) or spec.get("storageClassName") is not None:
            return
        chosen = default_class(_candidate(stored.to_dict()) for stored in self._list(_CLASSES))
        if chosen is not None:
            spec["storageClassName"] = chosen


def _candidate(storage_class: JsonObject) -> Candidate:
    metadata = storage_class["metadata"]
    return Candidate(metadata["name"], _annotations(storage_class), metadata.get("creationTimestamp"))


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"
    handles = frozenset(_FINALIZERS)

    def create(self, resource: Resource, obj: JsonObject) -> None:
        finalizer, metadata = _FINALIZERS[resource.storage], metadata_of(obj)
        known = metadata.get("finalizers") or []
        if finalizer not in known:
            metadata["finalizers"] = [*known, finalizer]


class PersistentVolumeClaimResize(Plugin):
    name = "PersistentVolumeClaimResize"
    handles = frozenset({_CLAIMS})

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        if _size(obj) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refusal(resource, obj, "Only bound persistent volume claims can be expanded")
        name = _class_name(obj)
        stored = self._lookup(_CLASSES, "", name) if name and name == _class_name(old) else None
        if stored is None or not stored.to_dict().get("allowVolumeExpansion"):
            why = (
                "only dynamically provisioned pvc can be resized and "
                "the storageclass that provisions the pvc must support resize"
            )
            raise refusal(resource, obj, why)


def _size(claim: JsonObject) -> int:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get("storage", 0))


def _class_name(claim: JsonObject) -> str:
    return _annotations(claim).get(_CLASS_ANNOTATION) or (claim.get("spec") or {}).get("storageClassName") or ""
