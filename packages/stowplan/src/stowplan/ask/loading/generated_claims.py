"""Claims that a controller would create for generic ephemeral volumes of pods.

Upstream: pkg/controller/volume/ephemeral.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.meta import ObjectMeta, OwnerReference
from stowplan.kube.api.types import PersistentVolumeClaim, Pod
from stowplan.scheduler.framework.explanations.formatting import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan.kube.api.meta import ApiStruct


def ephemeral_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    """The claim of each generic ephemeral volume, owned by the pod."""
    of_pod = pod.metadata
    for volume in pod.spec.volumes:
        source = volume.ephemeral
        if volume.persistent_volume_claim is not None or source is None or source.volume_claim_template is None:
            continue
        template, name = source.volume_claim_template, f"{of_pod.name}-{volume.name}"
        owner = OwnerReference(api_version="v1", kind="Pod", name=of_pod.name, uid=of_pod.uid, controller=True)
        metadata = ObjectMeta(
            name=name,
            namespace=of_pod.namespace or "default",
            uid=f"{of_pod.uid or of_pod.name}, {volume.name}",
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=(owner,),
        )
        yield PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def with_ephemeral_claims(objects: Sequence[ApiStruct]) -> tuple[list[ApiStruct], list[str]]:
    """(the objects with missing claims of pending pods added, notes)."""
    there = {claim_key(obj) for obj in objects if isinstance(obj, PersistentVolumeClaim)}
    pods = (obj for obj in objects if isinstance(obj, Pod) and not obj.spec.node_name)
    claims = [claim for pod in pods for claim in ephemeral_claims(pod) if claim_key(claim) not in there]
    note = f"{count(len(claims), 'PersistentVolumeClaim')} made for ephemeral volumes, as a controller would"
    return [*objects, *claims], [note] if claims else []


def claim_key(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.namespace or "default", claim.metadata.name
