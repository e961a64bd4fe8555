"""The PersistentVolumeClaims of a pod's volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, Pod
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import Hint, NamedObjects, queue_if
from stowplan.scheduler.in_tree.common.annotations import STORAGE_CLASS


def class_name_of(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    """Name of the class of a claim or volume; "" if it has none.

    The annotation takes precedence, even if it is empty.
    """
    annotated = obj.metadata.annotations.get(STORAGE_CLASS)
    return (obj.spec.storage_class_name or "") if annotated is None else annotated


def same_namespace(pod: PodInfo, obj: Any) -> bool:
    return pod.namespace == (obj.metadata.namespace or "default")


def claim_names(pod: Pod) -> Iterator[str]:
    """Claims of the pod's volumes, including those of generic ephemeral volumes."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


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
