"""A cluster from objects, in memory: the public Python API.

`cluster.py` is `Cluster`, `scheduling.py` what its `schedule` does.
"""

from stowplan.offline.cluster import Cluster
from stowplan.offline.objects import ClusterError

__all__ = ["Cluster", "ClusterError"]
