"""Evict pods that use a device with a NoExecute taint which their claim does not tolerate.

What a claim tolerates is in its allocation: the tolerations of the request that the device was allocated for. A pod
whose claims tolerate all taints of its devices, some only for a time, goes when the shortest of these times is over;
time runs from when the taint was added. Pods that have no node yet stay: the scheduler does not start them with the
device, or starts them elsewhere.

Left out: taints by DeviceTaintRule.

Upstream: pkg/controller/devicetainteviction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stowplan.api.affinity import Taint
from stowplan.api.decode import decode_json
from stowplan.api.device_claims import ResourceClaim
from stowplan.api.devices import ResourceSlice
from stowplan.api.taints import NO_EXECUTE, tolerates
from stowplan.api.timestamps import parse_timestamp
from stowplan_cluster.apiserver.conditions import set_condition
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.device_views import RESOURCE_CLAIMS, SLICES, ClaimingPod, DeviceClaimKey, may_claim
from stowplan_cluster.controllers.events import NORMAL
from stowplan_cluster.controllers.pods import PODS
from stowplan_cluster.controllers.workloads import Key

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from stowplan.api.affinity import Toleration
    from stowplan.api.device_claims import DeviceRequestAllocationResult
    from stowplan_cluster.apiserver.registry import Registry
    from stowplan_cluster.apiserver.store import Event, Stored

_REASON = "DeviceTaintManagerEviction"

#: Driver, pool, device.
_DeviceId = tuple[str, str, str]


class _Tainted(NamedTuple):
    taint: Taint
    #: When it was added; None: nobody says.
    since: float | None


class DeviceTaintEvictionController:
    def __init__(self, registry: Registry) -> None:
        self.name = "device-taint-eviction-controller"
        self.watches = (SLICES, RESOURCE_CLAIMS, PODS)
        self._client = ControllerClient(registry, "device-taint-eviction-controller")
        #: Slice -> the NoExecute taints of its devices.
        self._taints: dict[str, dict[_DeviceId, tuple[_Tainted, ...]]] = {}
        #: Claims that have devices, and who uses them.
        self._claims: dict[DeviceClaimKey, ResourceClaim] = {}
        #: Since when a pod that will have to go has known it.
        self._told: dict[Key, float] = {}

    # -- following ----------------------------------------------------------------------------------------------------

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == SLICES:
            return self._follow_slice(event)
        if stored.resource == RESOURCE_CLAIMS:
            return self._follow_claim(event)
        key = Key(stored.namespace, stored.name, stored.uid)
        if event.type == "DELETED":
            self._told.pop(key, None)
            return ()
        return [key] if self._taints and may_claim(stored) else ()

    def _follow_slice(self, event: Event) -> Sequence[Hashable]:
        name = event.stored.name
        before = self._taints.pop(name, {})
        after = {} if event.type == "DELETED" else _tainted(decode_json(event.stored.data, ResourceSlice))
        if after:
            self._taints[name] = after
        changed = {device for device in before.keys() | after.keys() if before.get(device) != after.get(device)}
        if not changed:
            return ()
        return [
            user
            for claim in self._claims.values()
            if any(_device(result) in changed for result in _results(claim))
            for user in _users(claim)
        ]

    def _follow_claim(self, event: Event) -> Sequence[Hashable]:
        key = DeviceClaimKey(event.stored.namespace, event.stored.name)
        before = self._claims.pop(key, None)
        claim = decode_json(event.stored.data, ResourceClaim)
        if event.type != "DELETED" and claim.status.allocation is not None:
            self._claims[key] = claim
        if not self._taints and not self._told:
            return ()
        return list(dict.fromkeys((*_users(claim), *(_users(before) if before is not None else ()))))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(PODS, key)
        pod = None if stored is None else decode_json(stored.data, ClaimingPod)
        if stored is None or pod is None or pod.deleting or pod.done or not pod.spec.node_name:
            self._told.pop(key, None)
            return None
        at = self._evicted_at(key, pod)
        if at is None:
            if self._told.pop(key, None) is not None:
                self._record(stored, "Cancelling deletion")
            return None
        left = at - self._client.now
        if left > 0:
            return left
        self._evict(key, stored)
        return None

    def _evicted_at(self, key: Key, pod: ClaimingPod) -> float | None:
        """When the pod has to go; None: it may stay."""
        times = [
            (tainted.since, seconds)
            for name in pod.claims
            if (claim := self._claims.get(name)) is not None and key in _users(claim)
            for result in _results(claim)
            for tainted in self._taints_of(_device(result))
            if (seconds := _tolerated_seconds(tainted.taint, result.tolerations)) is not None
        ]
        if not times:
            return None
        told = self._told.setdefault(key, self._client.now)
        return min((told if since is None else since) + seconds for since, seconds in times)

    def _taints_of(self, device: _DeviceId) -> Iterator[_Tainted]:
        for of_slice in self._taints.values():
            yield from of_slice.get(device, ())

    def _evict(self, key: Key, stored: Stored) -> None:
        self._told.pop(key, None)
        self._record(stored, "Marking for deletion")
        pod = stored.to_dict()
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
            "observedGeneration": pod["metadata"].get("generation", 0),
        }
        if set_condition(pod.setdefault("status", {}), condition, now=self._client.timestamp, probed=True):
            self._client.update(stored, pod, subresource="status")
        self._client.delete(PODS, key.namespace, key.name, uid=key.uid)

    def _record(self, stored: Stored, message: str) -> None:
        self._client.events.record(stored.to_dict(), NORMAL, _REASON, message)


def _tainted(obj: ResourceSlice) -> dict[_DeviceId, tuple[_Tainted, ...]]:
    found = {}
    for device in obj.spec.devices:
        taints = tuple(
            _Tainted(
                Taint(key=taint.key, value=taint.value, effect=taint.effect),
                parse_timestamp(taint.time_added) if taint.time_added else None,
            )
            for taint in device.taints
            if taint.effect == NO_EXECUTE
        )
        if taints:
            found[obj.spec.driver, obj.spec.pool.name, device.name] = taints
    return found


def _results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def _device(result: DeviceRequestAllocationResult) -> _DeviceId:
    return result.driver, result.pool, result.device


def _users(claim: ResourceClaim) -> list[Key]:
    namespace = claim.metadata.namespace
    return [Key(namespace, user.name, user.uid) for user in claim.status.reserved_for if user.resource == "pods"]


def _tolerated_seconds(taint: Taint, tolerations: Sequence[Toleration]) -> float | None:
    """For how long a taint is tolerated; None: for ever."""
    # Parity: a toleration of any effect does not keep the pod from being evicted.
    fitting = [one.toleration_seconds for one in tolerations if one.effect == NO_EXECUTE and tolerates(one, taint)]
    if None in fitting:
        return None
    return min((max(float(seconds), 0.0) for seconds in fitting if seconds is not None), default=0.0)
