"""Devices that become ready only after a pod chose them, for example because a fabric has to attach them to the node.

The driver reports readiness as conditions in the claim's status. A pod waits for them in PreBind. A claim whose devices
failed or timed out is unusable, and is deallocated if its pod is unschedulable.

Upstream: hasBindingConditions and isClaimReadyForBinding of dynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.kube.api.device_claims import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from stowplan.kube.api.meta import parse_timestamp


class DeviceFailedError(Exception):
    """A driver reported that a device failed."""


class Readiness:
    """Readiness of the devices of claims, by the wall clock."""

    def __init__(self, *, enabled: bool, timeout: float, wall_clock: Callable[[], float]) -> None:
        self.enabled = enabled
        self.timeout = timeout
        self._wall_clock = wall_clock

    def is_unusable(self, claim: ResourceClaim) -> bool:
        """Whether the devices of an allocated claim will not become ready."""
        if not self.enabled:
            return False
        try:
            return not is_ready(claim) and self.timed_out(claim)
        except DeviceFailedError:
            return True

    def timed_out(self, claim: ResourceClaim) -> bool:
        allocation = claim.status.allocation
        if allocation is None or allocation.allocation_timestamp is None or not awaits_conditions(claim):
            return False
        return parse_timestamp(allocation.allocation_timestamp) + self.timeout < self._wall_clock()

    def now(self) -> float:
        return self._wall_clock()


def awaits_conditions(claim: ResourceClaim) -> bool:
    """Whether some device of the claim has binding conditions."""
    return any(result.binding_conditions for result in results_of(claim))


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices are ready; raises DeviceFailedError."""
    if claim.status.allocation is None:
        return False
    return all(
        _is_device_ready(claim, result, status_of(claim, result))
        for result in results_of(claim)
        if result.binding_conditions
    )


def _is_device_ready(
    claim: ResourceClaim, result: DeviceRequestAllocationResult, status: AllocatedDeviceStatus | None
) -> bool:
    if status is None:
        return False
    true = {condition.type: condition for condition in status.conditions if condition.status == "True"}
    for type_ in result.binding_failure_conditions:
        if type_ in true:
            failure = true[type_]
            raise DeviceFailedError(
                f"device binding failed: claim={claim.metadata.name}, reason={failure.reason}, "
                f'message="{failure.message}"'
            )
    return all(type_ in true for type_ in result.binding_conditions)


def status_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    """The driver's status of an allocated device."""
    wanted = result.driver, result.pool, result.device
    return next((s for s in claim.status.devices if (s.driver, s.pool, s.device) == wanted), None)


def results_of(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results
