"""Run a simulation again, from the scenario in its folder, up to a moment that the page asks about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from stowplan.app.command_line.named_plugins import named_plugins
from stowplan.ask.offline import Cluster
from stowplan.ask.offline.arguments import cluster_features
from stowplan.ui.timeline_file import TimelineHeader
from stowplan_lab.commands.scenario_options import scenario_reported
from stowplan_lab.simulation.definition.scenario_loading import load_scenario
from stowplan_lab.simulation.simulate import simulated_until


def cluster_at(header: TimelineHeader, at: float, *, folder: str, stopped: Callable[[], bool]) -> Cluster:
    """Raises InputError if the scenario is no longer valid."""
    rerun = header.rerun
    assert rerun is not None, "the caller has looked"
    plugins = named_plugins(rerun.plugins)
    config = yaml.safe_load(header.configuration.yaml)
    with scenario_reported():
        located = load_scenario(rerun.scenario, folder=Path(folder, rerun.folder).resolve())
        simulation = simulated_until(
            at,
            located,
            config=config,
            seed=rerun.seed,
            plugins=plugins,
            emulated_version=header.configuration.emulated_version,
            stopped=stopped,
        )
    own = named_plugins(located.scenario.scheduler.plugins)
    options = cluster_features(simulation.engine.features)
    return Cluster(simulation.engine.state.everything(), config, plugins=[*own, *plugins], **options)
