"""A cluster from objects, in memory: the public Python API.

`cluster.py` has `Cluster`, `scheduling.py` implements its `schedule`.
"""

from stowplan.ask.offline.arguments import ClusterError
from stowplan.ask.offline.cluster import Cluster

__all__ = ["Cluster", "ClusterError"]
