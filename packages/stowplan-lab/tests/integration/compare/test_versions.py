"""`stowplan compare 1.36 1.37`: what an upgrade of Kubernetes would move."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stowplan.app.cli.main import cli
from stowplan.testing import a_node, a_pod
from support.live.recordings import a_short_run
from support.sweeps.in_process import InProcessWorkers

MB = 1024 * 1024
#: Since 1.37 the image of the volume counts for the limit of ImageLocality's score, which then is lower on the node
#: that has the image than what the other one has more of free resources.
POD = a_pod("p").image("a:1").requests(cpu="100m").volume("v", image={"reference": "other:1"}).obj()
WITH_IMAGE = a_node("with-image").image("a:1", size=1500 * MB).allocatable(cpu="4", memory="16Gi", pods="10")
RUNNING = a_pod("running").requests(cpu="1900m", memory="6Gi").on("with-image")
EMPTY = a_node("empty").allocatable(cpu="4", memory="16Gi", pods="10")


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    # Results are written into the working directory.
    monkeypatch.chdir(tmp_path)

    def write(**told):
        objects = [WITH_IMAGE.obj(), EMPTY.obj(), RUNNING.obj(), POD]
        dump = {"apiVersion": "v1", "kind": "List", **told, "items": objects}
        (tmp_path / "cluster.json").write_text(json.dumps(dump))
        path = tmp_path / "upgrade.yaml"
        path.write_text(yaml.safe_dump({"duration": "1m", "cluster": {"files": ["cluster.json"]}}))
        return str(path)

    return write


@pytest.fixture
def compared(monkeypatch):
    monkeypatch.setattr("stowplan_lab.sweeps.Processes", InProcessWorkers)
    return lambda *words: CliRunner().invoke(cli, ["compare", *words, "--quiet"])


def test_what_an_upgrade_moves(scenario, compared):
    path = scenario(kubernetesVersion="1.36")
    ran = compared("1.36", "1.37", "--scenario", path, "--seeds=1", "-o", "json")
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["emulatedVersions"] == ["1.36", "1.37"]
    assert found["placedDifferently"][1]["mean"] > 0
    assert "A: 1.36\n" in compared("1.36", "1.37", "--scenario", path, "--seeds=1").stdout


@pytest.mark.parametrize(("told", "version"), [({"kubernetesVersion": "1.36"}, "1.36"), ({}, "1.37")])
def test_a_scenario_is_of_the_version_of_its_dump(scenario, compared, tmp_path, told, version):
    config = tmp_path / "default.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    words = str(config), f"{config}@1.36", "--scenario", scenario(**told), "--seeds=1", "-o", "json"
    found = json.loads(compared(*words).stdout)
    assert found["emulatedVersions"] == [version, "1.36"]
    assert (found["placedDifferently"][1]["mean"] > 0) == (version != "1.36")


@pytest.mark.parametrize(
    ("told", "problem"),
    [("1.36", ""), ("1.37", "scheduler, as Kubernetes 1.37: the scheduler has no gate 'GangScheduling' in 1.37")],
)
def test_the_gates_of_a_scenario_are_those_of_the_version_of_its_dump(scenario, told, problem):
    path = scenario(kubernetesVersion=told)
    changed = yaml.safe_load(Path(path).read_text())
    changed["scheduler"] = {"featureGates": {"GenericWorkload": True, "GangScheduling": True}}
    Path(path).write_text(yaml.safe_dump(changed))
    ran = CliRunner().invoke(cli, ["simulate", path, "--quiet"])
    assert (ran.exit_code == 0) == (not problem), ran.output
    assert problem in ran.output


def test_a_recording(compared, tmp_path):
    path = tmp_path / "run.recording"
    asyncio.run(a_short_run(path))
    ran = compared("recorded@1.36", "1.37", "--recording", str(path), "-o", "json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["emulatedVersions"] == ["1.36", "1.37"]


@pytest.mark.parametrize("words", [("1.36", "1.12"), ("a.yaml@1.12", "1.37")])
def test_a_version_that_is_unknown(scenario, compared, words):
    ran = compared(*words, "--scenario", scenario())
    assert ran.exit_code == 2
    assert "1.12 is not between 1.34 and 1.37" in ran.output
