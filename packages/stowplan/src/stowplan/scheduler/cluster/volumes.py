"""Volumes mounted on each node: claims, and inline disks.

Which disk a claim refers to depends on lookup objects that change independently, so it is not tracked here. A row has
the distinct volume uses of its pods, with the number of pods. Readers derive what they need per row, and follow
`changes` to know when to recompute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stowplan.kube.api.types import Pod, Volume
from stowplan.scheduler.cluster.changes import ChangeLog

#: Volume sources that are cloud disks.
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
    """A pod's use of a volume; pods with equal uses share the volume."""

    namespace: str
    #: Name of the claim; None for an inline disk.
    claim: str | None
    #: (name, uid) of the pod that must own the claim; None for any.
    owner: tuple[str, str] | None = None
    disk: Volume | None = None


def makes_claims(pod: Pod) -> bool:
    """Whether the pod has generic ephemeral volumes, whose claims no other pod uses."""
    return any(v.persistent_volume_claim is None and v.ephemeral is not None for v in pod.spec.volumes)


def uses_of(pod: Pod, namespace: str) -> tuple[VolumeUse, ...]:
    """The pod's attachable volumes, in order."""
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
        #: Rows whose uses changed. Undoing a change is logged as another change, so the log is never rewound.
        self.changes: ChangeLog[int] = ChangeLog()

    def book(self, row: int, uses: Iterable[VolumeUse], sign: int) -> None:
        """Add a pod's uses to a row, or remove them."""
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
