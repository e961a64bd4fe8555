"""Stowplan: the Kubernetes scheduler in Python.

    cluster = stowplan.Cluster(objects)            # dicts as Kubernetes serializes them; or from_files, from_kubeconfig
    verdict = cluster.explain("default/web-0")     # evaluates, without side effects
    cluster.schedule(["default/web-0"])            # places pods, one after the other

    stowplan.simulate_scenario("week.yaml")        # run a scenario in virtual time
    stowplan.tune_scenario("week.yaml", folder=…)  # search for a better configuration

`stowplan.what_if` answers how many pods fit, and what a drain, an outage or a change would do. `stowplan.plugins` is
the API for writing plugins, `stowplan.testing` has builders of test objects, `stowplan.live_testing` runs a scheduler
on an in-memory cluster to test plugins, and `stowplan.sweeps` runs simulations in processes or on a Dask cluster.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.api.load import LoadError
    from stowplan.config import ConfigError, Configuration
    from stowplan.engine.decision.decision import Decision
    from stowplan.explain.verdicts.advice import Suggestion
    from stowplan.explain.verdicts.group_verdict import GroupVerdict
    from stowplan.explain.verdicts.verdict import StaleVerdictError, Verdict
    from stowplan.in_tree.configuration import load_config
    from stowplan.inspection.frames import to_frame
    from stowplan.loading.live_cluster import LiveClusterError
    from stowplan.offline import Cluster, ClusterError
    from stowplan.scenarios.errors import ScenarioError
    from stowplan.scenarios.simulation import SimulationResult, simulate_scenario
    from stowplan.tuning.errors import TuningError
    from stowplan.tuning.tune import Effort, TuningResult, tune_scenario

__all__ = [
    "Cluster",
    "ClusterError",
    "ConfigError",
    "Configuration",
    "Decision",
    "Effort",
    "GroupVerdict",
    "LiveClusterError",
    "LoadError",
    "ScenarioError",
    "SimulationResult",
    "StaleVerdictError",
    "Suggestion",
    "TuningError",
    "TuningResult",
    "Verdict",
    "load_config",
    "simulate_scenario",
    "to_frame",
    "tune_scenario",
]
__version__ = "0.1.0"

# Imported on first access: most commands need few of them, and start faster.
_HOMES = {
    "Cluster": "stowplan.offline",
    "ClusterError": "stowplan.offline",
    "ConfigError": "stowplan.config",
    "Configuration": "stowplan.config",
    "Decision": "stowplan.engine.decision.decision",
    "Effort": "stowplan.tuning.tune",
    "GroupVerdict": "stowplan.explain.verdicts.group_verdict",
    "LiveClusterError": "stowplan.loading.live_cluster",
    "LoadError": "stowplan.api.load",
    "ScenarioError": "stowplan.scenarios.errors",
    "SimulationResult": "stowplan.scenarios.simulation",
    "StaleVerdictError": "stowplan.explain.verdicts.verdict",
    "Suggestion": "stowplan.explain.verdicts.advice",
    "TuningError": "stowplan.tuning.errors",
    "TuningResult": "stowplan.tuning.tune",
    "Verdict": "stowplan.explain.verdicts.verdict",
    "load_config": "stowplan.in_tree.configuration",
    "simulate_scenario": "stowplan.scenarios.simulation",
    "to_frame": "stowplan.inspection.frames",
    "tune_scenario": "stowplan.tuning.tune",
}


def _imported(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise accept any attribute.
    __getattr__ = _imported


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
