"""The ResourceClaims of a pod.

A pod names a claim, or a template from which a controller creates one and stores its name in the pod's status. Problems
with a claim raise an error with the reference's message.

Upstream: k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from stowplan.kube.api.meta import OwnerReference, controller_of
from stowplan.kube.api.types import PodResourceClaim, ResourceClaim
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState

#: The API group of pod groups.
GROUP_API = "scheduling.k8s.io"


class ClaimError(ValueError):
    """A claim of the pod cannot be used yet."""


def pod_resource_claims(pod: PodInfo, cluster: ClusterState, *, of_groups: bool) -> list[ResourceClaim]:
    """The claims in the pod's order; entries that need no claim are left out.

    `of_groups`: claims may belong to the pod's group (DRAWorkloadResourceClaims).
    """
    return [claim for _, claim in resource_claims_by_entry(pod, cluster, of_groups=of_groups)]


def resource_claims_by_entry(
    pod: PodInfo, cluster: ClusterState, *, of_groups: bool
) -> list[tuple[PodResourceClaim, ResourceClaim]]:
    """The claims with their entries in the pod's spec."""
    found = []
    for entry in pod.pod.spec.resource_claims:
        name = _claim_name(pod, entry)
        if name is not None:
            claim = _usable(pod, name, cluster)
            if entry.resource_claim_name is None:
                _check_owner(pod, claim, of_groups=of_groups)
            found.append((entry, claim))
    return found


def keys_of_claims(pod: PodInfo) -> list[str]:
    """`namespace/name` of the claims that the pod names; empty while some claim has no name yet."""
    try:
        names = [_claim_name(pod, entry) for entry in pod.pod.spec.resource_claims]
    except ClaimError:
        return []
    return [f"{pod.namespace}/{name}" for name in names if name is not None]


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


def _check_owner(pod: PodInfo, claim: ResourceClaim, *, of_groups: bool) -> None:
    owner = controller_of(claim.metadata)
    if owner is not None and owner.uid == pod.pod.metadata.uid:
        return
    group = group_name(pod) if of_groups else ""
    if group and owner is not None and _is_group(owner, group):
        return
    why = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
    raise ClaimError(f"ResourceClaim {pod.namespace}/{claim.metadata.name} was not created for Pod {pod.key} ({why})")


def group_name(pod: PodInfo) -> str:
    """The name of the pod's group, in its namespace; "" if it has none."""
    group = pod.pod.spec.scheduling_group
    return (group.pod_group_name or "") if group is not None else ""


def _is_group(owner: OwnerReference, name: str) -> bool:
    # By name, because pods do not have the UID of their group.
    return owner.kind == "PodGroup" and owner.name == name and owner.api_version.startswith(f"{GROUP_API}/")
