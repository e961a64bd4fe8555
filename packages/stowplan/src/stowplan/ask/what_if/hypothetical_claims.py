"""Claims in what-if questions: freed by pods that leave, created for new copies.

What controllers do on a cluster happens at once here. A claim that was generated for a pod is deleted with it; other
device claims are deallocated with their last user. A recreated pod, or a copy, gets claims with the same requests as
those of the original.

A claim of a generic ephemeral volume is created for each pod. The pods of a StatefulSet have claims that are named
after them: a recreated pod keeps its own, and a copy uses the one with its name, which is created if it does not exist.
Claims that do not wait for a pod are bound, and provisioners create the volumes that they are asked for. Whether they
would is not known, so the answer says that it was assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from stowplan.ask.loading.admission import with_storage_class
from stowplan.ask.loading.generated import claim_for, ephemeral_claims
from stowplan.ask.offline import Cluster
from stowplan.ask.offline.assumptions import Provision
from stowplan.kube.api.device_claims import ResourceClaimSpec, ResourceClaimStatus
from stowplan.kube.api.meta import ObjectMeta, controller_of
from stowplan.kube.api.node_selectors import NodeSelectorMatcher
from stowplan.kube.api.pod import PodResourceClaimStatus
from stowplan.kube.api.storage import default_class
from stowplan.kube.api.types import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodResourceClaim,
    ResourceClaim,
    StatefulSet,
    StorageClass,
)
from stowplan.kube.api.volumes import PersistentVolumeClaimTemplate
from stowplan.kube.claims.claim_terms import NO_PROVISIONER, STORAGE_CLASS, class_name_of, is_fully_bound
from stowplan.kube.claims.stateful_claims import claim_name
from stowplan.scheduler.cluster.objects import ObjectIndex
from stowplan.scheduler.in_tree.common.volume_claims import claim_names
from stowplan.scheduler.in_tree.volume_binding.claims import affinity_of
from stowplan.scheduler.in_tree.volume_binding.explanation import where


def with_own_volume_claims(cluster: Cluster, fresh: Pod, original: Pod) -> Pod:
    """The pod, with its own claims in place of the original's; they are added to the cluster."""
    storage_class = default_class(cluster.state.objects.all(StorageClass))
    for claim in ephemeral_claims(fresh):
        if (known := _claim(cluster, fresh, claim.metadata.name)) is None or known.metadata.uid != claim.metadata.uid:
            cluster.add(with_storage_class(claim, storage_class))
    owner = controller_of(original.metadata)
    if owner is None or owner.kind != "StatefulSet":
        return fresh
    namespace, volumes = fresh.metadata.namespace or "default", []
    owning = cluster.state.objects.get(StatefulSet, f"{namespace}/{owner.name}")
    templates = {one.metadata.name: one for one in (() if owning is None else owning.spec.volume_claim_templates)}
    for volume in fresh.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name == claim_name(volume.name, original.metadata.name):
            name = claim_name(volume.name, fresh.metadata.name)
            model = templates.get(volume.name) or _claim(cluster, fresh, source.claim_name)
            if model is not None and _claim(cluster, fresh, name) is None:
                cluster.add(with_storage_class(_claim_like(model, name, namespace), storage_class))
            volume = replace(volume, persistent_volume_claim=replace(source, claim_name=name))
        volumes.append(volume)
    return replace(fresh, spec=replace(fresh.spec, volumes=tuple(volumes)))


def _claim_like(
    model: PersistentVolumeClaim | PersistentVolumeClaimTemplate, name: str, namespace: str
) -> PersistentVolumeClaim:
    chosen = {key: value for key, value in model.metadata.annotations.items() if key == STORAGE_CLASS}
    metadata = ObjectMeta(
        name=name, namespace=namespace, uid=f"{namespace}/{name}", labels=model.metadata.labels, annotations=chosen
    )
    return PersistentVolumeClaim(metadata=metadata, spec=replace(model.spec, volume_name=""))


def bind_claims_of(cluster: Cluster, pods: Iterable[Pod]) -> set[Provision]:
    """Do what controllers do about claims that these pods wait for, and others; the volumes that have to be created."""
    unbound = [claim for pod in pods for claim in claims_of(cluster, pod) if not is_fully_bound(claim)]
    if not unbound:
        return set()
    created = {volume.metadata.name: volume for volume in cluster.bind_claims()}
    objects = cluster.state.objects
    needed: set[Provision] = set()
    for claim in unbound:
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        claim = objects.get(PersistentVolumeClaim, name) or claim
        storage_class = objects.get(StorageClass, class_name_of(claim))
        if storage_class is None or storage_class.provisioner in NO_PROVISIONER:
            continue
        volume = created.get(claim.spec.volume_name)
        if volume is not None or not is_fully_bound(claim):
            needed.add(Provision.of(storage_class.metadata.name, storage_class.provisioner, volume))
    return needed


class LostVolumes:
    """Volumes that can be used on no node; valid while nodes do not change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: Whether there is a node for an affinity.
        self._found: dict[NodeSelectorMatcher, bool] = {}

    def reason(self, pod: Pod) -> str:
        """Why no node can have the pod, whatever else keeps it off; "" if its volumes are not to blame."""
        for claim in claims_of(self._cluster, pod):
            volume = self._cluster.state.objects.get(PersistentVolume, claim.spec.volume_name)
            affinity = None if volume is None else affinity_of(volume)
            if volume is None or affinity is None:
                continue
            if affinity not in self._found:
                nodes = (node for node in self._cluster.state.table.nodes if node is not None)
                self._found[affinity] = any(
                    affinity.matches(node.metadata.labels, "") for node in nodes if not node.spec.unschedulable
                )
            if not self._found[affinity]:
                name = f"volume {volume.metadata.name} of claim {claim.metadata.name}"
                return f"{name} can be used from {where(affinity)}, and no node is left there"
        return ""


def claims_of(cluster: Cluster, pod: Pod) -> Iterator[PersistentVolumeClaim]:
    for name in claim_names(pod):
        claim = _claim(cluster, pod, name)
        if claim is not None:
            yield claim


def _claim(cluster: Cluster, pod: Pod, name: str) -> PersistentVolumeClaim | None:
    return cluster.state.objects.get(PersistentVolumeClaim, f"{pod.metadata.namespace or 'default'}/{name}")


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
