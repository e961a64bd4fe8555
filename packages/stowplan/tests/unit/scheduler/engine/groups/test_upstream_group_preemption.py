"""Upstream's scenarios of preemption by groups, as data.

After test/integration/scheduler/preemption/podgrouppreemption_test.go at the code freeze of 1.37:
TestPodGroupPreemption (34 of 34 cases), …_NominatedNodeNameRespected, TestPodGroupPreemptionStatus.
"""

from operator import attrgetter

import pytest

from support.scheduling.groups import condition
from support.scheduling.preemption_cases import (
    ALL,
    APART,
    LOWER,
    NEVER,
    Case,
    check,
    cluster_of,
    groups_of,
    lows,
    objects_of,
    on,
    pods,
    spread_out,
)

HIGH = "h1 h2 h3"
IN_ZONE = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
SPREAD = {
    "nodeSelector": {"kubernetes.io/hostname": "n1"},
    "topologySpreadConstraints": [
        {
            "maxSkew": 2,
            "minDomains": 10,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "foo"}},
        }
    ],
}


def port(cpu):
    """A container with a port of its node."""
    ports = [{"containerPort": 8080, "hostPort": 8080}]
    return {"containers": [{"name": "c", "ports": ports, "resources": {"requests": {"cpu": cpu}}}]}


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
    Case(
        name="ports",
        nodes=(2, 2),
        groups=[("pg", 100, 2, {})],
        initial=[on("n1", "l1", "", **port("250m"))],
        preemptors=pods("h1 h2", "", **port("1500m")),
        bound="h1 h2",
        evicted="l1",
        nominated="h1 h2",
    ),
    *(
        Case(
            name=f"skew, {name}",
            nodes=(16, 16),
            groups=[("pg", 100, 2, {})],
            initial=[on("n1", "l1", labels={"app": "foo"}), *more],
            preemptors=pods("h1 h2", labels={"app": "foo"}, **SPREAD),
            bound=f"h1 h2 {' '.join(pod[0] for pod in more)}",
            evicted="l1",
            nominated="h1 h2",
        )
        for name, more in (
            ("one victim", []),
            ("one elsewhere", [on("n2", "l2", priority=5, labels={"app": "foo"})]),
        )
    ),
    Case(
        name="plugins reserve in trials, too",
        nodes=(3,),
        groups=[("pg", 100, 2, {})],
        initial=[on("n1", "v1", priority=15, labels={"taken": "yes"}), on("n1", "v2")],
        preemptors=pods("h1 h2"),
        bound="h1 h2 v2",
        evicted="v1",
        reservations=2,
    ),
    *(
        Case(
            name=f"some have room, {name}",
            nodes=(4,),
            groups=[("pg", 100, count, {})],
            initial=[*lows("m1 m2", priority=100, group="pg"), *lows("l1")],
            preemptors=pods("h1 h2"),
            bound="m1 m2 h1 h2",
            evicted="l1",
            order="h1 -l1 h2",
        )
        for name, count in (("a gang", 2), ("basic", None))
    ),
    Case(
        name="one zone",
        nodes=(1, 1),
        zones="a a",
        groups=[("pg", 100, 2, IN_ZONE)],
        initial=spread_out("l1 l2", (10, 10)),
        preemptors=pods("h1 h2"),
        bound="h1 h2",
        evicted="l1 l2",
        nominated="h1 h2",
    ),
    Case(
        name="one zone of two can be emptied",
        nodes=(1, 1, 1, 1),
        zones="a a b b",
        groups=[("pg", 100, 2, IN_ZONE)],
        initial=spread_out("l1 l2 s1 s2", (10, 10, 200, 200)),
        preemptors=pods("h1 h2"),
        bound="h1 h2 s1 s2",
        evicted="l1 l2",
        nominated="h1 h2",
    ),
    Case(
        name="the better zone of two",
        nodes=(1, 1, 1, 1),
        zones="a a b b",
        groups=[("pg", 100, 2, IN_ZONE)],
        initial=spread_out("l1 l2 l3 l4", (10, 10, 10, 10)),
        preemptors=pods("h1 h2"),
        bound="h1 h2 l1 l2",
        evicted="l3 l4",
        nominated="h1 h2",
        prefers_last=True,
    ),
    Case(
        name="no zone can be emptied",
        nodes=(1, 1, 1, 1),
        zones="a a b b",
        groups=[("pg", 100, 2, IN_ZONE)],
        initial=spread_out("l1 s1 l2 s2", (10, 200, 10, 200)),
        preemptors=pods("h1 h2"),
        bound="l1 l2 s1 s2",
        left="h1 h2",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_who_runs_in_the_end(case):
    check(case)


def test_nominations_outlast_room_elsewhere():
    """TestPodGroupPreemption_NominatedNodeNameRespected."""
    case = Case(
        name="",
        nodes=(1, 1, 1),
        groups=[("pg", 50, 2, {})],
        initial=spread_out("pod1 pod2 pod3", (100, 10, 10)),
        preemptors=[],
        bound="",
        prefers_first=True,
    )
    with cluster_of(case, seconds=30.0) as cluster:
        for pod in objects_of(pods("p1 p2", priority=50), placed=False):
            cluster.create(pod)
        cluster.create(*groups_of(case))

        def nominated():
            return [cluster.get("pods", name)["status"].get("nominatedNodeName") for name in ("p1", "p2")]

        first = nominated()
        assert sorted(first) == ["n2", "n3"]
        cluster.delete("pods", "pod1")
        cluster.advance(20)
        assert nominated() == first
        assert not any(map(cluster.node_of, ("p1", "p2")))
        cluster.engine.validate()


def test_the_condition_says_both():
    """TestPodGroupPreemptionStatus."""
    case = Case(
        name="",
        nodes=(1,),
        groups=[("pg", 100, 1, {})],
        initial=lows("l1"),
        preemptors=[],
        bound="",
    )
    with cluster_of(case, seconds=30.0) as cluster:
        cluster.create(*groups_of(case), *objects_of(pods("h1"), placed=False))
        ((status, reason, message),) = condition(cluster, "pg")
        assert (status, reason) == ("False", "Unschedulable")
        assert "minCount (1) cannot be satisfied" in message
        assert "pod group preemption: found a placement for podgroup, preempting 1 victims" in message
