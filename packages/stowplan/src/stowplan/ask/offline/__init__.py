"""A cluster from objects, in memory: the public Python API.

`cluster.py` has `Cluster`, `scheduling.py` implements its `schedule`.
"""

from stowplan.ask.offline.cluster import Cluster
from stowplan.ask.offline.objects import ClusterError

__all__ = ["Cluster", "ClusterError"]
