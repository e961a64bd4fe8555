"""Devices: drop those that are no longer allocated from a claim's status, and set timeAdded of device taints.

Upstream: pkg/registry/resource; SetDefaults_DeviceTaint in pkg/apis/resource/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.kube.api.meta import timestamp
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import Resource


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


# Set timeAdded of device taints; tolerationSeconds count from it.
#
# A taint without a time gets the current one. A rule whose effect changes gets the current time, too, unless the
# update sets another time.
#
# Upstream: SetDefaults_DeviceTaint in pkg/apis/resource/v1/defaults.go, pkg/registry/resource/devicetaintrule.

_SLICES, _RULES = "resourceslices.resource.k8s.io", "devicetaintrules.resource.k8s.io"


def date(resource: Resource, obj: JsonObject, old: JsonObject | None, now: float) -> None:
    """Set missing times; `old` is the object before an update."""
    if resource.storage not in (_SLICES, _RULES):
        return
    for taint in _taints(resource, obj):
        if not taint.get("timeAdded"):
            taint["timeAdded"] = timestamp(now)
    if resource.storage == _RULES and old is not None:
        (taint,), (before,) = _taints(resource, obj), _taints(resource, old)
        changed = taint.get("effect") != before.get("effect")
        if changed and taint["timeAdded"] == before.get("timeAdded"):
            taint["timeAdded"] = timestamp(now)


def _taints(resource: Resource, obj: JsonObject) -> Iterator[JsonObject]:
    spec = obj.setdefault("spec", {})
    if resource.storage == _RULES:
        yield spec.setdefault("taint", {})
        return
    for device in spec.get("devices") or ():
        yield from device.get("taints") or ()
