"""Workload and PodGroup (`scheduling.k8s.io`)."""

from stowplan.kube.api.meta import ApiStruct, Int32, Int64, ObjectMeta


class BasicSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """Pods of the group are tried together, and scheduled individually."""


class GangSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """At least this many pods of the group are scheduled, or none."""

    min_count: Int32 = 0


class PodGroupSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(ApiStruct, frozen=True, kw_only=True):
    #: The node label whose value must be equal for all nodes of the group's pods.
    key: str = ""


class PodGroupSchedulingConstraints(ApiStruct, frozen=True, kw_only=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority: Int32 | None = None


class PodGroupCondition(ApiStruct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 | None = None


class PodGroupResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    conditions: tuple[PodGroupCondition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "scheduling.k8s.io/v1alpha2"
    kind: str = "PodGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
