"""The nodes over time: their group and zone, resources and cost, and how they are added and removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec.structs import replace

from stowplan.ask.loading.price_list import CAPACITY_TYPE, INSTANCE_TYPE
from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.decode import DecodeError, convert, validation_errors
from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.node import NodeCondition
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node
from stowplan.scheduler.framework.requests import Create, Delete, Update
from stowplan_cluster.reconcile.cluster_autoscaler import node_amounts
from stowplan_cluster.reconcile.nodes import MONITORED, READY, UNKNOWN, with_taints
from stowplan_lab.simulation.definition.scenario_fields import ZONE, GroupSpec, NodesSpec
from stowplan_lab.simulation.results.ledger import Bill
from stowplan_lab.simulation.scenario_errors import Problems, ScenarioError
from stowplan_lab.simulation.simulation_context import SimulationContext

HOSTNAME = "kubernetes.io/hostname"
#: The group of nodes without a group.
OTHERS = "others"
_HOUR = 3600.0
_PODS = "110"
#: Why pods are deleted along with their node.
LOST = "lost with its node"


class Group:
    """The current definition of identical nodes."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.price = spec.price
        self.names: dict[str, None] = {}
        #: Zone -> how many of them are there.
        self.in_zones: Counter[str] = Counter()
        #: Names are never reused.
        self.made = 0
        self.template = _template(spec)

    def make(self, zone: str) -> Node:
        """Create the next node of this group."""
        self.made += 1
        return self.named(f"{self.name}-{self.made}", zone)

    def named(self, name: str, zone: str) -> Node:
        labels = {HOSTNAME: name, **({ZONE: zone} if zone else {}), **self.template.metadata.labels}
        return replace(self.template, metadata=replace(self.template.metadata, name=name, uid=name, labels=labels))

    def next_zone(self, out: Set[str], coming: Counter[str] | None = None) -> str:
        """Where the fewest of its nodes are; "" if it has no zones, or none that is not `out`."""
        counts = self.in_zones if not coming else self.in_zones + coming
        open_zones = [zone for zone in self.spec.zones if zone not in out]
        return min(open_zones, key=lambda zone: (counts[zone], self.spec.zones.index(zone)), default="")


def _template(spec: GroupSpec) -> Node:
    capacity = {"pods": _PODS, **spec.capacity}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": {INSTANCE_TYPE: spec.name, **spec.labels}},
        "spec": {"taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in spec.taints]},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    try:
        found = convert(node, Node)
        problems: Sequence[DecodeError] = validation_errors(found)
    except DecodeError as error:
        problems = [error]
    if problems:
        raise ScenarioError(*(f"cluster.groups: {spec.name}: {problem}" for problem in problems))
    return found


class Fleet:
    """A `simulate.cluster.Watcher`."""

    def __init__(self, context: SimulationContext, groups: Sequence[GroupSpec]) -> None:
        self._context = context
        self.groups: dict[str, Group] = {}
        problems = Problems()
        for spec in groups:
            with problems.collected():
                self.groups[spec.name] = Group(spec)
        problems.raise_any()
        #: Node -> its group.
        self.group_of: dict[str, str] = {}
        #: Existing nodes, in the order in which they were added.
        self.nodes: dict[str, Node] = {}
        #: Zones with an outage.
        self.zones_out: set[str] = set()
        #: Group -> nodes that are temporarily removed, and will be returned by the remover.
        self.away: Counter[str] = Counter()
        #: Removed nodes with pods on them.
        self.why_removed: dict[str, str] = {}
        self.most = 0
        self._since = context.now
        self._allocatable: Counter[str] = Counter()
        #: Resource -> amount × seconds of nodes.
        self.seconds: Counter[str] = Counter()
        self.node_seconds = 0.0
        #: Group -> cost so far, and the cost of a node that is there from the start.
        self.costs: Counter[str] = Counter()
        self._cost_of_node: Counter[str] = Counter()

    # -- changes ------------------------------------------------------------------------------------------------------

    def changed(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        if type(new if old is None else old) is not Node:
            return
        self.account()
        if old is not None:
            self._count(old, -1)
        if new is None:
            del self.nodes[old.metadata.name]
            if (group := self._group(old)) is not None:
                del group.names[old.metadata.name]
        else:
            self._count(new, 1)
            # One that has changed keeps its place.
            self.nodes[new.metadata.name] = new
            if (group := self._group(new)) is not None:
                group.names[new.metadata.name] = None
            self.most = max(self.most, len(self.nodes))

    def _count(self, node: Node, sign: int) -> None:
        for resource, amount in node_amounts(node).items():
            self._allocatable[resource] += sign * amount
        group = self._group(node)
        if group is not None:
            group.in_zones[node.metadata.labels.get(ZONE, "")] += sign

    def _group(self, node: Node) -> Group | None:
        return self.groups.get(self.group_of.get(node.metadata.name, ""))

    def account(self) -> None:
        """Account for the time up to now."""
        seconds = self._context.now - self._since
        if not seconds:
            return
        self._since = self._context.now
        for resource, amount in self._allocatable.items():
            self.seconds[resource] += amount * seconds  # type: ignore[assignment]
        self.node_seconds += seconds * len(self.nodes)
        for group in self.groups.values():
            if group.price:
                cost = group.price * seconds / _HOUR
                self.costs[group.name] += len(group.names) * cost  # type: ignore[assignment]
                self._cost_of_node[group.name] += cost  # type: ignore[assignment]

    @property
    def allocatable(self) -> Mapping[str, int]:
        return self._allocatable

    def price_list(self) -> dict[str, dict[str, float]]:
        """Prices by type and capacity type, as the page reads them."""
        found: dict[str, dict[str, float]] = {}
        for group in self.groups.values():
            labels = group.template.metadata.labels
            if group.price:
                found.setdefault(labels[INSTANCE_TYPE], {})[labels.get(CAPACITY_TYPE, "")] = group.price
        return found

    def set_price(self, group: str, price: float) -> None:
        self.account()
        self.groups[group].price = price

    # -- bills of pods, whose shares of a node add up to at most one ---------------------------------------------------

    def bill(self, node: str, requests: Mapping[str, int]) -> Bill | None:
        group = self.groups.get(self.group_of.get(node, ""))
        if group is None or not group.price:
            return None
        self.account()
        return Bill(
            group.name, share_of_price(node_amounts(self.nodes[node]), requests), self._cost_of_node[group.name]
        )

    def due(self, bill: Bill) -> float:
        self.account()
        return bill.share * (self._cost_of_node[bill.group] - bill.since)

    # -- adding and removing nodes -------------------------------------------------------------------------------------

    def add_to(self, group: Group, zone: str | None = None) -> str:
        """Add a node to a group immediately; return its name."""
        node = group.make(self.zone_for(group) if zone is None else zone)
        self.put(node, group.name)
        return node.metadata.name

    def zone_for(self, group: Group, coming: Counter[str] | None = None) -> str:
        return group.next_zone(self.zones_out, coming)

    def put(self, node: Node, group: str = "") -> None:
        if group:
            self.group_of[node.metadata.name] = group
        self._context.time.write(Create(obj=node))

    def remove(self, name: str, why: str = LOST) -> None:
        """Remove a node; no-op if it is already gone. `why`: the reason recorded for pods that are still there."""
        if name in self.nodes:
            entries = self._context.entries_on(name)
            for entry in entries:
                self._context.ledger.settle(entry)
            if entries:
                self.why_removed[name] = why
            self._context.time.write(Delete(kind=Node, namespace="", name=name))
            self.group_of.pop(name, None)

    def set_ready(self, name: str, status: str) -> None:
        """The node's kubelet reports that it is Ready; Unknown: it has stopped to report."""
        node = self.nodes.get(name)
        if node is not None:
            conditions = tuple(_reported(one, status) for one in node.status.conditions)
            self._write(replace(node, status=replace(node.status, conditions=conditions)))

    def as_new(self, node: Node) -> Node:
        """Another machine in its place: without an outage, and not cordoned."""
        conditions = tuple(_reported(one, "True") for one in node.status.conditions)
        taints = with_taints(node.spec.taints, conditions, unschedulable=False, now="")
        metadata = replace(node.metadata, resource_version="", creation_timestamp=None)
        spec = replace(node.spec, unschedulable=False, taints=taints)
        return replace(node, metadata=metadata, spec=spec, status=replace(node.status, conditions=conditions))

    def cordon(self, name: str, *, unschedulable: bool = True) -> None:
        node = self.nodes.get(name)
        if node is not None:
            self._write(replace(node, spec=replace(node.spec, unschedulable=unschedulable)))

    def _write(self, node: Node) -> None:
        """Write a node, with the taints that follow from its conditions."""
        spec, now = node.spec, timestamp(self._context.now)
        taints = with_taints(spec.taints, node.status.conditions, unschedulable=spec.unschedulable, now=now)
        self._context.time.write(Update(obj=replace(node, spec=replace(spec, taints=taints))))

    def taint(self, name: str, *taints: Taint) -> None:
        node = self.nodes.get(name)
        if node is not None:
            kept = [one for one in node.spec.taints if (one.key, one.effect) not in {(t.key, t.effect) for t in taints}]
            self._write(replace(node, spec=replace(node.spec, taints=(*kept, *taints))))

    def untaint(self, name: str, *keys: str) -> None:
        node = self.nodes.get(name)
        if node is not None:
            kept = tuple(one for one in node.spec.taints if one.key not in keys)
            self._write(replace(node, spec=replace(node.spec, taints=kept)))

    # -- selection -----------------------------------------------------------------------------------------------------

    def zone_of(self, name: str) -> str:
        return self.nodes[name].metadata.labels.get(ZONE, "")

    def chosen(self, spec: NodesSpec, chance: Any) -> list[str]:
        """The nodes of an event."""
        found = list(self._matching(spec))
        if spec.count is not None and spec.count < len(found):
            found = sorted(chance.sample(found, spec.count), key=found.index)
        return found

    def _matching(self, spec: NodesSpec) -> Iterator[str]:
        for name in spec.nodes:
            if name not in self.nodes:
                self._context.note(f"an event is about node {name}, which was not there at its time")
        for name in self.nodes:
            if (
                (not spec.nodes or name in spec.nodes)
                and (not spec.group or self.group_of.get(name) == spec.group)
                and (not spec.zone or self.zone_of(name) == spec.zone)
            ):
                yield name


def share_of_price(node: Mapping[str, int], requests: Mapping[str, int]) -> float:
    """The share of a node's price that a pod pays for.

    The price is that of the extended resources if there are any, such as GPUs, in equal parts, otherwise half for cpu
    and half for memory: whoever leaves these free has not paid for them.
    """
    extended = [name for name, amount in node.items() if "/" in name and amount]
    priced = extended or [name for name in ("cpu", "memory") if node.get(name)]
    return sum(requests.get(name, 0) / node[name] for name in priced) / len(priced) if priced else 0.0


def _reported(condition: NodeCondition, ready: str) -> NodeCondition:
    if condition.type == READY:
        return replace(condition, status=ready)
    if condition.type in MONITORED and UNKNOWN in (ready, condition.status):
        return replace(condition, status=ready if ready == UNKNOWN else "False")
    return condition
