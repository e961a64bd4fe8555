"""Keep a pod near the pods that its workload depends on, by the network costs between regions and zones.

A node is refused if more dependencies are violated than satisfied there, and scored by the sum of costs. Both depend on
a node only through its region and zone, but for pods on the node itself: so sums are computed per pair of region and
zone (`Domains`), and corrected on nodes that have such pods.

Upstream: pkg/networkaware/networkoverhead in scheduler-plugins.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from stowplan.plugins import (
    Code,
    CustomObject,
    CycleState,
    Entry,
    FilterPlugin,
    Ints,
    Mask,
    Nodes,
    PodInfo,
    PreFilterPlugin,
    Reason,
    Rejections,
    ScorePlugin,
    ShapeSigned,
    Status,
    error,
)
from stowplan.plugins.arguments import STRING, Args, FeatureGates, Slice, Struct, documented, kind
from stowplan_scheduler_plugins.app_groups import (
    APP_GROUP,
    WORKLOAD,
    AppGroup,
    Fields,
    NetworkTopology,
    dependencies_of,
    first_of,
    searched,
    selector_of,
)
from stowplan_scheduler_plugins.scores import highest_to_lowest
from stowplan_scheduler_plugins.topological_sort import DEFAULT_NAMESPACES

NETPERF = "NetperfCosts"
SAME_ZONE, MAX_COST = 1, 100
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"

TOO_FAR = Reason(
    "NetworkCostTooHigh",
    "Node {node} does not meet several network requirements from Workload dependencies: "
    "Satisfied: {satisfied} Violated: {violated}",
)


class NetworkOverheadArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "NetworkOverheadArgs",
        namespaces=documented(Slice(STRING), "Where AppGroups and the NetworkTopology are looked for, in this order."),
        weightsName=documented(STRING, "Which weights of the NetworkTopology count."),
        networkTopologyName=documented(STRING, "The NetworkTopology."),
    )

    namespaces: tuple[str, ...] = ()
    weights_name: str = ""
    network_topology_name: str = ""

    def completed(self, features: FeatureGates) -> "NetworkOverheadArgs":
        return msgspec.structs.replace(
            self,
            namespaces=self.namespaces or DEFAULT_NAMESPACES,
            weights_name=self.weights_name or "UserDefined",
            network_topology_name=self.network_topology_name or "nt-default",
        )


class Place(NamedTuple):
    region: str
    zone: str


class Host(NamedTuple):
    """Where pods are on which the pod depends, and by which dependency."""

    node_name: str
    max_cost: int


class Overhead(NamedTuple):
    """Per row of the node table."""

    satisfied: Ints
    violated: Ints
    cost: Ints


#: (origin, destination) -> cost; regions and zones share it.
Costs = Mapping[tuple[str, str], int]


class NetworkOverhead(PreFilterPlugin, FilterPlugin, ScorePlugin, ShapeSigned):
    name = "NetworkOverhead"
    short_name = "network"
    args_type = NetworkOverheadArgs
    needs_kinds = (AppGroup, NetworkTopology)
    normalizes_by_bounds = True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write(self.name, None)
        group_name = pod.labels.get(APP_GROUP)
        if not group_name:
            return None
        group = first_of(self.handle, AppGroup, self.args.namespaces, group_name)
        topology = first_of(self.handle, NetworkTopology, self.args.namespaces, self.args.network_topology_name)
        if group is None or topology is None:
            # The reference panics.
            return None
        hosts = self._hosts(group_name, dependencies_of(group, pod.labels.get(WORKLOAD, "")))
        unknown = next((host.node_name for host in hosts if host.node_name not in nodes.table.row_of), None)
        if unknown is not None:
            return error(f'pod hostname not found: nodeinfo not found for node name "{unknown}"')
        if hosts:
            state.write(self.name, self._overhead(nodes, hosts, self._origins(topology)))
        return None

    def _hosts(self, group: str, dependencies: Sequence[Fields]) -> Counter[Host]:
        found: Counter[Host] = Counter()
        for other in self.handle.cluster.placed_pods() if dependencies else ():
            if other.labels.get(APP_GROUP) == group:
                workload = other.labels.get(WORKLOAD, "")
                for one in dependencies:
                    if selector_of(one) == workload:
                        found[Host(other.pod.spec.node_name, int(one.get("maxNetworkCost") or 0))] += 1
        return found

    def _origins(self, topology: CustomObject) -> list[Fields]:
        """The topologies of each weight that counts, sorted unless a program has sorted them."""
        weights = (topology.content.get("spec") or {}).get("weights") or ()
        found = [one.get("topologyList") or () for one in weights if one.get("name") == self.args.weights_name]
        if self.args.weights_name == NETPERF:
            return [{"topologies": topologies, "sorted": True} for topologies in found]
        by_key = [sorted(topologies, key=lambda one: str(one.get("topologyKey", ""))) for topologies in found]
        return [{"topologies": topologies, "sorted": False} for topologies in by_key]

    def _overhead(self, nodes: Nodes, hosts: Counter[Host], origins: Sequence[Fields]) -> Overhead:
        table = nodes.table
        regions, zones = table.label(REGION), table.label(ZONE)
        pairs = np.stack((regions.codes[: table.n], zones.codes[: table.n]))
        distinct, domain = np.unique(pairs, axis=1, return_inverse=True)
        domain = domain.reshape(-1)
        places = [Place(regions.values[region], zones.values[zone]) for region, zone in distinct.T.tolist()]
        per_place = np.zeros((3, len(places)), np.int64)
        found = np.zeros((3, table.n), np.int64)
        costs = [costs_from(place, origins) for place in places]
        for host, count in hosts.items():
            row = table.row_of[host.node_name]
            at = int(domain[row])
            tolls = np.array([toll(place, places[at], costs[i], host.max_cost) for i, place in enumerate(places)]).T
            per_place += count * tolls
            # On the node itself a dependency is satisfied, at no cost.
            found[:, row] += count * (np.array([1, 0, 0]) - tolls[:, at])
        satisfied, violated, cost = found + per_place[:, domain]
        return Overhead(satisfied, violated, cost)

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        overhead: Overhead | None = state.read(self.name)
        if overhead is None:
            return None
        satisfied, violated = nodes.take(overhead.satisfied), nodes.take(overhead.violated)
        refused = violated > satisfied
        if not refused.any():
            return None
        return Rejections(
            refused, lambda: [_entry(nodes, i, satisfied, violated) for i in np.flatnonzero(refused).tolist()]
        )

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        overhead: Overhead | None = state.read(self.name)
        return np.zeros(len(nodes), np.int64) if overhead is None else nodes.take(overhead.cost)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints:
        return highest_to_lowest(scores, feasible)


def costs_from(place: Place, origins: Sequence[Fields]) -> Costs:
    """The costs from a region and a zone."""
    found: dict[tuple[str, str], int] = {}
    for key, origin in ((REGION, place.region), (ZONE, place.zone)):
        for one in origins if origin else ():
            topology = searched(one["topologies"], "topologyKey", key) or {}
            listed = topology.get("originList") or ()
            by_name = listed if one["sorted"] else sorted(listed, key=lambda entry: str(entry.get("origin", "")))
            of_origin = searched(by_name, "origin", origin) or {}
            for cost in of_origin.get("costList") or ():
                found[origin, cost.get("destination", "")] = int(cost.get("networkCost") or 0)
    return found


def toll(place: Place, other: Place, costs: Costs, max_cost: int) -> tuple[int, int, int]:
    """Whether a dependency on a pod elsewhere is satisfied or violated (or neither), and its cost."""
    if other == ("", ""):
        return 0, 1, MAX_COST
    if place == other:
        return 1, 0, SAME_ZONE
    same_region = place.region == other.region
    cost = costs.get((place.zone, other.zone) if same_region else (place.region, other.region))
    if cost is None:
        return 0, 0, MAX_COST
    return int(cost <= max_cost), int(cost > max_cost), cost


def _entry(nodes: Nodes, i: int, satisfied: Ints, violated: Ints) -> Entry:
    mask = np.zeros(len(nodes), np.bool_)
    mask[i] = True
    reason = TOO_FAR.of(node=nodes.names()[i], satisfied=int(satisfied[i]), violated=int(violated[i]))
    return Entry(mask, Code.Unschedulable, reason)
