"""Every file of examples/ is run, or used by one that runs; uncovered files are errors."""

import contextlib
import json
import runpy
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import stowplan
from stowplan.app.cli.main import cli
from stowplan.testing import a_node, a_pod
from support.console import examples_copy
from support.paths import ROOT

EXAMPLES = ROOT / "examples"
CONFIGURATIONS = sorted(path.name for path in (EXAMPLES / "configurations").iterdir())
PLUGINS = {path.stem for path in (EXAMPLES / "plugins").glob("*.py")}
#: Manifest -> number of pods without a node, including the cluster's.
MANIFESTS = {"new-service.yaml": 7, "report.yaml": 2, "terminating.yaml": 1}
SCRIPTS = {
    "agent.py": (["-f", "shop/cluster.yaml"], "change: drain node node-b1"),
    "capacity_report.py": (["shop/cluster.yaml"], "shop/web-7b748b6c55            2 more  Insufficient cpu"),
    "compare_configurations.py": (["shop/cluster.yaml", "configurations/packing.yaml"], "configurations/packing.yaml"),
    "ci_gate.py": (["shop/cluster.yaml", "shop/report.yaml"], "batch/report would stay pending: 0/9 nodes"),
    "fields.py": (["verdict.json", "pod", "absent.field"], "pod: ml/notebook\nabsent.field: null\n"),
    "walkthrough.py": ([], "{'web-5': 'node-3'}"),
}


@pytest.fixture(autouse=True, scope="module")
def folder():
    with examples_copy() as folder:
        yield folder


def test_every_file_is_covered():
    """Each file is in one of the tables here, or its folder has a test module that names it."""
    files = {
        path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    known = {Path("README.md"), Path("shop/cluster.yaml")}
    known |= {Path("configurations", name) for name in CONFIGURATIONS} | {Path("shop", name) for name in MANIFESTS}
    known |= {Path("plugins", name + end) for name in PLUGINS for end in (".py", ".yaml")}
    known |= {Path("scripts", name) for name in SCRIPTS}
    assert {str(path) for path in files - known if not has_own_tests(path.parts[0])} == set()
    assert known <= files


def has_own_tests(folder):
    """Whether another test module is about this folder of examples/."""
    modules = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    return any(
        f"examples/{folder}" in text or f'"examples" / "{folder}"' in text for text in map(Path.read_text, modules)
    )


def test_every_file_is_listed_in_the_readme():
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = {f"{folder}/{name}" for folder, names in _tables().items() for name in names}
    assert {name for name in listed if f"({name})" not in readme} == set()


def _tables():
    return {
        "configurations": CONFIGURATIONS,
        "plugins": sorted(f"{name}.py" for name in PLUGINS),
        "scripts": sorted(SCRIPTS),
        "shop": ["cluster.yaml", *MANIFESTS],
    }


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations_are_valid_and_change_something(name):
    valid = CliRunner().invoke(cli, ["config", "validate", f"configurations/{name}"])
    assert valid.exit_code == 0, valid.output
    # The only warning is that kube-scheduler no longer reads these.
    older = name in ("policy.json", "v1beta3.yaml")
    assert valid.output.count("warning: ") == older
    assert ("kube-scheduler 1.37 refuses it" in valid.output) == older
    assert CliRunner().invoke(cli, ["config", "diff", f"configurations/{name}"]).exit_code == 1


@pytest.mark.parametrize("name", MANIFESTS)
def test_pods_of_manifests_can_be_explained(name):
    answer = CliRunner().invoke(cli, ["explain", "-f", "shop/cluster.yaml", "-f", f"shop/{name}", "-o", "json"])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["summary"]["pods"] == MANIFESTS[name]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_run(name, monkeypatch, capfd):
    if name == "fields.py":
        verdict = stowplan.Cluster.from_files("shop/cluster.yaml").explain("ml/notebook")
        Path("verdict.json").write_text(json.dumps(verdict.to_dict()))
    arguments, expected = SCRIPTS[name]
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    # The gate fails: the report does not fit.
    ends = pytest.raises(SystemExit, match=r"^1$") if name == "ci_gate.py" else contextlib.nullcontext()
    with ends:
        runpy.run_path(f"scripts/{name}", run_name="__main__")
    assert expected in capfd.readouterr().out


# -- plugins ----------------------------------------------------------------------------------------------------------


def cluster_with(name, *objects):
    """A cluster with a plugin of examples/plugins and its configuration."""
    names = runpy.run_path(f"plugins/{name}.py")
    [wanted] = yaml.safe_load(Path(f"plugins/{name}.yaml").read_text())["profiles"][0]["plugins"]["multiPoint"][
        "enabled"
    ]
    return stowplan.Cluster(objects, config=f"plugins/{name}.yaml", plugins=[names[wanted["name"]]])


def test_team_nodes():
    cluster = cluster_with("team_nodes", a_node("common").obj(), a_node("red").labels(team="red").obj())
    assert cluster.explain(a_pod("a").labels(team="red").obj()).node_name == "red"
    refused = cluster.explain(a_pod("b").obj())
    assert refused.to_dict()["rejected"]["red"]["reasons"] == ["node(s) belonged to team red"]


def pods(node, terminating, nominated):
    for i in range(terminating):
        yield a_pod(f"{node}-leaving-{i}").on(node).deleted("2026-01-01T00:00:00Z").obj()
    for i in range(nominated):
        yield a_pod(f"{node}-nominated-{i}").status(nominatedNodeName=node).obj()


@pytest.mark.parametrize(
    ("states", "points"),
    [
        pytest.param({"a": (2, 0), "b": (1, 0), "c": (0, 0)}, {"a": 100, "b": 50, "c": 0}, id="terminating"),
        pytest.param({"a": (0, 2), "b": (0, 1), "c": (0, 0)}, {"a": 0, "b": 50, "c": 100}, id="nominated"),
        pytest.param({"a": (3, 2), "b": (2, 0), "c": (0, 1)}, {"a": 66, "b": 100, "c": 0}, id="both"),
        pytest.param({"a": (1, 1), "b": (2, 2), "c": (0, 0)}, {"a": 0, "b": 0, "c": 0}, id="all equal"),
    ],
)
def test_leaving_pods(states, points):
    """The scores of the Go plugin: (terminating - nominated), scaled to 0…100 with integer division."""
    objects = [obj for name, state in states.items() for obj in (a_node(name).obj(), *pods(name, *state))]
    verdict = cluster_with("leaving_pods", *objects).explain(a_pod("new").obj())
    assert {node: scores.get("LeavingPods", 0) for node, scores in verdict.to_dict()["scores"].items()} == points


def gang_pod(name, size):
    return a_pod(name).labels({"gang": "g", "gang-size": str(size)}).requests(cpu="2").obj()


def test_gang_room():
    cluster = cluster_with(
        "gang_room", a_node("n1").allocatable(cpu="4").obj(), a_node("n2").allocatable(cpu="4").obj()
    )
    assert cluster.explain(gang_pod("a-0", 4)).node_name
    assert "no room for 5 more pods of gang g" in cluster.explain(gang_pod("b-0", 5)).message
    cluster.schedule([gang_pod(f"a-{i}", 4) for i in range(4)])
    assert "Insufficient cpu" in cluster.explain(gang_pod("a-4", 4)).message
    assert cluster.explain(a_pod("alone").obj()).node_name
