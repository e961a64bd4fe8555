"""Device claims in what-if questions: freed by pods that leave, created for new copies.

What a controller does on a cluster happens here at once. A claim that was made for a pod goes with it; of a claim that
others made, its last user gives the devices back. A pod that is made anew, or a copy, gets claims that ask for what
those of the original asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.api.device_claims import ResourceClaimStatus
from stowplan.api.meta import ObjectMeta, OwnerReference, controller_of
from stowplan.api.pod import PodResourceClaimStatus
from stowplan.api.types import ResourceClaim

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.api.types import Pod
    from stowplan.offline import Cluster


def with_own_claims(cluster: Cluster, fresh: Pod, original: Pod) -> Pod:
    """The pod, with claims as those that were made for the original; they are added to the cluster."""
    statuses = []
    for status in original.status.resource_claim_statuses:
        claim = _claim_named(cluster, original, status.resource_claim_name)
        if claim is not None:
            made = _made_for(fresh, status.name, claim)
            cluster.add(made)
            status = PodResourceClaimStatus(name=status.name, resource_claim_name=made.metadata.name)
        statuses.append(status)
    return replace(fresh, status=replace(fresh.status, resource_claim_statuses=tuple(statuses))) if statuses else fresh


def let_go(cluster: Cluster, pods: Iterable[Pod]) -> None:
    """These pods are gone from their nodes; those without claims cost nothing."""
    gone = {pod.metadata.uid for pod in pods if pod.spec.resource_claims or pod.status.extended_resource_claim_status}
    if not gone:
        return
    for claim in list(cluster.state.objects.all(ResourceClaim)):
        owner = controller_of(claim.metadata)
        left = tuple(user for user in claim.status.reserved_for if user.uid not in gone)
        if owner is not None and owner.uid in gone:
            cluster.remove(claim)
        elif len(left) < len(claim.status.reserved_for):
            status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
            cluster.add(replace(claim, status=status))


def _claim_named(cluster: Cluster, pod: Pod, name: str | None) -> ResourceClaim | None:
    return cluster.state.objects.get(ResourceClaim, f"{pod.metadata.namespace}/{name}") if name else None


def _made_for(pod: Pod, entry: str, claim: ResourceClaim) -> ResourceClaim:
    of_pod = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=of_pod.name, uid=of_pod.uid, controller=True)
    name = f"{of_pod.name}-{entry}"
    metadata = ObjectMeta(
        name=name, namespace=of_pod.namespace, uid=f"{of_pod.uid}, {entry}", owner_references=(owner,)
    )
    return ResourceClaim(metadata=metadata, spec=claim.spec)
