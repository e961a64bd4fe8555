"""What an answer takes for granted, as notes for the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stowplan.kube.api.types import PersistentVolume
from stowplan.scheduler.framework.explanations.formatting import joined
from stowplan.scheduler.in_tree.volume_binding.claims import affinity_of


class Provision(NamedTuple):
    """A volume that a provisioner has to create."""

    storage_class: str
    provisioner: str
    #: The nodes that can use it, if the provisioner is assumed to choose them; "": all, or the pod's node decides.
    nodes: str

    @classmethod
    def of(cls, storage_class: str, provisioner: str, volume: PersistentVolume | None) -> Provision:
        """`volume`: as it was assumed; None for one that waits for its pod's node."""
        # Scheduling imports no explanation.
        from stowplan.scheduler.in_tree.volume_binding.explanation import where

        affinity = None if volume is None else affinity_of(volume)
        return cls(storage_class, provisioner, "" if affinity is None else where(affinity))


def assumed(provisions: Iterable[Provision]) -> Iterator[str]:
    """Provisioners that have to work, by class, and the nodes that they are assumed to choose."""
    places: dict[tuple[str, str], set[str]] = {}
    for storage_class, provisioner, nodes in provisions:
        places.setdefault((storage_class, provisioner), set()).add(nodes)
    for (storage_class, provisioner), chosen in sorted(places.items()):
        known = sorted(chosen - {""})
        usable = f", usable from {joined(known)}" if known else ""
        yield f"assumed that {provisioner} creates the volumes of class {storage_class}{usable}"
