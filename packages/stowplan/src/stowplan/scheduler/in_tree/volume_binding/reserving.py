"""Reserve volumes for a pod with a node, and release them.

Upstream: AssumePodVolumes and RevertAssumedPodVolumes of volumebinding/binder.go.
"""

from __future__ import annotations

from msgspec import field
from msgspec.structs import replace

from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.kube.claims.annotations import SELECTED_NODE
from stowplan.kube.claims.claim_terms import bound_to
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.assumed_objects import AssumedObjects


class Binding(PlainStruct):
    """A volume for a claim."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


class Reserved(PlainStruct):
    """What a pod reserved on its node; objects are replaced by the API server's responses once they are written."""

    all_bound: bool = False
    bindings: list[Binding] = field(default_factory=list)
    #: Claims for which volumes are to be provisioned.
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)


def assume(reserved: Reserved, volume: PersistentVolume, claim: PersistentVolumeClaim, assumed: AssumedObjects) -> None:
    """Assume that the volume is bound to the claim; raises AssumeError."""
    bound = bound_to(volume, claim)
    if bound is not volume:
        assumed.assume(bound)
    reserved.bindings.append(Binding(bound, claim))


def assume_provision(reserved: Reserved, claim: PersistentVolumeClaim, node_name: str, assumed: AssumedObjects) -> None:
    """Assume that a volume is provisioned for the claim on the node; raises AssumeError."""
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node_name}
    copy = replace(claim, metadata=replace(claim.metadata, annotations=annotations))
    assumed.assume(copy)
    reserved.provisions.append(copy)


def give_back(reserved: Reserved, assumed: AssumedObjects) -> None:
    """Drop the assumed copies, except for objects that were written: the watch will deliver those."""
    for binding in reserved.bindings:
        assumed.forget(binding.volume)
    for claim in reserved.provisions:
        assumed.forget(claim)
