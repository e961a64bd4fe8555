"""Per-kind strategies: changes to an object between request and validation, beyond defaults.

A new object starts with the server's status. An update keeps the old status, a status update keeps everything else, and
a changed spec increments metadata.generation.

Upstream: pkg/registry/*/strategy.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan.kube.api.meta import timestamp
from stowplan_cluster.apiserver.objects import JsonObject, equal, keep, metadata_of
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.strategies import devices, pods, services, workloads
from stowplan_cluster.apiserver.validation.field_errors import same

# Initial and derived status fields.
#
# Upstream: PrepareForCreate in pkg/registry/*/strategy.go; zeros are fields that are always encoded.

_STARTS: dict[str, JsonObject] = {
    "namespaces": {"phase": "Active"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
    "replicationcontrollers": {"replicas": 0},
    "replicasets.apps": {"replicas": 0},
    "deployments.apps": {},
    "statefulsets.apps": {"replicas": 0, "availableReplicas": 0},
    "daemonsets.apps": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "jobs.batch": {},
    "cronjobs.batch": {},
    "volumeattachments.storage.k8s.io": {"attached": False},
    "poddisruptionbudgets.policy": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
    "podgroups.scheduling.k8s.io": {},
    "compositepodgroups.scheduling.k8s.io": {},
    "resourceclaims.resource.k8s.io": {},
    "devicetaintrules.resource.k8s.io": {},
    "customresourcedefinitions.apiextensions.k8s.io": {},
    "horizontalpodautoscalers.autoscaling": {"desiredReplicas": 0},
}
_NOTHING: JsonObject = {}


def start(resource: Resource, obj: JsonObject) -> None:
    """Set the initial status, overwriting the client's. Nodes keep theirs."""
    beginning = _STARTS.get(resource.storage, _NOTHING if resource.stored_only and resource.has_status else None)
    if beginning is not None:
        obj["status"] = {name: _fresh(value) for name, value in beginning.items()}


def _fresh(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def note_stored_version(definition: JsonObject, now: float) -> None:
    _note(definition, [])


def note_stored_version_on_update(definition: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        _note(definition, (old.get("status") or {}).get("storedVersions") or [])


def _note(definition: JsonObject, known: list[str]) -> None:
    versions = (definition.get("spec") or {}).get("versions") or ()
    stored = next((version.get("name", "") for version in versions if version.get("storage")), None)
    added = [stored] if stored is not None and stored not in known else []
    definition["status"] = (definition.get("status") or {}) | {"storedVersions": [*known, *added]}


# PersistentVolumes and claims: phase transition times, and dataSource against dataSourceRef.
#
# Upstream: pkg/registry/core/persistentvolume, pkg/registry/core/persistentvolumeclaim.


def prepare_new_volume(volume: JsonObject, now: float) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": timestamp(now)}


def prepare_new_claim(claim: JsonObject, now: float) -> None:
    _match_data_sources(claim["spec"])


def prepare_claim_update(claim: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        _match_data_sources(claim["spec"])


def _match_data_sources(spec: JsonObject) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: reference[name] for name in ("apiGroup", "kind", "name") if name in reference}


Prepare = Callable[[JsonObject, float], None]
#: (new, old, subresource)
PrepareUpdate = Callable[[JsonObject, JsonObject, str], None]

__all__ = ["count_generation", "prepare_for_create", "prepare_for_update"]


def _prepare_namespace(namespace: JsonObject, now: float) -> None:
    spec = namespace.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    if "kubernetes" not in finalizers:
        spec["finalizers"] = [*finalizers, "kubernetes"]


_PREPARE: dict[str, Prepare] = {
    "namespaces": _prepare_namespace,
    "pods": pods.prepare_new_pod,
    "jobs.batch": workloads.generate_selector,
    "statefulsets.apps": workloads.prepare_stateful_set,
    "persistentvolumes": prepare_new_volume,
    "persistentvolumeclaims": prepare_new_claim,
    "customresourcedefinitions.apiextensions.k8s.io": note_stored_version,
}


def prepare_for_create(resource: Resource, obj: JsonObject, *, now: float) -> None:
    """Prepare a new object; the registry sets all metadata but the generation."""
    if resource.generation:
        metadata_of(obj)["generation"] = 1
    if not resource.custom:
        devices.date(resource, obj, None, now)
        start(resource, obj)
        prepare = _PREPARE.get(resource.storage)
        if prepare is not None:
            prepare(obj, now)
    elif resource.has_status:
        obj.pop("status", None)


def _update_namespace(new: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        keep(new.setdefault("spec", {}), old.get("spec") or {}, "finalizers")


def _update_secret(new: JsonObject, old: JsonObject, subresource: str) -> None:
    if not new.get("type"):
        keep(new, old, "type")


_UPDATE: dict[str, PrepareUpdate] = {
    "namespaces": _update_namespace,
    "pods": pods.prepare_update,
    "secrets": _update_secret,
    "services": services.update_service,
    "daemonsets.apps": workloads.update_daemon_set,
    "statefulsets.apps": workloads.update_stateful_set,
    "persistentvolumeclaims": prepare_claim_update,
    "customresourcedefinitions.apiextensions.k8s.io": note_stored_version_on_update,
    "resourceclaims.resource.k8s.io": devices.drop_deallocated_devices,
}

#: Kinds whose generation also counts changes of annotations, as these are copied to their ReplicaSets.
_ANNOTATIONS_COUNT = frozenset({"deployments.apps"})
#: Kinds whose status updates leave all metadata unchanged.
_STATUS_KEEPS_METADATA = frozenset(
    {
        "volumeattachments.storage.k8s.io",
        "resourceclaims.resource.k8s.io",
        "devicetaintrules.resource.k8s.io",
        "podgroups.scheduling.k8s.io",
        "compositepodgroups.scheduling.k8s.io",
    }
)
_NOT_OF_STATUS = ("deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences")


def prepare_for_update(resource: Resource, obj: JsonObject, old: JsonObject, subresource: str, *, now: float) -> None:
    """Restore fields that this subresource cannot change."""
    if subresource == "status":
        _keep_all_but_status(resource, obj, old)
    elif resource.has_status:
        keep(obj, old, "status")
    if not subresource and not resource.custom:
        devices.date(resource, obj, old, now)
    update = None if resource.custom else _UPDATE.get(resource.storage)
    if update is not None:
        update(obj, old, subresource)


def count_generation(resource: Resource, obj: JsonObject, old: JsonObject, subresource: str) -> None:
    """Increment the generation if the spec changed. Runs after admission, which may restore fields."""
    if resource.generation and subresource != "status":
        _count(resource, obj, old)


def _keep_all_but_status(resource: Resource, obj: JsonObject, old: JsonObject) -> None:
    keep(obj, old, *(obj.keys() | old.keys()) - {"apiVersion", "kind", "metadata", "status"})
    metadata, before = metadata_of(obj), metadata_of(old)
    if resource.storage in _STATUS_KEEPS_METADATA or resource.custom:
        keep(metadata, before, *_NOT_OF_STATUS)
    elif resource.storage == "pods":
        keep(metadata, before, "ownerReferences")
    elif resource.storage == "deployments.apps":
        keep(metadata, before, "labels")
    keep(metadata, before, "generation")


def _count(resource: Resource, obj: JsonObject, old: JsonObject) -> None:
    metadata, before = metadata_of(obj), metadata_of(old)
    annotated = resource.storage in _ANNOTATIONS_COUNT and not same(
        metadata.get("annotations"), before.get("annotations")
    )
    changed = annotated or _spec_changed(resource, obj, old)
    metadata["generation"] = before.get("generation", 0) + changed


def _spec_changed(resource: Resource, obj: JsonObject, old: JsonObject) -> bool:
    if not resource.custom:
        return not same(obj.get("spec"), old.get("spec"))
    outside = {"apiVersion", "kind", "metadata"} | ({"status"} if resource.has_status else set())
    return any(not equal(obj.get(name), old.get(name)) for name in (obj.keys() | old.keys()) - outside)
