"""The guide for plugin authors: each of its Python blocks runs by itself and works as described."""

import re
import sys

import pytest
from click import Context
from click.testing import CliRunner

import stowplan.plugins
from stowplan.app.cli.main import cli
from stowplan.plugins import Reads
from stowplan.scheduler.framework.declarations import ABOUT
from stowplan.scheduler.framework.interface import EXTENSION_POINTS
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import Latency, live_cluster
from support.paths import ROOT

GUIDE = (ROOT / "docs/extend/plugins.md").read_text(encoding="utf-8")
DECLARATIONS = (ROOT / "docs/extend/declarations.md").read_text(encoding="utf-8")
CONTROLLERS = (ROOT / "docs/extend/controllers.md").read_text(encoding="utf-8")


def blocks(text):
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


BLOCKS = blocks(GUIDE + DECLARATIONS)


def run(block):
    namespace = {"__name__": "guide"}
    exec(compile(block, "docs/extend/plugins.md", "exec"), namespace)
    return namespace


@pytest.mark.parametrize(
    "block", [pytest.param(b, id=re.search(r"class (\w+)", b)[1]) for b in BLOCKS + blocks(CONTROLLERS)]
)
def test_examples_run(block):
    assert "assert " in block
    run(block)


def test_real_plugins_are_shown_as_they_are():
    folder = ROOT / "packages/stowplan-scheduler-plugins/src/stowplan_scheduler_plugins"
    modules = [(folder / f"{name}.py").read_text() for name in ("node_resources_allocatable", "preemption_toleration")]
    *shown, example = blocks((ROOT / "docs/extend/real-plugins.md").read_text(encoding="utf-8"))
    assert [sum(block in module for module in modules) for block in shown] == [1, 1, 1, 1]
    assert [len(module.splitlines()) for module in modules] == [67, 105], "as the page says"
    run(example)


def test_each_plugin_level_has_an_example_offline_and_live():
    assert len(BLOCKS) == 11
    assert sum("live_cluster" in block for block in BLOCKS) == 2


@pytest.mark.parametrize("args", [{"percent": 200}, {"percent": "10"}, {"percnt": 10}])
def test_bad_arguments_are_reported_as_in_the_guide(args):
    guide = run(next(block for block in BLOCKS if "Headroom" in block))
    guide["config"]["profiles"][0]["pluginConfig"][0]["args"] = args
    with pytest.raises(stowplan.ConfigError) as caught:
        stowplan.Cluster([], config=guide["config"], plugins=[guide["Headroom"]])
    assert f"\n{caught.value}\n" in GUIDE


def test_every_extension_point_and_kind_of_reading_is_listed():
    for name in EXTENSION_POINTS:
        assert f"`{name}`" in GUIDE, name
    for name in (*(f"Reads.{member.name}" for member in Reads), *(ABOUT.keys() - {"guaranteed_feasible_sets"})):
        assert name in DECLARATIONS, name


def test_classes_named_in_the_guide_can_be_imported():
    named = set(re.findall(r"`([A-Z]\w+(?:Plugin|Signed|Extensions|Pods|Info|State|Result))`", GUIDE + DECLARATIONS))
    assert named
    assert sorted(named - set(stowplan.plugins.__all__)) == []


# -- statements in the text -------------------------------------------------------------------------------------------


def example(name):
    """What a block defines, without running it."""
    block = next(block for block in BLOCKS if f"class {name}(" in block)
    return run(block.partition("\nwith live_cluster(")[0])


def test_a_plugin_is_disabled_until_its_resource_is_served():
    guide = example("Licensed")
    node, wants = a_node("n1").obj(), a_pod("early").labels(licence="cad")
    with live_cluster(node, config=guide["config"], plugins=[guide["Licensed"]]) as cluster:
        cluster.create(wants.obj())
        assert cluster.node_of("early") == "n1"
        cluster.create(guide["definition"])
        cluster.advance(61)
        cluster.create(a_pod("late").labels(licence="cad").obj())
        assert "no seat of licence cad is free" in cluster.why_pending("late")
        cluster.create(guide["cad"])
        cluster.advance(2)
        assert cluster.node_of("late") == "n1"


def test_the_hint_wakes_only_the_pods_of_the_licence():
    guide = example("Licensed")
    with live_cluster(
        guide["definition"], a_node("n1").obj(), config=guide["config"], plugins=[guide["Licensed"]]
    ) as cluster:
        cluster.create(a_pod("cad").labels(licence="cad").obj(), a_pod("cam").labels(licence="cam").obj())
        cluster.create(guide["cad"])
        cluster.advance(2)
        assert (cluster.node_of("cad"), cluster.node_of("cam")) == ("n1", "")
        assert cluster.engine.queue.get("default/cam").attempts == 1


def test_a_licence_that_changed_meanwhile_is_not_overcommitted():
    """The version in the patch: PreBind fails, and the pod is tried again with current data."""
    guide = example("Licensed")

    class Slow(guide["Licensed"]):
        def pre_filter(self, state, pod, nodes):
            return None if "licence" in pod.labels else super().pre_filter(state, pod, nodes)

    there = guide["definition"], guide["cad"], a_node("n1").obj()
    with live_cluster(*there, config=guide["config"], plugins=[Slow], latency=Latency(requests=0.5)) as cluster:
        cluster.create(*(a_pod(name).labels(licence="cad").obj() for name in ("a", "b")))
        cluster.advance(5)
        holders = cluster.get("licences.shop.example.com", "cad")["spec"]["holders"]
        assert len(holders) == 1
        assert sorted(name for name in ("a", "b") if cluster.node_of(name)) == [holder[-1] for holder in holders]


def guide_files(folder):
    """The plugin, the configuration and the cluster that the guide says to save."""
    block = next(block for block in BLOCKS if "class TeamNodes(" in block)
    (folder / "my_plugins.py").write_text(block[: block.index("config = {")])
    config, cluster = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    (folder / "scheduler.yaml").write_text(config)
    (folder / "cluster.yaml").write_text(cluster)


COMMANDS = re.findall(r"^\$ stowplan (.*--plugin.*)$", GUIDE, re.MULTILINE)


def test_commands_of_the_guide_exist():
    assert [command.split()[0] for command in COMMANDS] == ["explain", "up", "run"]
    for command in COMMANDS:
        words = command.split()
        options = {option for parameter in cli.get_command(Context(cli), words[0]).params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options


def test_explain_with_a_plugin_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guide_files(tmp_path)
    answer = CliRunner().invoke(cli, COMMANDS[0].split())
    sys.modules.pop("my_plugins", None)
    assert answer.exit_code == 0, answer.output
    assert f"{COMMANDS[0]}\n{answer.output}```" in GUIDE
