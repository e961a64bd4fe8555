"""The ResourceClaims of a pod.

A pod names a claim, or a template from which a controller makes one and notes its name in the pod's status. What keeps
a claim from being used is an error with the reference's text.

Upstream: k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.meta import controller_of
from stowplan.api.types import ResourceClaim

if TYPE_CHECKING:
    from stowplan.api.types import PodResourceClaim
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState


class ClaimError(ValueError):
    """A claim that the pod needs and cannot have yet."""


def pod_resource_claims(pod: PodInfo, cluster: ClusterState) -> list[ResourceClaim]:
    """The claims in the pod's order; entries for which no claim was found necessary are left out."""
    found = []
    for entry in pod.pod.spec.resource_claims:
        name = _claim_name(pod, entry)
        if name is not None:
            claim = _usable(pod, name, cluster)
            if entry.resource_claim_name is None:
                _check_owner(pod, claim)
            found.append(claim)
    return found


def _claim_name(pod: PodInfo, entry: PodResourceClaim) -> str | None:
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimError(f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set')
    for status in pod.pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')


def _usable(pod: PodInfo, name: str, cluster: ClusterState) -> ResourceClaim:
    claim = cluster.in_flight.latest(ResourceClaim, f"{pod.namespace}/{name}")
    if claim is None:
        raise ClaimError(f'could not find ResourceClaim "{pod.namespace}/{name}"')
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimError(f'resourceclaim "{name}" is being deleted')
    return claim


def _check_owner(pod: PodInfo, claim: ResourceClaim) -> None:
    owner = controller_of(claim.metadata)
    if owner is None or owner.uid != pod.pod.metadata.uid:
        raise ClaimError(
            f"ResourceClaim {pod.namespace}/{claim.metadata.name} was not created for Pod {pod.key} (Pod is not owner)"
        )
