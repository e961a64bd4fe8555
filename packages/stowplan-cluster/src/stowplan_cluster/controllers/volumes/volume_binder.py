"""Bind PersistentVolumes to claims, and release them.

A claim gets the volume that it names, one reserved for it, the smallest that fits, or a new one from its class's
provisioner (`provisioner.py`). With WaitForFirstConsumer the scheduler binds the claim, or it is provisioned once the
scheduler has selected a node. Binding is four writes: the volume's claimRef and phase, the claim's volumeName and
phase; missing ones are written by the next reconcile.

A volume whose claim is gone is Released; with reclaim policy Delete the provisioner removes it.

A waiting claim is reconciled again when a suitable volume or class is added.

Volumes are not resized: if a bound claim requests more, an event says so.

Left out: WaitForPodScheduled events, recycling (such a volume fails, as on a cluster
without recycler), the beta class annotation, migration of in-tree volumes.

Upstream: pkg/controller/volume/persistentvolume/pv_controller.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from stowplan.kube.api.quantity import parse_quantity
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import NORMAL, WARNING
from stowplan_cluster.controllers.volumes import volume_matching

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"

STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"

_LOST_REFERENCE = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
_LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
_MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"


class VolumeKey(NamedTuple):
    name: str


class VolumeBinder:
    def __init__(self, registry: Registry) -> None:
        self.name = "persistentvolume-binder-controller"
        self.watches = (volume_matching.CLASSES, VOLUMES, CLAIMS)
        self._client = ControllerClient(registry, "persistentvolume-controller")
        self._binding = volume_matching.Binding(self._client)
        self._volumes = volume_matching.Volumes()
        #: spec.volumeName -> claims that name the volume.
        self._claimants: dict[str, dict[volume_matching.ClaimKey, None]] = {}
        #: Class -> claims without a suitable volume, in order of arrival.
        self._waiting: dict[str, dict[volume_matching.ClaimKey, None]] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        storage = event.stored.resource
        if storage == volume_matching.CLASSES:
            return self._follow_class(event)
        return self._follow_volume(event) if storage == VOLUMES else self._follow_claim(event)

    def reconcile(self, key: Any) -> float | None:
        if isinstance(key, volume_matching.ClaimKey):
            stored = self._client.store.get(CLAIMS, key.namespace, key.name)
            if stored is not None:
                self._sync_claim(stored)
            return None
        stored = self._client.store.get(VOLUMES, "", key.name)
        if stored is not None:
            self._sync_volume(stored)
            self._offer(key.name)
        return None

    # Events

    def _follow_class(self, event: Event) -> Sequence[Hashable]:
        waiting = [*self._waiting.get(event.stored.name, ())]
        if event.type != "DELETED" and volume_matching.is_default(event.stored):
            waiting += self._waiting.get("", ())
        return waiting

    def _follow_volume(self, event: Event) -> Sequence[Hashable]:
        name = event.stored.name
        before = self._volumes.get(name)
        self._volumes.drop(name)
        claims = dict.fromkeys([before.claim] if before is not None and before.claim is not None else [])
        claims |= self._claimants.get(name, {})
        if event.type == "DELETED":
            return list(claims)
        volume = volume_matching.offered_of(event.stored)
        self._volumes.put(volume)
        if volume.claim is not None:
            claims[volume.claim] = None
        return [VolumeKey(name), *claims]

    def _follow_claim(self, event: Event) -> Sequence[Hashable]:
        key = volume_matching.ClaimKey(event.stored.namespace, event.stored.name)
        before = _volume_name(event.previous) if event.previous is not None else ""
        name = _volume_name(event.stored) if event.type != "DELETED" else ""
        if before != name:
            left = self._claimants.get(before, {})
            left.pop(key, None)
            if not left:
                self._claimants.pop(before, None)
        if name:
            self._claimants.setdefault(name, {})[key] = None
        self._stop_waiting(key, event)
        volumes = dict.fromkeys([*self._volumes.of_claim(key), *(one for one in (before, name) if one)])
        return [key, *(VolumeKey(volume) for volume in volumes)]

    def _stop_waiting(self, key: volume_matching.ClaimKey, event: Event) -> None:
        """Remove a claim from those that wait; its next reconcile adds it again if needed."""
        class_name = _class_of(event.previous.to_dict() if event.previous is not None else event.stored.to_dict())
        left = self._waiting.get(class_name or "", {})
        left.pop(key, None)
        if not left:
            self._waiting.pop(class_name or "", None)

    def _offer(self, name: str) -> None:
        """Offer an available volume to the claim that has waited longest."""
        volume = self._volumes.get(name)
        if volume is None or not volume.free:
            return
        for key in list(self._waiting.get(volume.kind.class_name, ())):
            stored = self._client.store.get(CLAIMS, key.namespace, key.name)
            if stored is not None and volume_matching.fits(volume, volume_matching.wanted_of(stored)):
                self._sync_claim(stored)
                current = self._volumes.get(name)
                if current is None or not current.free:
                    return

    # Claims

    def _sync_claim(self, stored: Stored) -> None:
        claim = stored.to_dict()
        if volume_matching.BIND_COMPLETED in volume_matching.annotations_of(claim):
            self._sync_bound_claim(stored, claim)
        elif claim["spec"].get("volumeName"):
            self._sync_reserving_claim(stored, claim)
        else:
            self._sync_free_claim(stored, claim)

    def _sync_free_claim(self, stored: Stored, claim: JsonObject) -> None:
        """A claim without volumeName."""
        name = _class_of(claim)
        class_ = self._class(name or "")
        delayed = class_ is not None and volume_matching.waits_for_consumer(class_)
        volume = self._volumes.best_for(volume_matching.wanted_of(stored), reserved_only=delayed)
        if volume is not None:
            self._bind(volume.name, stored)
            return
        default = volume_matching.default_of(self._client.store.list(volume_matching.CLASSES)) if name is None else None
        if default is not None:
            claim["spec"]["storageClassName"] = default
            self._client.update(stored, claim)
            return
        self._waiting.setdefault(name or "", {})[volume_matching.ClaimKey(stored.namespace, stored.name)] = None
        if delayed and volume_matching.SELECTED_NODE not in volume_matching.annotations_of(claim):
            message = "waiting for first consumer to be created before binding"
            self._client.events.record(claim, NORMAL, "WaitForFirstConsumer", message)
        elif name:
            self._ask_provisioner(stored, claim, class_)
            return
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            self._client.events.record(claim, NORMAL, "FailedBinding", message)
        self._binding.set_claim_phase(stored, "Pending")

    def _ask_provisioner(self, stored: Stored, claim: JsonObject, class_: JsonObject | None) -> None:
        if class_ is None:
            message = f'storageclass.storage.k8s.io "{_class_of(claim)}" not found'
            self._client.events.record(claim, WARNING, "ProvisioningFailed", message)
            return
        provisioner = class_["provisioner"]
        if provisioner == volume_matching.NO_PROVISIONER:
            message = f"no volume plugin matched name: {provisioner}"
            self._client.events.record(claim, WARNING, "ProvisioningFailed", message)
            return
        if volume_matching.annotations_of(claim).get(STORAGE_PROVISIONER) != provisioner:
            names = (_BETA_STORAGE_PROVISIONER, STORAGE_PROVISIONER)
            claim["metadata"]["annotations"] = {
                **volume_matching.annotations_of(claim),
                **dict.fromkeys(names, provisioner),
            }
            self._client.update(stored, claim)
            message = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually "
                "by the system administrator. If volume creation is delayed, please verify that the provisioner is "
                "running and correctly registered."
            )
            self._client.events.record(claim, NORMAL, "ExternalProvisioning", message)

    def _sync_reserving_claim(self, stored: Stored, claim: JsonObject) -> None:
        """A claim with volumeName."""
        name = claim["spec"]["volumeName"]
        volume, wanted = self._volumes.get(name), volume_matching.wanted_of(stored)
        if volume is None:
            self._binding.set_claim_phase(stored, "Pending")
        elif volume.claim is None and (why := volume.mismatch(wanted)):
            message = f'Cannot bind to requested volume "{name}": {why}'
            self._client.events.record(claim, WARNING, "VolumeMismatch", message)
            self._binding.set_claim_phase(stored, "Pending")
        elif volume.claim is None or volume.is_bound_to(wanted):
            self._bind(name, stored)
        else:
            message = f'volume "{name}" already bound to a different claim.'
            self._client.events.record(claim, WARNING, "FailedBinding", message)
            self._binding.set_claim_phase(stored, "Pending")

    def _sync_bound_claim(self, stored: Stored, claim: JsonObject) -> None:
        """A claim that is or was bound."""
        name = claim["spec"].get("volumeName")
        volume = self._volumes.get(name) if name else None
        if volume is not None and (volume.claim is None or volume.claim_uid == stored.uid):
            self._bind(volume.name, stored)
            self._record_growth(claim)
            return
        reason, message = "ClaimLost", _LOST_VOLUME if name else _LOST_REFERENCE
        if volume is not None:
            reason, message = "ClaimMisbound", _MISBOUND
        if self._binding.set_claim_phase(stored, "Lost"):
            self._client.events.record(claim, WARNING, reason, message)

    def _record_growth(self, claim: JsonObject) -> None:
        """Report that a bound claim requests more storage, which only a resizer could provide."""
        wanted = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
        has = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
        if wanted is not None and has is not None and parse_quantity(wanted) > parse_quantity(has):
            message = f"The claim asks for {wanted} and its volume has {has}: nothing here resizes volumes"
            self._client.events.record(claim, WARNING, "ExternalExpanding", message)

    def _bind(self, name: str, claim: Stored) -> None:
        volume = self._client.store.get(VOLUMES, "", name)
        if volume is not None:
            self._binding.bind(volume, claim)

    # Volumes

    def _sync_volume(self, stored: Stored) -> None:
        volume = stored.to_dict()
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            # Available or reserved: the claim's reconcile binds it.
            self._binding.set_volume_phase(stored, "Available")
            return
        claim = self._client.store.get(CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
        if claim is None or claim.uid != reference["uid"]:
            self._release(stored, volume)
            return
        named = _volume_name(claim)
        if named == stored.name:
            self._binding.set_volume_phase(stored, "Bound")
        elif not named:
            # The claim's reconcile completes the binding, unless the volume mode differs.
            self._record_mode_mismatch(volume, claim)
        elif (
            volume_matching.PROVISIONED_BY in volume_matching.annotations_of(volume) and _policy_of(volume) == "Delete"
        ):
            self._release(stored, volume)
        else:
            self._binding.unbind(stored)

    def _record_mode_mismatch(self, volume: JsonObject, claim: Stored) -> None:
        offered, wanted = self._volumes.get(volume["metadata"]["name"]), volume_matching.wanted_of(claim)
        if offered is None or offered.kind.mode == wanted.kind.mode:
            return
        why = "due to incompatible volumeMode."
        message = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.name}" {why}'
        self._client.events.record(volume, WARNING, "VolumeMismatch", message)
        message = f'Cannot bind PersistentVolume "{offered.name}" to requested PersistentVolumeClaim {why}'
        self._client.events.record(claim.to_dict(), WARNING, "VolumeMismatch", message)

    def _release(self, stored: Stored, volume: JsonObject) -> None:
        phase = (volume.get("status") or {}).get("phase")
        if phase not in ("Released", "Failed"):
            stored = self._binding.set_volume_phase(stored, "Released")
        if _policy_of(volume) == "Recycle" and phase != "Failed":
            self._binding.set_volume_phase(stored, "Failed", "No recycler plugin found for the volume!")
            message = "No recycler plugin found for the volume!"
            self._client.events.record(volume, WARNING, "VolumeFailedRecycle", message)

    def _class(self, name: str) -> JsonObject | None:
        stored = self._client.store.get(volume_matching.CLASSES, "", name) if name else None
        return stored.to_dict() if stored is not None else None


def _class_of(claim: JsonObject) -> str | None:
    name: str | None = claim["spec"].get("storageClassName")
    return name


def _volume_name(claim: Stored) -> str:
    name: str = claim.to_dict()["spec"].get("volumeName") or ""
    return name


def _policy_of(volume: JsonObject) -> str:
    policy: str = volume["spec"].get("persistentVolumeReclaimPolicy", "")
    return policy
