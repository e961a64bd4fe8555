"""Cluster events, as plugins register for them.

A change of an object is one or several events. A plugin registers the events that may make a pod schedulable that it
rejected, each with an optional queueing hint that decides per pod.

Upstream: pkg/scheduler/framework/events.go and types.go; docs/reference/behaviour.md, Events and hints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntFlag
from functools import cache
from typing import Any

from stowplan.kube.api import types as t
from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.pod_requests import pod_requests
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo


class Action(IntFlag):
    """What happened to an object. A bit set, so that a registration can name several actions."""

    Add = 1
    Delete = 2
    UpdateNodeAllocatable = 4
    UpdateNodeLabel = 8
    UpdateNodeTaint = 16
    UpdateNodeCondition = 32
    UpdateNodeAnnotation = 64
    UpdateNodeDeclaredFeature = 128
    UpdatePodLabel = 256
    UpdatePodScaleDown = 512
    UpdatePodToleration = 1024
    UpdatePodSchedulingGatesEliminated = 2048
    UpdatePodGeneratedResourceClaim = 4096
    #: Since 1.37.
    UpdateNodePreemptionPolicy = 8192
    UpdatePodScaleUp = 16384
    Update = 32764
    All = 32767


POD, ASSIGNED_POD, NODE = "Pod", "AssignedPod", "Node"
#: Pods without a node, until 1.36.
UNSCHEDULABLE_POD = "UnschedulablePod"
#: Since 1.37: pods without a node other than the waiting one, and the waiting pod itself.
UNSCHEDULED_POD, TARGET_POD = "UnscheduledPod", "TargetPod"
ANY = "*"

#: Resource of a registration -> resources of events that it matches besides its own. Plugins need not know the version:
#: pods without a node are matched under the names of both.
_COVERED = {
    POD: frozenset((ASSIGNED_POD, UNSCHEDULABLE_POD, UNSCHEDULED_POD, TARGET_POD)),
    UNSCHEDULABLE_POD: frozenset((UNSCHEDULED_POD, TARGET_POD)),
    UNSCHEDULED_POD: frozenset((UNSCHEDULABLE_POD,)),
    TARGET_POD: frozenset((UNSCHEDULABLE_POD,)),
}

#: Event resource of each kind except pods and nodes.
RESOURCES: dict[type[Any], str] = {
    t.PersistentVolume: "PersistentVolume",
    t.PersistentVolumeClaim: "PersistentVolumeClaim",
    t.CSINode: "storage.k8s.io/CSINode",
    t.CSIDriver: "storage.k8s.io/CSIDriver",
    t.VolumeAttachment: "storage.k8s.io/VolumeAttachment",
    t.CSIStorageCapacity: "storage.k8s.io/CSIStorageCapacity",
    t.StorageClass: "storage.k8s.io/StorageClass",
    t.ResourceClaim: "resource.k8s.io/ResourceClaim",
    t.ResourceSlice: "resource.k8s.io/ResourceSlice",
    t.DeviceClass: "resource.k8s.io/DeviceClass",
    t.DeviceTaintRule: "resource.k8s.io/DeviceTaintRule",
    t.PodGroup: "scheduling.k8s.io/PodGroup",
    t.CompositePodGroup: "scheduling.k8s.io/CompositePodGroup",
    # Upstream dropped this event in 1.23, along with its last plugin that used services.
    t.Service: "Service",
}
PV, PVC = RESOURCES[t.PersistentVolume], RESOURCES[t.PersistentVolumeClaim]
CSI_NODE, CSI_DRIVER = RESOURCES[t.CSINode], RESOURCES[t.CSIDriver]
VOLUME_ATTACHMENT, CSI_STORAGE_CAPACITY = RESOURCES[t.VolumeAttachment], RESOURCES[t.CSIStorageCapacity]
STORAGE_CLASS, RESOURCE_CLAIM = RESOURCES[t.StorageClass], RESOURCES[t.ResourceClaim]
SERVICE = RESOURCES[t.Service]
POD_GROUP, COMPOSITE_POD_GROUP = RESOURCES[t.PodGroup], RESOURCES[t.CompositePodGroup]
RESOURCE_SLICE, DEVICE_CLASS = RESOURCES[t.ResourceSlice], RESOURCES[t.DeviceClass]
DEVICE_TAINT_RULE = RESOURCES[t.DeviceTaintRule]


class ClusterEvent(PlainStruct, frozen=True):
    """A kind of object and what may happen to it."""

    resource: str
    action: Action
    #: Label to use in place of resource and action.
    custom_label: str = ""

    @property
    def label(self) -> str:
        """The event's name in logs and metrics, such as AssignedPodDelete."""
        return self.custom_label or _label(self.resource, self.action)

    @property
    def is_wildcard(self) -> bool:
        """Whether it matches every event."""
        return self.resource == ANY and self.action == Action.All

    def covers(self, incoming: ClusterEvent) -> bool:
        """Whether a registration for this event matches the incoming one."""
        same = self.resource in (ANY, incoming.resource) or incoming.resource in _COVERED.get(self.resource, ())
        return same and bool(self.action & incoming.action) and incoming.action <= self.action


@cache
def _label(resource: str, action: Action) -> str:
    known = action in (Action.Update, Action.All) or action.bit_count() == 1
    return f"{resource}{action.name if known else ''}"


@cache
def _event(resource: str, action: Action) -> ClusterEvent:
    """An interned event; they are few, and needed for every change."""
    return ClusterEvent(resource, action)


ASSIGNED_POD_ADD = _event(ASSIGNED_POD, Action.Add)
ASSIGNED_POD_UPDATE = _event(ASSIGNED_POD, Action.Update)
ASSIGNED_POD_DELETE = _event(ASSIGNED_POD, Action.Delete)


class PodEvents(PlainStruct, frozen=True, kw_only=True):
    """How a version calls the events of pods."""

    #: What in-tree plugins register, for events of pods on nodes, and of the waiting pod itself.
    assigned: str
    own: str
    #: What changes of a pod without a node are: for other pods, and for itself.
    unscheduled: str
    target: str

    @property
    def either(self) -> tuple[str, ...]:
        """What in-tree plugins register for events of pods on nodes and of the waiting pod."""
        return (self.own,) if self.own == self.assigned else (self.assigned, self.own)

    @property
    def added(self) -> ClusterEvent:
        return _event(self.unscheduled, Action.Add)

    @property
    def updated(self) -> ClusterEvent:
        return _event(self.unscheduled, Action.Update)

    @property
    def deleted(self) -> ClusterEvent:
        return _event(self.unscheduled, Action.Delete)


@cache
def pod_events(version: KubernetesVersion) -> PodEvents:
    if version >= V1_37:
        return PodEvents(assigned=ASSIGNED_POD, own=TARGET_POD, unscheduled=UNSCHEDULED_POD, target=TARGET_POD)
    return PodEvents(assigned=POD, own=POD, unscheduled=UNSCHEDULABLE_POD, target=UNSCHEDULABLE_POD)


#: The pod was activated explicitly (`Handle.activate`); the hints of the plugins that rejected it are not called.
FORCE_ACTIVATE = ClusterEvent(ANY, Action.All, "ForceActivate")
#: The pod has been unschedulable for too long and is retried without any other event.
UNSCHEDULABLE_TIMEOUT = ClusterEvent(ANY, Action.All, "UnschedulableTimeout")

#: The pod's profile was replaced.
PROFILE_SWAPPED = ClusterEvent(ANY, Action.All, "ProfileSwapped")
#: Work shared with an equal pod is done.
EQUAL_POD_DECIDED = ClusterEvent(ANY, Action.All, "EqualPodDecided")

#: Causes of moves that are not cluster events.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"


class Hint(Enum):
    """The result of a queueing hint: whether an event makes a pod worth retrying."""

    SKIP = "Skip"
    QUEUE = "Queue"


#: (pod, old object or None, new object or None) -> hint.
HintFunction = "Callable[[PodInfo, Any, Any], Hint]"


class NamedObjects(PlainStruct, frozen=True):
    """How pods refer to objects of a kind, such as their claims.

    Declares that a hint returns Skip for all pods that do not refer to the changed object, so that it is not called for
    them. Thousands of pods may each wait for a claim of their own.
    """

    #: The `namespace/name` of each object that a pod refers to; must depend on the pod alone.
    of_pod: Callable[[PodInfo], Iterable[str]]
    #: (old object, new object) -> whether the change matters to other pods, too. By default it does not.
    concerns_all: Callable[[Any, Any], bool] | None = None


class ClusterEventWithHint(PlainStruct, frozen=True):
    """A registered event. Without a hint function, the pod is always requeued."""

    event: ClusterEvent
    hint: Callable[[PodInfo, Any, Any], Hint] | None = None
    #: Whether the hint reads nothing of the pod but its `shape`, and whether the pod is the changed object. Pods of one
    #: shape then share one call. A hint may also read the changed object and the cluster.
    by_shape: bool = False
    #: If set, the hint returns Skip for pods that do not refer to the changed object.
    named: NamedObjects | None = None


def on(
    resource: str,
    action: Action,
    hint: Callable[[PodInfo, Any, Any], Hint] | None = None,
    *,
    by_shape: bool = False,
    named: NamedObjects | None = None,
) -> ClusterEventWithHint:
    return ClusterEventWithHint(ClusterEvent(resource, action), hint, by_shape, named)


def queue_if(condition: bool) -> Hint:
    return Hint.QUEUE if condition else Hint.SKIP


# -- which events a change is ---------------------------------------------------------------------------------------


def events_of_change(old: Any, new: Any, version: KubernetesVersion) -> list[ClusterEvent]:
    """The events of a change in a version: added (no old), deleted (no new) or updated.

    Those of an updated pod without a node are for itself.
    """
    obj = old if new is None else new
    if isinstance(obj, t.Pod):
        return _pod_events(old, new, version)
    if isinstance(obj, t.Node):
        return _node_events(old, new, version)
    resource = obj.resource if isinstance(obj, CustomObject) else RESOURCES.get(type(obj))
    return [] if resource is None else [_event(resource, _plain_action(old, new))]


def _plain_action(old: Any, new: Any) -> Action:
    if old is None:
        return Action.Add
    return Action.Delete if new is None else Action.Update


def _pod_events(old: t.Pod | None, new: t.Pod | None, version: KubernetesVersion) -> list[ClusterEvent]:
    current, names = old if new is None else new, pod_events(version)
    assert current is not None
    if old is None or new is None:
        return [_event(ASSIGNED_POD if current.spec.node_name else names.unscheduled, _plain_action(old, new))]
    resource = ASSIGNED_POD if current.spec.node_name else names.target
    if new.spec.node_name and not old.spec.node_name:
        # A binding is reported as the addition of an assigned pod.
        return [_event(ASSIGNED_POD, Action.Add)]
    # In the order in which plugins are notified.
    changes = (
        (Action.UpdatePodLabel, old.metadata.labels != new.metadata.labels),
        *_scaled(old, new, version),
        (Action.UpdatePodSchedulingGatesEliminated, old.spec.scheduling_gates and not new.spec.scheduling_gates),
        (Action.UpdatePodToleration, len(old.spec.tolerations) != len(new.spec.tolerations)),
        (Action.UpdatePodGeneratedResourceClaim, _generated_claims(old) != _generated_claims(new)),
    )
    actions = [action for action, changed in changes if changed] or (Action.Update,)
    return [_event(resource, action) for action in actions]


def _scaled(old: t.Pod, new: t.Pod, version: KubernetesVersion) -> tuple[tuple[Action, bool], ...]:
    """Whether any request of a pod has become smaller, and since 1.37 whether any has become larger."""
    if _requested(old) == _requested(new):
        # Most updates of pods change something else, and comparing the inputs is cheaper than computing the sums.
        return ()
    before = pod_requests(old, resize_rules=version, pod_level_resize=True)
    after = pod_requests(new, resize_rules=version, pod_level_resize=True)
    down = (Action.UpdatePodScaleDown, _has_less(after, before))
    return (down,) if version < V1_37 else (down, (Action.UpdatePodScaleUp, _has_less(before, after)))


def _has_less(found: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return any(name not in found or _milli(found[name]) < _milli(amount) for name, amount in other.items())


def _requested(pod: t.Pod) -> tuple[Any, ...]:
    """Everything that the sum of a pod's requests is computed from."""
    spec, status = pod.spec, pod.status
    statuses = (*status.container_statuses, *status.init_container_statuses)
    resizing = [(c.name, c.resources, c.allocated_resources) for c in statuses]
    pending = [c.reason for c in status.conditions if c.type == "PodResizePending"]
    of_pod = spec.resources, spec.overhead, status.resources, status.allocated_resources
    return (spec.containers, spec.init_containers, *of_pod, resizing, pending)


def _milli(nano: int) -> int:
    return -(-nano // 10**6)


def _generated_claims(pod: t.Pod) -> Any:
    return pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status


def _node_events(old: t.Node | None, new: t.Node | None, version: KubernetesVersion) -> list[ClusterEvent]:
    if old is None or new is None:
        return [_event(NODE, _plain_action(old, new))]
    changes = (
        (Action.UpdateNodeTaint, old.spec.unschedulable and not new.spec.unschedulable),
        (Action.UpdateNodeAllocatable, not same_amounts(old.status.allocatable, new.status.allocatable)),
        (Action.UpdateNodeLabel, old.metadata.labels != new.metadata.labels),
        (Action.UpdateNodeTaint, old.spec.taints != new.spec.taints),
        (Action.UpdateNodeCondition, _conditions(old) != _conditions(new)),
        (Action.UpdateNodeAnnotation, old.metadata.annotations != new.metadata.annotations),
        (Action.UpdateNodeDeclaredFeature, old.status.declared_features != new.status.declared_features),
        (
            Action.UpdateNodePreemptionPolicy,
            version >= V1_37 and old.spec.pod_preemption_policy != new.spec.pod_preemption_policy,
        ),
    )
    return [_event(NODE, action) for action, changed in changes if changed]


def same_amounts(old: Mapping[str, t.QuantityValue], new: Mapping[str, t.QuantityValue]) -> bool:
    """Whether two resource lists are equal in value, whatever their notation."""
    return old.keys() == new.keys() and all(parse_quantity(old[k]) == parse_quantity(new[k]) for k in old)


def _conditions(node: t.Node) -> dict[str, str]:
    return {c.type: c.status for c in node.status.conditions}


# -- registrations -----------------------------------------------------------------------------------------------------


def with_implied(events: Iterable[ClusterEventWithHint], version: KubernetesVersion) -> list[ClusterEventWithHint]:
    """A plugin's registrations, plus those that the framework adds.

    Until 1.36, a plugin that registers for new nodes but not for taint updates also gets the latter, without a hint: a
    node may be added with a taint that is removed later.
    """
    registered = list(events)
    if version >= V1_37:
        return registered
    nodes = [r.event.action for r in registered if r.event.resource == NODE]
    if any(a & Action.Add for a in nodes) and not any(a & Action.UpdateNodeTaint for a in nodes):
        registered.append(on(NODE, Action.UpdateNodeTaint))
    return registered


#: Registrations of plugins that do not declare any.
EVERYTHING: tuple[ClusterEventWithHint, ...] = tuple(
    on(resource, Action.All)
    for resource in (
        POD,
        NODE,
        PV,
        PVC,
        CSI_NODE,
        CSI_DRIVER,
        CSI_STORAGE_CAPACITY,
        STORAGE_CLASS,
        RESOURCE_CLAIM,
        DEVICE_CLASS,
    )
)
