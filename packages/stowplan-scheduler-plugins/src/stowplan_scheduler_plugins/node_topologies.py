"""NUMA cells of nodes and the settings of their kubelets, from NodeResourceTopology objects; and what pods request.

Amounts are in nano-units, exact.

Upstream: pkg/noderesourcetopology/{pluginhelpers.go,nodeconfig,resourcerequests} in scheduler-plugins;
k8stopologyawareschedwg/noderesourcetopology-api.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from stowplan.plugins import CustomObject, PodInfo, custom_resource
from stowplan.plugins.objects import Container, parse_quantity, qos_class, whole_value

Topology = custom_resource("noderesourcetopologies.v1alpha2.topology.node.k8s.io", namespaced=False)

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
CONTAINER, POD = "container", "pod"
_MAX_CELLS, _MOST_CELLS = 8, 1024
_POLICIES = {
    f"{name}{scope.capitalize()}Level": (policy, scope)
    for name, policy in (("SingleNUMANode", SINGLE), ("BestEffort", BEST_EFFORT), ("Restricted", RESTRICTED))
    for scope in (CONTAINER, POD)
}
_CELL = re.compile(r"node-([0-9]+)")

Amounts = dict[str, int]


class Settings(NamedTuple):
    """Of a kubelet's topology manager."""

    policy: str = NONE
    scope: str = CONTAINER
    max_cells: int = _MAX_CELLS


@dataclass
class Cell:
    """A NUMA node."""

    id: int
    #: What is available, by resource.
    available: Amounts
    #: Cell -> distance.
    costs: Mapping[int, int]


def attribute(described: Mapping[str, Any], name: str) -> str | None:
    """Of a topology's content, or of a zone."""
    listed = described.get("attributes") or ()
    return next((one.get("value", "") for one in listed if one.get("name") == name), None)


def settings_of(topology: CustomObject) -> Settings:
    """Valid attributes override the first one of the older `topologyPolicies`."""
    found = Settings()
    for name in (topology.content.get("topologyPolicies") or ())[:1]:
        policy, scope = _POLICIES.get(name, (found.policy, found.scope))
        found = found._replace(policy=policy, scope=scope)
    for one in topology.content.get("attributes") or ():
        name, value = one.get("name"), one.get("value", "")
        if name == "topologyManagerScope" and value in (CONTAINER, POD):
            found = found._replace(scope=value)
        elif name == "topologyManagerPolicy" and value in (NONE, BEST_EFFORT, RESTRICTED, SINGLE):
            found = found._replace(policy=value)
        elif name == "topologyManagerMaxNUMANodes" and re.fullmatch(r"[+-]?[0-9]+", value) and int(value) > 1:
            found = found._replace(max_cells=min(int(value), _MOST_CELLS))
    return found


def cells_of(topology: CustomObject) -> list[Cell]:
    """In the order of the zones; zones of other types, and cells with numbers from 64 on, are left out."""
    found = []
    for zone in topology.content.get("zones") or ():
        number = cell_number(zone.get("name", "")) if zone.get("type") == "Node" else None
        if number is not None:
            costs = ((cell_number(cost.get("name", "")), cost.get("value", 0)) for cost in zone.get("costs") or ())
            found.append(Cell(number, _available(zone), {cell: cost for cell, cost in costs if cell is not None}))
    return found


def zones_of(topology: CustomObject) -> dict[str, Amounts]:
    """What is available by zone and resource."""
    return {zone.get("name", ""): _available(zone) for zone in topology.content.get("zones") or ()}


def _available(zone: Mapping[str, Any]) -> Amounts:
    return {one.get("name", ""): parse_quantity(one.get("available", 0)) for one in zone.get("resources") or ()}


def cell_number(name: str) -> int | None:
    """The cell's number that a zone's name has."""
    found = _CELL.fullmatch(name)
    return int(found[1]) if found and int(found[1]) < 64 else None


# --- what pods request


def requests_of(container: Container) -> Amounts:
    return {name: parse_quantity(amount) for name, amount in container.resources.requests.items()}


def effective_request(pod: PodInfo) -> Amounts:
    """Containers summed, or the largest init container, and overhead.

    Parity: sidecars are init containers as others.
    """
    total: Amounts = {}
    for container in pod.pod.spec.containers:
        _add(total, requests_of(container))
    for container in pod.pod.spec.init_containers:
        for name, amount in requests_of(container).items():
            total[name] = max(total.get(name, amount), amount)
    _add(total, {name: parse_quantity(amount) for name, amount in pod.pod.spec.overhead.items()})
    return total


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def is_native(resource: str) -> bool:
    return "/" not in resource or "kubernetes.io/" in resource


def requests_devices(pod: PodInfo) -> bool:
    """Whether any container requests an extended resource."""
    spec = pod.pod.spec
    return any(
        not is_native(name) for one in (*spec.init_containers, *spec.containers) for name in one.resources.requests
    )


def exclusive_requests(pod: PodInfo, resources: Iterable[str]) -> list[tuple[Container, Amounts]]:
    """Containers with CPUs, memory or devices of their own, and these; `resources` are those of the node's topology."""
    spec, known, guaranteed = pod.pod.spec, set(resources), qos_class(pod) == "Guaranteed"
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    found = []
    for container in (*sidecars, *spec.containers):
        requests = requests_of(container).items()
        exclusive = {name: amount for name, amount in requests if _is_exclusive(name, amount, guaranteed, known)}
        if exclusive:
            found.append((container, exclusive))
    return found


def is_exclusive(pod: PodInfo, resources: Iterable[str]) -> bool:
    return bool(exclusive_requests(pod, resources))


def _is_exclusive(name: str, amount: int, guaranteed: bool, known: set[str]) -> bool:
    if not is_native(name):
        return name in known
    if not guaranteed or whole_value(amount) <= 0:
        return False
    if name == "cpu":
        return amount % 10**9 == 0
    return name == "memory" or name.startswith("hugepages-")
