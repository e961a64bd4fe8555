"""Preemption for a pod group as a whole: victims are workloads, and no pod is evicted in vain."""

from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan
from stowplan.scheduler.cluster.transaction import CopiedAtBeginning
from stowplan.scheduler.engine.eviction.victim_evictions import MAX_CONCURRENT_EVICTIONS
from stowplan.scheduler.framework.interface import PermitPlugin
from stowplan.scheduler.framework.requests import Delete
from stowplan.scheduler.framework.status import Code
from stowplan.testing import a_pod
from stowplan.testing.live import Latency, live_cluster
from support.examples import times
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_group, check_exact_undo, condition, member, node, nodes_of, preempting_worlds

GATES = {"GenericWorkload": True, "GangScheduling": True, "WorkloadAwarePreemption": True}


def low(name, cpu="1", priority=1, **options):
    return a_pod(name).requests(cpu=cpu).spec(priority=priority).labels(**options).obj()


def running(name, on, started=None, labels=None, **options):
    """A placed pod, possibly a member of a group."""
    group = options.pop("group", None)
    made = member(name, group, **options) if group else a_pod(name).requests(cpu="1").spec(**options).obj()
    made["spec"]["nodeName"] = on
    made["metadata"]["labels"] = labels or {}
    if started is not None:
        made["status"] = {"startTime": f"2026-01-01T00:00:{started:02}Z"}
    return made


def cluster_of(*objects, latency=None, gates=GATES, emulated_version="1.36", **options):
    return live_cluster(
        *objects,
        feature_gates=gates,
        emulated_version=emulated_version,
        **({} if latency is None else {"latency": latency}),
        **options,
    )


def preempted(cluster):
    return sorted(event["regarding"]["name"] for event in cluster.events(reason="Preempted"))


class TestAGangPreempts:
    def test_it_evicts_as_many_as_it_needs_and_runs_whole(self):
        with cluster_of(node("n1"), node("n2"), a_group(gang=3, priority=10)) as cluster:
            cluster.create(*(low(f"low{i}") for i in range(4)))
            cluster.create(*(member(name, priority=10) for name in "abc"))
            # The message of the earlier trial; nothing is added to it.
            assert condition(cluster) == [("False", "Unschedulable", "pod group is unschedulable")]
            assert len(preempted(cluster)) == 3
            cluster.advance(30)
            assert all(nodes_of(cluster, *"abc"))
            assert condition(cluster) == [("True", "Scheduled", "")]
            assert len(preempted(cluster)) == 3
            cluster.engine.validate()

    def test_single_pods_do_not_preempt_for_themselves(self):
        """One of two fits with preemption; without it the gang cannot run, so nothing is evicted."""
        with cluster_of(node("n1", 1), a_group(gang=2, priority=10)) as cluster:
            cluster.create(low("victim"))
            cluster.create(member("a", priority=10), member("b", priority=10))
            assert preempted(cluster) == []
            assert "preemption: not eligible due to workload aware preemption enabled" in cluster.why_pending("a")
            text = "pod group is unschedulable, pod group is unschedulable"
            assert condition(cluster) == [("False", "Unschedulable", text)]
            assert cluster.node_of("victim") == "n1"

    def test_without_the_gate_pods_preempt_one_by_one(self):
        with cluster_of(
            node("n1", 1), a_group(gang=2, priority=10), gates={**GATES, "WorkloadAwarePreemption": False}
        ) as cluster:
            cluster.create(low("victim"))
            cluster.create(member("a", priority=10), member("b", priority=10))
            assert preempted(cluster) == ["victim"]

    def test_pods_that_fit_are_nominated_to_where_they_fit(self):
        latency = Latency(deletions=lambda pod: 30.0)
        with cluster_of(node("n1", 1), node("n2", 1), a_group(gang=2, priority=10), latency=latency) as cluster:
            cluster.create(low("victim"))
            free = {"n1", "n2"} - {cluster.node_of("victim")}
            cluster.create(member("a", priority=10), member("b", priority=10))
            nominated = [cluster.get("pods", name)["status"].get("nominatedNodeName", "") for name in "ab"]
            assert sorted(nominated) == ["", *free]

    def test_no_further_evictions_while_victims_terminate(self):
        latency = Latency(deletions=lambda pod: 30.0)
        with cluster_of(node("n1"), node("n2"), a_group(gang=2, priority=10), latency=latency) as cluster:
            cluster.create(*(low(f"low{i}") for i in range(4)))
            cluster.create(member("a", priority=10), member("b", priority=10))
            for _ in range(6):
                cluster.advance(4)
                cluster.engine.validate()
                assert len(preempted(cluster)) == 2
            cluster.advance(60)
            assert all(nodes_of(cluster, "a", "b"))
            assert len(preempted(cluster)) == 2

    def test_its_pods_are_gated_while_victims_terminate(self):
        latency = Latency(requests={Delete: 5.0})
        with cluster_of(node("n1"), a_group(gang=2, priority=10), latency=latency) as cluster:
            cluster.create(low("low0"), low("low1"))
            cluster.create(member("a", priority=10), member("b", priority=10))
            cluster.advance(2)
            queued = cluster.engine.queue.get("default/a")
            assert queued.gating_plugin == "DefaultPreemption"
            attempts = queued.attempts
            cluster.advance(30)
            assert nodes_of(cluster, "a", "b") == ["n1", "n1"]
            assert attempts == 1
            assert len(preempted(cluster)) == 2

    def test_the_condition_of_a_preempting_group(self):
        with cluster_of(node("n1", 1), a_group(gang=1, priority=10)) as cluster:
            uid = cluster.get("podgroups.scheduling.k8s.io", "g")["metadata"].get("uid", "")
            cluster.create(low("victim"))
            cluster.create(member("a", priority=10))
            told = cluster.events(reason="Preempted")[0]
            assert told["note"] == f"Preempted by podgroup {uid} on node cluster"
            assert told["related"]["kind"] == "PodGroup"


class TestNoPreemption:
    @pytest.mark.parametrize(
        ("group", "pods", "message"),
        [
            pytest.param(
                a_group(gang=1, priority=10),
                [member("a", priority=10, preemptionPolicy="Never")],
                "not eligible due to preemptionPolicy=Never.",
                id="a pod that never preempts",
            ),
            pytest.param(
                a_group(gang=1, priority=1),
                [member("a", priority=10)],
                "No preemption victims found for incoming preemptor",
                id="the group's priority counts, not the pods'",
            ),
            pytest.param(
                a_group(gang=1, priority=10, topology="zone"),
                [member("a", priority=10)],
                "workload aware preemption is not supported for pod groups with scheduling constraints",
                id="a group with a topology",
            ),
        ],
    )
    def test_the_condition_says_why(self, group, pods, message):
        with cluster_of(node("n1", 1), group) as cluster:
            cluster.create(low("victim"))
            cluster.create(*pods)
            assert condition(cluster) == [("False", "Unschedulable", f"pod group is unschedulable, {message}")]
            assert preempted(cluster) == []

    def test_a_profile_without_default_preemption(self):
        config = configuration({"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}})
        with cluster_of(node("n1", 1), a_group(gang=1, priority=10), config=config) as cluster:
            cluster.create(low("victim"))
            cluster.create(member("a", priority=10))
            text = "default preemption plugin is not registered, workload aware preemption is disabled"
            assert condition(cluster) == [("False", "Unschedulable", f"pod group is unschedulable, {text}")]

    def test_a_group_without_its_object(self):
        gates = {"GenericWorkload": True, "GangScheduling": True, "WorkloadAwarePreemption": True}
        config = configuration({"plugins": {"multiPoint": {"disabled": [{"name": "GangScheduling"}]}}})
        with cluster_of(node("n1", 1), gates=gates, config=config) as cluster:
            cluster.create(low("victim"))
            cluster.create(member("a", priority=10))
            text = 'failed to get pod group object: podgroup.scheduling.k8s.io "g" not found'
            assert cluster.why_pending("a") == text


class TestVictims:
    def test_a_gang_is_evicted_as_a_whole_for_a_gang(self):
        """Its group's priority counts, although its pods have high priorities."""
        objects = [
            node("n1", 1),
            node("n2", 1),
            a_group("old", gang=2, priority=5, mode="PodGroup"),
            a_group("new", gang=1, priority=10),
            running("old0", "n1", group="old", priority=100),
            running("old1", "n2", group="old", priority=100),
        ]
        with cluster_of(*objects) as cluster:
            cluster.create(member("a", "new", priority=0))
            assert preempted(cluster) == ["old0", "old1"]
            cluster.advance(30)
            assert cluster.node_of("a")

    def test_its_own_members_are_not_victims(self):
        """Evicting one of its members for another is pointless."""
        objects = [node("n1", 1), a_group(gang=1, priority=10), running("mine", "n1", group="g", priority=1)]
        with cluster_of(*objects) as cluster:
            cluster.create(member("a", priority=10))
            assert preempted(cluster) == []
            text = "pod group is unschedulable, No preemption victims found for incoming preemptor"
            assert condition(cluster) == [("False", "Unschedulable", text)]


class TestPointlessEvictions:
    @pytest.mark.parametrize("gone", ["a member", "the group"])
    def test_a_gang_that_became_unschedulable_evicts_no_further_pod(self, gone):
        """Its evictions take turns; those that have not started are cancelled."""
        count = MAX_CONCURRENT_EVICTIONS + 4
        latency = Latency(requests={Delete: 5.0})
        with cluster_of(node("n1", count), a_group(gang=count, priority=10), latency=latency) as cluster:
            cluster.create(*(low(f"low{i}") for i in range(count)))
            cluster.create(*(member(f"p{i}", priority=10) for i in range(count)))
            assert len(cluster.engine.evictions) == 1
            if gone == "a member":
                cluster.delete("pods", "p0")
            else:
                cluster.delete("podgroups.scheduling.k8s.io", "g")
            cluster.advance(60)
            assert len(preempted(cluster)) == MAX_CONCURRENT_EVICTIONS
            assert len(cluster.engine.evictions) == 0
            cluster.engine.validate()


def plain_victims(nodes, groups, pods, wanted, allowed):
    """The rule in a few lines, on counts of CPUs."""
    count, cpu, priority = wanted

    def fits(left):
        free = list(nodes)
        for i in left:
            free[pods[i][0]] -= 1
        return sum(one // cpu for one in free) >= count

    units = {}
    order = sorted(range(len(pods)), key=lambda i: (pods[i][0], i))
    for i in order:
        group = pods[i][1]
        whole = group >= 0 and groups[group][1] == "PodGroup"
        units.setdefault(("group", group) if whole else ("pod", i), []).append(i)
    rated = []
    for met, ((kind, which), of) in enumerate(units.items()):
        rank = groups[which][0] if kind == "group" else pods[of[0]][2]
        if rank < priority:
            alone, started = pods[of[0]][1] < 0, pods[of[0]][3]
            start = (started is None, started or 0, met)
            rated.append(((-rank, alone, 0 if alone else -len(of), *start), of))
    rated.sort(key=itemgetter(0))
    staying = set(range(len(pods))) - {i for _, of in rated for i in of}
    if not rated or not fits(staying):
        return None
    broken, kept, left = [], [], allowed
    for _, of in rated:
        violates = False
        for i in of:
            if pods[i][4]:
                left -= 1
                violates = violates or left < 0
                if violates:
                    break
        (broken if violates else kept).append(of)
    victims = []
    for of in broken + kept:
        if fits(staying | set(of)):
            staying |= set(of)
        else:
            victims.append(of)
    return {f"p{i}" for of in victims for i in of}


def world_of(nodes, groups, pods, wanted, allowed):
    count, cpu, priority = wanted
    yield from (node(f"n{i}", size) for i, size in enumerate(nodes))
    yield a_group("new", gang=count, priority=priority)
    yield from (member(f"new{i}", "new", cpu=str(cpu)) for i in range(count))
    yield from (a_group(f"g{i}", priority=rank, mode=mode) for i, (rank, mode) in enumerate(groups))
    for i, (on, group, rank, started, guarded) in enumerate(pods):
        labels = {"app": "kept"} if guarded else {}
        of = {"group": f"g{group}"} if group >= 0 else {}
        yield running(f"p{i}", f"n{on}", started, labels, priority=rank, **of)
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": allowed},
    }


class Unknown(PermitPlugin):
    """Declares nothing, so that victims are spared one by one."""

    name = "Unknown"

    def permit(self, state, pod, node_name):
        return None, 0.0


ONE_BY_ONE = {
    "plugins": [Unknown],
    "config": configuration({"plugins": {"multiPoint": {"enabled": [{"name": "Unknown"}]}}}),
}


def trials_of(cluster):
    """The number of trials for a question about the group, and the victims."""
    tried = []
    # Each trial is a transaction; so are the question, and the search for victims.
    counter = CopiedAtBeginning(lambda: tried.append(None), lambda copied: None)
    cluster.engine.state.transactions.register("trials", counter)
    with cluster.engine.asking_about_group("default/g") as question:
        found = question.judgement()
    return len(tried), len(found.domains[0].victims)


@pytest.mark.parametrize(("options", "most"), [({}, 40), (ONE_BY_ONE, 204)])
def test_equal_victims_need_few_trials(options, most):
    objects = [
        *(node(f"n{i}", 20) for i in range(10)),
        *(running(f"low{i}", f"n{i % 10}", priority=1) for i in range(200)),
        a_group(gang=4, priority=10),
        *(member(f"p{i}") for i in range(4)),
    ]
    trials, victims = trials_of(stowplan.Cluster(objects, feature_gates=GATES, emulated_version="1.36", **options))
    assert victims == 4
    assert trials <= most


@pytest.mark.parametrize("options", [pytest.param({}, id="many at once"), pytest.param(ONE_BY_ONE, id="one by one")])
@settings(max_examples=times(60), deadline=None)
@given(world=preempting_worlds("Pod", "PodGroup"))
def test_victims_are_those_of_the_plain_rule(options, world):
    nodes, _, pods, (count, cpu, _), _ = world
    cluster = stowplan.Cluster(world_of(*world), feature_gates=GATES, emulated_version="1.36", **options)
    before = cluster.engine.state.dump()
    with cluster.engine.asking_about_group("default/new") as question:
        found = question.judgement()
    after = cluster.engine.state.dump()
    assert after["nodes and pods"] == before["nodes and pods"]
    used = [sum(1 for on, *_ in pods if on == i) for i in range(len(nodes))]
    if sum((size - taken) // cpu for size, taken in zip(nodes, used, strict=True)) >= count:
        assert found.status.code == Code.Success
        return
    expected = plain_victims(*world)
    assert {name.partition("/")[2] for name in found.domains[0].victims} == (expected or set())
    assert found.waiting == (expected is not None)


@pytest.mark.parametrize(
    ("version", "gates", "modes"),
    [
        ("1.36", GATES, {"Pod": "Pod", "PodGroup": "PodGroup"}),
        ("1.37", {"GenericWorkload": True}, {"Pod": {"single": {}}, "PodGroup": {"all": {}}}),
    ],
)
@settings(max_examples=times(12), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    gangs=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(0, 3), st.sampled_from(("Pod", "PodGroup"))),
        min_size=2,
        max_size=4,
    ),
    alone=st.integers(0, 3),
    order=st.randoms(use_true_random=False),
    grace=st.sampled_from((0.0, 7.0)),
)
def test_gangs_that_preempt_each_other_settle(version, gates, modes, sizes, gangs, alone, order, grace):
    """(pods, CPUs of each, priority, mode). No gang runs in part, none waits that could have room, and all have a
    message."""
    nodes = [node(f"n{i}", cpu) for i, cpu in enumerate(sizes)]
    groups = [a_group(f"g{g}", gang=n, priority=rank, mode=modes[mode]) for g, (n, _, rank, mode) in enumerate(gangs)]
    pods = [
        member(f"g{g}-{i}", f"g{g}", str(cpu), priority=rank)
        for g, (n, cpu, rank, _) in enumerate(gangs)
        for i in range(n)
    ]
    pods += [low(f"alone{i}", priority=0) for i in range(alone)]
    order.shuffle(pods)
    options = {"gates": gates, "emulated_version": version, "latency": Latency(deletions=lambda pod: grace)}
    with check_exact_undo(), cluster_of(*nodes, *groups, **options) as cluster:
        for pod in pods:
            cluster.create(pod)
        # Time for backoffs, victims' termination, and what follows.
        for _ in range(20):
            cluster.advance(60)
            cluster.engine.validate()
        engine, state = cluster.engine, cluster.engine.state
        assert engine.under_way == 0
        for g, (n, cpu, rank, _) in enumerate(gangs):
            key = f"default/g{g}"
            running_pods, waiting = state.pod_groups.scheduled(key), state.pod_groups.unscheduled(key)
            assert not (running_pods and waiting), "a gang runs in part"
            for info in waiting:
                assert cluster.why_pending(info.pod.metadata.name)
            if len(waiting) == n:
                free = dict(enumerate(sizes))
                # As in the reference, a member that does not fit any more keeps its nomination, and so room.
                reserved = [(info, name) for name in state.nominator.nodes() for info in state.nominator.on(name)]
                for info, name in [*((info, info.node_name) for info in state.placed_pods()), *reserved]:
                    of = info.pod.spec.scheduling_group
                    priority = info.priority if of is None else gangs[int(of.pod_group_name[1:])][2]
                    if priority >= rank and info not in waiting:
                        free[int(name[1:])] -= info.shape.requests["cpu"] // 1000
                assert sum(max(0, left) // cpu for left in free.values()) < n, "a gang waits that could have room"
