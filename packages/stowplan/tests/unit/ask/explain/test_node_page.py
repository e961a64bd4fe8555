"""A node as the scheduler sees it: its state, its pods, which pods fit, which do not, and suggestions."""

import json

import numpy as np
import pytest

import stowplan
from stowplan.ask.explain.node_view import Trouble, node_view
from stowplan.ask.explain.suggestions.suggestions import suggest_on
from stowplan.ask.explain.text.node_text import node_page
from stowplan.ask.explain.text.tables import plain
from stowplan.scheduler.inspection.records import document
from stowplan.testing import a_node, a_pod


def viewed(objects, name="n"):
    cluster = stowplan.Cluster(objects)
    infos = [cluster.pod(key) for key in cluster.pending()]
    questions = ((cluster.explain(info.key), (info.key,)) for info in infos)
    return node_view(cluster.engine, name, questions)


def page(objects, name="n", *, wide=False):
    return plain(node_page(viewed(objects, name), wide=wide))


def a_small_node(name="n"):
    return a_node(name).allocatable(cpu="4", memory="8Gi", pods="5")


def test_allocation_and_pods():
    pods = [
        a_pod("vip").requests(cpu="1500m", memory="2Gi").priority(10).on("n"),
        a_pod("old").requests(cpu="500m").on("n").started("2026-01-01T00:00:00Z"),
        a_pod("leaving").requests(cpu="500m").on("n").started("2026-01-02T00:00:00Z").deleted("2026-01-03T00:00:00Z"),
        a_pod("elsewhere").requests(cpu="2").on("m"),
    ]
    assert page([a_small_node().obj(), a_small_node("m").obj(), *(pod.obj() for pod in pods)]) == (
        "n: no pod is pending\n"
        "  label  kubernetes.io/hostname=n\n"
        "\n"
        "How full\n"
        "                      requested   of   free\n"
        "  cpu     ██████░░░░      2500m    4  1500m\n"
        "  memory  ██░░░░░░░░        2Gi  8Gi    6Gi\n"
        "  pods    ██████░░░░          3    5      2\n"
        "\n"
        "3 pods on it, the most important first\n"
        "  pod              priority    cpu  memory\n"
        "  default/vip            10  1500m     2Gi\n"
        "  default/old             0   500m       -\n"
        "  default/leaving         0   500m       -  terminating\n"
    )


def test_pods_that_fit():
    here = a_pod("here").requests(cpu="1").node_selector({"kubernetes.io/hostname": "n"})
    there = (
        a_pod("there")
        .requests(cpu="1")
        .prefers_node(50, {"key": "kubernetes.io/hostname", "operator": "In", "values": ["m"]})
    )
    either = a_pod("either").requests(cpu="1")
    out = page([a_small_node("m").obj(), a_small_node().obj(), here.obj(), there.obj(), either.obj()])
    assert out.startswith("n would take 3 of 3 pending pods\n")
    assert "  default/here    goes here\n" in out
    assert "  default/there   but goes to m, which has 200 points more\n" in out
    assert "  default/either  as well as m does: chance decides\n" in out


def test_refused_pods_and_suggestions():
    node = a_small_node().tainted("gpu").obj()
    roomy = a_node("m").allocatable(cpu="64", memory="8Gi", pods="5").obj()
    out = page([node, roomy, a_pod("big").requests(cpu="6").obj(), a_pod("small").requests(cpu="1").obj()])
    assert out.startswith("n would take 0 of 2 pending pods\n")
    assert (
        "Refuses\n"
        "  default/big    TaintToleration  node(s) had untolerated taint(s)  (gpu:NoSchedule; goes to m)\n"
        "  default/small  TaintToleration  node(s) had untolerated taint(s)  (gpu:NoSchedule; goes to m)\n"
        "\n"
        "What would let them in\n"
        "  default/big: tolerate gpu:NoSchedule and request 4 cpu instead of 6 — n lacks 2 cpu (0 of 4 in use)\n"
        "  default/small: tolerate gpu:NoSchedule\n"
    ) in out


def test_no_small_change_helps():
    full = a_pod("full").requests(cpu="4").on("n").obj()
    assert "default/x: no small change would do\n" in page(
        [a_small_node().obj(), full, a_pod("x").requests(cpu="1").obj()]
    )


def test_preemption_would_help():
    low = [a_pod(f"low-{i}").requests(cpu="2").on("n").obj() for i in range(2)]
    vip = a_pod("vip").requests(cpu="4").priority(9).obj()
    view = viewed([a_small_node().obj(), *low, vip])
    assert "default/vip: preemption could make room here by evicting 2 pods\n" in plain(node_page(view))
    assert sorted(document(view.record())["refuses"][0]["victims"]) == ["default/low-0", "default/low-1"]


def test_a_pod_that_the_node_is_nominated_to():
    nominated = a_pod("vip").requests(cpu="3").priority(9).nominated_to("n").obj()
    out = page([a_small_node().obj(), nominated, a_pod("late").requests(cpu="2").obj()])
    assert "  nominated  default/vip (priority 9), for which preemption makes room\n" in out
    assert "default/late  NodeResourcesFit  Insufficient cpu" in out


def test_pods_that_are_not_tried():
    out = page([a_small_node().obj(), a_pod("later").gated("wait").obj()])
    assert "Not tried\n  default/later  waiting for scheduling gates: [wait]\n" in out


def test_a_pod_refused_by_pre_filter():
    elsewhere = a_pod("x").requires_node(fields=[{"key": "metadata.name", "operator": "In", "values": ["m"]}])
    out = page([a_small_node().obj(), a_small_node("m").obj(), elsewhere.obj()])
    assert "default/x  NodeAffinity" in out
    assert "goes to m" in out


@pytest.mark.parametrize(
    ("node", "troubles"),
    [
        pytest.param(a_small_node(), [], id="healthy"),
        pytest.param(a_small_node().condition("MemoryPressure", "False"), [], id="no pressure"),
        pytest.param(
            a_small_node().condition("MemoryPressure"), [Trouble("MemoryPressure", "True", False)], id="not tainted"
        ),
        pytest.param(
            a_small_node().condition("DiskPressure").tainted("node.kubernetes.io/disk-pressure"),
            [Trouble("DiskPressure", "True", True)],
            id="tainted",
        ),
        pytest.param(
            a_small_node()
            .condition("PIDPressure")
            .tainted("node.kubernetes.io/pid-pressure", effect="PreferNoSchedule"),
            [Trouble("PIDPressure", "True", False)],
            id="a taint without effect on scheduling",
        ),
        pytest.param(a_small_node().condition("FrequentKubeletRestart"), [], id="an unknown condition"),
    ],
)
def test_conditions_matter_only_by_their_taints(node, troubles):
    objects = [node.obj()]
    assert viewed(objects).troubles == troubles
    told = "no taint says so, and the scheduler looks at nothing else"
    assert (told in page(objects)) == any(not trouble.tainted for trouble in troubles)


def test_short_and_wide_output():
    on_it = [a_pod(f"p-{i:02}").on("n").obj() for i in range(12)]
    waiting = [a_pod(f"w-{i:02}").requests(cpu=str(10 + i)).obj() for i in range(15)]
    objects = [a_small_node().labels(team="red").obj(), *on_it, *waiting]
    short, wide = page(objects), page(objects, wide=True)
    assert "… and 4 more pods (-o wide)" in short
    assert "… and 3 more kinds of pods (-o wide)" in short
    assert "team=red" not in short
    assert "default/p-11" in wide
    assert "default/w-14  " in wide
    assert "team=red" in wide


def test_as_data():
    objects = [a_small_node().tainted("gpu").obj(), a_small_node("m").obj()]
    objects += [a_pod("on").requests(cpu="1").on("n").obj(), a_pod("x").obj()]
    data = document(viewed(objects).record())
    assert json.loads(json.dumps(data)) == data
    assert data["resources"]["cpu"] == {"requested": "1", "allocatable": "4"}
    assert data["pods"] == [{"pod": "default/on", "priority": 0, "requests": {"cpu": "1"}}]
    (refused,) = data["refuses"]
    assert refused["goesTo"] == "m"
    assert [found["text"] for found in refused["suggestions"]] == ["tolerate gpu:NoSchedule"]


def test_the_command_with_files(tmp_path):
    from click.testing import CliRunner

    from stowplan.app.cli.main import cli

    path = tmp_path / "c.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [a_small_node().obj(), a_pod().obj()]}))
    assert CliRunner().invoke(cli, ["explain", "-f", str(path), "node", "n"]).output.startswith("n would take 1 of 1")
    asked = CliRunner().invoke(cli, ["explain", "-f", str(path), "node", "n", "-o", "yaml"])
    assert "takes:\n- goesTo: 'n'\n" in asked.output


@pytest.mark.parametrize("seed", range(20))
def test_suggestions_for_a_node_make_the_pod_fit_it(seed):
    """Each suggestion that only changes the pod, carried out, makes the pod fit the node."""
    rng = np.random.default_rng(seed)
    nodes = []
    for i in range(6):
        node = a_node(f"n{i}").allocatable(cpu=str(rng.integers(1, 8)), memory="8Gi", pods="10")
        node.labels(disk=str(rng.choice(["ssd", "hdd"])))
        nodes.append((node.tainted(str(rng.choice(["gpu", "arm"]))) if rng.random() < 0.5 else node).obj())
    pod = a_pod("p").requests(cpu=str(rng.integers(1, 12))).node_selector(disk="ssd").obj()
    cluster = stowplan.Cluster([*nodes, pod])
    verdict = cluster.explain("p")
    helped = 0
    for row in np.flatnonzero(~verdict.feasible).tolist():
        for suggestion in suggest_on(cluster.engine, verdict, row):
            assert suggestion.nodes == (cluster.state.table.names[row],)
            changed = cluster.explain(suggestion.applied_to(verdict.pod.pod))
            assert changed.feasible[row]
            helped += 1
    assert helped
    for row in np.flatnonzero(verdict.feasible).tolist():
        assert suggest_on(cluster.engine, verdict, row) == ()
