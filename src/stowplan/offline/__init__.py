"""A cluster from objects, in memory: the public Python API.

`cluster.py` has `Cluster`, `scheduling.py` implements its `schedule`.
"""

from stowplan.offline.cluster import Cluster
from stowplan.offline.objects import ClusterError

__all__ = ["Cluster", "ClusterError"]
