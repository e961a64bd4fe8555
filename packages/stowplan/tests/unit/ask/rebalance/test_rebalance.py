"""Plans of moves: each goal, what keeps pods where they are, and the steps."""

from itertools import count

import pytest

from stowplan import Cluster, ClusterError
from stowplan.ask.rebalance import FreeNodes, Mend, Pack, RoomFor, Spread, Weights, rebalance
from stowplan.ask.rebalance.moves import Limits
from stowplan.ask.what_if import Put, Scale
from stowplan.kube.api.meta import seconds_of
from support.what_if.objects import budget, node, owned, pod


def moves(found):
    return {move.pod.partition("/")[2]: (move.from_, move.to) for move in found.moves}


def kept(found):
    return {record.pod.partition("/")[2]: record.kept for record in found.kept}


def webs(count, on, **spec):
    return [owned(pod(f"web-{i}", nodeName=on, **spec)) for i in range(count)]


# -- mend -------------------------------------------------------------------------------------------------------------


def test_pods_leave_a_node_that_would_not_take_them():
    tainted = node("a", taints=[{"key": "k", "effect": "NoSchedule"}])
    found = rebalance(Cluster([tainted, node("b"), *webs(2, "a")]), Mend())
    assert moves(found) == {"web-0": ("a", "b"), "web-1": ("a", "b")}
    assert found.met
    assert found.moves[0].reason == "TaintToleration: node(s) had untolerated taint(s)"


def test_of_two_pods_that_exclude_each_other_the_younger_one_goes():
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    pods = webs(2, "a", affinity=apart)
    for number, one in enumerate(pods):
        one["status"] = {"startTime": f"2026-01-0{2 - number}T00:00:00Z"}
    found = rebalance(Cluster([node("a"), node("b"), *pods]), Mend())
    assert moves(found) == {"web-0": ("a", "b")}


def test_a_pod_that_others_have_to_be_near_stays():
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    found = rebalance(Cluster([node("a"), node("b"), *webs(1, "a", affinity=near)]), Mend())
    assert found.met
    assert not found.moves


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: one["metadata"].pop("ownerReferences"), None),
        (lambda one: one["spec"].update(nodeSelector={"disk": "ssd"}), "no other node takes it"),
    ],
)
def test_pods_that_cannot_come_back_are_not_moved(change, why):
    (one,) = webs(1, "a")
    change(one)
    found = rebalance(Cluster([node("a", taints=[{"key": "k", "effect": "NoSchedule"}]), node("b"), one]), Mend())
    assert not found.moves
    assert found.met == (why is None)
    assert [reason.startswith(why) for reason in kept(found).values()] == ([] if why is None else [True])


# -- empty nodes ------------------------------------------------------------------------------------------------------


def test_the_emptiest_node_is_emptied():
    pods = [owned(pod(f"web-{i}", nodeName="ab"[i > 0])) for i in range(3)]
    found = rebalance(Cluster([node("a"), node("b"), *pods]), FreeNodes(1))
    assert (moves(found), found.cordon) == ({"web-0": ("a", "b")}, ("a",))
    assert (found.before.empty_nodes, found.after.empty_nodes, found.met) == (0, 1, True)


def test_nodes_that_are_empty_already_stay_empty():
    pods = [owned(pod(f"web-{i}", nodeName="ab"[i > 0])) for i in range(3)]
    found = rebalance(Cluster([node("a"), node("b"), node("c"), *pods]), FreeNodes(2))
    assert (moves(found), found.cordon) == ({"web-0": ("a", "b")}, ("c", "a"))


def test_pods_do_not_move_to_nodes_that_are_emptied_next():
    """Where the scheduler would put them, one after the other: these are the emptiest."""
    nodes = [node(f"n{i:02}", "11") for i in range(20)]
    pods = [owned(pod(f"web-{i}", "1", nodeName=f"n{i % 20:02}")) for i in range(100)]
    found = rebalance(Cluster([*nodes, *pods]), FreeNodes(10))
    assert (len(found.moves), found.after.empty_nodes, found.met) == (50, 10, True)
    assert rebalance(Cluster([*nodes, *pods]), Pack()).after.empty_nodes == 10


def test_nothing_moves_if_more_nodes_are_empty_than_are_wanted():
    pods = [owned(pod(f"web-{i}", nodeName="abcde"[i])) for i in range(5)]
    found = rebalance(Cluster([*map(node, "abcdexyz"), *pods]), FreeNodes(1))
    assert (found.moves, found.met) == ((), True)
    assert len(found.cordon) == 1


def a_job(name, on, hours):
    made = owned(pod(name, nodeName=on, restartPolicy="Never"), "Job", name)
    return {**made, "status": {"phase": "Running", "startTime": f"2026-01-01T{24 - hours:02}:00:00Z"}}


@pytest.mark.parametrize(("limit", "moved"), [(None, True), (7200, True), (7199, False)])
def test_pods_that_would_lose_much_work_stay(limit, moved):
    nodes = [node("a"), node("b", taints=[{"key": "k", "effect": "NoSchedule"}])]
    pods = [a_job("work", "b", 2), owned(pod("web", nodeName="b"))]
    cluster = Cluster([*nodes, *pods], now=seconds_of("2026-01-02T00:00:00Z"))
    found = rebalance(cluster, Mend(), limits=Limits(lost_work=limit))
    assert ("work" in moves(found), "web" in moves(found)) == (moved, True)
    assert sum(move.lost_work for move in found.moves) == 7200 * moved
    assert kept(found).get("work") == (None if moved else "it would begin its work anew")
    assert any("2.0 hours of work are lost" in note for note in found.notes) == moved
    pods = [a_job("work", "b", 2), owned(pod("web", "3", nodeName="a"))]
    cluster = Cluster([node("a"), node("b"), *pods], now=cluster.now)
    found = rebalance(cluster, Pack(), limits=Limits(lost_work=limit))
    assert moves(found) == ({"work": ("b", "a")} if moved else {"web": ("a", "b")})


def test_a_node_is_emptied_as_a_whole_or_not_at_all():
    pods = [*webs(2, "a"), pod("bare", nodeName="a"), owned(pod("db", "2", nodeName="b"))]
    found = rebalance(Cluster([node("a"), node("b", "8"), *pods]), FreeNodes(1))
    assert moves(found) == {"db": ("b", "a")} or not found.moves
    assert "web-0" not in moves(found)


def test_a_control_plane_is_not_given_back():
    plane = node("plane")
    plane["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    found = rebalance(Cluster([plane, node("b"), *webs(1, "b")]), Pack())
    assert "plane" not in found.cordon


def test_too_many_empty_nodes():
    found = rebalance(Cluster([node("a"), node("b"), *webs(1, "a")]), FreeNodes(2))
    assert (found.met, found.notes) == (False, ("no plan was found that empties more than 1 node",))
    with pytest.raises(ClusterError, match="1 or more, got 0"):
        FreeNodes(0)


# -- evenly used nodes ------------------------------------------------------------------------------------------------


def test_pods_leave_the_fullest_nodes():
    found = rebalance(Cluster([node("a"), node("b"), *webs(4, "a")]), Spread())
    assert set(moves(found).values()) == {("a", "b")}
    assert len(found.moves) == 2
    assert found.after.unevenness == 0
    assert (found.cordon, found.uncordon) == ((), ("a",))


def test_nothing_becomes_more_even():
    found = rebalance(Cluster([node("a"), node("b"), *webs(1, "a")]), Spread())
    assert not found.moves
    assert kept(found) == {"web-0": "on b it would make the nodes no more even"}


# -- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "emptied"),
    [
        ({}, 2),
        ({"disruption": 0.25}, 2),
        ({"disruption": 0.4}, 1),
        ({"disruption": 0.4, "cost": 2}, 2),
        ({"disruption": 2}, 0),
        ({"time": 0.4}, 1),
    ],
)
def test_a_plan_ends_where_going_on_costs_more_than_it_gains(weights, emptied):
    pods = [
        owned(pod(f"{on}-{i}", nodeName=on)) for on, number in (("a", 1), ("b", 3), ("c", 5)) for i in range(number)
    ]
    found = rebalance(
        Cluster([*(node(name, "10") for name in "abc"), *pods]),
        Pack(Weights(**weights)),
        limits=Limits(at_once_per_owner=1),
    )
    assert found.cordon == ("a", "b")
    assert {move.from_ for move in found.moves} == set(found.cordon[:emptied])
    assert found.uncordon == found.cordon[emptied:]
    assert found.after.empty_nodes == emptied


def test_weights_of_an_even_use():
    cluster = Cluster([node("a"), node("b"), *webs(4, "a")])
    assert not rebalance(cluster, Spread(Weights(disruption=1000))).moves
    assert rebalance(cluster, Spread(Weights(disruption=1))).moves == rebalance(cluster, Spread()).moves


@pytest.mark.parametrize(("name", "value"), [("disruption", -1), ("cost", float("nan")), ("time", "soon")])
def test_weights_that_are_none(name, value):
    with pytest.raises(ClusterError, match=f"weights: {name}: want a number, 0 or more, got {value!r}"):
        Weights(**{name: value})


# -- room -------------------------------------------------------------------------------------------------------------


def test_room_for_a_large_pod():
    pods = [owned(pod(f"web-{i}", nodeName="abb"[i])) for i in range(3)]
    found = rebalance(Cluster([node("a"), node("b"), *pods]), RoomFor(Put((pod("large", "4"),))))
    assert (moves(found), found.placed) == ({"web-0": ("a", "b")}, {"default/large": "a"})
    assert found.uncordon == ("a",)
    assert found.moves[0].reason == "makes room for large"


def test_room_that_is_there():
    found = rebalance(Cluster([node("a")]), RoomFor(Put((pod("new"),))))
    assert (found.moves, found.uncordon, found.placed) == ((), (), {"default/new": "a"})


def test_no_room():
    found = rebalance(Cluster([node("a"), *webs(3, "a")]), RoomFor(Put((pod("large", "4"),))))
    assert (found.met, found.moves, found.placed) == (False, (), {})
    assert found.notes == ("no room for all: large: 0/1 nodes are available: 1 Insufficient cpu",)


def test_nobody_is_preempted_for_room():
    found = rebalance(Cluster([node("a"), *webs(4, "a")]), RoomFor(Put((pod("new", priority=100),))))
    assert (found.met, found.placed) == (False, {})


def test_room_for_nothing():
    cluster = Cluster([node("a"), *webs(1, "a")])
    with pytest.raises(ClusterError, match="adds no pod that waits"):
        rebalance(cluster, RoomFor(Scale("ReplicaSet", "default", "web-abc", 1)))


# -- steps and limits -------------------------------------------------------------------------------------------------


def leaving(count, **limits):
    tainted = node("a", "10", taints=[{"key": "k", "effect": "NoSchedule"}])
    return [tainted, node("b", "10"), *webs(count, "a")], Limits(**limits)


def steps(objects, limits):
    return [move.step for move in rebalance(Cluster(objects), Mend(), limits=limits).moves]


def test_all_at_once():
    assert steps(*leaving(3)) == [1, 1, 1]


def test_so_many_at_once():
    assert steps(*leaving(3, at_once=2)) == [1, 1, 2]
    assert steps(*leaving(3, at_once_per_owner=1)) == [1, 2, 3]


def test_a_budget_makes_steps():
    objects, limits = leaving(3)
    assert steps([*objects, budget(allowed=1)], limits) == [1, 2, 3]


def test_a_budget_that_allows_nothing():
    objects, _ = leaving(1)
    found = rebalance(Cluster([*objects, budget(allowed=0)]), Mend())
    assert kept(found) == {"web-0": "default/web: the budget allows no disruption now"}


def test_limits():
    assert steps(*leaving(3, total=2)) == [1, 1]


@pytest.mark.parametrize(
    ("goal", "objects"),
    [
        (Mend(), [node("a", taints=[{"key": "k", "effect": "NoSchedule"}]), node("b"), *webs(3, "a")]),
        (Spread(), [node("a", "10"), node("b", "10"), *webs(6, "a")]),
        (Pack(), [node("a", "10"), node("b", "10"), node("c", "10"), *webs(3, "a"), owned(pod("db", nodeName="b"))]),
        (FreeNodes(1), [node("a"), node("b"), *webs(2, "a"), owned(pod("db", nodeName="b"))]),
        (
            RoomFor(Put((owned(pod("big", "4")),))),
            [node("a"), node("b"), *webs(1, "a"), owned(pod("db", nodeName="b"))],
        ),
    ],
    ids=lambda value: getattr(value, "text", ""),
)
def test_a_plan_that_is_stopped_is_the_beginning_of_the_whole_one(goal, objects):
    def planned(last):
        looks = count()
        found = rebalance(Cluster(objects), goal, limits=Limits(stop=lambda: next(looks) >= last))
        return found, next(looks)

    whole, looks = planned(10_000)
    assert whole.moves
    for last in range(looks):
        found, _ = planned(last)
        assert found.moves == whole.moves[: len(found.moves)]
        assert "stopped early: there may be more to do" in found.notes
    assert "stopped early: there may be more to do" not in whole.notes


def test_pending_pods_that_find_a_node_then():
    pods = [*webs(3, "a"), owned(pod("web-3", nodeName="b")), pod("waiting", "4")]
    found = rebalance(Cluster([node("a"), node("b"), *pods]), FreeNodes(1))
    assert found.placed == {}
    found = rebalance(Cluster([node("a"), node("b"), *pods]), RoomFor(Put((pod("waiting", "4"),))))
    assert found.placed == {"default/waiting": "b"}


def test_data_in_empty_dirs():
    objects, _ = leaving(1)
    objects[-1]["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    found = rebalance(Cluster(objects), Mend())
    assert found.moves[0].loses_data
    assert "the data in emptyDir volumes is lost: default/web-0" in found.notes
