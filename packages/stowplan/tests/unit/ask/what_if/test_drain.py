"""The result of a drain, which changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan import Cluster, ClusterError
from stowplan.ask.what_if import drain, survive
from stowplan.testing import a_pod
from support.what_if.objects import ZONE, budget, node, owned, pod


def moves(found):
    return {move.pod.partition("/")[2]: (move.from_, move.to) for move in found.moves}


def test_stranded_pods():
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(3)]
    found = drain(Cluster([node("a"), node("b", "2"), *pods]), ["a"])
    (stranded,) = found.stranded
    assert len(found.moves) == 2
    assert stranded.from_ == "a"
    assert stranded.reason.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")


def test_pods_of_daemon_sets_and_static_pods_stay():
    mirror = pod("mirror", nodeName="a")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    found = drain(Cluster([node("a"), node("b"), owned(pod("d", nodeName="a"), "DaemonSet", "d"), mirror]), ["a"])
    assert (found.stay, found.moves, found.lost) == (2, (), ())


def test_pods_without_controller_are_lost():
    found = drain(Cluster([node("a"), node("b"), pod("bare", nodeName="a")]), ["a"])
    assert (found.lost, found.moves) == (("default/bare",), ())
    assert "kubectl drain asks for --force" in found.notes[-1]


def test_a_budget_allows_one_eviction_at_a_time():
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(3)]
    found = drain(Cluster([node("a"), node("b"), *pods, budget(allowed=1)]), ["a"])
    assert (len(found.moves), found.blocked_by) == (3, ())


def test_a_budget_blocks_after_a_stranded_pod():
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(3)]
    found = drain(Cluster([node("a"), node("b", "1"), *pods, budget(allowed=1)]), ["a"])
    assert (len(found.moves), len(found.stranded)) == (1, 1)
    (block,) = found.blocked_by
    assert (block.node, block.budget) == ("a", "default/web")


@pytest.mark.parametrize(
    ("spec", "blocked"),
    [
        ({"minAvailable": 2}, 2),
        ({"minAvailable": 1}, 0),
        ({"maxUnavailable": 0}, 2),
        ({"maxUnavailable": "50%"}, 0),
        ({"minAvailable": "100%"}, 2),
        ({}, 2),
    ],
)
def test_a_budget_without_a_status_is_computed(spec, blocked):
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(2)]
    found = drain(Cluster([node("a"), node("b"), *pods, budget(**spec)]), ["a"])
    assert len(found.blocked_by) == blocked
    assert "default/web" in found.notes[0]


def unready(made):
    made["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    return made


@pytest.mark.parametrize(
    ("ready", "policy", "status", "blocked"),
    [
        pytest.param(True, "AlwaysAllow", (1, 2), 1, id="only pods that are not Ready"),
        pytest.param(False, "AlwaysAllow", (1, 2), 0, id="always"),
        pytest.param(False, "IfHealthyBudget", (1, 2), 1, id="the budget is not met"),
        pytest.param(False, "IfHealthyBudget", (2, 2), 0, id="the budget is met"),
        pytest.param(False, None, (2, 2), 0, id="by default as well"),
    ],
)
def test_pods_that_are_not_ready_go_by_the_policy_of_the_budget(ready, policy, status, blocked):
    held = budget(allowed=0) | {}
    held["spec"] |= {"unhealthyPodEvictionPolicy": policy} if policy else {}
    held["status"] |= {"currentHealthy": status[0], "desiredHealthy": status[1]}
    web = owned(pod("web-0", nodeName="a"))
    found = drain(Cluster([node("a"), node("b"), web if ready else unready(web), held]), ["a"])
    assert len(found.blocked_by) == blocked


def test_pods_that_are_not_ready_do_not_count_as_healthy_where_a_budget_is_computed():
    """Two of three are wanted, and two are Ready: none of them may go, the third may."""
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(3)]
    found = drain(Cluster([node("a"), node("b"), *pods[:2], unready(pods[2]), budget(minAvailable=2)]), ["a"])
    assert [block.pod for block in found.blocked_by] == ["default/web-0", "default/web-1"]
    assert [move.pod for move in found.moves] == ["default/web-2"]


@pytest.mark.parametrize(
    ("kind", "spec", "blocked"),
    [
        pytest.param("ReplicaSet", {"maxUnavailable": 2}, 3, id="of five wanted, two are missing already"),
        pytest.param("ReplicaSet", {"maxUnavailable": 3}, 0, id="one may go, and comes back"),
        pytest.param("ReplicaSet", {"minAvailable": 2}, 0, id="a number ignores the scale"),
        pytest.param("DaemonSet", {"minAvailable": 2}, 0, id="a number needs no scale"),
        pytest.param("Job", {"maxUnavailable": 3}, 3, id="a Job has no scale"),
    ],
)
def test_a_computed_budget_refers_to_the_scale_of_the_controller(kind, spec, blocked):
    pods = [owned(pod(f"web-{i}", nodeName="a"), kind) for i in range(3)]
    wanted = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 5}}
    wanted["metadata"] = {"name": "web-abc", "namespace": "default"}
    found = drain(Cluster([node("a"), node("b"), *pods, wanted, budget(**spec)]), ["a"])
    assert len(found.blocked_by) == blocked


def test_pods_that_are_being_deleted_are_not_healthy_where_a_budget_is_computed():
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(3)]
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = drain(Cluster([node("a"), node("b"), *pods, budget(minAvailable=2)]), ["a"])
    assert [block.pod for block in found.blocked_by] == ["default/web-1", "default/web-2"]


@pytest.mark.parametrize(("share", "blocked"), [("30%", 0), ("66%", 0), ("67%", 3), ("0%", 0)])
def test_shares_are_rounded_up(share, blocked):
    """As by the disruption controller: 67 % of three are three."""
    pods = [owned(pod(f"web-{i}", nodeName="a")) for i in range(3)]
    found = drain(Cluster([node("a"), node("b"), *pods, budget(minAvailable=share)]), ["a"])
    assert len(found.blocked_by) == blocked


def test_what_kubectl_drain_asks_options_for():
    scratch = owned(pod("web-0", nodeName="a", volumes=[{"name": "scratch", "emptyDir": {}}]))
    daemon = owned(pod("d", nodeName="a", volumes=[{"name": "scratch", "emptyDir": {}}]), "DaemonSet", "d")
    found = drain(Cluster([node("a"), node("b"), scratch, daemon, pod("bare", nodeName="a")]), ["a"])
    assert (found.empty_dir, found.lost, found.stay) == (("default/web-0",), ("default/bare",), 1)
    told = " ".join(found.notes)
    assert all(f"kubectl drain asks for --{option}" in told for option in ("force", "delete-emptydir-data"))
    assert "--ignore-daemonsets" in told


def test_two_budgets_block_each_eviction():
    more = budget("more", 5) | {}
    more["spec"] = {"selector": {"matchLabels": {"app": "web"}}}
    found = drain(Cluster([node("a"), node("b"), owned(pod("web-0", nodeName="a")), budget(allowed=5), more]), ["a"])
    assert found.blocked_by[0].reason == "a pod with more than one disruption budget cannot be evicted"


def test_an_empty_selector_matches_all_pods():
    everybody = budget("all", 0) | {"spec": {"selector": {}}}
    found = drain(Cluster([node("a"), node("b"), owned(pod("web-0", nodeName="a")), everybody]), ["a"])
    assert len(found.blocked_by) == 1


def test_unblocked_nodes_come_first():
    pods = [owned(pod("web-0", nodeName="a")), owned(pod("api-0", nodeName="b")), owned(pod("api-1", nodeName="b"))]
    found = drain(Cluster([node("a"), node("b"), node("c"), node("d"), *pods, budget(allowed=0)]), ["a", "b", "c"])
    assert found.nodes == ("c", "b", "a")


def test_rolling_nodes_come_back():
    pods = [owned(pod(f"web-{name}", "4", nodeName=name)) for name in "abc"]
    cluster = Cluster([node("a"), node("b"), node("c"), node("spare"), *pods])
    at_once, rolling = drain(cluster, list("abc")), drain(cluster, list("abc"), rolling=1)
    assert (len(at_once.moves), len(at_once.stranded)) == (1, 2)
    assert (len(rolling.moves), len(rolling.stranded)) == (3, 0)


@pytest.mark.parametrize("asked", ["drain", "survive"])
def test_a_rejected_pod_follows_one_that_moves_later(asked):
    beside = a_pod("beside").requests(cpu="1").priority(10).requires_pods(ZONE, {"matchLabels": {"app": "db"}}).obj()
    beside["spec"]["nodeName"] = "a"
    pods = [owned(beside), owned(pod("db-0", nodeName="a"))]
    cluster = Cluster([node("a", zone="x"), node("b", zone="y"), *pods])
    if asked == "survive":
        (loss,) = survive(cluster, only="x").losses
        assert (loss.moved, loss.stranded) == (2, ())
    else:
        found = drain(cluster, ["a"])
        assert [(move.pod, move.from_, move.to) for move in found.moves] == [
            ("default/db-0", "a", "b"),
            ("default/beside", "a", "b"),
        ]
        assert found.stranded == ()


def test_a_budget_is_asked_again_once_a_stranded_pod_has_found_a_node():
    first = a_pod("first").requests(cpu="1").labels(app="web").requires_pods(ZONE, {"matchLabels": {"app": "db"}}).obj()
    first["spec"]["nodeName"] = "a"
    scratch = pod("web-0", nodeName="a", volumes=[{"name": "scratch", "emptyDir": {}}])
    pods = [owned(first), owned(scratch), owned(pod("db-0", nodeName="a"))]
    found = drain(Cluster([node("a", zone="x"), node("b", zone="y"), *pods, budget(allowed=1)]), ["a"])
    assert [move.pod for move in found.moves] == ["default/db-0", "default/first", "default/web-0"]
    assert (found.stranded, found.blocked_by, found.empty_dir) == ((), (), ("default/web-0",))


def test_a_rejected_pod_comes_before_those_of_the_next_node():
    """The first one is kept beside the second one until that moves."""
    web = [
        owned(
            a_pod(f"web-{i}")
            .labels(app="web")
            .requests(cpu="1")
            .requires_pods(ZONE, {"matchLabels": {"app": "web"}})
            .obj()
        )
        for i in range(2)
    ]
    for one in web:
        one["spec"]["nodeName"] = "a"
    cluster = Cluster(
        [
            node("a", zone="x"),
            node("b", zone="x"),
            node("c", "2", zone="y"),
            *web,
            *[owned(pod(f"other-{i}", nodeName="b")) for i in range(3)],
        ]
    )
    assert [move.pod for move in drain(cluster, ["a", "b"]).moves] == ["default/web-1", "default/web-0"]


def test_rolling_without_a_spare_node():
    pods = [owned(pod(f"web-{name}", "4", nodeName=name)) for name in "ab"]
    found = drain(Cluster([node("a"), node("b"), *pods]), list("ab"), rolling=1)
    assert found.stranded == ()
    assert "only once one that was drained came back" in found.notes[0]


def test_invalid_arguments():
    cluster = Cluster([node("a")])
    with pytest.raises(ClusterError, match='node "b" not found'):
        drain(cluster, ["b"])
    with pytest.raises(ClusterError, match="want 1 or more"):
        drain(cluster, ["a"], rolling=0)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["1", "2"]), st.booleans()), max_size=8),
    st.sets(st.sampled_from("abcd"), min_size=1),
    st.sampled_from([None, 1, 2]),
)
def test_every_pod_is_accounted_for_and_nothing_changes(given_pods, names, rolling):
    pods = [
        (owned if has_owner else lambda made: made)(pod(f"web-{i}", cpu, nodeName=on))
        for i, (on, cpu, has_owner) in enumerate(given_pods)
    ]
    cluster = Cluster([*(node(name) for name in "abcd"), *pods, budget(allowed=2)])
    before = cluster.state.version
    found = drain(cluster, sorted(names), rolling=rolling)
    assert cluster.state.version == before
    affected = {f"default/web-{i}" for i, (on, _, _) in enumerate(given_pods) if on in names}
    told = {
        *(move.pod for move in found.moves),
        *(stranded.pod for stranded in found.stranded),
        *(block.pod for block in found.blocked_by),
        *found.lost,
    }
    assert told == affected
    if rolling is None:
        assert not {move.to for move in found.moves} & names
