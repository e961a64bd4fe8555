"""Upstream's scenarios of preemption by groups, as data: who runs in the end, who was evicted, who was nominated.

After test/integration/scheduler/preemption/podgrouppreemption_test.go at the code freeze of 1.37: its first 24 cases.
Victims take three seconds to terminate. Pods without a node of their own in the table go to the first node.
"""

from operator import attrgetter

import msgspec
import pytest

from stowplan.scheduler.framework.interface import NodeScorePlugin
from stowplan.testing import a_pod
from stowplan.testing.live import Latency, live_cluster
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_group, node


class Case(msgspec.Struct, kw_only=True):
    name: str
    #: CPUs of nodes n1, n2, ….
    nodes: tuple[int, ...]
    #: Name, priority, min count (None: basic), further fields of the spec.
    groups: list[tuple]
    #: Name, CPUs, priority, options: `on` (a node), `group`, further fields of the spec.
    initial: list[tuple]
    preemptors: list[tuple]
    #: Pods that have a node in the end, and pods that have none.
    bound: str
    left: str = ""
    evicted: str = ""
    nominated: str = ""
    #: Whether preemptors come one by one, and not all at once.
    in_turn: bool = False
    policy_gate: bool = False
    prefers_first: bool = False
    #: What the budget of the pods with the label app=foo allows.
    budget: int | None = None


ALL = {"disruptionMode": {"all": {}}}
NEVER, LOWER = {"preemptionPolicy": "Never"}, {"preemptionPolicy": "PreemptLowerPriority"}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
}


def pods(names, cpu="1", priority=100, group="pg", **options):
    return [(name, cpu, priority, {"group": group, **options}) for name in names.split()]


def lows(names, cpu="1", priority=10, **options):
    return [(name, cpu, priority, options) for name in names.split()]


def on(node_name, name, cpu="1", priority=10, **options):
    return (name, cpu, priority, {"on": node_name, **options})


def spread_out(names, priorities, **options):
    """One pod on each node."""
    return [
        on(f"n{i}", name, priority=priority, **options)
        for i, (name, priority) in enumerate(zip(names.split(), priorities, strict=True), 1)
    ]


HIGH = "h1 h2 h3"
TWO_GROUPS = [
    on("n1", "v1", priority=50, group="victims"),
    on("n2", "v2", priority=50, group="victims"),
    on("n3", "v3", priority=200, group="strong"),
    on("n4", "v4", priority=200, group="strong"),
]
ONE_GROUP = [on("n1", "v1", priority=50, group="victims"), on("n2", "v2", priority=50, group="victims"), on("n3", "v3")]

CASES = [
    Case(
        name="a whole gang",
        nodes=(3,),
        groups=[("pg", 100, 3, {})],
        initial=lows("l1 l2 l3"),
        preemptors=pods(HIGH),
        bound=HIGH,
        evicted="l1 l2 l3",
        nominated=HIGH,
    ),
    Case(
        name="a whole basic group",
        nodes=(3,),
        groups=[("pg", 100, None, {})],
        initial=lows("l1 l2 l3"),
        preemptors=pods(HIGH),
        bound=HIGH,
        evicted="l1 l2 l3",
        nominated=HIGH,
    ),
    Case(
        name="in part",
        nodes=(2, 2),
        groups=[("pg", 100, 3, {})],
        initial=[on("n1", "l1", "2"), on("n2", "l2")],
        preemptors=pods(HIGH),
        bound=f"{HIGH} l2",
        evicted="l1",
        nominated=HIGH,
        prefers_first=True,
    ),
    Case(
        name="in part, a basic group",
        nodes=(2, 2),
        groups=[("pg", 100, None, {})],
        initial=[on("n1", "l1"), on("n2", "very-low", priority=5)],
        preemptors=pods(HIGH),
        bound=f"{HIGH} very-low",
        evicted="l1",
        prefers_first=True,
    ),
    Case(
        name="a budget",
        nodes=(3,),
        groups=[("pg", 100, 2, {})],
        initial=[*lows("l1 l2", labels={"app": "foo"}), *lows("l3")],
        preemptors=pods("h1 h2", "500m"),
        bound="h1 h2 l1 l2",
        evicted="l3",
        nominated="h1 h2",
        budget=0,
    ),
    Case(
        name="on several nodes",
        nodes=(2, 2),
        groups=[("pg", 100, 4, {})],
        initial=[on("n1", "l1"), on("n1", "l2"), on("n2", "l3"), on("n2", "l4")],
        preemptors=pods("h1 h2 h3 h4"),
        bound="h1 h2 h3 h4",
        evicted="l1 l2 l3 l4",
        nominated="h1 h2 h3 h4",
    ),
    Case(
        name="not enough room",
        nodes=(3,),
        groups=[("pg", 100, 3, {})],
        initial=[*lows("mid", priority=500), *lows("l1 l2")],
        preemptors=pods(HIGH),
        bound="mid l1 l2",
        left=HIGH,
    ),
    Case(
        name="the least important first",
        nodes=(3,),
        groups=[("pg", 100, 2, {})],
        initial=[*lows("mid", priority=50), *lows("l1 l2")],
        preemptors=pods("h1 h2"),
        bound="h1 h2 mid",
        evicted="l1 l2",
        nominated="h1 h2",
    ),
    *(
        Case(
            name=f"a group as a whole, {name}",
            nodes=(3,),
            groups=[("pg", 100, 1, {}), ("old", 10, count, ALL)],
            initial=lows("l1 l2 l3", group="old"),
            preemptors=pods("h1"),
            bound="h1",
            evicted="l1 l2 l3",
            nominated="h1",
        )
        for name, count in (("a gang", 3), ("basic", None))
    ),
    *(
        Case(
            name=f"as many pods as possible, {name}",
            nodes=(1, 1, 1, 1),
            groups=[("pg", 100, count, {})],
            initial=spread_out("p1 p2 p3 p4", (10, 10, 200, 200)),
            preemptors=pods("a b c"),
            bound="a b p3 p4",
            left="c",
            evicted="p1 p2",
            nominated="a b",
        )
        for name, count in (("a gang", 1), ("basic", None))
    ),
    *(
        Case(
            name=f"a less important group, {name}",
            nodes=(1, 1, 1),
            groups=[("victims", 50, 1, ALL), ("pg", 100, count, {})],
            initial=ONE_GROUP,
            preemptors=pods("a b c"),
            bound="a b c",
            evicted="v1 v2 v3",
            nominated="a b c",
        )
        for name, count in (("a gang", 3), ("basic", None))
    ),
    *(
        Case(
            name=f"a group for a part of a group, {name}",
            nodes=(1, 1, 1, 1),
            groups=[("victims", 50, 2, ALL), ("strong", 200, 2, ALL), ("pg", 100, count, ALL)],
            initial=TWO_GROUPS,
            preemptors=pods("a b c"),
            bound="a b v3 v4",
            left="c",
            evicted="v1 v2",
            nominated="a",
            in_turn=True,
        )
        for name, count in (("a gang", 1), ("basic", None))
    ),
    Case(
        name="a policy of Never",
        nodes=(3,),
        groups=[("pg", 100, 3, NEVER)],
        initial=lows("l1 l2 l3"),
        preemptors=pods(HIGH, **NEVER),
        bound="l1 l2 l3",
        left=HIGH,
        policy_gate=True,
    ),
    *(
        Case(
            name=f"a policy, {name}",
            nodes=(3,),
            groups=[("pg", 100, 3, policy)],
            initial=lows("l1 l2 l3"),
            preemptors=pods(HIGH),
            bound=HIGH,
            evicted="l1 l2 l3",
            policy_gate=True,
        )
        for name, policy in (("PreemptLowerPriority", LOWER), ("the default", {}))
    ),
    Case(
        name="a policy of pods",
        nodes=(3,),
        groups=[("pg", 100, 3, {})],
        initial=lows("l1 l2 l3"),
        preemptors=pods(HIGH, **NEVER),
        bound="l1 l2 l3",
        left=HIGH,
    ),
    Case(
        name="resources",
        nodes=(2, 2),
        groups=[("pg", 100, 2, {})],
        initial=[on("n1", "l1", "2")],
        preemptors=pods("h1 h2", "2"),
        bound="h1 h2",
        evicted="l1",
        nominated="h1 h2",
    ),
    Case(
        name="the more important is spared",
        nodes=(2, 2),
        groups=[("pg", 100, 2, {})],
        initial=[on("n1", "l1", priority=5), on("n1", "l2")],
        preemptors=[
            *pods("h1", nodeSelector={"kubernetes.io/hostname": "n1"}),
            *pods("h2", nodeSelector={"kubernetes.io/hostname": "n2"}),
        ],
        bound="h1 h2 l2",
        evicted="l1",
        nominated="h1 h2",
    ),
    Case(
        name="resources of pods",
        nodes=(2, 2),
        groups=[("pg", 100, 2, {})],
        initial=[on("n1", "l1", "", labels={"app": "initial"}, resources={"requests": {"cpu": "2"}})],
        preemptors=pods("h1 h2", "", resources={"requests": {"cpu": "2"}}, **APART),
        bound="h1 h2",
        evicted="l1",
        nominated="h1 h2",
    ),
    Case(
        name="pods that repel the victim",
        nodes=(2, 2),
        groups=[("pg", 100, 2, {})],
        initial=[on("n1", "l1", "250m", labels={"app": "initial"})],
        preemptors=pods("h1 h2", "1500m", **APART),
        bound="h1 h2",
        evicted="l1",
        nominated="h1 h2",
    ),
]


class PrefersFirst(NodeScorePlugin):
    name = "PrefersFirst"

    def score_node(self, state, pod, node):
        return 100 if node.name == "n1" else 0


def objects_of(rows, *, placed):
    for name, cpu, priority, options in rows:
        options = dict(options)
        where, group, labels = options.pop("on", "n1"), options.pop("group", ""), options.pop("labels", {})
        built = a_pod(name).labels(**labels)
        spec = {"priority": priority, **options}
        spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
        spec |= {"nodeName": where} if placed else {}
        yield (built.requests(cpu=cpu) if cpu else built).spec(**spec).obj()


def groups_of(case):
    for name, priority, count, more in case.groups:
        made = a_group(name, gang=count, priority=priority, mode={"single": {}})
        made["spec"] |= more
        yield made


def budget_of(case):
    if case.budget is not None:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "foo", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "foo"}}},
            "status": {"disruptionsAllowed": case.budget},
        }


def cluster_of(case):
    nodes = [node(f"n{i}", cpu, **{"kubernetes.io/hostname": f"n{i}"}) for i, cpu in enumerate(case.nodes, 1)]
    groups = [group for group in groups_of(case) if case.in_turn or group["metadata"]["name"] != "pg"]
    objects = [*nodes, *groups, *budget_of(case), *objects_of(case.initial, placed=True)]
    own = {"plugins": {"multiPoint": {"enabled": [{"name": "PrefersFirst", "weight": 100}]}}}
    options = {"config": configuration(own), "plugins": [PrefersFirst]} if case.prefers_first else {}
    return live_cluster(
        *objects,
        feature_gates={"GenericWorkload": True, "PodGroupPreemptionPolicy": case.policy_gate},
        emulated_version="1.37",
        latency=Latency(deletions=lambda pod: 3.0),
        **options,
    )


def nominated(cluster, case, until=""):
    """The preemptors, up to the last one that exists, that are nominated to a node."""
    names = [name for name, *_ in case.preemptors]
    names = names[: names.index(until) + 1] if until else names
    return {name for name in names if cluster.get("pods", name)["status"].get("nominatedNodeName")}


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_who_runs_in_the_end(case):
    found = set()
    with cluster_of(case) as cluster:
        for pod in objects_of(case.preemptors, placed=False):
            cluster.create(pod)
            if case.in_turn:
                found |= nominated(cluster, case, until=pod["metadata"]["name"])
                cluster.advance(30)
        if not case.in_turn:
            # Its pods were gated, and are tried at the same time.
            cluster.create(*(group for group in groups_of(case) if group["metadata"]["name"] == "pg"))
        for _ in range(60):
            found |= nominated(cluster, case)
            cluster.advance(2)
        cluster.engine.validate()
        evicted = {event["regarding"]["name"] for event in cluster.events(reason="Preempted")}
        assert evicted == set(case.evicted.split())
        assert all(cluster.node_of(name) for name in case.bound.split())
        assert not any(cluster.node_of(name) for name in case.left.split())
        assert found >= set(case.nominated.split())
