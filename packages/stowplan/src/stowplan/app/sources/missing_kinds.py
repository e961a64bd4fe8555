"""Report pods that cannot be judged because a kind is missing from the files.

A dump of pods and nodes alone contains pods with claims, but no claims: it would be wrong to report that the claims do
not exist, and a running pod would look unschedulable. If there is at least one object of a kind, the files are assumed
to contain all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.scheduler.cluster.objects import ObjectStore
from stowplan.scheduler.cluster.pod_info import PodInfo


def why_not_judged(pod: PodInfo, objects: ObjectStore) -> str:
    """What the files lack to judge the pod; "" if nothing is known to be missing."""
    for kind, name in _looked_up(pod, objects):
        if not any(_is_given(obj) for obj in objects.all(kind)):
            return f"cannot judge: no {name} in the files; `stowplan dump` saves a cluster with them"
    return ""


def _looked_up(pod: PodInfo, objects: ObjectStore) -> Iterator[tuple[type[Any], str]]:
    """Kinds of which the pod's claims require at least one object."""
    for use in pod.volume_uses:
        if not use.claim:
            continue
        claim = objects.get(PersistentVolumeClaim, f"{use.namespace}/{use.claim}")
        if claim is None:
            yield PersistentVolumeClaim, "persistentvolumeclaims"
        elif claim.spec.volume_name:
            yield PersistentVolume, "persistentvolumes"
        elif claim.spec.storage_class_name or (use.owner and not objects.count(PersistentVolume)):
            # The claim of an ephemeral volume may be about to get the default class.
            yield StorageClass, "storageclasses"


def _is_given(obj: Any) -> bool:
    """Whether it was in the files: claims of ephemeral volumes are also made for pods."""
    owner = controller_of(obj.metadata)
    return owner is None or owner.kind != "Pod"
