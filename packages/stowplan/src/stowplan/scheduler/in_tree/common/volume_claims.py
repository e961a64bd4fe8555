"""The PersistentVolumeClaims of a pod's volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.kube.api.types import PersistentVolumeClaim, Pod
from stowplan.kube.claims.ephemeral_claims import claim_name
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import Hint, NamedObjects, queue_if


def same_namespace(pod: PodInfo, obj: Any) -> bool:
    return pod.namespace == (obj.metadata.namespace or "default")


def claim_names(pod: Pod) -> Iterator[str]:
    """Claims of the pod's volumes, including those of generic ephemeral volumes."""
    return filter(None, (claim_name(pod, volume) for volume in pod.spec.volumes))


def _keys_of_claims(pod: PodInfo) -> list[str]:
    return [f"{pod.namespace}/{name}" for name in claim_names(pod.pod)]


CLAIMS_OF_POD = NamedObjects(_keys_of_claims)


def names_claim(pod: PodInfo, claim: PersistentVolumeClaim) -> bool:
    """Whether a persistentVolumeClaim volume of the pod refers to the claim."""
    return same_namespace(pod, claim) and claim.metadata.name in pod.shape.claim_names


def uses_claim(pod: PodInfo, claim: PersistentVolumeClaim) -> bool:
    """Whether any volume of the pod refers to the claim, including generic ephemeral ones."""
    return same_namespace(pod, claim) and claim.metadata.name in claim_names(pod.pod)


def after_claim_change(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:
    return queue_if(uses_claim(pod, new))
