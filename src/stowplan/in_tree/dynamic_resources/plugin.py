"""Allocate devices to pods that claim them.

Not built yet: the plugin finds the claims of a pod, and rejects pods that need devices.

Upstream: pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.api.resource_names import is_dra_extended
from stowplan.framework.interface import (
    EnqueueExtensions,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterResult,
    SignPlugin,
)
from stowplan.framework.status import SKIP, Reason, Status, error, unresolvable, unschedulable
from stowplan.in_tree.common.device_classes import device_class_of, device_classes_read
from stowplan.in_tree.common.not_built import NotBuiltBinding
from stowplan.in_tree.common.resource_claims import ClaimError, pod_resource_claims
from stowplan.in_tree.dynamic_resources.declaration import DECLARATION
from stowplan.in_tree.dynamic_resources.hints import events

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stowplan.cluster.object_dependencies import ObjectDependency
    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.cluster.view import Nodes
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.events import ClusterEventWithHint

CLAIM_UNUSABLE = Reason("ResourceClaimUnusable", "{problem}")
NOTHING_TO_DEALLOCATE = Reason("NothingToDeallocate", "no new claims to deallocate")
DISABLED = Reason("PluginDisabled", "plugin disabled")

PODS_WITH_DEVICES = "pods with device claims"


class DynamicResources(NotBuiltBinding, PreEnqueuePlugin, PostFilterPlugin, SignPlugin, EnqueueExtensions):
    name = "DynamicResources"
    declaration = DECLARATION
    effect_free = True
    short_name = "devices"

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

    def _unsupported(self, pod: PodInfo) -> str | None:
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

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        # Pods with claims share nothing.
        return device_classes_read(pod.shape) if self.handle.features.enabled("DRAExtendedResource") else ()

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        if pod.pod.spec.resource_claims:
            return unschedulable("pods with dra resource claims are not signable")
        return {}

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return events(self.handle) if self._enabled else ()
