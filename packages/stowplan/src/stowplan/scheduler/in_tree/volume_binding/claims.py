"""Classify a pod's claims: rejected, bound, or waiting for a node.

Pods of a StatefulSet have claims of their own with equal specs, which have equal results. So claims are compiled to
values without their names: pods whose claims compile to equal values share results. The claims themselves are read
again when a pod is reserved.

Upstream: PreFilter of volumebinding/volume_binding.go, GetPodVolumeClaims of volumebinding/binder.go.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from stowplan.kube.api.affinity import NodeSelector
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.node_selectors import NodeSelectorMatcher, NodeTerm, compile_node_selector
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.kube.claims.claim_terms import (
    SELECTED_NODE,
    ClaimRequirements,
    class_name_of,
    is_fully_bound,
    waits_for_consumer,
    wanted_by,
)
from stowplan.kube.claims.ephemeral_claims import claim_name, is_ephemeral
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.status import Reason, Status, error, unresolvable
from stowplan.scheduler.in_tree.common.csi_migration import TranslationError, migrated_affinity, migration_of

if TYPE_CHECKING:
    from stowplan.scheduler.in_tree.volume_binding.volumes import Volumes

CLAIM_MISSING = Reason("ClaimNotFound", 'persistentvolumeclaim "{claim}" not found')
EPHEMERAL_CLAIM_MISSING = Reason(
    "EphemeralClaimNotFound",
    'waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim}"',
)
CLAIM_LOST = Reason("ClaimLost", 'persistentvolumeclaim "{claim}" bound to non-existent persistentvolume "{volume}"')
CLAIM_TERMINATING = Reason("ClaimTerminating", 'persistentvolumeclaim "{claim}" is being deleted')
NOT_OWNED = Reason(
    "ClaimNotOwned", "PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)"
)
UNBOUND_IMMEDIATE = Reason("ClaimsUnboundImmediate", "pod has unbound immediate PersistentVolumeClaims")


class ClaimUse(NamedTuple):
    """A volume of a pod that is a claim."""

    name: str
    #: Whether the claim must be owned by the pod.
    ephemeral: bool


class BoundVolume(NamedTuple):
    """Where the volume of a bound claim can be used."""

    missing: bool = False
    #: None: on all nodes.
    affinity: NodeSelectorMatcher | None = None
    #: The in-tree plugin of the volume, and its affinity on nodes with the CSI migration.
    plugin: str = ""
    migrated: NodeSelectorMatcher | None = None
    #: Why it cannot be determined.
    problem: str = ""


class DelayedClaim(NamedTuple):
    """A claim that is bound once the pod has a node."""

    wanted: ClaimRequirements
    #: The class in the claim's spec, which is used for scores.
    spec_class: str
    #: The node for which a volume is already being provisioned; None: no node.
    selected_node: str | None
    #: Volumes reserved for this claim (ids of `Volumes`).
    held: tuple[int, ...] = ()


class PodClaims(NamedTuple):
    """The state of a pod's claims, in the order of its volumes."""

    bound: tuple[BoundVolume, ...] = ()
    delayed: tuple[DelayedClaim, ...] = ()


class Claim(NamedTuple):
    """A claim and its binding state."""

    obj: PersistentVolumeClaim
    state: BoundVolume | DelayedClaim


def uses_of(pod: PodInfo) -> list[ClaimUse]:
    uses = (ClaimUse(claim_name(pod.pod, one), is_ephemeral(one)) for one in pod.pod.spec.volumes)
    return [use for use in uses if use.name]


def claims_of(pod: PodInfo, cluster: ClusterState, volumes: Volumes) -> list[Claim] | Status:
    """The pod's claims; or why the pod is unschedulable on every node."""
    uses = uses_of(pod)
    for use in uses:
        problem = _problem_of(pod, use, cluster)
        if problem is not None:
            return problem
    found: list[Claim] = []
    immediate = False
    for use in uses:
        claim = cluster.assumed.get(PersistentVolumeClaim, f"{pod.namespace}/{use.name}")
        assert claim is not None, "it was found just now"
        if is_fully_bound(claim):
            found.append(Claim(claim, _bound_volume(claim, cluster)))
            continue
        delayed = _is_delayed(claim, cluster)
        if isinstance(delayed, Status):
            return delayed
        if not delayed or claim.spec.volume_name:
            immediate = True
            continue
        found.append(Claim(claim, _delayed_claim(claim, volumes)))
    return unresolvable(UNBOUND_IMMEDIATE) if immediate else found


def compiled(claims: list[Claim]) -> PodClaims:
    """The claims without their names."""
    return PodClaims(
        bound=tuple(claim.state for claim in claims if isinstance(claim.state, BoundVolume)),
        delayed=tuple(claim.state for claim in claims if isinstance(claim.state, DelayedClaim)),
    )


def _problem_of(pod: PodInfo, use: ClaimUse, cluster: ClusterState) -> Status | None:
    claim = cluster.objects.get(PersistentVolumeClaim, f"{pod.namespace}/{use.name}")
    if claim is None:
        return unresolvable((EPHEMERAL_CLAIM_MISSING if use.ephemeral else CLAIM_MISSING).of(claim=use.name))
    if claim.status.phase == "Lost":
        return unresolvable(CLAIM_LOST.of(claim=use.name, volume=claim.spec.volume_name))
    if claim.metadata.deletion_timestamp is not None:
        return unresolvable(CLAIM_TERMINATING.of(claim=use.name))
    if use.ephemeral:
        owner = controller_of(claim.metadata)
        # Pods from files may have no UID.
        if owner is None or owner.uid != pod.pod.metadata.uid:
            reason = NOT_OWNED.of(namespace=pod.namespace, claim=use.name, pod=pod.pod.metadata.name)
            return unresolvable(reason)
    return None


def _is_delayed(claim: PersistentVolumeClaim, cluster: ClusterState) -> bool | Status:
    name = class_name_of(claim)
    storage_class = cluster.objects.get(StorageClass, name) if name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        return error(f'VolumeBindingMode not set for StorageClass "{name}"')
    return waits_for_consumer(storage_class)


# -- bound claims ------------------------------------------------------------------------------------------------------


def _bound_volume(claim: PersistentVolumeClaim, cluster: ClusterState) -> BoundVolume:
    volume = cluster.assumed.get(PersistentVolume, claim.spec.volume_name)
    return BoundVolume(missing=True) if volume is None else usable_where(volume)


def usable_where(volume: PersistentVolume) -> BoundVolume:
    """Where a volume can be used."""
    affinity = affinity_of(volume)
    migration = migration_of(volume)
    if migration is None or not migration.counted:
        return BoundVolume(affinity=affinity)
    try:
        migrated = _by_labels(migrated_affinity(volume, migration))
    except TranslationError as e:
        return BoundVolume(affinity=affinity, plugin=migration.plugin, problem=str(e))
    return BoundVolume(affinity=affinity, plugin=migration.plugin, migrated=migrated)


def affinity_of(volume: PersistentVolume) -> NodeSelectorMatcher | None:
    """The node affinity of a volume; None: all nodes."""
    affinity = volume.spec.node_affinity
    return None if affinity is None else _by_labels(affinity.required)


def _by_labels(selector: NodeSelector | None) -> NodeSelectorMatcher | None:
    return None if selector is None else _compiled_by_labels(selector)


@lru_cache(maxsize=16384)
def _compiled_by_labels(selector: NodeSelector) -> NodeSelectorMatcher:
    # Parity: the reference matches labels only, so field requirements exclude no node.
    terms = compile_node_selector(selector).terms
    return NodeSelectorMatcher(tuple(NodeTerm(term.expressions, errors=term.errors) for term in terms))


# -- waiting claims ----------------------------------------------------------------------------------------------------


def _delayed_claim(claim: PersistentVolumeClaim, volumes: Volumes) -> DelayedClaim:
    wanted = wanted_by(claim)
    return DelayedClaim(
        wanted=wanted,
        spec_class=claim.spec.storage_class_name or "",
        selected_node=claim.metadata.annotations.get(SELECTED_NODE),
        held=volumes.held_for(claim, wanted),
    )
