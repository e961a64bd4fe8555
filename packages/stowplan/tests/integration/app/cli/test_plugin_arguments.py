"""A plugin whose arguments have defaults, in every command that loads a configuration."""

import asyncio
import json

import pytest
import yaml

from stowplan.testing import a_node, a_pod
from support.live.recordings import a_short_run
from support.plugins.argued_plugins import COMPLETE, CONFIGURATION, Prefers
from support.sweeps.in_process import InProcessWorkers

SCENARIO = """
name: small
duration: 60
cluster:
  groups:
  - {name: large, count: 2, capacity: {cpu: 4}, price: 2}
workloads:
- name: w
  manifest: {kind: Pod, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}}
  each: 2
"""
PLUGIN = "--plugin=support.plugins.argued_plugins:Prefers"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arguments")
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIGURATION))
    (folder / "other.yaml").write_text(yaml.safe_dump(CONFIGURATION).replace("90", "80"))
    (folder / "scenario.yaml").write_text(SCENARIO)
    objects = [a_node(name).allocatable(cpu="8", pods="10").obj() for name in ("large", "small")]
    objects += [a_pod("web").requests(cpu="1").obj()]
    (folder / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    asyncio.run(a_short_run(folder / "run.recording", config=CONFIGURATION, plugins=[Prefers]))
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("stowplan_lab.sweeps.Processes", InProcessWorkers)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("config view config.yaml", 0),
        ("config view config.yaml -o json", 0),
        ("config validate config.yaml", 0),
        ("config convert config.yaml", 0),
        ("config diff config.yaml", 1),
        ("config diff config.yaml other.yaml", 1),
        ("config diff config.yaml config.yaml", 0),
        ("config defaults", 0),
        ("config schema", 0),
        ("config explain Prefers", 0),
        ("explain -f cluster.json --config config.yaml pod web", 0),
        ("fit -f cluster.json --config config.yaml web", 0),
        ("what-if -f cluster.json --config config.yaml --remove large", 0),
        ("drain -f cluster.json --config config.yaml large", 0),
        ("survive -f cluster.json --config config.yaml --by node", 0),
        ("simulate scenario.yaml --config config.yaml --out simulated", 0),
        ("compare config.yaml other.yaml --scenario scenario.yaml --seeds 1", 0),
        ("compare recorded other.yaml --recording run.recording", 0),
        ("replay run.recording --check", 0),
        ("replay run.recording --config other.yaml", 0),
        ("shadow --recording run.recording --config other.yaml", 0),
        ("explain --recording run.recording pod web", 0),
        ("ui --recording run.recording --config config.yaml --export copied", 0),
        ("ui -f cluster.json --config config.yaml --export copy", 0),
    ],
)
def test_the_command_works(run, words, code):
    ran = run(*words.split(), PLUGIN)
    assert (ran.code, [line for line in ran.err.splitlines() if "error" in line]) == (code, []), ran.err


def test_a_search(run, folder):
    pytest.importorskip("optuna", reason="the extra tune is not installed")
    words = "tune scenario.yaml --config config.yaml --out tuned --trials 1 --seeds 1 --judged-seeds 1 --objective cost"
    ran = run(*words.split(), PLUGIN)
    assert ran.code == 3, "nothing is better than what is there"
    (found,) = folder.glob("tuned/*.yaml")
    (entry,) = (e for e in yaml.safe_load(found.read_text())["profiles"][0]["pluginConfig"] if e["name"] == "Prefers")
    assert entry["args"] == COMPLETE


def test_the_default_decides_and_is_shown(run):
    answer = json.loads(
        run(*["explain", "-f", "cluster.json", "--config", "config.yaml", "pod", "web", "-o", "json"], PLUGIN).out
    )
    assert answer["node"] == "large"
    shown = json.loads(run(*["config", "view", "config.yaml", "-o", "json"], PLUGIN).out)["files"][0]["configuration"]
    (entry,) = (e for e in shown["profiles"][0]["pluginConfig"] if e["name"] == "Prefers")
    assert entry["args"] == COMPLETE
