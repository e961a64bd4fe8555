"""The published devices of a pool, what a node sees of it, and what is allocated.

Upstream: pools_incubating.go, allocateddevices.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import field

from stowplan.kube.api.devices import Device
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.types import ResourceClaim, ResourceSlice
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import Features
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import (
    Amount,
    CounterId,
    DeviceContent,
    PooledDevice,
    PoolState,
    PoolView,
    Usage,
    content_of,
)

#: (driver, pool).
PoolId = tuple[str, str]


class SliceView(NamedTuple):
    """A slice with its device contents."""

    obj: ResourceSlice
    contents: tuple[DeviceContent, ...]
    counters: tuple[tuple[CounterId, Amount], ...]

    @property
    def generation(self) -> int:
        return self.obj.spec.pool.generation

    @property
    def has_counters(self) -> bool:
        return bool(self.obj.spec.shared_counters)


def compiled(obj: ResourceSlice, devices: Sequence[Device], features: Features) -> SliceView:
    """`devices`: the slice's, including taints from rules."""
    spec, lists, fractions = obj.spec, features.list_attributes, features.fractional_ranges
    skips = bool(spec.skip_node_operations) and features.emulated_version >= V1_37
    return SliceView(
        obj,
        tuple(
            content_of(d, spec.driver, list_attributes=lists, fractional_ranges=fractions, skips_operations=skips)
            for d in devices
        ),
        tuple(
            ((counters.name, name), parse_quantity(counter.value))
            for counters in spec.shared_counters
            for name, counter in counters.counters.items()
        ),
    )


class DeviceUse(NamedTuple):
    """A device in an allocation, or a share of it."""

    pool: PoolId
    device: str
    #: None: the device as a whole.
    share: str | None
    consumed: tuple[tuple[str, Amount], ...] = ()
    #: The claim's name, for explanations.
    claim: str = ""
    #: Counter sets with the device's groups, if it has any.
    groups: tuple[tuple[str, frozenset[str]], ...] = ()


class Pool(PlainStruct):
    """The slices and allocations of a pool."""

    slices: dict[str, SliceView] = field(default_factory=dict)
    #: The only node that reaches its devices; "": several do.
    node_name: str = ""
    #: That node's view.
    local: PoolView | None = None
    #: The views by group of nodes, for a pool that several nodes reach.
    views: list[PoolView | None] = field(default_factory=list)
    groups: Codes | None = None
    taken: dict[DeviceUse, int] = field(default_factory=dict)
    #: Cached usage of each view, until an allocation changes.
    usages: dict[PoolView, Usage] = field(default_factory=dict)

    def newest(self, generation: int) -> dict[str, tuple[DeviceContent, ...]]:
        return {name: s.contents for name, s in self.slices.items() if s.generation == generation}

    def usage(self, view: PoolView) -> Usage:
        """The allocated devices of a view, and the remaining amounts of its counters."""
        usage = self.usages.get(view)
        if usage is None:
            usage = self.usages[view] = self._usage_of(view, self.taken)
        return usage

    def unused(self, view: PoolView) -> Usage:
        """The usage if all devices were free."""
        return self._usage_of(view, ())

    def _usage_of(self, view: PoolView, all_taken: Collection[DeviceUse]) -> Usage:
        positions = view.positions
        bits = 0
        shares: dict[int, dict[str, Amount]] = {}
        for taken in all_taken:
            place = positions.get(taken.device)
            if place is None:
                continue
            if taken.share is None:
                bits |= 1 << place
            else:
                total = shares.setdefault(place, {})
                for name, amount in taken.consumed:
                    total[name] = total.get(name, 0) + amount
        shared = tuple((place, tuple(sorted(total.items()))) for place, total in sorted(shares.items()))
        return Usage(bits, shared, *self._counters(view, all_taken))

    def _counters(
        self, view: PoolView, all_taken: Collection[DeviceUse]
    ) -> tuple[tuple[tuple[CounterId, Amount], ...], tuple[tuple[str, tuple[frozenset[str], ...]], ...]]:
        """Remaining amounts, and the groups of allocated devices."""
        if not any(d.content.consumes for d in view.devices):
            return (), ()
        generation = view.devices[0].slice.spec.pool.generation
        left: dict[CounterId, Amount] = {}
        consumers: dict[str, DeviceContent] = {}
        for s in self.slices.values():
            if s.generation != generation:
                continue
            left.update(s.counters)
            consumers.update((d.name, c) for d, c in zip(s.obj.spec.devices, s.contents, strict=True) if c.consumes)
        groups: dict[str, list[frozenset[str]]] = {}
        for name, recorded in {taken.device: taken.groups for taken in all_taken}.items():
            content = consumers.get(name)
            for counter, amount in content.consumes if content is not None else ():
                left[counter] = left.get(counter, 0) - amount
            # The slice may have changed since the device was allocated.
            for counter_set, of_device in recorded or (content.groups if content is not None else ()):
                groups.setdefault(counter_set, []).append(of_device)
        there = [of_device for found in groups.values() for of_device in found]
        matter = any(there) or any(of_device for d in view.devices for _, of_device in d.content.groups)
        common = ((counter_set, tuple(sorted(found, key=sorted))) for counter_set, found in sorted(groups.items()))
        return tuple(sorted(left.items())), tuple(common) if matter else ()


def view_of(
    pool_id: PoolId,
    pool: Pool,
    relevant: list[SliceView],
    reachable: Mapping[tuple[str, int], bool],
    *,
    partitionable: bool,
    counters_have_nodes: bool,
) -> PoolView | None:
    """The view of a node for which these slices are relevant; None: nothing.

    `reachable`: for devices that define their nodes themselves, by slice and index, whether the node can use them.
    `partitionable`: whether the feature of that name is enabled. `counters_have_nodes`: whether slices of counters are
    relevant where they are published for, as others are; the devices of a node may then consume those of other slices.
    """
    driver, name = pool_id
    newest = max(s.generation for s in relevant)
    # Sorted by name first: if drivers publish contradictory slices, the result must not depend on the order of events.
    relevant = sorted((s for s in relevant if s.generation == newest), key=lambda s: s.obj.metadata.name)
    wanted = relevant[0].obj.spec.pool.resource_slice_count
    others: list[SliceView] = []
    if len(relevant) != wanted:
        if any(s.generation > newest for s in pool.slices.values()):
            # The driver is replacing the pool, and has not published anything for this node yet.
            return None
        whole = [s for s in pool.slices.values() if s.generation == newest]
        if len(whole) != wanted:
            return PoolView(driver=driver, name=name, state=PoolState.INCOMPLETE)
        seen = {s.obj.metadata.name for s in relevant}
        others = [s for s in whole if s.obj.metadata.name not in seen]
    if counters_have_nodes:
        others.sort(key=lambda s: s.obj.metadata.name)
    counting = [*relevant, *others] if counters_have_nodes else relevant
    problem = _problem_of(relevant, others, counting, partitionable=partitionable)
    if problem:
        return PoolView(driver=driver, name=name, state=PoolState.INVALID, problem=problem)
    devices = tuple(
        PooledDevice(content, device.name, device, s.obj, reachable.get((s.obj.metadata.name, i), True))
        for s in relevant
        if not (partitionable and s.has_counters)
        for i, (content, device) in enumerate(zip(s.contents, s.obj.spec.devices, strict=True))
    )
    return PoolView(driver=driver, name=name, state=PoolState.COMPLETE, devices=devices)


def _problem_of(
    relevant: list[SliceView], others: list[SliceView], counting: list[SliceView], *, partitionable: bool
) -> str:
    """Why a pool with these slices is invalid; "" if it is valid."""
    names: set[str] = set()
    for s in relevant:
        if partitionable and s.has_counters:
            continue
        for device in s.obj.spec.devices:
            if device.name in names:
                return f"duplicate device name {device.name}"
            names.add(device.name)
    if not partitionable:
        return ""
    sets: dict[str, set[str]] = {}
    for s in counting:
        for counter_set in s.obj.spec.shared_counters:
            if counter_set.name in sets:
                return f"duplicate counter set name {counter_set.name}"
            sets[counter_set.name] = set(counter_set.counters)
    for s in (*relevant, *others):
        for device in s.obj.spec.devices:
            for consumed in device.consumes_counters:
                if consumed.counter_set not in sets:
                    return f"counter set {consumed.counter_set} not found"
                for counter in consumed.counters:
                    if counter not in sets[consumed.counter_set]:
                        return f"counter {counter} not found in counter set {consumed.counter_set}"
    return ""


def taken_by(key: str, claim: ResourceClaim, *, shares: bool) -> tuple[DeviceUse, ...]:
    """The devices in a claim's allocation; those with admin access remain available to others."""
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    found = []
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        consumed = result.consumed_capacity or {}
        found.append(
            DeviceUse(
                (result.driver, result.pool),
                result.device,
                result.share_id if shares else None,
                tuple(sorted((name, parse_quantity(amount)) for name, amount in consumed.items()))
                if shares and result.share_id is not None
                else (),
                key,
                tuple((name, frozenset(groups)) for name, groups in sorted(result.compatibility_groups.items())),
            )
        )
    return tuple(found)
