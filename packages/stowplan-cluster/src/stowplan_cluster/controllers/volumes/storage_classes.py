"""StorageClass lookups for the volume controllers.

Upstream: pkg/volume/util/storageclass.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.storage_classes import Candidate, default_class, is_default_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.store import Stored

CLASSES = "storageclasses.storage.k8s.io"
#: The provisioner of classes without dynamic provisioning.
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def waits_for_consumer(class_: JsonObject) -> bool:
    return class_.get("volumeBindingMode") == "WaitForFirstConsumer"


def is_default(stored: Stored) -> bool:
    return is_default_class(_candidate(stored).annotations)


def default_of(classes: Iterable[Stored]) -> str | None:
    return default_class(map(_candidate, classes))


def _candidate(stored: Stored) -> Candidate:
    metadata = stored.to_dict()["metadata"]
    return Candidate(stored.name, metadata.get("annotations") or {}, metadata["creationTimestamp"])
