"""What hints ask of claims: which ones a pod's volumes stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.api.types import PersistentVolumeClaim, Pod
    from stowplan.cluster.pod_info import PodInfo


def same_namespace(pod: PodInfo, obj: Any) -> bool:
    return pod.namespace == (obj.metadata.namespace or "default")


def claim_names(pod: Pod) -> Iterator[str]:
    """Claims behind the pod's volumes, those of generic ephemeral volumes included."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def names_claim(pod: PodInfo, claim: PersistentVolumeClaim) -> bool:
    """Whether a persistentVolumeClaim volume of the pod is this claim."""
    return same_namespace(pod, claim) and claim.metadata.name in pod.shape.claim_names


def stands_on_claim(pod: PodInfo, claim: PersistentVolumeClaim) -> bool:
    """Whether any volume of the pod is this claim, also one made for the pod."""
    return same_namespace(pod, claim) and claim.metadata.name in claim_names(pod.pod)
