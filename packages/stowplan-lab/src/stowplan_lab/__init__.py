"""Simulations with Stowplan: scenarios in virtual time, comparisons, tuning, sweeps and traces.

    stowplan_lab.simulate_scenario("week.yaml")        # run a scenario in virtual time
    stowplan_lab.tune_scenario("week.yaml", folder=…)  # search for a better configuration

`stowplan_lab.sweeps` runs simulations in processes or on a Dask cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from stowplan_lab.simulation.scenario_errors import ScenarioError as ScenarioError
    from stowplan_lab.simulation.simulate import SimulationResult as SimulationResult
    from stowplan_lab.simulation.simulate import simulate_scenario as simulate_scenario
    from stowplan_lab.tuning.objective import TuningError as TuningError
    from stowplan_lab.tuning.tune import Effort as Effort
    from stowplan_lab.tuning.tune import TuningResult as TuningResult
    from stowplan_lab.tuning.tune import tune_scenario as tune_scenario
else:
    __getattr__, __dir__ = lazy_imports(__name__, __file__)
