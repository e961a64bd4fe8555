"""The action for pull requests: its script by bash, as a runner runs it; examples/pull-requests, which uses it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stowplan.app.cli.check import check
from stowplan.testing import a_node, a_pod
from support.paths import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
WORKFLOW = yaml.safe_load((ROOT / "examples/pull-requests/check.yml").read_text())
STEPS = {step.get("name"): step for step in ACTION["runs"]["steps"]}
#: A shell that runs commands in files must not run this one.
HOSTILE = "$(touch hacked).yaml"


def manifest(cpu):
    return json.dumps(a_pod("new").requests(cpu=cpu).obj())


@pytest.fixture
def checked(tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    installed = tmp_path / "stowplan" / "bin"
    installed.mkdir(parents=True)
    (installed / "stowplan").symlink_to(Path(sys.executable).parent / "stowplan")
    (tmp_path / "cluster.json").write_text(json.dumps(a_node("n").allocatable(cpu="1", pods="9").obj()))

    def ran(manifests, **inputs):
        given = {
            "CLUSTER": "cluster.json",
            "RECORDING": "",
            "CONFIG": "",
            "SARIF": "",
            **inputs,
            "MANIFESTS": manifests,
        }
        assert given.keys() == STEPS["Check"]["env"].keys()
        env = {**os.environ, **given, "RUNNER_TEMP": str(tmp_path)}
        script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["Check"]["run"]]
        return subprocess.run(script, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    return ran


def test_findings_are_annotations_and_a_file(checked, tmp_path):
    (tmp_path / "big.yaml").write_text(manifest("2"))
    (tmp_path / "small.yaml").write_text(manifest("1"))
    answer = checked("big.yaml\n", SARIF="out.sarif")
    assert answer.returncode == 3, answer.stderr
    assert answer.stdout.startswith("::error file=big.yaml,line=1,title=stowplan%3A does-not-fit::")
    assert json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "does-not-fit"
    assert checked("small.yaml").returncode == 0


def test_nothing_has_changed(checked):
    answer = checked(" \n")
    assert (answer.returncode, answer.stdout) == (0, "no manifests have changed\n")


def test_a_cluster_or_a_recording_is_given(checked):
    neither = checked("big.yaml", CLUSTER="")
    assert (neither.returncode, neither.stdout) == (2, "::error::stowplan check: give cluster or recording\n")
    assert "no recording.bin" in (answer := checked("big.yaml", CLUSTER="", RECORDING="no recording.bin")).stderr
    assert answer.returncode == 2


def test_names_of_files_are_not_run(checked, tmp_path):
    assert checked(HOSTILE).returncode == 3
    assert not (tmp_path / "hacked").exists()


def test_the_example_names_inputs_that_there_are():
    (job,) = WORKFLOW["jobs"].values()
    (step,) = (step for step in job["steps"] if "stowplan@" in step.get("uses", ""))
    assert step["with"].keys() <= ACTION["inputs"].keys()
    assert {name for name, given in ACTION["inputs"].items() if given.get("required")} <= step["with"].keys()


def test_the_hook_of_pre_commit_is_a_command():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == f"stowplan {check.name}"
