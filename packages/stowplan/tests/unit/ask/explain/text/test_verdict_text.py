"""The text output: each situation with its relevant facts and stable wording."""

import pytest

from stowplan.plugins import NodeFilterPlugin, unschedulable
from stowplan.testing import a_node, a_pod, expression, selector
from support.plugins.answering_plugins import configuration

ZONE = "topology.kubernetes.io/zone"
WEB = selector(labels={"app": "web"})


class DifferentReasons(NodeFilterPlugin):
    """Gives a different reason for every node."""

    name = "DifferentReasons"

    def filter_node(self, state, pod, node):
        return unschedulable(f"not on {node.name}, not today")


class Broken(NodeFilterPlugin):
    name = "Broken"

    def filter_node(self, state, pod, node):
        raise RuntimeError("lost my mind")


def profile(plugin):
    enabled = {"multiPoint": {"enabled": [{"name": plugin}]}}
    return configuration({"schedulerName": "default-scheduler", "plugins": enabled})


def lines_of(text):
    return [line.strip() for line in text.splitlines()]


# -- a pod that fits


def test_the_best_node_and_why(page):
    nodes = [a_node("big").allocatable(cpu="8").obj(), a_node("small").allocatable(cpu="4").obj()]
    text = page(nodes, a_pod("web").requests(cpu="2").obj())
    assert text.startswith("default/web goes to big: 2 of 2 nodes would take it\n")
    assert "big wins by" in text
    assert "over small: NodeResourcesFit +" in text
    header = next(line for line in lines_of(text) if line.startswith("node "))
    assert header.split() == ["node", "score", "taints", "fit", "balance"]


def test_score_differences_add_up(page):
    nodes = [a_node("a").allocatable(cpu="8").obj(), a_node("b").tainted("x", effect="PreferNoSchedule").obj()]
    text = page(nodes, a_pod().requests(cpu="1").obj())
    decided = next(line for line in lines_of(text) if " wins by " in line)
    total = int(decided.split(" wins by ")[1].split()[0])
    parts = [int(part.rsplit(" ", 1)[1]) for part in decided.split(": ", 1)[1].split(", ")]
    assert sum(parts) == total


def test_ties_are_named(page):
    text = page([a_node(name).obj() for name in "abc"], a_pod().obj())
    assert "a, b, c tie at" in text
    assert "one of them at random" in text


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_nominated_node_is_not_reported_as_best(page, node):
    nodes = [a_node("a").allocatable(cpu="8").obj(), a_node("b").tainted("x", effect="PreferNoSchedule").obj()]
    text = page(nodes, a_pod("web").requests(cpu="1").nominated_to(node).obj())
    assert text.startswith(f"default/web goes to {node}: 2 of 2 nodes would take it\n")
    assert lines_of(text)[1] == f"{node} is taken because the pod is nominated to it, so scores do not matter"
    assert "wins" not in text
    other = "ab".replace(node, "")
    assert [line.split()[0] for line in lines_of(text) if line.startswith(("a ", "b "))][-2:] == [node, other]


def test_room_is_kept_for_a_nominated_pod_only_where_there_would_be_some(page):
    nodes = [a_node(name).allocatable(cpu="4").obj() for name in "ab"]
    vip = a_pod("vip").requests(cpu="3").priority(9).nominated_to("a").obj()
    kept = "1 node would do, but room there is kept for nominated pods of equal or higher priority"
    taken = a_pod("taken").requests(cpu="4").on("b").obj()
    text = page([*nodes, vip, taken], a_pod("web").requests(cpu="2").obj())
    assert kept in text
    assert "  1 node  NodeResourcesFit  Insufficient cpu  (a; room is kept for default/vip)\n" in text
    too_large = page([*nodes, vip], a_pod("web").requests(cpu="8").obj())
    assert kept not in too_large
    assert "\n  2 nodes  NodeResourcesFit  Insufficient cpu, even if empty" in too_large


def test_the_only_node(page):
    text = page([a_node("a").obj(), a_node("b").tainted("gpu").obj()], a_pod().obj())
    assert "a is the only node that takes it" in text
    assert "(b; gpu:NoSchedule)" in text


def test_five_other_nodes_or_all_in_wide_output(page):
    nodes = [a_node(f"n{i}").allocatable(cpu=str(4 + i)).obj() for i in range(9)]
    short = page(nodes, a_pod().requests(cpu="1").obj())
    assert "… and 4 nodes more with" in short
    assert "n0" not in short
    wide = page(nodes, a_pod().requests(cpu="1").obj(), wide=True)
    assert all(f"n{i} " in wide for i in range(9))
    assert "NodeResourcesBalancedAllocation" in wide


def test_a_placed_pod_is_evaluated_as_if_pending(page):
    nodes = [a_node("a").obj(), a_node("b").allocatable(cpu="8").obj()]
    pod = a_pod("web").requests(cpu="3").on("a").obj()
    assert page([*nodes, pod], pod).startswith("default/web runs on a; placed again it would go to b: 2 of 2")
    assert page([nodes[0], pod], pod).startswith("default/web runs on a and would go there again: 1 of 1")


def test_a_placed_pod_that_would_not_fit_any_more(page):
    node = a_node("a").tainted("new").obj()
    pod = a_pod("web").on("a").obj()
    text = page([node, pod], pod)
    assert text.startswith("default/web runs on a and could not be placed again: none of 1 node takes it")
    assert "1. tolerate new:NoSchedule to gain 1 node" in text


def test_reasons_of_a_placed_pod_exclude_itself(page):
    nodes = [a_node("a").allocatable(cpu="1").obj(), a_node("b").obj()]
    pod = a_pod("web").requests(cpu="1500m").on("a").obj()
    assert "a lacks 500m cpu (0 of 1 in use)" in page([*nodes, pod], pod)


# -- a pod that fits nowhere


def test_the_references_message_is_shown_verbatim(page):
    text = page([a_node("a").allocatable(cpu="1").obj()], a_pod().requests(cpu="2").obj())
    assert (
        "  0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are" in text
    )


def test_order_of_the_page(page):
    text = page([a_node("a").tainted("gpu").obj()], a_pod().obj())
    parts = [
        "is pending",
        "0/1 nodes are available",
        "What would help\n",
        "\nPreemption (DefaultPreemption)\n",
        "\nRefused\n",
    ]
    assert sorted(parts, key=text.index) == parts


@pytest.mark.parametrize(
    ("objects", "pod", "row"),
    [
        pytest.param(
            [a_node("a").allocatable(cpu="1").obj(), a_node("b").allocatable(cpu="1500m").obj()],
            a_pod().requests(cpu="1750m"),
            "2 nodes  NodeResourcesFit  Insufficient cpu, even if empty"
            "  (a, b; closest: b lacks 250m cpu (0 of 1500m in use))",
            id="resources",
        ),
        pytest.param(
            [a_node("a").allocatable(pods="1").obj(), a_pod("other").on("a").obj()],
            a_pod(),
            "1 node  NodeResourcesFit  Too many pods  (a; 1 of 1 pods)",
            id="too many pods",
        ),
        pytest.param(
            [a_node("a").tainted("gpu", "x").obj(), a_node("b").tainted("gpu", "x").obj()],
            a_pod(),
            "2 nodes  TaintToleration  node(s) had untolerated taint(s)  (a, b; gpu=x:NoSchedule)",
            id="taints",
        ),
        pytest.param(
            [a_node("a").unschedulable().obj()],
            a_pod(),
            "1 node  NodeUnschedulable  node(s) were unschedulable  (a; cordoned)",
            id="cordoned",
        ),
        pytest.param(
            [a_node("a").labels(disk="hdd").obj()],
            a_pod().node_selector(disk="ssd"),
            "1 node  NodeAffinity  node(s) didn't match Pod's node affinity/selector"
            "  (a; wants disk=ssd, has disk=hdd)",
            id="node selector",
        ),
        pytest.param(
            [a_node("a").obj(), a_pod("old").host_port(80).on("a").obj()],
            a_pod().host_port(80),
            "1 node  NodePorts  node(s) didn't have free ports for the requested pod ports"
            "  (a; 80/TCP held by default/old)",
            id="ports",
        ),
        pytest.param(
            [a_node("a").zone("z1").obj(), a_pod("w").labels(app="web").on("a").obj()],
            a_pod().labels(app="web").spreads(ZONE, WEB, min_domains=2),
            "1 node  PodTopologySpread  node(s) didn't match pod topology spread constraints"
            "  (a; zone=z1 has 1 (maxSkew 1))",
            id="skew",
        ),
        pytest.param(
            [a_node("a").obj()],
            a_pod().labels(app="web").spreads("rack", WEB),
            "1 node  PodTopologySpread  node(s) didn't match pod topology spread constraints (missing required label)"
            "  (a; has no label rack)",
            id="topology label",
        ),
        pytest.param(
            [a_node("a").zone("z1").obj()],
            a_pod().requires_pods(ZONE, WEB),
            "1 node  InterPodAffinity  node(s) didn't match pod affinity rules  (a; no app=web in zone=z1)",
            id="pod affinity",
        ),
        pytest.param(
            [a_node("a").zone("z1").obj(), a_pod("w").labels(app="web").on("a").obj()],
            a_pod().avoids_pods(ZONE, WEB),
            "1 node  InterPodAffinity  node(s) didn't match pod anti-affinity rules  (a; app=web in zone=z1)",
            id="pod anti-affinity",
        ),
        pytest.param(
            [a_node("a").zone("z1").obj(), a_pod("w").avoids_pods(ZONE, WEB).on("a").obj()],
            a_pod().labels(app="web"),
            "1 node  InterPodAffinity  node(s) didn't satisfy existing pods anti-affinity rules"
            f"  (a; default/w keeps off app=web by {ZONE})",
            id="existing anti-affinity",
        ),
    ],
)
def test_refusals_say_why(page, objects, pod, row):
    assert row in lines_of(page(objects, pod.obj()))


def test_wide_lists_each_node_with_its_own_shortfall(page):
    nodes = [a_node(f"n{i}").allocatable(cpu=f"{i}").obj() for i in (1, 2)]
    text = page(nodes, a_pod().requests(cpu="3").obj(), wide=True)
    assert "n1    NodeResourcesFit  Insufficient cpu  UnschedulableAndUnresolvable  lacks 2 cpu (0 of 1 in use)" in text
    assert "n2    NodeResourcesFit  Insufficient cpu  UnschedulableAndUnresolvable  lacks 1 cpu (0 of 2 in use)" in text


def test_gates(page):
    text = page([a_node("a").obj()], a_pod().gated("quota", "image-scan").obj())
    assert text.startswith("default/pod is gated: nothing is tried yet\n")
    assert "waiting for scheduling gates: [quota image-scan] (SchedulingGates)" in text
    assert "1. remove the scheduling gates quota and image-scan to gain 1 node (a)" in text


def test_gates_of_a_pod_that_would_not_fit_either(page):
    text = page([a_node("a").tainted("gpu").obj()], a_pod().gated("quota").obj())
    assert "1. remove the scheduling gate quota (no node takes the pod even then)" in text


def test_gates_of_a_pod_that_would_preempt(page):
    lesser = a_pod("lesser").requests(cpu="4").spec(nodeName="a").obj()
    important = a_pod().requests(cpu="1").priority(5).gated("x").obj()
    text = page([a_node("a").allocatable(cpu="4").obj(), lesser], important)
    assert "1. remove the scheduling gate x (the pod would then preempt others on a)" in text


def test_errors(page):
    text = page([a_node("a").obj()], a_pod().obj(), config=profile("Broken"), plugins=[Broken])
    assert text.startswith("default/pod cannot be judged\n  error: ")
    assert "Broken" in text
    assert "lost my mind" in text
    assert "Traceback" not in text


def test_no_nodes_at_all(page):
    assert "error: no nodes available to schedule pods" in page([], a_pod().obj())


def test_equal_pods_are_grouped(page):
    text = page([a_node("a").tainted("gpu").obj()], a_pod("w-0").obj(), alike=["default/w-1", "default/w-2"])
    assert text.startswith(
        "default/w-0 and 2 more like it (default/w-1, default/w-2) are pending: none of 1 node takes one"
    )


# -- preemption


def test_victims_of_preemption(page):
    objects = [
        a_node("a").obj(),
        a_node("b").obj(),
        *(a_pod(f"low-{i}").priority(i).requests(cpu="2").on("ab"[i % 2]).obj() for i in range(4)),
    ]
    text = page(objects, a_pod().priority(100).requests(cpu="3").obj())
    assert "would evict 2 pods from a: no disruption budget is violated; 1 other node would do as well" in text
    assert lines_of(text)[lines_of(text).index("Preemption (DefaultPreemption)") + 2 :][:2] == [
        "default/low-2  priority 2",
        "default/low-0  priority 0",
    ]


def test_disruption_budgets_count(page):
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": WEB},
        "status": {"disruptionsAllowed": 0},
    }
    objects = [a_node("a").obj(), a_pod("w").labels(app="web").requests(cpu="4").on("a").obj(), budget]
    assert "1 eviction against a disruption budget" in page(objects, a_pod().priority(1).requests(cpu="3").obj())


def test_preemption_not_allowed(page):
    text = page([a_node("a").allocatable(cpu="1").obj()], a_pod().never_preempts().requests(cpu="2").obj())
    assert "Preemption (DefaultPreemption)\n  not eligible due to preemptionPolicy=Never.\n" in text


def test_preemption_that_does_not_help(page):
    objects = [a_node("a").obj(), a_pod("w").requests(cpu="4").on("a").obj(), a_node("b").tainted("gpu").obj()]
    text = page(objects, a_pod().requests(cpu="3").obj())
    assert "would not help: no pod of lower priority on 1 node and nothing that eviction could change on 1 node" in text


# -- large clusters


def large(pods=True):
    for i in range(5000):
        node = a_node(f"n{i:04}").zone(f"z{i % 7}").labels(disk="ssd" if i % 2 else "hdd").allocatable(cpu="4")
        if i % 100 == 0:
            node.tainted(f"team-{i % 1000}", effect="NoSchedule")
        if i % 333 == 0:
            node.unschedulable()
        yield node.obj()
        if pods:
            yield a_pod(f"p{i}").requests(cpu=f"{3000 + i % 9 * 100}m").on(f"n{i:04}").obj()


@pytest.fixture(scope="module")
def five_thousand_nodes():
    return list(large())


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().requests(cpu="2"), id="pending"),
        pytest.param(a_pod().requests(cpu="500m"), id="placeable"),
        pytest.param(
            a_pod().requires_node(expression("disk", "In", "nvme")).requests({"nvidia.com/gpu": 1}), id="much"
        ),
    ],
)
@pytest.mark.slow
def test_five_thousand_nodes_fit_a_screen(page, five_thousand_nodes, pod):
    text = page(five_thousand_nodes, pod.obj())
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 500


def test_as_many_reasons_as_nodes_fit_a_screen(page):
    nodes = [a_node(f"n{i:03}").obj() for i in range(300)]
    text = page(nodes, a_pod().obj(), config=profile("DifferentReasons"), plugins=[DifferentReasons])
    assert "… and 288 more reasons that refuse 288 nodes; -o wide lists every node" in text
    # The reference's message lists each of them.
    assert len(text.splitlines()) <= 40


def test_equal_pods_that_fit(page):
    text = page([a_node("a").obj()], a_pod("w-0").obj(), alike=["default/w-1"])
    assert text.startswith("default/w-0 and 1 more like it (default/w-1) would each go to a: 1 of 1 node would take it")


def test_a_pod_on_a_missing_node(page):
    pod = a_pod("lost").on("gone").obj()
    assert page([a_node("a").obj(), pod], pod).startswith("default/lost runs on gone; placed again it would go to a")
