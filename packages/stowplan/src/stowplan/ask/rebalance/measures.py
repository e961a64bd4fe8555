"""How full the nodes are, and how evenly."""

from __future__ import annotations

import numpy as np

from stowplan.ask.offline import Cluster
from stowplan.ask.rebalance.plan_records import BalanceRecord
from stowplan.kube.api.eviction_outcomes import belongs_to_node
from stowplan.scheduler.cluster.arrays import Floats
from stowplan.scheduler.cluster.pod_info import PodInfo

#: Of which a node's use is measured.
_COUNTED = ("cpu", "memory")


def use_of_nodes(cluster: Cluster) -> Floats:
    """By row: the mean of the shares of cpu and memory that are requested; 0 in rows without a node."""
    table = cluster.state.table
    shares = [
        table.requested[index, : table.n] / np.maximum(table.allocatable[index, : table.n], 1)
        for index in _counted(cluster)
    ]
    return np.where(table.valid[: table.n], np.mean(shares, axis=0), 0.0)


def share_of(cluster: Cluster, info: PodInfo, row: int) -> float:
    """What a pod adds to the use of a row's node."""
    table, requests = cluster.state.table, info.shape.used
    shares = [
        requests.get(name, 0) / max(1, int(table.allocatable[index, row]))
        for name, index in zip(_COUNTED, _counted(cluster), strict=True)
    ]
    return sum(shares) / len(shares)


def _counted(cluster: Cluster) -> list[int]:
    return [cluster.state.table.resource(name) for name in _COUNTED]


def is_empty(cluster: Cluster, row: int) -> bool:
    """Whether a node has no pods but its own."""
    return all(belongs_to_node(info.pod) for info in cluster.state.row_pods[row])


def balance_of(cluster: Cluster) -> BalanceRecord:
    table = cluster.state.table
    use = use_of_nodes(cluster)[table.valid[: table.n]] * 100
    return BalanceRecord(
        nodes=table.count,
        empty_nodes=sum(is_empty(cluster, row) for row in table.row_of.values()),
        mean_use=round(float(use.mean()), 2) if table.count else 0.0,
        unevenness=round(float(use.std()), 2) if table.count else 0.0,
    )
