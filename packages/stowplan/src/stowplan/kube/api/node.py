"""Node and Namespace."""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.meta import ApiStruct, Int64, ObjectMeta, ResourceList


class NodePodPreemptionPolicy(ApiStruct, frozen=True, kw_only=True):
    #: Who has disabled preemption for pods that are resized on the node.
    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(ApiStruct, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    #: Since 1.37.
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class NodeCondition(ApiStruct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""


class ContainerImage(ApiStruct, frozen=True, kw_only=True):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(ApiStruct, frozen=True, kw_only=True):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(ApiStruct, frozen=True, kw_only=True):
    phase: str = ""


class Namespace(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Namespace"
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()
