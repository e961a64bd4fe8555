"""StorageClass lookups for the volume controllers.

Upstream: pkg/volume/util/storageclass.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.store import Stored

CLASSES = "storageclasses.storage.k8s.io"
#: The provisioner of classes without dynamic provisioning.
NO_PROVISIONER = "kubernetes.io/no-provisioner"

_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def waits_for_consumer(class_: JsonObject) -> bool:
    return class_.get("volumeBindingMode") == "WaitForFirstConsumer"


def is_default(stored: Stored) -> bool:
    annotations = stored.to_dict()["metadata"].get("annotations") or {}
    return any(annotations.get(name) == "true" for name in _DEFAULT)


def default_class(classes: Iterable[Stored]) -> str | None:
    """The default class: the newest of several, ties broken by name."""
    defaults = [stored for stored in classes if is_default(stored)]
    # RFC 3339 times in UTC sort as strings.
    newest = max((_created(stored) for stored in defaults), default="")
    return min((stored.name for stored in defaults if _created(stored) == newest), default=None)


def _created(stored: Stored) -> str:
    created: str = stored.to_dict()["metadata"]["creationTimestamp"]
    return created
