"""PreBind: write allocations and reservations to claims, and wait for devices that have to become ready.

An allocation takes up to two requests: the claim's finalizer, then its status. A concurrent change of the claim causes
a conflict, after which it is read and checked again: another scheduler may have allocated it, or it was deleted. The
allocation is held in flight until the last request is answered. A reservation of an allocated claim is one request
without conflicts.

Upstream: bindClaim of dynamicresources.go. There whole claims are updated; here patches only change what they contain.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.api_errors import Conflict
from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.device_claims import AllocationResult, ResourceClaimConsumerReference
from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.pod import ContainerExtendedResourceRequest
from stowplan.kube.api.types import Pod, ResourceClaim
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.requests import Delete, Done, Outcome, Patch, Read, Request, Wait
from stowplan.scheduler.in_tree.dynamic_resources.binding_conditions import (
    DeviceFailedError,
    Readiness,
    is_ready,
    results_of,
)
from stowplan.scheduler.in_tree.dynamic_resources.demand import claim_key

FINALIZER = "resource.kubernetes.io/delete-protection"

_TRIES, _PAUSE = 5, 0.01
#: Parity: the reference's polling interval for claims whose devices have to become ready.
_POLL = 5.0


class WriteError(Exception):
    """A claim cannot be written as decided."""


class DeviceTimeoutError(WriteError):
    """Devices were not ready in time."""


class WaitResult(NamedTuple):
    """The result of waiting for devices."""

    seconds: float
    #: None: they are ready.
    problem: DeviceFailedError | WriteError | None = None

    @property
    def status(self) -> str:
        """The value of the metric's label."""
        if isinstance(self.problem, DeviceFailedError):
            return "failure"
        if isinstance(self.problem, DeviceTimeoutError):
            return "timeout"
        return "success" if self.problem is None else "error"


class ClaimWriter:
    """Writes the claims of one pod."""

    def __init__(self, cluster: ClusterState, readiness: Readiness, *, pod: PodInfo) -> None:
        self._cluster = cluster
        self._readiness = readiness
        self._pod = pod

    def turn(self, claim: ResourceClaim) -> Generator[Request | Wait, Outcome, tuple[ResourceClaim, bool]]:
        """The claim after another pod wrote the shared allocation; or True if this pod has to write it."""
        key = claim_key(claim)
        while (held := self._cluster.in_flight.held(ResourceClaim, key)) is not None:
            if held[1][0] == self._pod.uid:
                return claim, True
            yield Wait(keys=frozenset({("ResourceClaim", key)}))
        found = self._cluster.in_flight.latest(ResourceClaim, key)
        if found is None:
            raise WriteError(f'could not find ResourceClaim "{key}"')
        return found, False

    def allocate(
        self, claim: ResourceClaim, allocation: AllocationResult, consumer: ResourceClaimConsumerReference
    ) -> Generator[Request | Wait, Outcome, ResourceClaim]:
        """Allocate and reserve a claim; raises WriteError."""
        for left in reversed(range(_TRIES)):
            _check_present(claim)
            if claim.status.allocation is not None:
                raise WriteError(f"claim {claim_key(claim)} got allocated elsewhere in the meantime")
            if FINALIZER not in claim.metadata.finalizers:
                outcome = yield _finalizing(claim)
                if isinstance(outcome, Done):
                    claim = _answered(outcome, claim)
            else:
                outcome = Done()
            if isinstance(outcome, Done):
                wanted = self._status_of(claim, allocation, consumer)
                outcome = yield _status_patch(claim, wanted)
                if isinstance(outcome, Done):
                    return _answered(outcome, _merged(claim, wanted))
            if not isinstance(outcome.error, Conflict) or not left:
                finalized = FINALIZER in claim.metadata.finalizers
                what = "add allocation and reservation" if finalized else "add finalizer"
                raise WriteError(f"{what} to claim {claim_key(claim)}: {outcome.error}")
            yield Wait(seconds=_PAUSE)
            claim = yield from self._read_again(claim)
        raise AssertionError("the last try returns or raises")

    def reserve(
        self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference
    ) -> Generator[Request | Wait, Outcome, ResourceClaim]:
        """Reserve a claim that is allocated; raises WriteError.

        Many pods that share it do this at once, so it is a patch that does not conflict, unless the claim can only be
        changed as a whole (`binary_claims`). The API server refuses it if the claim is not allocated any more.
        """
        _check_present(claim)
        if claim.status.allocation is None and self._readiness.enabled:
            raise WriteError(f"claim {claim_key(claim)} got deallocated elsewhere in the meantime")
        for left in reversed(range(_TRIES)):
            outcome = yield _reserving(claim, {"reservedFor": [to_dict(consumer)]})
            if isinstance(outcome, Done):
                return _answered(outcome, _merged(claim, {"reservedFor": _with(claim, consumer)}))
            if not isinstance(outcome.error, Conflict) or not left:
                raise WriteError(f"add reservation to claim {claim_key(claim)}: {outcome.error}")
            yield Wait(seconds=_PAUSE)
        raise AssertionError("the last try returns or raises")

    def _read_again(self, claim: ResourceClaim) -> Generator[Request | Wait, Outcome, ResourceClaim]:
        metadata = claim.metadata
        outcome = yield Read(kind=ResourceClaim, namespace=metadata.namespace, name=metadata.name)
        if not isinstance(outcome, Done):
            raise WriteError(f"get updated claim {claim_key(claim)} after conflict: {outcome.error}")
        return _answered(outcome, claim)

    def _status_of(
        self, claim: ResourceClaim, allocation: AllocationResult, consumer: ResourceClaimConsumerReference
    ) -> dict[str, Any]:
        """The changed fields of the status."""
        if self._readiness.enabled and allocation.allocation_timestamp is None:
            allocation = replace(allocation, allocation_timestamp=timestamp(self._readiness.now()))
        return {"reservedFor": _with(claim, consumer), "allocation": to_dict(allocation)}

    # -- waiting ------------------------------------------------------------------------------------------------------

    def wait(self, keys: list[str]) -> Generator[Request | Wait, Outcome, WaitResult]:
        """Wait until the devices of the claims are ready, or have failed."""
        waited, timeout = 0.0, self._readiness.timeout
        while True:
            try:
                if self._all_ready(keys):
                    return WaitResult(waited)
                if waited >= timeout:
                    raise DeviceTimeoutError("device binding timeout: context deadline exceeded")
            except (DeviceFailedError, WriteError) as e:
                return WaitResult(waited, e)
            watched = frozenset(("ResourceClaim", key) for key in keys)
            outcome = yield Wait(keys=watched, seconds=min(_POLL, timeout - waited))
            assert isinstance(outcome, Done)
            waited += outcome.value

    def _all_ready(self, keys: list[str]) -> bool:
        for key in keys:
            claim = self._cluster.in_flight.latest(ResourceClaim, key)
            if claim is None:
                raise WriteError(f'could not find ResourceClaim "{key}"')
            if not is_ready(claim):
                if self._readiness.timed_out(claim):
                    raise DeviceTimeoutError(f"device binding timeout: claim={claim.metadata.name}")
                return False
        return True


def observe_wait(metrics: SchedulerMetrics, profile: str, claims: list[ResourceClaim], waited: WaitResult) -> None:
    """Record the devices that were waited for, and the duration."""
    for claim in claims:
        for result in results_of(claim):
            labels = profile, result.driver, waited.status
            # Parity: the duration is also recorded for devices without conditions.
            metrics.dra_bindingconditions_wait_duration_seconds.with_label_values(*labels).observe(waited.seconds)
            if result.binding_conditions:
                metrics.dra_bindingconditions_allocations_total.with_label_values(*labels).inc()


def unreserving(claim: ResourceClaim, uid: str) -> Patch:
    """The request that removes a pod or group from a claim; the allocation stays."""
    return _reserving(claim, {"reservedFor": [{"$patch": "delete", "uid": uid}]})


def _reserving(claim: ResourceClaim, status: dict[str, Any]) -> Patch:
    """Entries are merged by UID into whatever version the API server has."""
    return Patch(
        kind=ResourceClaim,
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        body={"metadata": {"uid": claim.metadata.uid}, "status": status},
        subresource="status",
    )


def deallocating(claim: ResourceClaim) -> Patch:
    """The request that deallocates a claim."""
    return _status_patch(claim, {"allocation": None, "reservedFor": None, "devices": None})


def discarding(claim: ResourceClaim) -> tuple[Request, ...]:
    """The requests that delete a claim which the scheduler stored, in order."""
    metadata = claim.metadata
    kept = [finalizer for finalizer in metadata.finalizers if finalizer != FINALIZER]
    release = Patch(
        kind=ResourceClaim,
        namespace=metadata.namespace,
        name=metadata.name,
        body={"metadata": {"uid": metadata.uid, "finalizers": kept}},
        type_="merge",
    )
    return release, Delete(kind=ResourceClaim, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def served_by(pod: PodInfo, claim: str, mappings: tuple[ContainerExtendedResourceRequest, ...]) -> Patch:
    """The request that tells the kubelet which claim serves the extended resources of the pod's containers."""
    served = {"resourceClaimName": claim, "requestMappings": [to_dict(mapping) for mapping in mappings]}
    return Patch(
        kind=Pod,
        namespace=pod.namespace,
        name=pod.pod.metadata.name,
        body={"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": served}},
        type_="merge",
        subresource="status",
    )


def _finalizing(claim: ResourceClaim) -> Patch:
    metadata = {**_version_of(claim), "finalizers": [*claim.metadata.finalizers, FINALIZER]}
    return Patch(
        kind=ResourceClaim,
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        body={"metadata": metadata},
        type_="merge",
    )


def _status_patch(claim: ResourceClaim, status: dict[str, Any]) -> Patch:
    return Patch(
        kind=ResourceClaim,
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        body={"metadata": _version_of(claim), "status": status},
        type_="merge",
        subresource="status",
    )


def _check_present(claim: ResourceClaim) -> None:
    if claim.metadata.deletion_timestamp is not None:
        raise WriteError(f"claim {claim_key(claim)} got deleted in the meantime")


def _with(claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> list[dict[str, Any]]:
    """Those that the claim is reserved for, with one more."""
    reserved = claim.status.reserved_for
    if all(user.uid != consumer.uid for user in reserved):
        reserved = (*reserved, consumer)
    return [to_dict(user) for user in reserved]


def _merged(claim: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
    """The claim with changed status fields."""
    return replace(claim, status=msgspec.convert({**to_dict(claim.status), **status}, type(claim.status)))


def _version_of(claim: ResourceClaim) -> dict[str, Any]:
    """With the resourceVersion that the decision is based on: a conflict otherwise."""
    found = {"resourceVersion": claim.metadata.resource_version, "uid": claim.metadata.uid}
    return {name: value for name, value in found.items() if value}


def _answered(outcome: Done, sent: ResourceClaim) -> ResourceClaim:
    """The claim as it was written."""
    return outcome.value if isinstance(outcome.value, ResourceClaim) else sent
