"""Counterfactuals place equal pods together, with the same result as scheduling each pod separately."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stowplan import Cluster
from stowplan.ask.offline.scheduling import Scheduling
from stowplan.ask.what_if import Remove, drain, survive, what_if
from stowplan.ask.what_if.hypothetical_pods import compiled_copies
from stowplan.plugins import PostBindPlugin
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.answering_plugins import configuration
from support.scheduling.worlds import clusters, struct
from support.scheduling.worlds import pods as random_pods

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB, DB = ({"matchLabels": {"app": app}} for app in ("web", "db"))

SHAPES = {
    "small": a_pod("p").requests(cpu="100m"),
    "large": a_pod("p").requests(cpu="2"),
    "important": a_pod("p").requests(cpu="1").priority(5),
    "urgent": a_pod("p").labels(app="web").requests(cpu="700m").priority(9),
    "web": a_pod("p").labels(app="web").requests(cpu="500m"),
    "spread": a_pod("p").labels(app="web").requests(cpu="100m").spreads(ZONE, WEB),
    "rather": a_pod("p").labels(app="web").requests(cpu="100m").spreads(HOST, WEB, when_unsatisfiable="ScheduleAnyway"),
    "near": a_pod("p").labels(app="web").requests(cpu="100m").requires_pods(ZONE, WEB),
    "prefers": a_pod("p").labels(app="db").requests(cpu="100m").prefers_pods(9, ZONE, WEB).prefers_no_pods(5, HOST, DB),
    "apart": a_pod("p").labels(app="web").requests(cpu="100m").avoids_pods(HOST, WEB),
    "port": a_pod("p").requests(cpu="100m").host_port(80),
    "gated": a_pod("p").requests(cpu="100m").gated("wait"),
    "claim": a_pod("p").requests(cpu="100m").claims_volume("none"),
    "other scheduler": a_pod("p").scheduler("other"),
}

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}},
}


def budget(disruptions):
    """A budget of the pods of web."""
    metadata = {"name": "web", "namespace": "default"}
    status = {"disruptionsAllowed": disruptions}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"selector": WEB},
        "status": status,
    }


def cluster_of(sizes, pods, *, service=False, seed=None, groups=(), members=(), budgets=(), **options):
    """`members`: the number of each pod's group, if it has one; `budgets`: the disruptions that each allows."""
    objects = [
        a_node(f"n{i}").zone("abc"[i % 3]).allocatable(cpu=str(cpu), memory="8Gi", pods="9").obj()
        for i, cpu in enumerate(sizes)
    ]
    for i, (shape, at) in enumerate(pods):
        pod = SHAPES[shape].obj()
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": shape[:1], "uid": shape[:1], "controller": True}
        pod["metadata"] = {**pod["metadata"], "name": f"p{i}", "uid": f"p{i}", "ownerReferences": [owner]}
        gates = {"schedulingGates": []} if shape == "gated" and i % 2 else {}
        pod["spec"] = {**pod["spec"], "nodeName": f"n{at % len(sizes)}", **gates}
        if i < len(members) and members[i] is not None:
            pod["spec"]["schedulingGroup"] = {"podGroupName": f"g{members[i]}"}
        objects.append(pod)
    objects += [SERVICE] if service else []
    objects += groups
    objects += map(budget, budgets)
    return Cluster(objects, random=None if seed is None else random.Random(seed), **options)


def group(i, gang, *, topology):
    spec = {"schedulingPolicy": {"gang": {"minCount": gang}} if gang else {"basic": {}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
    metadata = {"name": f"g{i}", "namespace": "default", "uid": f"g{i}"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def placed(cluster):
    return sorted((info.key, info.node_name) for info in cluster.state.placed_pods())


def drain_all(cluster, stop):
    return drain(cluster, ["n0", "n1"], stop=stop)


def remove_all(cluster, stop):
    return what_if(cluster, Remove("n0"), Remove("n1"), stop=stop)


@pytest.fixture
def together(monkeypatch):
    """The number of pods placed together, for each time."""
    found = []
    real = Scheduling._together

    def counted(self, framework, infos):
        decisions = real(self, framework, infos)
        found.append(len(decisions))
        return decisions

    monkeypatch.setattr(Scheduling, "_together", counted)
    return found


def config_of(**profile):
    return configuration({"schedulerName": "default-scheduler", **profile})


@pytest.mark.parametrize("point", ["filter", "score"])
@pytest.mark.parametrize("shape", ["spread", "rather", "near", "prefers", "apart"])
def test_plugins_count_only_where_they_are_enabled(point, shape):
    pods = [(shape, i % 3) for i in range(12)] + [("web", 2), ("web", 5)]
    disabled = [{"name": name} for name in ("PodTopologySpread", "InterPodAffinity")]
    cluster = cluster_of([4, 4, 4, 4, 4, 8], pods, config=config_of(plugins={point: {"disabled": disabled}}))

    def moves():
        infos = [info for info in cluster.state.placed_pods() if info.node_name == "n0"]
        copies = compiled_copies(cluster.state, infos)
        with cluster.transaction():
            cluster.state.remove_nodes(["n0"])
            return [(decision.pod.key, decision.node_name) for decision in cluster.foreseen(copies)]

    together = moves()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SchedulingAlgorithm, "schedule_batch", lambda *args, **options: [])
        assert moves() == together


ARGUMENTS = {
    "InterPodAffinity": (
        {"hardPodAffinityWeight": 0},
        {"hardPodAffinityWeight": 60},
        {"ignorePreferredTermsOfExistingPods": True},
    ),
    "PodTopologySpread": tuple(
        {
            "defaultingType": "List",
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when} for key in keys],
        }
        for when in ("DoNotSchedule", "ScheduleAnyway")
        for keys in ((ZONE,), (HOST, ZONE))
    ),
}


def test_agrees_with_single_decisions_whatever_the_arguments():
    chosen = st.sampled_from([(name, args) for name, variants in ARGUMENTS.items() for args in variants])
    special = ("near", "away", "prefers", "prefers no", "owner")

    @examples(120)
    @given(
        clusters(least_nodes=3, special=special),
        random_pods("p", special=special, most=3, namespaces=("default",)),
        st.integers(2, 12),
        chosen,
    )
    def agrees(cluster, pod, number, chosen):
        name, args = chosen
        nodes, placed, objects = cluster
        found = Cluster(
            [*nodes, *placed, *objects, SERVICE], config=config_of(pluginConfig=[{"name": name, "args": args}])
        )
        metadata = [{**pod["metadata"], "name": f"p{i}", "uid": f"p{i}"} for i in range(number)]
        infos = [found.state.pod_info(struct({**pod, "metadata": each})) for each in metadata]
        with found.transaction():
            decisions = found.foreseen(infos)
        with pytest.MonkeyPatch.context() as patch, found.transaction():
            patch.setattr(SchedulingAlgorithm, "schedule_batch", lambda *args, **options: [])
            alone = found.foreseen(infos)
        assert (decisions is None) == (alone is None)
        for one, other in zip(decisions or (), alone or (), strict=True):
            assert (one.pod.key, one.node_name, one.message) == (other.pod.key, other.node_name, other.message)

    agrees()


def test_agrees_with_scheduling_each_pod():
    @examples(80)
    @given(
        st.lists(st.integers(1, 6), min_size=2, max_size=6),
        st.lists(st.tuples(st.sampled_from(sorted(SHAPES)), st.integers(0, 5)), min_size=1, max_size=25),
        st.booleans(),
        st.none() | st.integers(0, 3),
        st.lists(st.integers(0, 3), max_size=1),
    )
    # A pod that finds no node before another takes the last place is not tried again: its plugins do not wait for that.
    @example([4, 1], [*[("apart", 0)] * 6, *[("important", 0)] * 2, ("large", 1), ("port", 1)], False, None, [])
    def agrees(sizes, pods, service, seed, budgets):
        pods = sorted(pods, key=lambda pod: pod[0])
        cluster = cluster_of(sizes, pods, service=service, seed=seed, budgets=budgets)
        before = cluster.state.dump()
        lost, drained = survive(cluster, ZONE), drain(cluster, ["n0"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cluster, "places", lambda self, pods, stop: self.schedule(pods))
            patch.setattr(Cluster, "foreseen", lambda self, pods, stop: None)
            assert lost == survive(cluster, ZONE)
            assert drained == drain(cluster, ["n0"])
        assert cluster.state.dump() == before

    agrees()


def test_groups_agree_with_trying_each_group():
    gates = ("GenericWorkload", "GangScheduling"), ("TopologyAwareWorkloadScheduling",), ("WorkloadAwarePreemption",)

    @examples(80)
    @given(
        st.lists(st.integers(1, 6), min_size=2, max_size=6),
        st.lists(st.tuples(st.sampled_from(sorted(SHAPES)), st.integers(0, 5)), min_size=1, max_size=20),
        st.lists(st.sampled_from((None, 0, 0, 1, 1, 2)), min_size=20, max_size=20),
        st.lists(st.tuples(st.sampled_from((0, 1, 1, 2, 2, 3, 5)), st.integers(0, 6)), min_size=2, max_size=3),
        st.integers(1, 3),
        st.none() | st.integers(0, 3),
    )
    def agrees(sizes, pods, members, gangs, number, seed):
        # Mostly pods that fit, as a group is foreseen only if all of them do.
        pods = [(shape, at) if i % 7 == 6 else ("small", at) for i, (shape, at) in enumerate(pods)]
        groups = [group(i, gang, topology=not topology) for i, (gang, topology) in enumerate(gangs)]
        enabled = {gate: True for some in gates[:number] for gate in some}
        cluster = cluster_of(
            sizes, pods, seed=seed, groups=groups, members=members, feature_gates=enabled, emulated_version="1.36"
        )
        before, lost = cluster.state.dump(), survive(cluster, ZONE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cluster, "foreseen", lambda self, pods, stop: None)
            assert lost == survive(cluster, ZONE)
        assert cluster.state.dump() == before

    agrees()


@pytest.mark.parametrize(("gang", "moved"), [(4, 4), (5, 0)], ids=["complete", "incomplete"])
def test_gangs_are_foreseen_if_all_their_pods_get_a_node(monkeypatch, gang, moved):
    pods, members = [("small", 0)] * 4 + [("small", 1)] * 4, [0, 1] * 4
    groups = [group(i, gang, topology=False) for i in range(2)]
    gates = {"GenericWorkload": True, "GangScheduling": True}
    cluster = cluster_of([4, 4, 4], pods, groups=groups, members=members, feature_gates=gates, emulated_version="1.36")
    if moved:
        monkeypatch.setattr(Cluster, "add", None)
    (loss,) = survive(cluster, ZONE, only="a").losses
    assert (loss.moved, len(loss.stranded)) == (moved, 4 - moved)


def test_pods_are_where_schedule_would_have_put_them(together):
    found = []
    for name in ("places", "schedule"):
        cluster = cluster_of([4, 4, 4], [("small", 0)] * 8 + [("web", 1)] * 4, seed=1)
        keys = [info.key for info in cluster.state.placed_pods()]
        pods = [cluster.pod(key).pod for key in keys]
        for key in keys:
            cluster.evict(key)
        for pod in pods:
            cluster.add(
                {"apiVersion": "v1", "kind": "Pod", **SHAPES["small"].obj(), "metadata": {"name": pod.metadata.name}}
            )
        decisions = getattr(cluster, name)(keys)
        nodes = [info.pod.spec.node_name for info in cluster.state.placed_pods()]
        sizes, pending = cluster.state.sizes(), cluster.pending()
        found.append(([decision.to_dict() for decision in decisions], placed(cluster), nodes, sizes, pending))
    assert found[0] == found[1]
    assert together == [12]


def test_equal_pods_that_all_fit_are_not_assumed_one_by_one(together, monkeypatch):
    cluster = cluster_of([4, 4, 4], [("small", 0)] * 5 + [("small", 1)])
    monkeypatch.setattr(Cluster, "add", None)
    (loss,) = survive(cluster, ZONE, only="a").losses
    assert (loss.moved, loss.stranded, together) == (5, (), [])


def test_a_pod_that_does_not_fit_is_foreseen(together, monkeypatch):
    cluster = cluster_of([8, 2, 2], [("large", 0)] * 3)
    monkeypatch.setattr(Cluster, "add", None)
    (loss,) = survive(cluster, ZONE, only="a").losses
    assert (loss.moved, len(loss.stranded), together) == (2, 1, [])
    assert "Insufficient cpu" in loss.stranded[0].reason


def test_pods_that_preempt_others_are_foreseen(monkeypatch):
    pods = [("important", 0)] * 3 + [("small", 1)] * 4 + [("web", 2)] * 4
    cluster = cluster_of([4, 2, 2], pods)
    monkeypatch.setattr(Cluster, "add", None)
    (loss,) = survive(cluster, ZONE, only="a").losses
    assert (loss.moved, len(loss.displaced)) == (3, 4)


@pytest.mark.parametrize("foreseen", [True, False], ids=["foreseen", "tried"])
@pytest.mark.parametrize("ask", [lambda cluster, stop: survive(cluster, ZONE, stop=stop), drain_all, remove_all])
def test_a_question_that_is_stopped_says_how_many_pods_it_decided(monkeypatch, ask, foreseen):
    """With each pod more that is decided, the answer has one more, until it is that of the whole question."""
    if not foreseen:
        monkeypatch.setattr(Cluster, "foreseen", lambda self, pods, stop: None)
    pods = [("important", 0)] * 3 + [("small", 1)] * 4 + [("web", 2)] * 4 + [("large", 0)] * 2
    cluster = cluster_of([4, 2, 2], pods)
    whole, decided = ask(cluster, lambda: False), []
    for calls in range(1, 400):
        left = iter(range(calls))
        found = ask(cluster, lambda left=left: next(left, None) is None)
        if found.partial is None:
            break
        assert f"stopped early: {found.partial.decided} of {found.partial.of} pods" in "".join(found.notes)
        decided.append(found.partial.decided)
    assert found == whole
    assert decided[0] <= 1
    assert len(set(decided)) > 3


def test_pods_of_several_kinds_are_foreseen(monkeypatch):
    cluster = cluster_of([4, 4, 4], [("small", 0)] * 5 + [("web", 0)] * 4 + [("spread", 0)] * 3)
    monkeypatch.setattr(Cluster, "add", None)
    (loss,) = survive(cluster, ZONE, only="a").losses
    assert (loss.moved, loss.stranded) == (12, ())


def test_post_bind_plugins_are_called_for_each_pod(together):
    heard = []

    class Hears(PostBindPlugin):
        name = "Hears"

        async def post_bind(self, state, pod, node_name):
            heard.append(pod.key)

    config = config_of(plugins={"multiPoint": {"enabled": [{"name": "Hears"}]}})
    survive(cluster_of([4, 4, 4], [("small", 0)] * 6, config=config, plugins=[Hears]), ZONE, only="a")
    assert together == []
    assert len(heard) == 6


def test_pods_of_one_name_in_two_namespaces_have_no_uid():
    objects = [a_node(name).zone(name).obj() for name in ("a", "b")]
    for namespace in ("x", "y"):
        pod = a_pod("web", namespace).on("a").owner("ReplicaSet", "web").obj()
        del pod["metadata"]["uid"]
        objects.append(pod)
    (loss,) = survive(Cluster(objects), ZONE, only="a").losses
    assert (loss.moved, loss.stranded) == (2, ())
    assert [move.pod for move in drain(Cluster(objects), ["a"]).moves] == ["x/web", "y/web"]
