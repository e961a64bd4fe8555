"""Compiled claims, without names of objects except for those that results need.

Upstream: validateDeviceRequest of allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stowplan.kube.api.affinity import Toleration
from stowplan.kube.api.device_claims import ALL, EXACT_COUNT, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from stowplan.kube.api.devices import DeviceClass, DeviceSelector
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, V1_37, KubernetesVersion
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import Amount

#: Maximum devices per claim; requests per claim; alternatives per request.
MAX_DEVICES, MAX_REQUESTS, MAX_ALTERNATIVES = 32, 32, 8


class Features(NamedTuple):
    """The version and the feature gates that affect the allocator."""

    emulated_version: KubernetesVersion = DEFAULT_VERSION
    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_taint_rules: bool = False
    consumable_capacity: bool = True
    binding_conditions: bool = True
    list_attributes: bool = False
    #: Whether ranges of capacities can have fractions (DRAFractionalCapacityRange).
    fractional_ranges: bool = False
    extended_resources: bool = True
    #: Whether pods of a group on trial share pending allocations (GenericWorkload).
    group_sharing: bool = False
    #: Whether claims can be reserved for a group (DRAWorkloadResourceClaims).
    group_claims: bool = False
    #: Whether devices can map to resources of their node (DRANodeAllocatableResources).
    node_allocatable: bool = False
    #: Whether requests can define attributes (DRADerivedAttributes).
    derived_attributes: bool = False
    #: Whether devices on a counter set have to be compatible (DRADeviceCompatibilityGroups).
    compatibility_groups: bool = False
    #: Whether drivers can do without the kubelet's calls (DRAOptionalNodeOperations).
    optional_node_operations: bool = False

    @property
    def lists_in_selectors(self) -> bool:
        """Whether expressions can use attributes that are lists; since 1.37, constraints alone need the gate."""
        return self.list_attributes or self.emulated_version >= V1_37

    @property
    def knows_distinct(self) -> bool:
        """Parity: without either gate, the reference uses an allocator that does not support `distinctAttribute`."""
        return self.consumable_capacity or self.binding_conditions


class Selector(NamedTuple):
    """A CEL expression, and the prefix of its errors."""

    expression: str
    #: The class that it belongs to; "" for the claim.
    class_name: str
    number: int


class DerivedAttribute(NamedTuple):
    """An attribute that a request computes for each of its devices."""

    name: str
    expression: Selector


class Wanted(NamedTuple):
    """A request, or one alternative of a request."""

    #: Of the request, or of the alternative alone.
    name: str
    #: The name in results: `request`, or `request/alternative`.
    full_name: str
    parent: str
    class_name: str
    selectors: tuple[Selector, ...]
    everything: bool
    amount: int
    admin: bool
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, Amount], ...]
    derived: tuple[DerivedAttribute, ...] = ()


class RequestDemand(NamedTuple):
    #: A single one for an exact request.
    alternatives: tuple[Wanted, ...]
    prioritized: bool


class AttributeConstraint(NamedTuple):
    #: Names of requests and of `request/alternative`; empty: all.
    requests: frozenset[str]
    attribute: str
    #: Whether values must be distinct, rather than equal.
    distinct: bool

    def concerns(self, wanted: Wanted) -> bool:
        return not self.requests or wanted.parent in self.requests or wanted.full_name in self.requests


class ClaimDemand(NamedTuple):
    requests: tuple[RequestDemand, ...]
    constraints: tuple[AttributeConstraint, ...]


class ClaimProblem(ValueError):
    """A claim that cannot be allocated on any node; its text is the attempt's error."""


class _Compiler:
    def __init__(
        self, claim: ResourceClaim, features: Features, class_named: Callable[[str], DeviceClass | None]
    ) -> None:
        self._claim = claim
        self._features = features
        self._class_named = class_named
        self._title = f"claim {claim.metadata.namespace}/{claim.metadata.name}"

    def compiled(self) -> ClaimDemand:
        devices = self._claim.spec.devices
        requests = []
        for request in devices.requests:
            if request.first_available and not self._features.prioritized_list:
                raise self._problem(request.name, "has subrequests, but the DRAPrioritizedList feature is disabled")
            if not self._features.consumable_capacity:
                self._refuse_capacity(request.name, request.exactly, request.first_available)
            alternatives: tuple[ExactDeviceRequest | DeviceSubRequest | None, ...] = request.first_available or (
                request.exactly,
            )
            requests.append(
                RequestDemand(tuple(self._wanted(request.name, a) for a in alternatives), bool(request.first_available))
            )
        constraints = []
        for i, constraint in enumerate(devices.constraints):
            attribute = constraint.match_attribute or constraint.distinct_attribute
            distinct = constraint.match_attribute is None
            if attribute is None or (distinct and not self._features.knows_distinct):
                text = "empty constraint (unsupported constraint type?)"
                raise ClaimProblem(f"{self._title}, constraint #{i}: {text}")
            constraints.append(AttributeConstraint(frozenset(constraint.requests), attribute, distinct))
        return ClaimDemand(tuple(requests), tuple(constraints))

    def _problem(self, request: str, text: str) -> ClaimProblem:
        return ClaimProblem(f"{self._title}, request {request}: {text}")

    def _refuse_capacity(
        self, name: str, exact: ExactDeviceRequest | None, alternatives: tuple[DeviceSubRequest, ...]
    ) -> None:
        text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if exact is not None and exact.capacity is not None:
            raise self._problem(name, text)
        for alternative in alternatives:
            if alternative.capacity is not None:
                raise ClaimProblem(f"{self._title}, subrequest {alternative.name}: {text}")

    def _wanted(self, parent: str, asked: ExactDeviceRequest | DeviceSubRequest | None) -> Wanted:
        alternative = asked.name if isinstance(asked, DeviceSubRequest) else ""
        name = alternative or parent
        if asked is None or not asked.device_class_name:
            raise self._problem(name, "missing device class name (unsupported request type?)")
        for i, selector in enumerate(asked.selectors):
            if selector.cel is None:
                raise self._problem(name, f"selector #{i}: CEL expression empty (unsupported selector type?)")
        admin = None if isinstance(asked, DeviceSubRequest) else asked.admin_access
        if admin is not None and not self._features.admin_access:
            raise self._problem(name, "admin access is requested, but the feature is disabled")
        device_class = self._class_named(asked.device_class_name)
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{asked.device_class_name}" not found'
            raise self._problem(name, f"could not retrieve device class {asked.device_class_name}: {missing}")
        if asked.allocation_mode not in (EXACT_COUNT, ALL):
            raise self._problem(name, f"unsupported count mode {asked.allocation_mode}")
        wanted = asked.capacity.requests if asked.capacity is not None else {}
        return Wanted(
            name=name,
            full_name=f"{parent}/{alternative}" if alternative else parent,
            parent=parent,
            class_name=asked.device_class_name,
            selectors=(
                *_selectors(device_class.spec.selectors, asked.device_class_name),
                *_selectors(asked.selectors, ""),
            ),
            everything=asked.allocation_mode == ALL,
            amount=1 if asked.count is None else asked.count,
            admin=bool(admin),
            tolerations=asked.tolerations,
            capacity=tuple(sorted((name, parse_quantity(amount)) for name, amount in wanted.items())),
            derived=tuple(
                DerivedAttribute(derived.name, Selector(derived.expression, "", i))
                for i, derived in enumerate(asked.derived_attributes if self._features.derived_attributes else ())
            ),
        )


def compile_claim(
    claim: ResourceClaim, features: Features, class_named: Callable[[str], DeviceClass | None]
) -> ClaimDemand:
    """Compile the claim; raises ClaimProblem."""
    return _Compiler(claim, features, class_named).compiled()


def _selectors(selectors: tuple[DeviceSelector, ...], class_name: str) -> tuple[Selector, ...]:
    return tuple(
        Selector(selector.cel.expression if selector.cel is not None else "", class_name, i)
        for i, selector in enumerate(selectors)
    )
