"""Claims of pod groups: reserved for the group during its lifetime, and used by its pods.

A pod and its group that have the same claim under the same name share it: it is reserved once for the group, instead of
for each pod. A failing pod does not release that reservation, as others may use it; a group without placed pods
releases it if its pods are unschedulable, so that other devices may be allocated.

Upstream: k8s.io/dynamic-resource-allocation/resourceclaim, and unreservePodGroupClaims of dynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.kube.api.device_claims import ResourceClaimConsumerReference
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import PodGroup, PodResourceClaim, ResourceClaim
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.in_tree.common.resource_claims import GROUP_API, ClaimError, group_name

UNSUPPORTED = "none of the supported fields are set"


def consumer_of(pod: PodInfo, entry: PodResourceClaim, group: PodGroup | None) -> ResourceClaimConsumerReference:
    """The consumer that the claim of a pod's entry is reserved for; raises ClaimError."""
    for own in group.spec.resource_claims if group is not None else ():
        if own.resource_claim_name is None and own.resource_claim_template_name is None:
            assert group is not None
            raise ClaimError(f"PodGroup {_key(group)} claim {own.name}: {UNSUPPORTED}")
        if own == entry:
            assert group is not None
            name, uid = group.metadata.name, group.metadata.uid
            return ResourceClaimConsumerReference(api_group=GROUP_API, resource="podgroups", name=name, uid=uid)
    return as_consumer(pod)


def as_consumer(pod: PodInfo) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.pod.metadata.name, uid=pod.pod.metadata.uid)


def is_reserved(claim: ResourceClaim, pod: PodInfo, *, of_groups: bool) -> bool:
    """Whether a claim is reserved for the pod, or for its group."""
    group = group_name(pod) if of_groups else ""
    return any(
        user.uid == pod.uid
        # Pods do not have the UID of their group.
        or (group and (user.api_group, user.resource, user.name) == (GROUP_API, "podgroups", group))
        for user in claim.status.reserved_for
    )


def reserved_for_group(pod: PodInfo, group: PodGroup, cluster: ClusterState) -> Iterator[ResourceClaim]:
    """Allocated claims of a pod's group that are reserved for the group; raises ClaimError."""
    for entry in group.spec.resource_claims:
        name = _claim_name(group, entry)
        if name is None:
            continue
        key = f"{group.metadata.namespace}/{name}"
        claim = cluster.in_flight.latest(ResourceClaim, key)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key}"')
        owner = controller_of(claim.metadata)
        is_own = entry.resource_claim_name is not None or (owner is not None and owner.uid == group.metadata.uid)
        if is_own and claim.status.allocation is not None and is_reserved(claim, pod, of_groups=True):
            yield claim


def _claim_name(group: PodGroup, entry: PodResourceClaim) -> str | None:
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimError(f"PodGroup {_key(group)}, spec.resourceClaim {entry.name}: {UNSUPPORTED}")
    for status in group.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimError(f"PodGroup {_key(group)}: ResourceClaim not created yet")


def _key(group: PodGroup) -> str:
    return f"{group.metadata.namespace}/{group.metadata.name}"
