"""The allocation that is written to a claim's status for the devices that were found.

Upstream: the second half of Allocate, and createNodeSelector, of allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import NAMESPACE_OID, uuid5

from msgspec.structs import replace

from stowplan.kube.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.kube.api.device_claims import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from stowplan.kube.api.devices import DeviceClass
from stowplan.kube.api.meta import ResourceList
from stowplan.kube.api.node_selectors import NODE_NAME_FIELD
from stowplan.kube.api.quantity import format_quantity, read_quantity
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import ClaimDemand, Features, Wanted
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import PooledDevice, PoolView, World
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import DevicePick

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


class AllocationError(Exception):
    """Devices were found, but the allocation cannot be expressed."""


def devices_in(world: World) -> list[tuple[PoolView, PooledDevice]]:
    """The devices of picks, by position."""
    return [(view, device) for view, _ in world.pools for device in view.devices]


class Allocating:
    """A claim that gets devices on a node."""

    def __init__(
        self,
        claim: ResourceClaim,
        asked: ClaimDemand,
        *,
        node_name: str,
        features: Features,
        class_named: Callable[[str], DeviceClass | None],
    ) -> None:
        self._claim = claim
        self._asked = asked
        self._node_name = node_name
        self._features = features
        self._class_named = class_named

    def allocation(self, picks: tuple[DevicePick, ...], world: World) -> AllocationResult:
        """Raises AllocationError."""
        devices = devices_in(world)
        return AllocationResult(
            devices=DeviceAllocationResult(
                results=tuple(self._result(i, pick, *devices[pick.device]) for i, pick in enumerate(picks)),
                config=self._config(picks),
            ),
            node_selector=self._node_selector([devices[pick.device][1] for pick in picks]),
        )

    def _wanted(self, pick: DevicePick) -> Wanted:
        return self._asked.requests[pick.request].alternatives[pick.alternative]

    def _result(
        self, place: int, pick: DevicePick, view: PoolView, pooled: PooledDevice
    ) -> DeviceRequestAllocationResult:
        wanted, device = self._wanted(pick), pooled.device
        shared = self._features.consumable_capacity and pooled.content.shareable
        consumed: ResourceList | None = None
        if pick.consumed is not None:
            consumed = {
                name: format_quantity(amount, read_quantity(device.capacity[name].value).format)
                for name, amount in pick.consumed
            }
        conditions = self._features.binding_conditions
        return DeviceRequestAllocationResult(
            request=wanted.full_name,
            driver=view.driver,
            pool=view.name,
            device=pooled.name,
            admin_access=wanted.admin or None,
            tolerations=wanted.tolerations,
            binding_conditions=device.binding_conditions if conditions else (),
            binding_failure_conditions=device.binding_failure_conditions if conditions else (),
            share_id=self._share_id(place) if shared else None,
            consumed_capacity=consumed,
            skip_node_operations=pooled.slice.spec.skip_node_operations
            if self._features.optional_node_operations
            else (),
            compatibility_groups=self._groups(pooled),
        )

    def _groups(self, pooled: PooledDevice) -> dict[str, tuple[str, ...]]:
        consumed = pooled.device.consumes_counters
        if not self._features.compatibility_groups or not any(one.compatibility_groups for one in consumed):
            return {}
        return {one.counter_set: one.compatibility_groups for one in consumed}

    def _share_id(self, place: int) -> str:
        """A unique ID, derived from the claim's UID, so that replays are reproducible."""
        metadata = self._claim.metadata
        whose = metadata.uid or f"{metadata.namespace}/{metadata.name}"
        return str(uuid5(NAMESPACE_OID, f"{whose}/{metadata.resource_version}/{self._node_name}/{place}"))

    def _config(self, picks: tuple[DevicePick, ...]) -> tuple[DeviceAllocationConfiguration, ...]:
        chosen = {pick.request: self._wanted(pick) for pick in picks}
        wanted = [chosen.get(i, request.alternatives[0]) for i, request in enumerate(self._asked.requests)]
        found = (*self._config_of_classes(wanted), *self._config_of_claim(wanted))
        if self._features.emulated_version < V1_37:
            return found
        return tuple(replace(c, requests=()) if all(_applies(c, one) for one in wanted) else c for c in found)

    def _config_of_classes(self, chosen: Sequence[Wanted]) -> Iterable[DeviceAllocationConfiguration]:
        by_class: dict[str, list[str]] = {}
        for wanted in chosen:
            by_class.setdefault(wanted.class_name, []).append(wanted.full_name)
        for name, requests in by_class.items():
            device_class = self._class_named(name)
            for config in device_class.spec.config if device_class is not None else ():
                yield DeviceAllocationConfiguration(source=FROM_CLASS, requests=tuple(requests), opaque=config.opaque)

    def _config_of_claim(self, chosen: Sequence[Wanted]) -> Iterable[DeviceAllocationConfiguration]:
        # Parity: until 1.36, repeated for each of its requests.
        once = self._features.emulated_version >= V1_37
        for own in self._claim.spec.devices.config:
            entry = DeviceAllocationConfiguration(source=FROM_CLAIM, requests=own.requests, opaque=own.opaque)
            times = 1 if not own.requests else sum(_applies(entry, wanted) for wanted in chosen)
            yield from [entry] * (min(times, 1) if once else times)

    def _node_selector(self, devices: list[PooledDevice]) -> NodeSelector | None:
        """The nodes on which all the devices are available; None: all."""
        terms = []
        for pooled in devices:
            spec = pooled.slice.spec
            source = pooled.device if spec.per_device_node_selection else spec
            if source.node_name or pooled.device.binds_to_node:
                here = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(self._node_name,))
                return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),))
            if source.node_selector is not None:
                terms.append(self._only_term(source.node_selector))
        if not terms:
            return None
        return NodeSelector(
            node_selector_terms=(
                NodeSelectorTerm(
                    match_expressions=_distinct(r for term in terms for r in term.match_expressions),
                    match_fields=_distinct(r for term in terms for r in term.match_fields),
                ),
            )
        )

    def _only_term(self, selector: NodeSelector) -> NodeSelectorTerm:
        count = len(selector.node_selector_terms)
        if count != 1:
            what = f"unsupported ResourceSlice.NodeSelector with {count} terms"
            raise AllocationError(f"create NodeSelector for claim {self._claim.metadata.name}: {what}")
        return selector.node_selector_terms[0]


def _applies(config: DeviceAllocationConfiguration, wanted: Wanted) -> bool:
    return wanted.parent in config.requests or wanted.full_name in config.requests


def _distinct(requirements: Iterable[NodeSelectorRequirement]) -> tuple[NodeSelectorRequirement, ...]:
    found = {(r.key, r.operator, frozenset(r.values)): r for r in reversed(list(requirements))}
    return tuple(reversed(found.values()))
