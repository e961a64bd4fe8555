"""Claims in what-if questions: freed by pods that leave, created for new copies.

What controllers do on a cluster happens at once here. A claim that was generated for a pod is deleted with it; other
device claims are deallocated with their last user. A recreated pod, or a copy, gets claims with the same requests as
those of the original. A recreated StatefulSet pod keeps its volume claims; a copy of it gets its own.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.ask.loading.generated_devices import claim_for
from stowplan.ask.what_if.volume_claims import with_own_volume_claims
from stowplan.kube.api.device_claims import ResourceClaimStatus
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.pod import PodResourceClaimStatus
from stowplan.kube.api.types import PersistentVolumeClaim, ResourceClaim
from stowplan.scheduler.cluster.object_dependencies import ObjectIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stowplan.ask.offline import Cluster
    from stowplan.kube.api.device_claims import ResourceClaimSpec
    from stowplan.kube.api.types import Pod, PodResourceClaim

_NO_TEMPLATES: Mapping[str, ResourceClaimSpec] = MappingProxyType({})


def with_own_claims(
    cluster: Cluster, fresh: Pod, original: Pod, templates: Mapping[str, ResourceClaimSpec] = _NO_TEMPLATES
) -> Pod:
    """The pod, with claims like those that were generated for the original; they are added to the cluster.

    If the original has no claims, such as the template of a workload, they are made from `templates` (by
    `namespace/name`), or like those that other pods have from the same templates.
    """
    fresh = with_own_volume_claims(cluster, fresh, original)
    statuses = []
    known = {status.name: status.resource_claim_name for status in original.status.resource_claim_statuses}
    for entry in original.spec.resource_claims:
        if entry.resource_claim_template_name is None:
            continue
        if entry.name in known:
            claim = _claim_named(cluster, original, known[entry.name])
            spec, name = claim.spec if claim is not None else None, known[entry.name]
        else:
            template = f"{original.metadata.namespace or 'default'}/{entry.resource_claim_template_name}"
            spec, name = templates.get(template) or _like_others(cluster, original, entry), None
        if spec is not None:
            made = claim_for(fresh, entry.name, spec)
            cluster.add(made)
            name = made.metadata.name
        if spec is not None or entry.name in known:
            statuses.append(PodResourceClaimStatus(name=entry.name, resource_claim_name=name))
    return replace(fresh, status=replace(fresh.status, resource_claim_statuses=tuple(statuses))) if statuses else fresh


def _like_others(cluster: Cluster, pod: Pod, entry: PodResourceClaim) -> ResourceClaimSpec | None:
    """The spec of another pod's claim from the same template."""
    wanted = pod.metadata.namespace or "default", entry.resource_claim_template_name
    for info in (*cluster.state.pending.values(), *cluster.state.placed_pods()):
        for other in info.pod.spec.resource_claims:
            if (info.namespace, other.resource_claim_template_name) == wanted:
                names = (s.resource_claim_name for s in info.pod.status.resource_claim_statuses if s.name == other.name)
                claim = _claim_named(cluster, info.pod, next(names, None))
                if claim is not None:
                    return claim.spec
    return None


def uses_claims(pod: Pod) -> bool:
    """Whether it has device claims, or volume claims that are generated for it."""
    return (
        bool(pod.spec.resource_claims)
        or pod.status.extended_resource_claim_status is not None
        or any(volume.ephemeral is not None for volume in pod.spec.volumes)
    )


def _users(claim: ResourceClaim | PersistentVolumeClaim) -> Iterator[str]:
    """The pod that a claim was generated for, and those that it is reserved for."""
    owner, namespace = controller_of(claim.metadata), claim.metadata.namespace
    if owner is not None:
        yield _user(namespace, owner.name, owner.uid)
    for user in claim.status.reserved_for if isinstance(claim, ResourceClaim) else ():
        yield _user(namespace, user.name, user.uid)


def _user(namespace: str, name: str, uid: str) -> str:
    # Pods in files have no UID, so the name counts, too.
    return f"{namespace}/{name}/{uid}"


_BY_USER = ObjectIndex("pods that use a claim", _users)


def release_claims(cluster: Cluster, pods: Iterable[Pod]) -> None:
    """Release the claims of pods that left their nodes; pods without claims cost nothing."""
    users = [_user(p.metadata.namespace, p.metadata.name, p.metadata.uid) for p in pods if uses_claims(p)]
    gone, objects = frozenset(users), cluster.state.objects

    def is_for_gone(claim: ResourceClaim | PersistentVolumeClaim) -> bool:
        owner = controller_of(claim.metadata)
        return owner is not None and _user(claim.metadata.namespace, owner.name, owner.uid) in gone

    for user in users:
        for volume_claim in list(objects.indexed(PersistentVolumeClaim, _BY_USER, user)):
            if is_for_gone(volume_claim):
                cluster.remove(volume_claim)
        for claim in list(objects.indexed(ResourceClaim, _BY_USER, user)):
            if is_for_gone(claim):
                cluster.remove(claim)
                continue
            namespace, before = claim.metadata.namespace, claim.status.reserved_for
            left = tuple(other for other in before if _user(namespace, other.name, other.uid) not in gone)
            status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
            cluster.add(replace(claim, status=status))


def _claim_named(cluster: Cluster, pod: Pod, name: str | None) -> ResourceClaim | None:
    return cluster.state.objects.get(ResourceClaim, f"{pod.metadata.namespace}/{name}") if name else None
