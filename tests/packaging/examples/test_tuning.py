"""examples/tuning: packing saves money on nodes that an autoscaler removes, with either objective."""

import os
import subprocess
import sys

import pytest

import stowplan
from stowplan_lab.simulation.simulate import simulate_scenario
from stowplan_lab.tuning.search_records import BETTER
from stowplan_lab.tuning.tune import Effort, tune_scenario
from support.paths import ROOT
from support.sweeps.in_process import InProcessWorkers

TUNING = ROOT / "examples" / "tuning"


def test_the_scenario_runs_alone():
    summary = simulate_scenario(TUNING / "batch.yaml", decisions=False).summary
    assert summary.cost > 0
    assert summary.nodes_added > 0
    assert summary.ends["finished"] > 200


def test_its_files_are_deterministic(tmp_path):
    """String hashes differ between processes."""
    written = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        command = [sys.executable, "-m", "stowplan", "simulate", TUNING / "batch.yaml", "--out", folder, "--quiet"]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed})
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len(written[0]) >= 5
    assert [name for name in written[0] if written[0][name] != written[1].get(name)] == []


@pytest.mark.parametrize("objective", ["cost", "patience:patience"])
def test_packing_is_found(objective, tmp_path, monkeypatch):
    pytest.importorskip("optuna", reason="the extra tune is not installed")
    monkeypatch.syspath_prepend(TUNING)
    found = tune_scenario(
        str(TUNING / "batch.yaml"),
        folder=tmp_path,
        space=str(TUNING / "space.yaml"),
        objective=objective,
        effort=Effort(trials=4, seeds=1, judged_seeds=4),
        workers=InProcessWorkers(),
    )
    assert found.record.verdict == BETTER
    (fit,) = (
        one
        for one in stowplan.load_config(found.configuration).to_dict()["profiles"][0]["pluginConfig"]
        if one["name"] == "NodeResourcesFit"
    )
    assert fit["args"]["scoringStrategy"]["type"] == "MostAllocated"
