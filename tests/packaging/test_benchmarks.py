"""Each benchmark still runs to its end on minimal input. Their output is not checked."""

import os
import subprocess
import sys

import pytest

from support.paths import ROOT

BENCHMARKS = ROOT / "benchmarks"

#: Not run here: these take seconds on any input.
SMALL = {
    "client": ["--pods", "20", "--binds", "5"],
    "cycle": ["--nodes", "10", "--pods", "3", "--only", "cycle"],
    "extenders": ["--nodes", "10", "--pods", "5", "--good", "5"],
    "groups": ["--nodes", "10", "--pods", "5", "--racks", "2", "--rounds", "1"],
    "lookups": ["--nodes", "10", "--pods", "3", "--changes", "2"],
    "metrics": ["--nodes", "10", "--pods", "3", "--rounds", "2"],
    "page": ["--nodes", "10", "--pods", "30", "--seconds", "0.3"],
    "recording": ["--nodes", "10", "--pods", "3", "--rounds", "2"],
    "scheduling_queue": ["--sleeping", "20", "--shapes", "2"],
    "storage": ["--nodes", "9", "--pods", "12", "--volumes", "3"],
    "what_if": ["--nodes", "6", "--pods", "12"],
    "simulate": ["--nodes", "10", "--pods", "100"],
    "virtual_time": ["--nodes", "10", "--pods", "20", "--effects", "--stories", "--events", "--metrics"],
}


@pytest.mark.parametrize("name", SMALL)
def test_the_benchmark_runs(name):
    run = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", *SMALL[name]],
        cwd=BENCHMARKS,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert any(character.isdigit() for character in run.stdout)
