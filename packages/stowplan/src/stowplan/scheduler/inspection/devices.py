"""Which devices each node reaches, who holds them, and which of the others cannot be had.

Counts are made once for all nodes whose devices look alike, so that they are cheap on large clusters; single devices
are listed for one node at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from stowplan.kube.api.types import ResourceClaim
from stowplan.kube.config import FeatureGates
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import PooledDevice, PoolView, Usage
from stowplan.scheduler.in_tree.dynamic_resources.inventory import Inventory
from stowplan.scheduler.in_tree.dynamic_resources.plugin import features_of
from stowplan.scheduler.inspection.records import Record

#: shared: others may have shares of it, too; blocked: its counters are used up by other parts of the same device.
DeviceStatus = Literal["free", "held", "shared", "blocked"]


class DeviceRecord(Record, frozen=True, kw_only=True):
    driver: str
    pool: str
    name: str
    status: DeviceStatus
    #: Whether it is a part of a device that can be divided.
    part: bool = False
    #: Those that keep pods off, as key=value:effect.
    taints: tuple[str, ...] = ()
    #: Claims and pods, namespace/name.
    claims: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


class NodeDevicesRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "NodeDevices"
    node: str
    devices: tuple[DeviceRecord, ...]


class DeviceCountRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    driver: str
    devices: int
    #: As a whole or in part.
    held: int
    #: Neither held nor to be had: tainted or blocked.
    unusable: int


class DevicesRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Devices"
    #: Of the nodes that reach any.
    nodes: dict[str, tuple[DeviceCountRecord, ...]]
    #: Pod -> driver -> number of devices that it holds. One that several pods hold counts in equal parts.
    pods: dict[str, dict[str, float]]


class Devices:
    """Follows the slices and claims of one cluster."""

    def __init__(self, state: ClusterState, gates: FeatureGates) -> None:
        self.state = state
        self._inventory = Inventory(state, features_of(gates))
        self._held: dict[str, dict[str, float]] = {}
        self._held_as_of: int | None = None

    def counts(self) -> DevicesRecord:
        inventory, table = self._inventory, self.state.table
        inventory.refresh()
        # Nodes with the same code have equal devices.
        known: dict[int, tuple[DeviceCountRecord, ...]] = {}
        found = {}
        for row, code in enumerate(inventory.codes[: table.n].tolist()):
            if code not in known:
                known[code] = tuple(_counts(inventory.world(row).pools))
            if known[code]:
                found[table.names[row]] = known[code]
        return DevicesRecord(nodes=found, pods=self._held_by_pods())

    def _held_by_pods(self) -> dict[str, dict[str, float]]:
        # Visits every allocated device, so only if claims have changed.
        position = self.state.objects.changes(ResourceClaim).position
        if position != self._held_as_of:
            self._held, self._held_as_of = {}, position
            for (driver, _), pool in self._inventory.pools.items():
                holders: dict[str, dict[str, None]] = {}
                for taken in pool.taken:
                    holders.setdefault(taken.device, {}).update(dict.fromkeys(self._pods_of(taken.claim)))
                for pods in holders.values():
                    for pod in pods:
                        of_pod = self._held.setdefault(pod, {})
                        of_pod[driver] = of_pod.get(driver, 0) + 1 / len(pods)
        return self._held

    def on(self, node: str) -> NodeDevicesRecord:
        """Raises KeyError for an unknown node."""
        self._inventory.refresh()
        pools = self._inventory.world(self.state.table.row_of[node]).pools
        return NodeDevicesRecord(node=node, devices=tuple(self._record(*one) for one in _devices(pools)))

    def _record(self, view: PoolView, one: PooledDevice, status: DeviceStatus) -> DeviceRecord:
        claims = self._inventory.holders((view.driver, view.name), one.name)
        return DeviceRecord(
            driver=view.driver,
            pool=view.name,
            name=one.name,
            status=status,
            part=bool(one.content.consumes),
            taints=tuple(
                f"{taint.key}{taint.value and f'={taint.value}'}:{taint.effect}" for taint in one.content.taints
            ),
            claims=tuple(claims),
            pods=tuple(dict.fromkeys(pod for claim in claims for pod in self._pods_of(claim))),
        )

    def _pods_of(self, key: str) -> Iterator[str]:
        claim = self.state.in_flight.newest(ResourceClaim, key)
        if claim is not None:
            pods = (user.name for user in claim.status.reserved_for if user.resource == "pods")
            yield from (f"{claim.metadata.namespace}/{name}" for name in pods)


def _counts(pools: tuple[tuple[PoolView, Usage], ...]) -> Iterator[DeviceCountRecord]:
    of_driver: dict[str, list[tuple[PooledDevice, DeviceStatus]]] = {}
    for view, one, status in _devices(pools):
        of_driver.setdefault(view.driver, []).append((one, status))
    for driver, devices in sorted(of_driver.items()):
        held = sum(status in ("held", "shared") for _, status in devices)
        unusable = sum(
            status == "blocked" or (status == "free" and bool(one.content.taints)) for one, status in devices
        )
        yield DeviceCountRecord(driver=driver, devices=len(devices), held=held, unusable=unusable)


def _devices(pools: tuple[tuple[PoolView, Usage], ...]) -> Iterator[tuple[PoolView, PooledDevice, DeviceStatus]]:
    for view, usage in pools:
        shared, left = {position for position, _ in usage.shares}, dict(usage.counters)
        for position, one in enumerate(view.devices):
            if not one.reachable:
                continue
            status: DeviceStatus = "free"
            if usage.taken >> position & 1:
                status = "held"
            elif position in shared:
                status = "shared"
            elif any(left.get(counter, 0) < amount for counter, amount in one.content.consumes):
                status = "blocked"
            yield view, one, status
