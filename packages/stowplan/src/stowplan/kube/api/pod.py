"""Pod: spec and status."""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

import msgspec

from stowplan.kube.api.affinity import Affinity, Toleration, TopologySpreadConstraint
from stowplan.kube.api.meta import ApiStruct, Int32, Int64, ObjectMeta, QuantityValue, ResourceList
from stowplan.kube.api.volumes import Volume

#: The default of `schedulerName`.
DEFAULT_SCHEDULER_NAME = "default-scheduler"
#: Terminal phases.
FINISHED = ("Succeeded", "Failed")
#: Annotation: of two pods of a set, the one with the lower number is deleted first.
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
#: Annotations of static pods, and of pods that the descheduler may always evict, or should not.
MIRROR, CONFIG_SOURCE = "kubernetes.io/config.mirror", "kubernetes.io/config.source"
EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


class ContainerPort(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    host_port: Int32 = 0
    container_port: Int32 = 0
    protocol: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")


class ContainerResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """An entry of `resources.claims`; Kubernetes calls the type ResourceClaim, too."""

    name: str = ""
    request: str = ""


class ResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class ContainerRestartRuleOnExitCodes(ApiStruct, frozen=True, kw_only=True):
    operator: str = ""
    values: tuple[Int32, ...] = ()


class ContainerRestartRule(ApiStruct, frozen=True, kw_only=True):
    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class ContainerResizePolicy(ApiStruct, frozen=True, kw_only=True):
    resource_name: str = ""
    restart_policy: str = ""


class SeccompProfile(ApiStruct, frozen=True, kw_only=True):
    type: str = ""
    localhost_profile: str = ""


class SecurityContext(ApiStruct, frozen=True, kw_only=True):
    """Of a pod or a container: the part that plugins read."""

    seccomp_profile: SeccompProfile | None = None


class VolumeMount(ApiStruct, frozen=True, kw_only=True):
    #: Since 1.37.
    bind_mount_options: tuple[str, ...] = ()


class Container(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    #: "Always" on an init container makes it a sidecar.
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()


class PodSchedulingGate(ApiStruct, frozen=True, kw_only=True):
    name: str = ""


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(ApiStruct, frozen=True, kw_only=True):
    pod_group_name: str | None = None


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    runtime_class_name: str = ""
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    restart_policy: str = ""
    host_network: bool = False
    host_users: bool | None = None
    security_context: SecurityContext | None = None
    termination_grace_period_seconds: Int64 | None = None


class PodCondition(ApiStruct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: Int64 = 0


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(ApiStruct, frozen=True, kw_only=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableMappedResources(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    quantity: QuantityValue | None = None


class NodeAllocatableOverheadResources(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    per_pod: QuantityValue | None = None
    per_container: QuantityValue | None = None


class NodeAllocatableResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    #: Until 1.36.
    resources: ResourceList = {}
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()


class PodStatus(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: Int64 = 0
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


#: terminationGracePeriodSeconds of a pod that has none.
_GRACE_SECONDS = 30


def grace_period_of(pod: Pod) -> int:
    given = pod.spec.termination_grace_period_seconds
    return _GRACE_SECONDS if given is None else given


# Image names, normalized to the form used in a node's image list.


def normalized_image_name(name: str) -> str:
    """Append `:latest` to a name without tag or digest; nothing else is normalized.

    A colon before the last slash belongs to a registry port, not to a tag.
    """
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


# Host ports of a pod, normalized so that equal tuples conflict.
#
# Upstream: GetHostPorts in pkg/scheduler/util, HostPortInfo in k8s.io/kube-scheduler/framework.

HostPort = tuple[str, str, int]

#: The one address that conflicts with all others; `::` is an ordinary address.
ANY_ADDRESS = "0.0.0.0"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """(ip, protocol, port) of each host port: sidecars first, then containers.

    Ordinary init containers are excluded: they have ended when the containers run.
    """
    spec = pod.spec
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    return tuple(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )
