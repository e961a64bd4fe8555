"""Controllers that own pods; default spreading reads their selectors.

A Service or ReplicationController selects by a plain label map, where None differs from empty.
"""

from typing import Any

from stowplan.kube.api.meta import ApiStruct, Int32, Int64, LabelSelector, ObjectMeta
from stowplan.kube.api.pod import PodResourceClaim, PodResourceClaimStatus
from stowplan.kube.api.volumes import PersistentVolumeClaimTemplate


class ServiceSpec(ApiStruct, frozen=True, kw_only=True):
    selector: dict[str, str] | None = None


class Service(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Service"
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: Int32 | None = None
    selector: dict[str, str] | None = None


class ReplicationController(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "ReplicationController"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ReplicaSetSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class ReplicaSet(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetOrdinals(ApiStruct, frozen=True, kw_only=True):
    start: Int32 = 0


class StatefulSetSpec(ApiStruct, frozen=True, kw_only=True):
    replicas: Int32 | None = None
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    selector: LabelSelector | None = None
    pod_management_policy: str = "OrderedReady"
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()


class StatefulSet(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "apps/v1"
    kind: str = "StatefulSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


# Workload and PodGroup (`scheduling.k8s.io`).


class BasicSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """Pods of the group are tried together, and scheduled individually."""


class GangSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """At least this many pods of the group are scheduled, or none."""

    min_count: Int32 = 0


class CompositeGangSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """At least this many groups of the composite one are scheduled, or none."""

    min_group_count: Int32 = 0


class CompositeSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    basic: BasicSchedulingPolicy | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class PodGroupSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(ApiStruct, frozen=True, kw_only=True):
    #: The node label whose value must be equal for all nodes of the group's pods.
    key: str = ""


class PodGroupSchedulingConstraints(ApiStruct, frozen=True, kw_only=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    #: An object with the key `single` or `all`; in v1alpha2, `Pod` or `PodGroup`.
    disruption_mode: dict[str, Any] | str | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None
    #: Since 1.37, in the group's namespace.
    parent_composite_pod_group_name: str | None = None

    @property
    def disrupted_as_a_whole(self) -> bool:
        """Whether its pods are only evicted together."""
        mode = self.disruption_mode
        return mode == "PodGroup" if isinstance(mode, str) else mode is not None and "all" in mode


class CompositePodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    scheduling_policy: CompositeSchedulingPolicy = CompositeSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: dict[str, Any] | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None

    @property
    def disrupted_as_a_whole(self) -> bool:
        """Whether the pods of its tree are only evicted together."""
        return self.disruption_mode is not None and "all" in self.disruption_mode


class PodGroupCondition(ApiStruct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 | None = None


class PodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    conditions: tuple[PodGroupCondition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "scheduling.k8s.io/v1beta1"
    kind: str = "PodGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class CompositePodGroup(ApiStruct, frozen=True, kw_only=True):
    """Its status stays empty."""

    api_version: str = "scheduling.k8s.io/v1alpha3"
    kind: str = "CompositePodGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: CompositePodGroupSpec = CompositePodGroupSpec()
