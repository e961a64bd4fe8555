"""Initial and derived status fields.

Upstream: PrepareForCreate in pkg/registry/*/strategy.go; zeros are fields that are always encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

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
    "volumeattachments.storage.k8s.io": {"attached": False},
    "poddisruptionbudgets.policy": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
    "podgroups.scheduling.k8s.io": {},
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


def drop_deallocated_devices(claim: JsonObject, old: JsonObject, subresource: str) -> None:
    """Remove status.devices entries of devices that are no longer allocated."""
    status = claim.get("status") or {}
    if subresource != "status" or not status.get("devices"):
        return
    gone = _allocated(old) - _allocated(claim)
    status["devices"] = [device for device in status["devices"] if _key(device) not in gone]
    if not status["devices"]:
        del status["devices"]


def _allocated(claim: JsonObject) -> set[tuple[str, ...]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return {_key(result) for result in (allocation.get("devices") or {}).get("results") or ()}


def _key(device: JsonObject) -> tuple[str, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))
