"""Stowplan: the Kubernetes scheduler in Python.

    cluster = stowplan.Cluster(objects)            # dicts as Kubernetes serialises them
    verdict = cluster.explain("default/web-0")     # evaluates, changes nothing
    cluster.schedule(["default/web-0"])            # places, one after the other

`stowplan.plugins` holds what plugins are written with, `stowplan.testing` builders for tests.
"""

from stowplan.config import ConfigError, Configuration, load_config
from stowplan.explain.verdict import Verdict
from stowplan.offline import Cluster, ClusterError
from stowplan.scheduler.cycle import Decision

__all__ = ["Cluster", "ClusterError", "ConfigError", "Configuration", "Decision", "Verdict", "load_config"]
__version__ = "0.1.0"
