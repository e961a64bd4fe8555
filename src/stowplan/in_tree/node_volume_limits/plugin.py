"""Respect how many volumes of a driver a node can attach.

Not built yet: pods whose volumes count are rejected.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.types import CSINode
from stowplan.cluster.object_dependencies import ObjectDependency
from stowplan.framework.interface import EnqueueExtensions, TemplateSigned
from stowplan.in_tree.common.not_built import PODS_WITH_CLAIMS, NotBuiltFilter
from stowplan.in_tree.common.volume_claims import has_claims
from stowplan.in_tree.node_volume_limits.declaration import DECLARATION
from stowplan.in_tree.node_volume_limits.hints import events

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stowplan.api.types import Volume
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.events import ClusterEventWithHint

PODS_WITH_LIMITED_VOLUMES = "pods with volumes of drivers that limit them"

#: Inline volumes that count against the limits of a CSI driver.
_COUNTED_INLINE = ("aws_elastic_block_store", "gce_persistent_disk", "azure_disk", "cinder", "portworx_volume")


class NodeVolumeLimits(NotBuiltFilter, TemplateSigned, EnqueueExtensions):
    name = "NodeVolumeLimits"
    declaration = DECLARATION

    def _unsupported(self, pod: PodInfo) -> str | None:
        if has_claims(pod.shape):
            return PODS_WITH_CLAIMS
        # Inline CSI volumes never count; those that a CSI driver has taken over do, if some node limits drivers.
        if _may_count(pod) and self._limits_reported():
            return PODS_WITH_LIMITED_VOLUMES
        return None

    def _limits_reported(self) -> bool:
        drivers = (driver for node in self.handle.cluster.objects.all(CSINode) for driver in node.spec.drivers)
        return any(driver.allocatable is not None and driver.allocatable.count is not None for driver in drivers)

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        return (ObjectDependency.of_kind(CSINode),) if _may_count(pod) else ()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events()


def _may_count(pod: PodInfo) -> bool:
    return any(_counts(volume) for volume in pod.pod.spec.volumes)


def _counts(volume: Volume) -> bool:
    return any(getattr(volume, kind) is not None for kind in _COUNTED_INLINE)
