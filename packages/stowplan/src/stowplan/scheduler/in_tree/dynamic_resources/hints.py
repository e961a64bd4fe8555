"""Queueing hints of DynamicResources.

Upstream: EventsToRegister of pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from stowplan.kube.api import types as t
from stowplan.kube.api.types import ResourceSlice
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NODE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    Action,
    ClusterEventWithHint,
    Hint,
    NamedObjects,
    on,
    pod_events,
    queue_if,
)
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.in_tree.common.pod_hints import same_pod
from stowplan.scheduler.in_tree.common.resource_claims import ClaimError, keys_of_claims, pod_resource_claims
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import Features
from stowplan.scheduler.in_tree.dynamic_resources.taint_rules import concerns


def events(handle: Handle, features: Features) -> tuple[ClusterEventWithHint, ...]:
    def after_claim_change(pod: PodInfo, old: t.ResourceClaim | None, new: t.ResourceClaim) -> Hint:
        return _after_resource_claim_change(pod, old, new, handle, features)

    def after_pod_change(pod: PodInfo, old: t.Pod, new: t.Pod) -> Hint:
        return queue_if(same_pod(pod, new) and _has_claims(handle.pod_info(new), handle, features))

    def after_rule_change(pod: PodInfo, old: t.DeviceTaintRule | None, new: t.DeviceTaintRule | None) -> Hint:
        return queue_if(_changes_devices(old, new, handle))

    # In the reference these are changes of slices, whose devices have the taints of the rules.
    rules = [on(DEVICE_TAINT_RULE, Action.Add | Action.Update | Action.Delete, after_rule_change)]
    pods = pod_events(handle.features.emulated_version)
    nodes = Action.Add | Action.UpdateNodeLabel | Action.UpdateNodeAllocatable
    return (
        on(NODE, nodes | Action.UpdateNodeDeclaredFeature if features.optional_node_operations else nodes),
        on(RESOURCE_CLAIM, Action.Add | Action.Update, after_claim_change, named=_CLAIMS_OF_POD),
        on(pods.own, Action.UpdatePodGeneratedResourceClaim, after_pod_change, by_shape=True),
        on(DEVICE_CLASS, Action.Add | Action.Update),
        on(RESOURCE_SLICE, Action.Add | Action.Update),
        *(rules if features.device_taint_rules else ()),
    )


def _changes_devices(old: t.DeviceTaintRule | None, new: t.DeviceTaintRule | None, handle: Handle) -> bool:
    if old is not None and new is not None and old.spec == new.spec:
        return False
    slices = list(handle.cluster.objects.all(ResourceSlice))
    return any(
        concerns(rule.spec, s.spec.driver, s.spec.pool.name, device.name)
        for rule in (old, new)
        if rule is not None
        for s in slices
        for device in s.spec.devices
    )


def _has_claims(pod: PodInfo, handle: Handle, features: Features) -> bool:
    try:
        pod_resource_claims(pod, handle.cluster, of_groups=features.group_claims)
    except ClaimError:
        return False
    return True


def _after_resource_claim_change(
    pod: PodInfo, old: t.ResourceClaim | None, new: t.ResourceClaim, handle: Handle, features: Features
) -> Hint:
    try:
        claims = pod_resource_claims(pod, handle.cluster, of_groups=features.group_claims)
    except ClaimError:
        return Hint.SKIP
    if _is_deallocated(old, new):
        return Hint.QUEUE
    if all(_identity(claim) != _identity(new) for claim in claims):
        return Hint.SKIP
    return queue_if(old is None or old.status != new.status)


def _is_deallocated(old: t.ResourceClaim | None, new: t.ResourceClaim) -> bool:
    """Whether devices were released, which may help every pod that needs some."""
    return old is not None and old.status.allocation is not None and new.status.allocation is None


_CLAIMS_OF_POD = NamedObjects(keys_of_claims, concerns_all=_is_deallocated)


def _identity(claim: t.ResourceClaim) -> str:
    return claim.metadata.uid or f"{claim.metadata.namespace}/{claim.metadata.name}"
