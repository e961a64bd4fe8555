"""Volume claims of hypothetical pods.

A claim of a generic ephemeral volume is created for each pod. The pods of a StatefulSet have claims that are named
after them: a recreated pod keeps its own, and a copy uses the one with its name, which is created if it does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.api.meta import ObjectMeta, controller_of
from stowplan.api.types import PersistentVolumeClaim, StorageClass
from stowplan.in_tree.common.annotations import STORAGE_CLASS
from stowplan.loading.admission import default_storage_class, with_storage_class
from stowplan.loading.generated_claims import ephemeral_claims

if TYPE_CHECKING:
    from stowplan.api.types import Pod
    from stowplan.offline import Cluster


def with_own_volume_claims(cluster: Cluster, fresh: Pod, original: Pod) -> Pod:
    """The pod, with its own claims in place of the original's; they are added to the cluster."""
    storage_class = default_storage_class(cluster.state.objects.all(StorageClass))
    for claim in ephemeral_claims(fresh):
        cluster.add(with_storage_class(claim, storage_class))
    owner = controller_of(original.metadata)
    if owner is None or owner.kind != "StatefulSet" or fresh.metadata.name == original.metadata.name:
        return fresh
    volumes = []
    for volume in fresh.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name == f"{volume.name}-{original.metadata.name}":
            name = f"{volume.name}-{fresh.metadata.name}"
            _make(cluster, fresh, name, like=source.claim_name)
            volume = replace(volume, persistent_volume_claim=replace(source, claim_name=name))
        volumes.append(volume)
    return replace(fresh, spec=replace(fresh.spec, volumes=tuple(volumes)))


def _make(cluster: Cluster, pod: Pod, name: str, *, like: str) -> None:
    """Create a missing claim with the spec of another one."""
    claims, namespace = cluster.state.objects, pod.metadata.namespace or "default"
    model = claims.get(PersistentVolumeClaim, f"{namespace}/{like}")
    if model is None or claims.get(PersistentVolumeClaim, f"{namespace}/{name}") is not None:
        return
    chosen = {key: value for key, value in model.metadata.annotations.items() if key == STORAGE_CLASS}
    metadata = ObjectMeta(
        name=name, namespace=namespace, uid=f"{namespace}/{name}", labels=model.metadata.labels, annotations=chosen
    )
    cluster.add(PersistentVolumeClaim(metadata=metadata, spec=replace(model.spec, volume_name="")))
