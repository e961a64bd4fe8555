"""Volumes mounted on each node: claims, and inline disks.

Which disk stands behind a claim is a matter of lookup objects that change by themselves, so nothing of it is known
here: a row has the ways in which its pods use volumes, and how many pods use each. Readers work out what they need a
row at a time, and follow `changes` to see when to do it again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from stowplan.cluster.changes import ChangeLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stowplan.api.types import Pod, Volume
    from stowplan.cluster.pod_info import PodInfo

#: Kinds of volumes inside a pod that are disks of a cloud.
_DISKS = (
    "gce_persistent_disk",
    "aws_elastic_block_store",
    "cinder",
    "azure_disk",
    "azure_file",
    "vsphere_volume",
    "portworx_volume",
)
_NONE: dict[VolumeUse, int] = {}


class VolumeUse(NamedTuple):
    """How a pod uses a volume; pods that agree in it use the same volume."""

    namespace: str
    #: Name of the claim; None for a disk named in the pod.
    claim: str | None
    #: (name, uid) of the pod for which the claim must have been made; None when it need not.
    owner: tuple[str, str] | None = None
    disk: Volume | None = None


def volume_uses(info: PodInfo) -> tuple[VolumeUse, ...]:
    """The pod's volumes that could be attached to a node, in its order."""
    found = info.shape.volume_uses
    return uses_of(info.pod, info.namespace) if found is None else found


def makes_claims(pod: Pod) -> bool:
    """Whether claims are made for the pod itself, so that its volumes are no other pod's."""
    return any(v.persistent_volume_claim is None and v.ephemeral is not None for v in pod.spec.volumes)


def uses_of(pod: Pod, namespace: str) -> tuple[VolumeUse, ...]:
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append(VolumeUse(namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            owner = pod.metadata.name, pod.metadata.uid
            found.append(VolumeUse(namespace, f"{pod.metadata.name}-{volume.name}", owner))
        elif any(getattr(volume, kind) is not None for kind in _DISKS):
            found.append(VolumeUse(namespace, None, None, volume))
    return tuple(found)


class MountedVolumes:
    """Row -> use -> number of mounts."""

    def __init__(self) -> None:
        self._rows: dict[int, Counter[VolumeUse]] = {}
        #: Rows whose uses changed. What undoes a change is one more, so the log is never wound back.
        self.changes: ChangeLog[int] = ChangeLog()

    def book(self, row: int, uses: Iterable[VolumeUse], sign: int) -> None:
        """Add a pod's uses to a row, or take them off."""
        mounts = self._rows.get(row)
        if mounts is None:
            mounts = self._rows[row] = Counter()
        for use in uses:
            mounts[use] += sign
            if not mounts[use]:
                del mounts[use]
        if not mounts:
            del self._rows[row]
        self.changes.append(row)

    def on(self, row: int) -> Mapping[VolumeUse, int]:
        return self._rows.get(row, _NONE)

    def rows(self) -> list[int]:
        """Rows with any uses."""
        return list(self._rows)
