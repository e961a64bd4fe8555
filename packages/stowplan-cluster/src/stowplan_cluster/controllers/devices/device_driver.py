"""A simulated device driver: publishes the ResourceSlices described by a node annotation.

`stowplan.kube.api.annotated_devices` defines the annotation. Any change of a pool's devices starts a new generation.
Removing the annotation deletes the slices, as when a driver is removed; if the node is deleted, the garbage collector
deletes them. An annotation that is invalid, or whose slices are rejected, changes nothing but is reported by an event
on the node.

Upstream: k8s.io/dynamic-resource-allocation/resourceslice, which drivers are built with.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api.annotated_devices import (
    DEVICES,
    DEVICES_OF,
    Devices,
    InvalidDevices,
    pools_of,
    slice_spec,
    slices_of,
)
from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.device_claims import DeviceRequestAllocationResult, ResourceClaim
from stowplan.kube.api.devices import Device, ResourceSlice
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import WARNING, ControllerClient
from stowplan_cluster.controllers.devices.device_views import RESOURCE_CLAIMS, SLICES
from stowplan_cluster.controllers.pods_by_node import NODES
from stowplan_cluster.reconcile.views import Key

_NOTHING = Devices([], [])
#: The fields of a slice that describe its pool.
_PUBLISHED = ("devices", "sharedCounters")
_MARK = f'"{DEVICES}":'.encode()


class FakeDeviceDriver:
    def __init__(self, registry: Registry) -> None:
        self.name = "fake-device-driver"
        self.watches = (NODES, SLICES)
        self._client = ControllerClient(registry, "fake-device-driver")
        self._nodes: dict[str, Key] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == SLICES:
            node = self._nodes.get(_made_for(stored))
            return [node] if node is not None and event.type != "ADDED" else ()
        key = Key("", stored.name, stored.uid)
        if event.type == "DELETED":
            self._nodes.pop(stored.name, None)
            return ()
        self._nodes[stored.name] = key
        had = event.previous is not None and _MARK in event.previous.data
        return [key] if had or _MARK in stored.data else ()

    def reconcile(self, key: Any) -> float | None:
        node = self._client.find(NODES, key)
        if node is None:
            return None
        annotation = (node.to_dict()["metadata"].get("annotations") or {}).get(DEVICES)
        try:
            pools = pools_of(annotation) if annotation is not None else {}
        except InvalidDevices as error:
            self._warn(node, str(error))
            return None
        there = [stored for stored in self._client.store.dependents(node.uid) if _made_for(stored) == node.name]
        by_driver: dict[str, list[Stored]] = {driver: [] for driver in pools}
        for stored in there:
            by_driver.setdefault(stored.to_dict()["spec"]["driver"], []).append(stored)
        for driver, published in by_driver.items():
            try:
                self._publish(node, driver, pools.get(driver, _NOTHING), published)
            except ApiError as error:
                self._warn(node, f"annotation {DEVICES}: devices of {driver}: {error}")
                raise
        return None

    def _publish(self, node: Stored, driver: str, pool: Devices, published: list[Stored]) -> None:
        """Publish the slices of a pool, if they differ from the published ones."""
        before = {stored.name: stored for stored in published}
        specs = {name: stored.to_dict()["spec"] for name, stored in before.items()}
        present = {name: {field: spec[field] for field in _PUBLISHED if field in spec} for name, spec in specs.items()}
        wanted = slices_of(node.name, driver, pool)
        for name, part in wanted.items():
            _keep_times(part.get("devices", ()), present.get(name, {}).get("devices", ()))
        generations = {spec["pool"]["generation"] for spec in specs.values()}
        if present == wanted and len(generations) <= 1:
            return
        generation = max(generations, default=0) + 1
        for name, part in wanted.items():
            spec = slice_spec(node.name, driver, part, generation=generation, count=len(wanted))
            if name in before:
                self._client.update(before[name], {**before[name].to_dict(), "spec": spec})
            else:
                self._client.create(SLICES, _slice(node, name, spec))
        for name in before.keys() - wanted.keys():
            self._client.delete(SLICES, "", name, uid=before[name].uid)

    def _warn(self, node: Stored, problem: str) -> None:
        self._client.events.record(node.to_dict(), WARNING, "InvalidDevices", problem)


def _made_for(stored: Stored) -> str:
    if stored.resource != SLICES:
        return ""
    annotations = stored.to_dict()["metadata"].get("annotations") or {}
    node: str = annotations.get(DEVICES_OF, "")
    return node


def _keep_times(devices: Sequence[JsonObject], before: Sequence[JsonObject]) -> None:
    """Keep timeAdded of unchanged taints."""
    times = {
        _taint_key(device, taint): taint.get("timeAdded") for device in before for taint in device.get("taints") or ()
    }
    for device in devices:
        if "taints" in device:
            device["taints"] = [
                {"timeAdded": time, **taint} if (time := times.get(_taint_key(device, taint))) else taint
                for taint in device["taints"]
            ]


def _taint_key(device: JsonObject, taint: JsonObject) -> tuple[Any, ...]:
    return device["name"], taint.get("key"), taint.get("value"), taint.get("effect")


def _slice(node: Stored, name: str, spec: JsonObject) -> JsonObject:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "ownerReferences": [owner], "annotations": {DEVICES_OF: node.name}},
        "spec": spec,
    }


# A simulated driver that reports binding conditions of allocated devices.
#
# All binding conditions of a device that an annotation describes become true once it is allocated. If its attribute
# `stowplan.io/ready` is false, its first failure condition becomes true instead; with `never` no condition is ever set,
# as by a driver that hangs.
#
# Upstream has no counterpart; drivers do this.

READY, NEVER = "stowplan.io/ready", "never"

_WAITS = b'"bindingConditions":'


class FakeDeviceReadiness:
    def __init__(self, registry: Registry) -> None:
        self.name = "fake-device-readiness"
        self.watches = (RESOURCE_CLAIMS,)
        self._client = ControllerClient(registry, "fake-device-readiness")

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        waits = event.type != "DELETED" and _WAITS in stored.data
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
