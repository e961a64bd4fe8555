"""A simulated driver that reports binding conditions of allocated devices.

For a device described by an annotation (`device_driver`), all binding conditions become true once it is allocated. If
its attribute `stowplan.io/ready` is false, its first failure condition becomes true instead; with `never` no condition
is ever set, as by a driver that hangs.

Upstream has no counterpart; drivers do this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.kube.api.annotated_devices import DEVICES_OF
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.device_claims import ResourceClaim
from stowplan.kube.api.devices import ResourceSlice
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.devices.device_views import RESOURCE_CLAIMS, SLICES
from stowplan_cluster.controllers.workload_views import Key

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from stowplan.kube.api.device_claims import DeviceRequestAllocationResult
    from stowplan.kube.api.devices import Device
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.registry import Registry
    from stowplan_cluster.apiserver.store import Event

READY, NEVER = "stowplan.io/ready", "never"

_MARK = b'"bindingConditions":'


class FakeDeviceReadiness:
    def __init__(self, registry: Registry) -> None:
        self.name = "fake-device-readiness"
        self.watches = (RESOURCE_CLAIMS,)
        self._client = ControllerClient(registry, "fake-device-readiness")

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        waits = event.type != "DELETED" and _MARK in stored.data
        return [Key(stored.namespace, stored.name, stored.uid)] if waits else ()

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(RESOURCE_CLAIMS, key)
        claim = None if stored is None else decode_json(stored.data, ResourceClaim)
        if stored is None or claim is None or claim.status.allocation is None:
            return None
        reported = {(one.driver, one.pool, one.device) for one in claim.status.devices}
        added = [
            {"driver": result.driver, "pool": result.pool, "device": result.device, "conditions": conditions}
            for result in claim.status.allocation.devices.results
            if (result.driver, result.pool, result.device) not in reported and (conditions := self._conditions(result))
        ]
        if added:
            changed = stored.to_dict()
            changed["status"]["devices"] = [*(changed["status"].get("devices") or ()), *added]
            self._client.update(stored, changed, subresource="status")
        return None

    def _conditions(self, result: DeviceRequestAllocationResult) -> list[JsonObject]:
        device = self._device(result) if result.binding_conditions else None
        if device is None:
            return []
        ready = device.attributes.get(READY)
        if ready is not None and ready.string == NEVER:
            return []
        if ready is None or ready.bool_ is not False:
            return [self._condition(name, "Ready") for name in result.binding_conditions]
        return [self._condition(name, "NotReady") for name in result.binding_failure_conditions[:1]]

    def _condition(self, name: str, reason: str) -> JsonObject:
        text = "as the annotation of its node says"
        return {
            "type": name,
            "status": "True",
            "reason": reason,
            "message": text,
            "lastTransitionTime": self._client.timestamp,
        }

    def _device(self, result: DeviceRequestAllocationResult) -> Device | None:
        """The device, if an annotation describes it."""
        for stored in self._client.store.list(SLICES):
            found = decode_json(stored.data, ResourceSlice)
            if (found.spec.driver, found.spec.pool.name) != (result.driver, result.pool):
                continue
            for device in found.spec.devices if DEVICES_OF in found.metadata.annotations else ():
                if device.name == result.device:
                    return device
        return None
