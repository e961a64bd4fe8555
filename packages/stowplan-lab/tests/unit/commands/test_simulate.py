"""`stowplan simulate`, as users run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from stowplan.app.cli.main import cli
from support.processes import forked

SCENARIO = """
name: small
duration: 60
cluster:
  groups:
  - {name: a, count: 1, capacity: {cpu: 4}, price: 2}
workloads:
- name: w
  manifest: {kind: Pod, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}}
  each: 2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def stowplan(*arguments):
    return CliRunner().invoke(cli, ["simulate", *map(str, arguments)], catch_exceptions=False)


def test_the_summary_has_the_pods_and_the_output_folder(file, tmp_path):
    result = stowplan(file, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "small: 60 s simulated, seed 1" in result.stdout
    assert "1 pending, 1 running" in result.stdout
    assert "NodeResourcesFit" in result.stdout
    assert f"open {tmp_path}/out/report.html" in result.stdout
    assert {one.name for one in (tmp_path / "out").iterdir()} >= {
        "decisions.jsonl",
        "series.jsonl",
        "summary.json",
        "report.html",
    }


def test_the_summary_as_json_with_another_seed(file, tmp_path):
    result = stowplan(file, "--out", tmp_path / "out", "--seed", 5, "-o", "json", "--no-decisions")
    assert json.loads(result.stdout)["seed"] == 5
    assert not (tmp_path / "out" / "decisions.jsonl").read_bytes()


def test_another_configuration(file, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofles: []\n")
    result = stowplan(file, "--out", tmp_path / "out", "--config", config)
    assert result.exit_code == 2
    assert "profles" in result.stderr
    assert not (tmp_path / "out").exists()


def test_invalid_scenarios_are_reported_with_their_lines(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(SCENARIO.replace("each: 2", "eech: 2"))
    result = stowplan(path)
    assert result.exit_code == 2
    assert result.stderr == f"error: {path}: line 10: workloads[0].eech: there is no such field; did you mean each?\n"


def test_the_schema_for_editors():
    assert "Scenario" in json.loads(stowplan("--schema").stdout)["$defs"]


def test_without_a_scenario():
    result = stowplan()
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_finished_rows(tmp_path):
    path = tmp_path / "long.yaml"
    path.write_text(SCENARIO.replace("duration: 60", "duration: 100d").replace("each: 2", "rate: 1/m\n  lifetime: 5"))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "stowplan", "simulate", str(path), "--out", str(out)]
    with forked.ForkedProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ) as process:
        # The first block of rows is in the file, so the simulation is running.
        while not (out / "decisions.jsonl").exists() or not (out / "decisions.jsonl").stat().st_size:
            assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"(interrupted)" in told
    rows = [json.loads(line) for line in (out / "decisions.jsonl").read_bytes().splitlines()]
    summary = json.loads((out / "summary.json").read_bytes())
    assert summary["interrupted"]
    assert len(rows) == summary["arrived"] > 100
