"""Devices and pools as seen by the search.

Whether a device satisfies a request depends on its content, not on its name: devices that are equal except for the name
share a `DeviceContent` and all results for it. A `PoolView` is the part of a pool that one node can reach; views with
equal contents share a `ViewKind`, so nodes with equal hardware share results.

Upstream: pools_incubating.go and consumable_capacity.go of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from stowplan.kube.api import devices as api
from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.quantity import NANO, parse_quantity
from stowplan.kube.api.taints import DO_NOT_SCHEDULE_EFFECTS
from stowplan.kube.cel.device_selectors import Device as SelectedDevice
from stowplan.kube.cel.device_selectors import Version

#: In units of 10^-9, like quantities.
Amount = int
#: Counter set, counter.
CounterId = tuple[str, str]

#: The value of an attribute for constraints: a set of typed values, with one element for a scalar. Empty for unknown
#: types.
Values = frozenset[tuple[type[Any], Any]]


class CapacityPolicy(NamedTuple):
    """How requests for a capacity are rounded, and which are rejected."""

    default: Amount | None
    valid_values: tuple[Amount, ...]
    has_range: bool
    least: Amount | None = None
    most: Amount | None = None
    step: Amount | None = None
    #: What the amounts of the range are counted in: whole ones, or thousandths.
    unit: Amount = NANO


class DeviceCapacity(NamedTuple):
    value: Amount
    policy: CapacityPolicy | None


class DeviceContent:
    """The content of a device without its name; one object per distinct content, compared by identity.

    Derived values are computed on demand: for most devices of a large cluster they are never needed.
    """

    def __init__(
        self,
        device: api.Device,
        driver: str,
        *,
        list_attributes: bool,
        fractional_ranges: bool,
        skips_operations: bool = False,
    ) -> None:
        self.driver = driver
        #: Whether its node need not call the driver.
        self.skips_operations = skips_operations
        self._device = device
        self._list_attributes, self._fractional_ranges = list_attributes, fractional_ranges
        #: Whether it has binding conditions.
        self.conditional = bool(device.binding_conditions)
        self.shareable = bool(device.allow_multiple_allocations)
        self._values: dict[str, Values | None] = {}

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        lists = self._list_attributes
        return {name: attribute_value(value, lists) for name, value in self._device.attributes.items()}

    @cached_property
    def capacities(self) -> Mapping[str, DeviceCapacity]:
        return {
            name: DeviceCapacity(parse_quantity(c.value), _policy(c.request_policy, self._fractional_ranges))
            for name, c in self._device.capacity.items()
        }

    @cached_property
    def selected(self) -> SelectedDevice:
        """The input of selectors."""
        return SelectedDevice(
            driver=self.driver,
            # Expressions decide whether they can use lists.
            attributes={name: attribute_value(value, True) for name, value in self._device.attributes.items()},
            capacity={name: c.value for name, c in self.capacities.items()},
            allow_multiple_allocations=self.shareable,
        )

    @cached_property
    def consumes(self) -> tuple[tuple[CounterId, Amount], ...]:
        return tuple(
            sorted(
                ((consumption.counter_set, name), parse_quantity(counter.value))
                for consumption in self._device.consumes_counters
                for name, counter in consumption.counters.items()
            )
        )

    @cached_property
    def groups(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Counter sets, with the groups of devices that it is compatible with there."""
        consumed = self._device.consumes_counters
        return tuple((one.counter_set, frozenset(one.compatibility_groups)) for one in consumed)

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """Taints that prevent scheduling."""
        return tuple(
            Taint(key=t.key, value=t.value, effect=t.effect)
            for t in self._device.taints
            if t.effect in DO_NOT_SCHEDULE_EFFECTS
        )

    @cached_property
    def mappings(self) -> tuple[Any, ...]:
        """The node-allocatable resources that the device maps to."""
        mapped = self._device.node_allocatable_resource_mappings
        return tuple(sorted((name, m.capacity_key, m.allocation_multiplier) for name, m in mapped.items()))

    def values(self, name: str) -> Values | None:
        """The value of a fully qualified attribute for constraints; None: the device lacks it."""
        if name not in self._values:
            self._values[name] = self._look_up(name)
        return self._values[name]

    def _look_up(self, name: str) -> Values | None:
        domain, slash, identifier = name.partition("/")
        # Only the driver's own attributes may omit the domain.
        for key in (name, identifier) if slash and domain == self.driver else (name,):
            if key in self.attributes:
                return typed_values(self.attributes[key])
        return None


class PooledDevice(NamedTuple):
    """A device in a view."""

    content: DeviceContent
    name: str
    device: api.Device
    slice: api.ResourceSlice
    #: Whether the node can use it: slices may define that per device.
    reachable: bool


class PoolState(Enum):
    COMPLETE = "complete"
    #: The driver is still publishing it.
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


class ViewKind:
    """What a search can observe of a view except for names; one object per distinct kind, compared by identity."""

    __slots__ = ("__weakref__", "devices")

    def __init__(self, devices: tuple[tuple[DeviceContent, bool], ...]) -> None:
        #: Each with whether the node can use it.
        self.devices = devices


class PoolView:
    """The part of a pool that a node sees."""

    def __init__(
        self,
        *,
        driver: str,
        name: str,
        state: PoolState,
        devices: tuple[PooledDevice, ...] = (),
        problem: str = "",
    ) -> None:
        self.driver = driver
        self.name = name
        self.state = state
        #: In the order in which they are tried; empty unless the pool is complete.
        self.devices = devices
        #: Why the pool is invalid.
        self.problem = problem
        #: Pools with binding conditions are tried last.
        self.last = any(d.content.conditional for d in devices)
        self.order = (self.last, driver, name)

    @cached_property
    def kind(self) -> ViewKind:
        devices = tuple((d.content, d.reachable) for d in self.devices)
        key = self.driver, self.state, devices
        found = _kinds.get(key)
        if found is None:
            found = _kinds[key] = ViewKind(devices)
        return found

    @cached_property
    def positions(self) -> dict[str, int]:
        """Device name -> its index in `devices`."""
        return {d.name: i for i, d in enumerate(self.devices)}


class Usage(NamedTuple):
    """Allocated and shared devices of a view."""

    #: A bit per device that is allocated as a whole.
    taken: int = 0
    #: Device -> consumed capacities by name, for devices with an allocated share, even of nothing.
    shares: tuple[tuple[int, tuple[tuple[str, Amount], ...]], ...] = ()
    #: Remaining amounts of the pool's counters, by ID; negative if drivers overcommit them.
    counters: tuple[tuple[CounterId, Amount], ...] = ()
    #: Counter sets with the groups of each of the pool's devices that is allocated, where one has any.
    groups: tuple[tuple[str, tuple[frozenset[str], ...]], ...] = ()


class World(NamedTuple):
    """Everything that the search considers on one node, in order."""

    pools: tuple[tuple[PoolView, Usage], ...]


#: By published content.
_contents: WeakValueDictionary[tuple[str, bool, bool, bool, bytes], DeviceContent] = WeakValueDictionary()
_kinds: WeakValueDictionary[tuple[Any, ...], ViewKind] = WeakValueDictionary()

_encode = msgspec.msgpack.Encoder().encode
_replace = msgspec.structs.replace


def content_of(
    device: api.Device,
    driver: str,
    *,
    list_attributes: bool = False,
    fractional_ranges: bool = False,
    skips_operations: bool = False,
) -> DeviceContent:
    """The shared content object of a device."""
    # The time at which a device was tainted does not matter.
    taints = tuple(_replace(taint, time_added=None) for taint in device.taints) if device.taints else ()
    flags = list_attributes, fractional_ranges, skips_operations
    key = driver, *flags, _encode(_replace(device, name="", taints=taints))
    found = _contents.get(key)
    if found is None:
        found = _contents[key] = DeviceContent(
            device,
            driver,
            list_attributes=list_attributes,
            fractional_ranges=fractional_ranges,
            skips_operations=skips_operations,
        )
    return found


def attribute_value(attribute: api.DeviceAttribute, list_attributes: bool) -> Any:
    """None for unknown types."""
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        return Version(attribute.version)
    if not list_attributes:
        return None
    for values in (attribute.ints, attribute.bools, attribute.strings):
        if values is not None:
            return tuple(values)
    return None if attribute.versions is None else tuple(Version(text) for text in attribute.versions)


def typed_values(found: Any) -> Values:
    """An attribute's value, for constraints; None: of an unknown type."""
    if found is None:
        return frozenset()
    values = found if isinstance(found, tuple) else (found,)
    return frozenset((type(value), _plain(value)) for value in values)


def _plain(value: Any) -> Any:
    # Parity: constraints compare versions as strings.
    return value.text if isinstance(value, Version) else value


def _policy(policy: api.CapacityRequestPolicy | None, fractional_ranges: bool) -> CapacityPolicy | None:
    if policy is None:
        return None
    spread = policy.valid_range
    bounds = () if spread is None else (spread.min, spread.max, spread.step)
    is_fractional = fractional_ranges and any((_amount(bound) or 0) % NANO for bound in bounds)
    return CapacityPolicy(
        default=_amount(policy.default),
        valid_values=tuple(parse_quantity(v) for v in policy.valid_values),
        has_range=spread is not None,
        least=None if spread is None else _amount(spread.min),
        most=None if spread is None else _amount(spread.max),
        step=None if spread is None else _amount(spread.step),
        unit=NANO // 1000 if is_fractional else NANO,
    )


def _amount(value: Any) -> Amount | None:
    return None if value is None else parse_quantity(value)


# -- consumed capacities ---------------------------------------------------------------------------------------------


def consumption(wanted: Mapping[str, Amount], capacities: Mapping[str, DeviceCapacity]) -> dict[str, Amount] | None:
    """The consumed amount of every capacity of a device; None: the device cannot satisfy the request."""
    if any(name not in capacities for name in wanted):
        return None
    found = {}
    for name, capacity in capacities.items():
        need = _need(wanted.get(name), capacity)
        if capacity.policy is not None and _violates(need, capacity.policy):
            return None
        found[name] = need
    return found


def _need(wanted: Amount | None, capacity: DeviceCapacity) -> Amount:
    policy = capacity.policy
    if wanted is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.least is not None:
        return _rounded_up(wanted, policy.least, policy.step, policy.unit)
    return next((value for value in policy.valid_values if value >= wanted), wanted)


def _rounded_up(wanted: Amount, least: Amount, step: Amount | None, unit: Amount) -> Amount:
    if wanted < least:
        return least
    if not step:
        return wanted
    # Parity: steps are counted in these units, in which all bounds are rounded up.
    low, width = _units(least, unit), _units(step, unit)
    return (low + -(-(_units(wanted, unit) - low) // width) * width) * unit


def _violates(need: Amount, policy: CapacityPolicy) -> bool:
    if policy.default is not None and need == policy.default:
        return False
    if policy.has_range:
        if policy.most is not None and need > policy.most:
            return True
        if not policy.step:
            return False
        beyond = _units(need, policy.unit) - _units(policy.least or 0, policy.unit)
        return beyond % _units(policy.step, policy.unit) != 0
    return bool(policy.valid_values) and need not in policy.valid_values


def _units(amount: Amount, unit: Amount) -> int:
    """Rounded up like Quantity.Value and MilliValue."""
    return -(-amount // unit)
