"""Stowplan: the Kubernetes scheduler in Python.

    cluster = stowplan.Cluster(objects)            # dicts as Kubernetes serializes them; or from_files, from_kubeconfig
    verdict = cluster.explain("default/web-0")     # evaluates, without side effects
    cluster.schedule(["default/web-0"])            # places pods, one after the other

    stowplan.simulate_scenario("week.yaml")        # run a scenario in virtual time
    stowplan.tune_scenario("week.yaml", folder=…)  # search for a better configuration

`stowplan.ask.what_if` answers how many pods fit, and what a drain, an outage or a change would do. `stowplan.plugins` is
the API for writing plugins, `stowplan.testing` has builders of test objects, `stowplan.testing.live` runs a scheduler
on an in-memory cluster to test plugins, and `stowplan_lab.sweeps` runs simulations in processes or on a Dask cluster.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.ask.explain.verdicts.advice import Suggestion
    from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
    from stowplan.ask.explain.verdicts.verdict import StaleVerdictError, Verdict
    from stowplan.ask.loading.live_cluster import LiveClusterError
    from stowplan.ask.offline import Cluster, ClusterError
    from stowplan.kube.api.load import LoadError
    from stowplan.kube.config import ConfigError, Configuration
    from stowplan.scheduler.engine.decision.decision import Decision
    from stowplan.scheduler.in_tree.configuration import load_config
    from stowplan.scheduler.inspection.frames import to_frame
    from stowplan_lab.simulation.errors import ScenarioError
    from stowplan_lab.simulation.simulate import SimulationResult, simulate_scenario
    from stowplan_lab.tuning.errors import TuningError
    from stowplan_lab.tuning.tune import Effort, TuningResult, tune_scenario

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
    "Cluster": "stowplan.ask.offline",
    "ClusterError": "stowplan.ask.offline",
    "ConfigError": "stowplan.kube.config",
    "Configuration": "stowplan.kube.config",
    "Decision": "stowplan.scheduler.engine.decision.decision",
    "Effort": "stowplan_lab.tuning.tune",
    "GroupVerdict": "stowplan.ask.explain.verdicts.group_verdict",
    "LiveClusterError": "stowplan.ask.loading.live_cluster",
    "LoadError": "stowplan.kube.api.load",
    "ScenarioError": "stowplan_lab.simulation.errors",
    "SimulationResult": "stowplan_lab.simulation.simulate",
    "StaleVerdictError": "stowplan.ask.explain.verdicts.verdict",
    "Suggestion": "stowplan.ask.explain.verdicts.advice",
    "TuningError": "stowplan_lab.tuning.errors",
    "TuningResult": "stowplan_lab.tuning.tune",
    "Verdict": "stowplan.ask.explain.verdicts.verdict",
    "load_config": "stowplan.scheduler.in_tree.configuration",
    "simulate_scenario": "stowplan_lab.simulation.simulate",
    "to_frame": "stowplan.scheduler.inspection.frames",
    "tune_scenario": "stowplan_lab.tuning.tune",
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
