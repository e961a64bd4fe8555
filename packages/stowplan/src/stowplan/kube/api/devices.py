"""ResourceSlice, DeviceClass and DeviceTaintRule (`resource.k8s.io`): devices that drivers publish."""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from typing import Any

import msgspec

from stowplan.kube.api.affinity import NodeSelector
from stowplan.kube.api.meta import ApiStruct, Int64, ObjectMeta, QuantityValue

API_VERSION = "resource.k8s.io/v1"


class ResourcePool(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class DeviceAttribute(ApiStruct, frozen=True, kw_only=True):
    """A single value: exactly one field is set."""

    int_: Int64 | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[Int64, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRequestPolicyRange(ApiStruct, frozen=True, kw_only=True):
    min: QuantityValue | None = None
    max: QuantityValue | None = None
    step: QuantityValue | None = None


class CapacityRequestPolicy(ApiStruct, frozen=True, kw_only=True):
    default: QuantityValue | None = None
    valid_values: tuple[QuantityValue, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(ApiStruct, frozen=True, kw_only=True):
    value: QuantityValue = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True, kw_only=True):
    value: QuantityValue = 0


class CounterSet(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(ApiStruct, frozen=True, kw_only=True):
    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(ApiStruct, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeAllocatableResourceMapping(ApiStruct, frozen=True, kw_only=True):
    """How much of a node's resource a device represents: a share of a capacity, or a fixed amount."""

    capacity_key: str | None = None
    allocation_multiplier: QuantityValue | None = None


class NodeAllocatableMapping(ApiStruct, frozen=True, kw_only=True):
    """The same since 1.37: a multiple of a consumed capacity, or of the number of devices."""

    capacity_key: str | None = None
    capacity_multiplier: QuantityValue | None = None
    device_multiplier: QuantityValue | None = None


class NodeAllocatableOverhead(ApiStruct, frozen=True, kw_only=True):
    """What a pod needs beside the device."""

    per_pod: QuantityValue | None = None
    per_container: QuantityValue | None = None


class NodeAllocatableResource(ApiStruct, frozen=True, kw_only=True):
    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    #: By resource; until 1.36, and since then.
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = {}
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}


class ResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(ApiStruct, frozen=True, kw_only=True):
    api_version: str = API_VERSION
    kind: str = "ResourceSlice"
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class CELDeviceSelector(ApiStruct, frozen=True, kw_only=True):
    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True, kw_only=True):
    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(ApiStruct, frozen=True, kw_only=True):
    driver: str = ""
    #: Defined by the driver.
    parameters: Any = None


class DeviceClassConfiguration(ApiStruct, frozen=True, kw_only=True):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True, kw_only=True):
    api_version: str = API_VERSION
    kind: str = "DeviceClass"
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaintSelector(ApiStruct, frozen=True, kw_only=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct, frozen=True, kw_only=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(ApiStruct, frozen=True, kw_only=True):
    api_version: str = API_VERSION
    kind: str = "DeviceTaintRule"
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
