"""Measured load in simulations: what sources are told, and that plugins decide by it."""

import asyncio
import json

import pytest
import yaml

from stowplan.ask.rebalance.policy.measured_use import NodeMetrics, PodMetrics
from stowplan.controllers import Source
from stowplan.plugins import NodeScorePlugin, TemplateSigned, custom_resource
from stowplan_lab import ScenarioError, simulate_scenario
from support.paths import ROOT
from support.scenarios.manifests import group, pod, scenario

Loads = custom_resource("loads.v1.example.com", namespaced=False)
LOAD = {"apiVersion": "example.com/v1", "kind": "Load", "metadata": {"name": "asked"}}
KUBERNETES = {"metricProvider": {"type": "KubernetesMetricsServer"}}
PROMETHEUS = {"metricProvider": {"type": "Prometheus", "address": "http://prometheus"}}
POWER = {"k0": 100, "k1": 100, "k2": 0.02}


def on(node, cpu, used=None, name=None, **more):
    """A pod, perhaps of a node, where it may use more than it requests; and what it uses."""
    manifest = pod(cpu)
    if node:
        manifest["spec"]["nodeSelector"] = {"is": node}
        manifest["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "4"}
    given = {"name": name or node, "manifest": manifest, **more}
    return given | ({"usage": {"cpu": used}} if used else {})


NODES = [group(name, count=1, labels={"is": name}) for name in ("hot", "cool")]
#: The requests say the opposite of the use.
VARYING = {"each": [["0s", "2500m"], ["1m", "3500m"]], "every": "2m"}
OPPOSITE = scenario(on("hot", "100m", VARYING), on("cool", "2", "100m"), groups=NODES, duration="20m")
PROBE = on("", "500m", name="probe", at="10m")


def by(plugin, points=("score",), **args):
    alone = {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}
    profile = {"plugins": dict.fromkeys(points, alone), "pluginConfig": [{"name": plugin, "args": args}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def probed(given, config, **more):
    found = simulate_scenario(given | {"workloads": [*given["workloads"], PROBE]}, config=config, **more)
    return next(row.node.partition("-")[0] for row in found.decisions if row.workload == "probe"), found.summary


@pytest.mark.parametrize(
    ("config", "node"),
    [
        pytest.param(None, "hot", id="by requests"),
        pytest.param(by("TargetLoadPacking", **KUBERNETES), "cool", id="metrics.k8s.io"),
        pytest.param(by("LoadVariationRiskBalancing", **PROMETHEUS), "cool", id="Prometheus"),
        pytest.param(
            by("LowRiskOverCommitment", ("preScore", "score"), watcherAddress="http://watcher"), "cool", id="watcher"
        ),
        pytest.param(
            by("Peaks", WatcherAddress="http://watcher", NodePowerModel={"hot-1": POWER, "cool-1": POWER}),
            "cool",
            id="power",
        ),
    ],
)
def test_plugins_by_measured_load_see_what_workloads_use(config, node):
    chosen, summary = probed(OPPOSITE, config)
    assert (chosen, summary.notes) == (node, ())
    assert summary.busiest["cpu"] > 0.7


def test_it_is_the_same_again():
    config = by("TargetLoadPacking", **KUBERNETES)
    assert len({probed(OPPOSITE, config)[1].digest for _ in range(2)}) == 1


def test_if_no_workload_says_what_it_uses_nothing_is_measured(tmp_path):
    config = by("LoadVariationRiskBalancing", watcherAddress="http://watcher")
    given = scenario(groups=NODES)
    _, summary = probed(given, config)
    assert summary.notes == ("http://watcher: nothing is measured, as no workload has usage",)
    assert not summary.busiest
    metrics = {"hot-1": [{"type": "CPU", "operator": "AVG", "value": 90}]}
    metrics["cool-1"] = [{"type": "CPU", "operator": "AVG", "value": 10}]
    watched = {"data": {"NodeMetricsMap": {node: {"metrics": of_node} for node, of_node in metrics.items()}}}
    measured = {"apiVersion": "load.stowplan.io/v1", "kind": "NodeLoad", "watched": watched}
    (tmp_path / "load.json").write_text(json.dumps(measured | {"metadata": {"name": "http://watcher"}}))
    given["cluster"]["files"] = [str(tmp_path / "load.json")]
    chosen, summary = probed(given, config)
    assert (chosen, summary.notes) == ("cool", ())
    # What workloads use replaces it.
    chosen, _ = probed(OPPOSITE | {"cluster": given["cluster"]}, config)
    assert chosen == "cool"


def test_it_needs_a_duration():
    given = {name: value for name, value in OPPOSITE.items() if name != "duration"}
    with pytest.raises(ScenarioError, match="measured load never ends: give the scenario a duration"):
        simulate_scenario(given, config=by("TargetLoadPacking", **KUBERNETES))
    assert simulate_scenario(given).summary.arrived == 2


# -- what sources are told ---------------------------------------------------------------------------------------------


class Asked(Source, frozen=True):
    kind, name, interval = Loads, "asked", 60.0

    async def measure(self, client):
        return LOAD | {"answer": [client.wall_clock(), await QUESTIONS[-1](client)]}


class AskedPlugin(NodeScorePlugin, TemplateSigned):
    name = "AskedPlugin"
    reads_kinds = (Loads,)

    def sources(self):
        return (Asked(),)

    def score_node(self, state, pod, node):
        return 0


QUESTIONS = []


def answers(ask, *workloads, **more):
    """What was answered, and when, in seconds; and the notes."""
    told = []

    async def asked(client):
        told.append((client.wall_clock() - 1_767_225_600, await ask(client)))

    QUESTIONS.append(asked)
    given = scenario(*workloads, groups=NODES, **({"duration": "2m"} | more))
    summary = simulate_scenario(given, config=by("AskedPlugin"), plugins=[AskedPlugin]).summary
    return told, summary.notes


async def nodes_of(client):
    return {one.metadata.name: one.content["usage"] for one in await client.list(NodeMetrics)}


def prometheus(series):
    async def ask(client):
        found = await client.get_json("http://p/api/v1/query", query={"query": series})
        return {one["metric"]["instance"]: float(one["value"][1]) for one in found["data"]["result"]}

    return ask


def test_nodes_are_measured_from_the_start_and_at_intervals():
    told, notes = answers(nodes_of, on("hot", "1", "50%"), on("cool", "1"))
    start, later = ({node: {"cpu": cpu, "memory": size} for node in ("hot-1", "cool-1")} for cpu, size in STEPS)
    assert told == [(0, start), (60, later), (120, later)]
    assert notes == ()


STEPS = (("0m", "0"), ("500m", str(512 * 2**20)))


def test_pods_are_measured_once_they_run():
    async def ask(client):
        found = await client.list(PodMetrics)
        return [(one.metadata.namespace, one.metadata.name, one.content["containers"]) for one in found]

    told, _ = answers(ask, on("hot", "1", "200%"), models={"startup": "90s"})
    usage = {"cpu": "2000m", "memory": str(512 * 2**20)}
    assert [found for _, found in told] == [[], [], [("default", "hot-1", [{"usage": usage}])]]


def test_other_objects_are_those_of_the_cluster():
    from stowplan.plugins.objects import Node

    async def ask(client):
        return [node.metadata.name for node in await client.list(Node)]

    assert answers(ask, on("hot", "1", "1"))[0][0] == (0, ["cool-1", "hot-1"])


@pytest.mark.parametrize(
    ("series", "expected"),
    [("avg_over_time(instance:node_cpu:ratio[15m])", 0.5), ("stddev_over_time(instance:node_cpu:ratio[15m])", 0.25)],
)
def test_prometheus_has_the_last_quarter_of_an_hour(series, expected):
    """At first 1 of 4 cores, later 3; the nothing of the start is forgotten."""
    curve = {"each": [["0s", "1"], ["16m", "1"], ["16m1s", "3"]]}
    told, _ = answers(prometheus(series), on("hot", "1", curve), duration="23m")
    assert told[15][1]["hot-1"] == pytest.approx(0.25 if "avg" in series else 0)
    # Of 15 samples, from 9 to 23 minutes: 8 and 7.
    last = told[-1][1]["hot-1"]
    assert last == pytest.approx(expected, abs=0.02)


def test_a_node_that_has_failed_is_not_measured():
    fails = {"at": "90s", "fail": {"nodes": ["hot-1"]}}
    told, _ = answers(nodes_of, on("hot", "1", "1"), events=[fails])
    assert [sorted(found) for _, found in told] == [["cool-1", "hot-1"]] * 2 + [["cool-1"]]


async def another_service(client):
    await client.get_json("http://thermometers/nodes")


async def another_query(client):
    await client.get_json("http://p/api/v1/query", query={"query": "up"})


async def another_time(client):
    raise ValueError(client.wall_clock())


async def sleeps(client):
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("ask", "note"),
    [
        (another_service, "asked cannot be read: a simulation has no answer to http://thermometers/nodes"),
        (another_query, "a simulation has no answer to http://p/api/v1/query up"),
        (another_time, "asked cannot be read: ValueError: 1767225600.0 (test_measuring.py:"),
        (sleeps, "asked awaits something that does not exist in simulated time"),
    ],
)
def test_what_has_no_answer_is_noted(ask, note):
    _, notes = answers(ask, on("hot", "1", "1"))
    assert len(notes) == 1
    assert note in notes[0]


def test_a_scheduler_by_load_lowers_that_of_the_busiest_node():
    with (ROOT / "examples/simulation/load.yaml").open() as file:
        given = yaml.safe_load(file) | {"duration": "4h", "start": "2026-01-01T12:00:00Z"}
    configurations = (None, str(ROOT / "examples/configurations/by-load.yaml"))
    requests, load = (simulate_scenario(given, config=config).summary.busiest["cpu"] for config in configurations)
    assert load < 0.95 * requests
