"""Stowplan: the Kubernetes scheduler in Python.

    cluster = stowplan.Cluster(objects)            # dicts as Kubernetes serializes them; or from_files, from_kubeconfig
    verdict = cluster.explain("default/web-0")     # evaluates, without side effects
    cluster.schedule(["default/web-0"])            # places pods, one after the other

`stowplan.ask.what_if` answers how many pods fit, and what a drain, an outage or a change would do. `stowplan.plugins`
is the API for writing plugins, `stowplan.testing` has builders of test objects, and `stowplan.testing.live` runs a
scheduler on an in-memory cluster to test plugins. Simulations are in the distribution `stowplan-lab`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube import compiled
from stowplan.kube.lazy_imports import lazy_imports

__version__ = "0.1.0"
compiled.choose(__version__)

if TYPE_CHECKING:
    from stowplan.ask.explain.verdicts.advice import Suggestion as Suggestion
    from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict as GroupVerdict
    from stowplan.ask.explain.verdicts.verdict import StaleVerdictError as StaleVerdictError
    from stowplan.ask.explain.verdicts.verdict import Verdict as Verdict
    from stowplan.ask.loading.live_cluster import LiveClusterError as LiveClusterError
    from stowplan.ask.offline import Cluster as Cluster
    from stowplan.ask.offline import ClusterError as ClusterError
    from stowplan.kube.api.manifest_files import LoadError as LoadError
    from stowplan.kube.config import ConfigError as ConfigError
    from stowplan.kube.config import Configuration as Configuration
    from stowplan.scheduler.engine.decision.decision import Decision as Decision
    from stowplan.scheduler.in_tree.configuration import load_config as load_config
    from stowplan.scheduler.inspection.frames import to_frame as to_frame
else:
    __getattr__, __dir__ = lazy_imports(__name__, __file__)
