"""The writes that bind a volume to a claim or unbind it.

Upstream: pkg/controller/volume/persistentvolume/pv_controller.go (bind, unbindVolume).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.store import Stored
    from stowplan_cluster.controllers.client import ControllerClient

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

_YES = "yes"


def annotations_of(obj: JsonObject) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def reference_to(claim: Stored) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": str(claim.version),
    }


class Binding:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    def bind(self, volume: Stored, claim: Stored) -> None:
        """Set claimRef, volumeName and both phases, as far as they differ."""
        volume = self._claim_volume(volume, claim)
        volume = self.set_volume_phase(volume, "Bound")
        claim = self._name_volume(claim, volume.name)
        self._set_bound(claim, volume)

    def unbind(self, volume: Stored) -> None:
        """Remove the claimRef; one that a user set stays as a reservation."""
        obj = volume.to_dict()
        annotations = annotations_of(obj)
        if BOUND_BY_CONTROLLER in annotations:
            del obj["spec"]["claimRef"]
            del annotations[BOUND_BY_CONTROLLER]
        else:
            obj["spec"]["claimRef"].pop("uid")
        self.set_volume_phase(self._client.update(volume, obj), "Available")

    def set_volume_phase(self, stored: Stored, phase: str, message: str = "") -> Stored:
        status: JsonObject = dict(stored.to_dict().get("status") or {})
        if status.get("phase") == phase:
            return stored
        status.pop("message", None)
        status.update(phase=phase, lastPhaseTransitionTime=self._client.timestamp)
        if message:
            status["message"] = message
        return self._client.update_status(stored, status)

    def set_claim_phase(self, stored: Stored, phase: str) -> bool:
        """Set the phase of a claim without a volume; return whether it changed."""
        status: JsonObject = dict(stored.to_dict().get("status") or {})
        before = status.get("phase")
        for field in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
            status.pop(field, None)
        status["phase"] = phase
        self._client.update_status(stored, status)
        return before != phase

    def _claim_volume(self, volume: Stored, claim: Stored) -> Stored:
        obj = volume.to_dict()
        reference: Any = obj["spec"].get("claimRef") or {}
        same_name = (reference.get("namespace"), reference.get("name")) == (claim.namespace, claim.name)
        if same_name and reference.get("uid") == claim.uid:
            return volume
        obj["spec"]["claimRef"] = reference_to(claim)
        if not same_name:
            obj["metadata"]["annotations"] = {**annotations_of(obj), BOUND_BY_CONTROLLER: _YES}
        return self._client.update(volume, obj)

    def _name_volume(self, claim: Stored, name: str) -> Stored:
        obj = claim.to_dict()
        annotations = annotations_of(obj)
        if obj["spec"].get("volumeName") == name and BIND_COMPLETED in annotations:
            return claim
        by_controller = {} if obj["spec"].get("volumeName") == name else {BOUND_BY_CONTROLLER: _YES}
        obj["metadata"]["annotations"] = {**by_controller, **annotations, BIND_COMPLETED: _YES}
        obj["spec"]["volumeName"] = name
        return self._client.update(claim, obj)

    def _set_bound(self, claim: Stored, volume: Stored) -> None:
        spec = volume.to_dict()["spec"]
        status: JsonObject = dict(claim.to_dict().get("status") or {})
        status["accessModes"] = spec["accessModes"]
        if status.get("phase") != "Bound":
            # Only on binding: later the claim's capacity may differ, as when a file system is still being expanded.
            status["capacity"] = spec["capacity"]
            if "volumeAttributesClassName" in spec:
                status["currentVolumeAttributesClassName"] = spec["volumeAttributesClassName"]
        status["phase"] = "Bound"
        self._client.update_status(claim, status)
