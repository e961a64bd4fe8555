"""NUMA cells of random nodes, and the plain rules about them, node by node, with which columns are compared."""

import math
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

import stowplan
from stowplan.plugins import MAX_SCORE, Nodes
from stowplan.plugins.objects import whole_value
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.node_topologies import Topology, cells_of, is_native
from stowplan_scheduler_plugins.numa_columns import CellColumns, Cells
from stowplan_scheduler_plugins.topology_caches import Passthrough

DEVICE = "example.com/gpu"
RESOURCES = ("cpu", "memory", "hugepages-2Mi", DEVICE, "ephemeral-storage")
#: Whole and fractional ones, nothing.
AMOUNTS = st.sampled_from(("0", "1", "2", "3", "500m", "1500m", "64", "1k"))
LISTS = st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS, max_size=4)
POLICIES = ("SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel", "RestrictedPodLevel", "None")


@st.composite
def topologies(draw, name):
    zones = []
    # Twice the same number, gaps, and names that are none, too.
    for cell in draw(st.lists(st.sampled_from(("node-0", "node-1", "node-2", "node-63", "node-64", "x")), max_size=4)):
        costs = draw(st.dictionaries(st.sampled_from(("node-0", "node-1", "node-2")), st.sampled_from((10, 20, 40))))
        available = draw(st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS))
        zones.append(
            {
                "name": cell,
                "type": draw(st.sampled_from(("Node", "Node", "Node", "Socket"))),
                "costs": [{"name": to, "value": cost} for to, cost in costs.items()],
                "resources": [{"name": resource, "available": amount} for resource, amount in available.items()],
            }
        )
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "topologyPolicies": [draw(st.sampled_from(POLICIES))],
        "zones": zones,
    }


CONTAINERS = st.lists(st.tuples(LISTS, st.booleans()), min_size=1, max_size=3)
OF_NODES = st.lists(st.sets(st.sampled_from(RESOURCES)), min_size=1, max_size=4)


def a_numa_pod(name, containers, init=()):
    """Containers as (amounts, whether limits are set, too)."""

    def made(prefix, i, amounts, limited):
        resources = {"requests": amounts} | ({"limits": amounts} if limited else {})
        return {"name": f"{prefix}{i}", "resources": resources}

    spec = {"containers": [made("c", i, *one) for i, one in enumerate(containers)]}
    if init:
        spec["initContainers"] = [made("i", i, *one) for i, one in enumerate(init)]
    return a_pod(name).spec(**spec).obj()


def nodes_with(resources, topologies_):
    """Nodes that name these resources, and a cluster with them and their topologies."""
    sizes = ({"cpu": "64", "memory": "64Gi", "pods": "110"} | dict.fromkeys(one, "100") for one in resources)
    nodes = [a_node(f"n{i}").allocatable(size).obj() for i, size in enumerate(sizes)]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}}}],
    }
    return stowplan.Cluster([*nodes, *topologies_], config=config)


def cells_of_all(cluster):
    """The cells in columns, and each node's plain ones."""
    [framework] = cluster.algorithm.frameworks.values()
    handle = framework.plugins["NodeResourceTopologyMatch"].handle
    objects = cluster.state.objects
    columns = CellColumns(handle, Passthrough(lambda node: objects.get(Topology, node)))
    columns.follow()
    found = [objects.get(Topology, name) for name in cluster.state.table.names]
    return Cells(columns, Nodes(cluster.state)), [[] if one is None else cells_of(one) for one in found]


# --- the plain rules


#: Resources that the kubelet assigns to pods of class Guaranteed alone, beside huge pages.
_ALIGNED_FOR_GUARANTEED = ("cpu", "memory")
_ALWAYS_ALLOCATABLE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def is_aligned(resource, qos):
    """Whether the resource has to come from certain cells for pods of this class."""
    shared = resource in _ALIGNED_FOR_GUARANTEED or resource.startswith("hugepages-")
    return qos == "Guaranteed" or not shared


def suffices(resource, wanted, available, qos):
    return not is_aligned(resource, qos) or available >= wanted


def _is_host_level(resource):
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)


def fitting_cell(requests, cells, allocatable, qos):
    """The lowest cell that has all requested resources; 0 if nothing is requested, None if there is none.

    `allocatable` are resources that the node has as a whole.
    """
    left = None
    for resource, wanted in requests.items():
        if not wanted:
            continue
        if resource not in _ALWAYS_ALLOCATABLE and resource not in allocatable:
            return None
        having = [cell for cell in cells if resource in cell.available]
        if not having and _is_host_level(resource):
            continue
        fitting = {cell.id for cell in having if suffices(resource, wanted, cell.available[resource], qos)}
        left = fitting if left is None else left & fitting
        if not left:
            return None
    return 0 if left is None else min(left)


def take(requests, cells, number, qos):
    """Subtract requests from a cell."""
    for cell in cells:
        if cell.id == number:
            for resource, wanted in requests.items():
                if is_aligned(resource, qos) and cell.available.get(resource):
                    cell.available[resource] -= wanted


#: What an unknown distance counts.
FARTHEST = 255
_NOT_A_NUMBER = -(2**63)


def _weighted(requests, available, weights, share):
    total = divisor = 0
    for resource, wanted in requests.items():
        weight = max(weights.get(resource, 1), 1)
        total += share(whole_value(wanted), whole_value(available.get(resource, 0))) * weight
        divisor += weight
    return total // divisor if divisor else 0


def least_allocated(requests, available, weights):
    return _weighted(requests, available, weights, lambda r, a: (a - r) * MAX_SCORE // a if 0 < a >= r else 0)


def most_allocated(requests, available, weights):
    return _weighted(requests, available, weights, lambda r, a: r * MAX_SCORE // a if 0 < a >= r else 0)


def balanced_allocation(requests, available, weights):
    """The lower the variance of the used shares, the better. Parity: of one share there is no variance."""
    shares = []
    for resource, wanted in requests.items():
        capacity = whole_value(available.get(resource, 0))
        share = whole_value(wanted) / capacity if capacity else 1.0
        if share > 1:
            return 0
        shares.append(share)
    if len(shares) < 2:
        return _NOT_A_NUMBER
    mean = sum(shares) / len(shares)
    squares = compensation = 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
        compensation += share - mean
    variance = (squares - compensation * compensation / len(shares)) / (len(shares) - 1)
    return int((1 - variance) * MAX_SCORE)


CELL_SCORES = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}


def worst_cell(score, requests, cells, weights):
    """The lowest score of a cell that is not 0, which stands for a cell that does not fit."""
    worst = 0
    for cell in cells:
        found = score(requests, cell.available, weights)
        if worst == 0 or (found != 0 and found < worst):
            worst = found
    return worst


def fewest_cells(requests, cells, qos, max_cells):
    """The fewer cells are needed for the requests, one after the other, and the nearer these are, the better."""
    most, nearest = 0, True
    for wanted in requests:
        if not any(resource in cell.available for cell in cells for resource in wanted):
            continue
        found, is_nearest = _needed(wanted, cells, qos)
        if not found:
            return 0
        most, nearest = max(most, len(found)), nearest and is_nearest
        _take_from(wanted, sorted(found, key=lambda cell: cell.id))
    if most == 0:
        return MAX_SCORE
    step = MAX_SCORE // max_cells
    return MAX_SCORE - most * step + (step // 2 if nearest else 0)


def _needed(requests, cells, qos):
    """The smallest combination of cells that fits, and whether none of its size is nearer; () if none fits."""
    for size in range(1, len(cells) + 1):
        choices = list(combinations(cells, size))
        least = min(*(_distance(choice) for choice in choices), float(FARTHEST))
        fitting = [choice for choice in choices if _fit_together(requests, choice, qos)]
        if fitting:
            best = min(fitting, key=_distance)
            return best, _distance(best) == least
    return (), False


def _fit_together(requests, choice, qos):
    """Parity: each cell must have each resource, even one of which nothing is requested."""
    if not all(resource in cell.available for cell in choice for resource in requests):
        return False
    return all(
        suffices(resource, wanted, sum(cell.available[resource] for cell in choice), qos)
        for resource, wanted in requests.items()
        if wanted
    )


def _distance(choice):
    """The mean distance of all pairs, including a cell and itself."""
    total = sum(a.costs.get(b.id, FARTHEST) for a in choice for b in choice)
    return float(np.float32(total) / np.float32(len(choice) ** 2))


def _take_from(requests, cells):
    """Subtract requests; each cell gives what it has."""
    for resource, wanted in requests.items():
        left = wanted
        for cell in cells:
            given = min(left, cell.available.get(resource, 0))
            if resource in cell.available:
                cell.available[resource] -= given
                left -= given


def mean(scores):
    return math.trunc(sum(map(float, scores)) / len(scores)) if scores else 0
