"""Plugins whose names a configuration may hold, and whose work is still to be built.

A pod that needs what one of them decides is refused with a reason that says so; it is never placed blindly. A pod
that does not need it passes as if the plugin were complete. What wakes a refused pod up is complete already
(unbuilt_hints.py).

Upstream: pkg/scheduler/framework/plugins/{volumebinding,volumezone,nodevolumelimits,dynamicresources,gangscheduling,
topologyaware,podgrouppodscount}.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.api.resource_names import is_dra_extended
from stowplan.api.types import CSINode
from stowplan.framework.events import POD, Action, Hint, on, queue_if
from stowplan.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
    TemplateSigned,
)
from stowplan.framework.status import SKIP, Reason, Status, error, unresolvable, unschedulable
from stowplan.in_tree import unbuilt_hints as hints
from stowplan.in_tree.common.claim_hints import same_namespace
from stowplan.in_tree.common.device_classes import device_class_of
from stowplan.in_tree.common.resource_claims import ClaimError, pod_resource_claims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from stowplan.api.types import Pod, Volume
    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.cluster.view import Nodes
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.events import ClusterEventWithHint
    from stowplan.framework.rejections import Rejections

NOT_BUILT = Reason("NotBuiltYet", "Stowplan does not place {what} yet ({plugin})")
CLAIM_UNUSABLE = Reason("ResourceClaimUnusable", "{problem}")
NOTHING_TO_DEALLOCATE = Reason("NothingToDeallocate", "no new claims to deallocate")
DISABLED = Reason("PluginDisabled", "plugin disabled")

PODS_WITH_CLAIMS = "pods with persistent volume claims"
PODS_WITH_LIMITED_VOLUMES = "pods with volumes of drivers that limit them"
PODS_WITH_DEVICES = "pods with device claims"
PODS_OF_GROUPS = "pods of pod groups"

#: Inline volumes that count against the limits of a CSI driver.
_COUNTED_INLINE = ("aws_elastic_block_store", "gce_persistent_disk", "azure_disk", "cinder", "portworx_volume")


class _UnbuiltFilter(PreFilterPlugin, FilterPlugin):
    """Refuses in PreFilter whom the plugin's Filter would have to judge."""

    reads = Reads.NODES

    @abstractmethod
    def _lacking(self, pod: PodInfo) -> str | None:
        """What the pod is that the plugin does not place yet, or None when the plugin does not matter to it."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        what = self._lacking(pod)
        return SKIP if what is None else unresolvable(NOT_BUILT.of(what=what, plugin=self.name))

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        return None


class _UnbuiltBinding(_UnbuiltFilter, ScorePlugin, ReservePlugin, PreBindPlugin):
    """The same with the later points: pods that need the plugin never get there, for others it has nothing to do."""

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[np.int64] | Status:
        return np.zeros(len(nodes), np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        return None

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPreFlightResult | Status:
        return SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None


class VolumeBinding(_UnbuiltBinding, PreScorePlugin, TemplateSigned, EnqueueExtensions):
    name = "VolumeBinding"

    def _lacking(self, pod: PodInfo) -> str | None:
        return PODS_WITH_CLAIMS if _has_claims(pod.shape) else None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return SKIP

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return hints.volume_binding_events()


class VolumeZone(_UnbuiltFilter, TemplateSigned, EnqueueExtensions):
    name = "VolumeZone"

    def _lacking(self, pod: PodInfo) -> str | None:
        # Generic ephemeral volumes are not looked at, as in the reference; VolumeBinding refuses them.
        return PODS_WITH_CLAIMS if pod.shape.claim_names else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return hints.volume_zone_events()


class NodeVolumeLimits(_UnbuiltFilter, TemplateSigned, EnqueueExtensions):
    name = "NodeVolumeLimits"

    def _lacking(self, pod: PodInfo) -> str | None:
        if _has_claims(pod.shape):
            return PODS_WITH_CLAIMS
        # Inline CSI volumes never count; those that a CSI driver has taken over do, if some node limits drivers.
        if any(_counts(volume) for volume in pod.pod.spec.volumes) and self._limits_reported():
            return PODS_WITH_LIMITED_VOLUMES
        return None

    def _limits_reported(self) -> bool:
        drivers = (driver for node in self.handle.cluster.objects.all(CSINode) for driver in node.spec.drivers)
        return any(driver.allocatable is not None and driver.allocatable.count is not None for driver in drivers)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return hints.node_volume_limits_events()


class DynamicResources(_UnbuiltBinding, PreEnqueuePlugin, PostFilterPlugin, SignPlugin, EnqueueExtensions):
    """Knows which claims a pod has, and cannot allocate devices for them yet."""

    name = "DynamicResources"

    @property
    def _enabled(self) -> bool:
        return self.handle.features.enabled("DynamicResourceAllocation")

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.pod.spec.resource_claims or not self._enabled:
            return None
        try:
            pod_resource_claims(pod, self.handle.cluster.objects)
        except ClaimError as e:
            return unresolvable(CLAIM_UNUSABLE.of(problem=str(e)))
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        if not self._enabled:
            return SKIP
        # Its presence tells PostFilter that the attempt came this far.
        state.write(self.name, ())
        return self.pre_enqueue(pod) or super().pre_filter(state, pod, nodes)

    def _lacking(self, pod: PodInfo) -> str | None:
        claims = pod_resource_claims(pod, self.handle.cluster.objects) if pod.pod.spec.resource_claims else ()
        return PODS_WITH_DEVICES if claims or self._wants_devices(pod.shape) else None

    def _wants_devices(self, shape: PodShape) -> bool:
        if not self.handle.features.enabled("DRAExtendedResource"):
            return False
        wanted = (name for name, amount in shape.requests.items() if amount and is_dra_extended(name))
        return any(device_class_of(name, self.handle.cluster) is not None for name in wanted)

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        if not self._enabled:
            return PostFilterResult(unschedulable(DISABLED))
        if state.get(self.name) is None:
            # Parity: an earlier PreFilter ended the attempt, and the reference misses its own state.
            return PostFilterResult(error("not found"))
        return PostFilterResult(unschedulable(NOTHING_TO_DEALLOCATE))

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        if pod.pod.spec.resource_claims:
            return unschedulable("pods with dra resource claims are not signable")
        return {}

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return hints.dynamic_resources_events(self.handle) if self._enabled else ()


class GangScheduling(PreEnqueuePlugin, PermitPlugin, EnqueueExtensions):
    name = "GangScheduling"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.pod.spec.scheduling_group is None:
            return None
        return unresolvable(NOT_BUILT.of(what=PODS_OF_GROUPS, plugin=self.name))

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        return self.pre_enqueue(pod), 0.0

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(POD, Action.Add, _after_pod_added),)


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    name = "TopologyPlacementGenerator"

    def generate_placements(self, group_state: CycleState, group: Any, parent: Any) -> Sequence[Any] | Status:
        return unresolvable(NOT_BUILT.of(what=PODS_OF_GROUPS, plugin=self.name))


class PodGroupPodsCount(PlacementScorePlugin):
    name = "PodGroupPodsCount"

    def score_placement(self, group_state: CycleState, group: Any, assignments: Any) -> int | Status:
        return error(str(NOT_BUILT.of(what=PODS_OF_GROUPS, plugin=self.name)))


def _has_claims(shape: PodShape) -> bool:
    return bool(shape.claim_names) or any(volume.ephemeral is not None for volume in shape.pod.spec.volumes)


def _counts(volume: Volume) -> bool:
    return any(getattr(volume, kind) is not None for kind in _COUNTED_INLINE)


def _group_of(pod: Pod) -> str | None:
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None


def _after_pod_added(pod: PodInfo, old: None, new: Pod) -> Hint:
    group = _group_of(pod.pod)
    return queue_if(group is not None and same_namespace(pod, new) and _group_of(new) == group)
