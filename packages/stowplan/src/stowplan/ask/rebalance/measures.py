"""How full the nodes are, and how evenly."""

from __future__ import annotations

import numpy as np

from stowplan.ask.offline import Cluster
from stowplan.ask.rebalance.plan_records import BalanceRecord
from stowplan.ask.what_if.node_shares import COUNTED, requested_shares
from stowplan.kube.api.eviction_outcomes import belongs_to_node
from stowplan.scheduler.cluster.arrays import Floats
from stowplan.scheduler.cluster.pod_info import PodInfo


def use_of_nodes(cluster: Cluster) -> Floats:
    """By row: the mean of the shares of cpu and memory that are requested; 0 in rows without a node."""
    table = cluster.state.table
    return np.where(table.valid[: table.n], requested_shares(table).mean(axis=0), 0.0)


def share_of(cluster: Cluster, info: PodInfo, row: int) -> float:
    """What a pod adds to the use of a row's node."""
    table, requests = cluster.state.table, info.shape.used
    shares = [requests.get(name, 0) / max(1, int(table.allocatable[table.resource(name), row])) for name in COUNTED]
    return sum(shares) / len(shares)


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
