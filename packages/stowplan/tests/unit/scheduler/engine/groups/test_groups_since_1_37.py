"""Groups since 1.37: PlacementFeasible ends a trial, nominated placements come first, preemption keeps the nodes."""

from operator import itemgetter

import pytest
from hypothesis import given, settings

import stowplan
from stowplan.plugins import (
    PodGroupPostFilterPlugin,
    PodGroupPostFilterResult,
    PreBindPlugin,
    Status,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.groups.group_validation import group_problem
from stowplan.scheduler.framework.status import Code, error
from stowplan.scheduler.queue.queued_pod import Place, QueuedPod
from stowplan.testing import a_pod
from stowplan.testing.live import Latency, live_cluster
from support.examples import times
from support.observing.metrics import framework_metrics, numbers
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_group, check_exact_undo, member, node, nodes_of, preempting_worlds
from support.scheduling.worlds import budget, struct

GATES = {"GenericWorkload": True}
PLACED = {**GATES, "TopologyAwareWorkloadScheduling": True}
SINGLE, ALL = {"single": {}}, {"all": {}}
NOT_ELIGIBLE = "preemption: not eligible due to workload aware preemption enabled"


def cluster_of(*objects, gates=GATES, **options):
    return live_cluster(*objects, feature_gates=gates, emulated_version="1.37", **options)


def gang_of(count, **options):
    return a_group(gang=count, mode=SINGLE, **options)


def low(name, cpu="1", priority=1, **labels):
    return a_pod(name).requests(cpu=cpu).spec(priority=priority).labels(**labels).obj()


def condition(cluster, group="g"):
    found = cluster.get("podgroups.scheduling.k8s.io", group).get("status", {}).get("conditions", [])
    return [(one["type"], one["status"], one["reason"], one.get("message", "")) for one in found]


def refused(message):
    return [("PodGroupInitiallyScheduled", "False", "Unschedulable", message)]


SCHEDULED = [("PodGroupInitiallyScheduled", "True", "Scheduled", "")]


def preempted(cluster):
    return sorted(event["regarding"]["name"] for event in cluster.events(reason="Preempted"))


def nominations(cluster, *names):
    return [cluster.get("pods", name)["status"].get("nominatedNodeName", "") for name in names]


# -- trials -----------------------------------------------------------------------------------------------------------


class TestTrials:
    def test_a_gang_that_fits(self):
        with cluster_of(node("n1"), node("n2"), gang_of(3)) as cluster:
            cluster.create(member("a"), member("b"))
            assert nodes_of(cluster, "a", "b") == ["", ""]
            cluster.create(member("c"))
            assert all(nodes_of(cluster, *"abc"))
            assert condition(cluster) == SCHEDULED
            cluster.engine.validate()

    def test_one_that_lacks_room_ends_early(self):
        """Two of five fit; with two in vain, three are out of reach, and the fifth is not tried."""
        pods = [member(f"p{i}") for i in range(5)]
        with cluster_of(node("n1"), gang_of(4), *pods) as cluster:
            told = "minCount (4) cannot be satisfied: 2 scheduled, 1 remaining"
            more = "pod group preemption: No preemption victims found for incoming preemptor"
            assert condition(cluster) == refused(f"{told}, {more}")
            words = [cluster.why_pending(f"p{i}") for i in range(5)]
            assert words.count(f"pod group is unschedulable, {told}, {more}") == 2
            assert sum("Insufficient cpu" in one and NOT_ELIGIBLE in one for one in words) == 2
            assert words.count(told) == 1
            cluster.engine.validate()

    def test_a_quorum_out_of_reach_tries_no_pod(self):
        """A scheduled pod of it has left, and the new one does not suffice any more."""
        with cluster_of(node("n1", 4), gang_of(1)) as cluster:
            spec = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
            cluster.create(member("a", cpu="5"))
            cluster.patch("podgroups.scheduling.k8s.io", "g", spec)
            cluster.advance(30)
            told = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"
            assert cluster.engine.queue.get("default/a").gated or told in cluster.why_pending("a")

    def test_a_basic_group_needs_one(self):
        with cluster_of(node("n1"), a_group(mode=SINGLE)) as cluster:
            cluster.create(*(member(f"p{i}") for i in range(3)))
            assert sum(bool(cluster.node_of(f"p{i}")) for i in range(3)) == 2
            assert condition(cluster) == SCHEDULED

    def test_later_members_that_do_not_fit(self):
        with cluster_of(node("n1"), gang_of(2)) as cluster:
            cluster.create(member("a"), member("b"))
            cluster.create(member("c"))
            assert "Insufficient cpu" in cluster.why_pending("c")
            assert condition(cluster) == SCHEDULED

    def test_a_smaller_min_count_wakes_the_gang(self):
        with cluster_of(node("n1"), gang_of(3)) as cluster:
            cluster.create(member("a"), member("b"))
            spec = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
            cluster.patch("podgroups.scheduling.k8s.io", "g", spec)
            assert nodes_of(cluster, "a", "b") == ["n1", "n1"]

    def test_the_older_version_of_the_api(self):
        """A cluster of 1.36 serves v1alpha2 only."""
        with cluster_of(node("n1"), a_group(gang=2, mode="PodGroup")) as cluster:
            cluster.create(member("a"), member("b"))
            assert condition(cluster) == SCHEDULED


class TestPlacements:
    def racks(self, *, first, second):
        return node("n1", first, rack="a"), node("n2", second, rack="b")

    def test_none_is_large_enough(self):
        group = gang_of(3, topology="rack")
        with cluster_of(*self.racks(first=2, second=2), group, gates=PLACED) as cluster:
            cluster.create(*(member(name) for name in "abc"))
            told = "0/2 placements are available, reported placement status: "
            told += "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
            more = "pod group preemption: No preemption victims found for incoming preemptor"
            assert condition(cluster) == refused(f"pod group is unschedulable, {told}, {more}")

    @pytest.mark.parametrize(("nominated", "on"), [("", ["n1"] * 4), ("n2", ["", "", "n2", "n2"])])
    def test_the_nominated_one_is_taken_though_another_fits_more(self, nominated, on):
        pods = [member(f"p{i}") for i in range(4)]
        pods[0]["status"] = {"nominatedNodeName": nominated} if nominated else {}
        group = gang_of(2, topology="rack")
        with cluster_of(*self.racks(first=4, second=2), group, *pods, gates=PLACED) as cluster:
            assert sorted(cluster.node_of(f"p{i}") for i in range(4)) == on
            assert condition(cluster) == SCHEDULED

    def test_a_nominated_one_without_room_leaves_the_others(self):
        pods = [member(f"p{i}") for i in range(4)]
        pods[0]["status"] = {"nominatedNodeName": "n2"}
        group = gang_of(3, topology="rack")
        with cluster_of(*self.racks(first=4, second=2), group, *pods, gates=PLACED) as cluster:
            assert [cluster.node_of(f"p{i}") for i in range(4)] == ["n1"] * 4

    def test_preemption_within_a_rack(self):
        """In 1.36, groups with constraints do not preempt."""
        group = gang_of(2, topology="rack", priority=10)
        with cluster_of(*self.racks(first=2, second=2), group, gates=PLACED) as cluster:
            cluster.create(*(low(f"low{i}") for i in range(4)))
            cluster.create(member("a", priority=10), member("b", priority=10))
            assert len(set(nominations(cluster, "a", "b"))) == 1
            assert len(preempted(cluster)) == 2
            cluster.advance(30)
            assert len(set(nodes_of(cluster, "a", "b"))) == 1
            assert condition(cluster) == SCHEDULED
            cluster.engine.validate()


# -- the queue --------------------------------------------------------------------------------------------------------

#: Name, min count of the group (None: basic), steps. After TestPodGroupQueueing in
#: test/integration/scheduler/podgroup/queueing; the four cases in which a pod is added in the middle of a cycle are in
#: queue/test_group_entries.py, as here nothing happens in between. A step creates or deletes pods (":": with another
#: number of CPUs than 2; "!": gated), creates or deletes the group ("pg"), adds the larger node, removes the gate of a
#: pod, or says where pods are. "once" lets PreBind fail for p1, once.
QUEUEING = [
    (
        "a gang grows",
        2,
        ["+p1 p2", "failed p1 p2", "+p3", "failed p1 p2 p3", "node", "bound p1 p2 p3", "+p4", "bound p4"],
    ),
    (
        "a basic group grows",
        None,
        ["+p1", "bound p1", "+p2", "failed p2", "+p3", "failed p2 p3", "node", "bound p2 p3"],
    ),
    ("a gang is tried again without a change", 2, ["+p1 p2", "failed p1 p2", "again p1 p2"]),
    ("a basic group is tried again without a change", None, ["+p1", "bound p1", "+p2", "failed p2", "again p2"]),
    (
        "a gated pod holds a gang",
        2,
        ["node", "+p1!", "gated p1", "+p2 p3", "gated p2 p3", "ungate p1", "bound p1 p2 p3"],
    ),
    (
        "a gated pod holds a basic group",
        None,
        ["node", "+p1!", "gated p1", "+p2 p3", "gated p2 p3", "ungate p1", "bound p1 p2 p3"],
    ),
    (
        "a gang that waits is held by a new pod",
        2,
        ["+p1 p2", "failed p1 p2", "+p3!", "gated p1 p2 p3", "node", "gated p1 p2 p3", "ungate p3", "bound p1 p2 p3"],
    ),
    (
        "a basic group that waits is held by a new pod",
        None,
        ["+p1", "bound p1", "+p2", "failed p2", "+p3!", "gated p2 p3", "node", "ungate p3", "bound p1 p2 p3"],
    ),
    ("the gated pod is deleted", 2, ["node", "+p1!", "+p2 p3", "gated p1 p2 p3", "-p1", "bound p2 p3"]),
    ("PreBind fails in a gang", 2, ["once", "node", "+p1 p2", "bound p1 p2"]),
    ("PreBind fails in a basic group", None, ["once", "node", "+p1 p2", "bound p1 p2"]),
    ("PreBind fails in a gang of one", 1, ["once", "+p1", "bound p1"]),
    ("PreBind fails in a basic group of one", None, ["once", "+p1", "bound p1"]),
    (
        "PreBind fails in a gang that does not fit",
        1,
        ["once", "-pg", "+p1 p2:4", "incomplete p1 p2", "+pg", "bound p1", "failed p2", "node", "bound p1 p2"],
    ),
    (
        "PreBind fails in a basic group that does not fit",
        None,
        ["once", "+p1 p2:4", "bound p1", "failed p2", "node", "bound p1 p2"],
    ),
    ("a gang's PodGroup is deleted", 2, ["+p1:1 p2:1", "bound p1 p2", "-pg", "+p3", "incomplete p3"]),
    ("a basic group's PodGroup is deleted", None, ["+p1:1 p2:1", "bound p1 p2", "-pg", "+p3", "incomplete p3"]),
    ("with the rest of a gang", 2, ["+p1:1 p2:1 p3", "bound p1 p2", "failed p3", "-pg", "incomplete p3"]),
    ("with the rest of a basic group", None, ["+p1:1 p2:1 p3", "bound p1 p2", "failed p3", "-pg", "incomplete p3"]),
    ("with a gang that does not fit", 3, ["+p1:1 p2:1 p3", "failed p1 p2 p3", "-pg", "incomplete p1 p2 p3"]),
]


class FailsOnce(PreBindPlugin):
    name = "FailsOnce"
    fails = False

    async def pre_bind(self, state, pod, node_name):
        if pod.pod.metadata.name == "p1" and FailsOnce.fails:
            FailsOnce.fails = False
            return error("mock binding failure")
        return None


def take_step(cluster, step, group):
    verb, *names = step.replace("+", "+ ").replace("-", "- ").split()
    queue = cluster.engine.queue
    if verb == "node":
        cluster.create(node("n2", 6))
    if verb == "once":
        FailsOnce.fails = True
    for name in names:
        (plain, _, cpu), waits = name.rstrip("!").partition(":"), queue.get(f"default/{name}")
        if name == "pg" and verb == "+":
            cluster.create(group)
        elif name == "pg":
            cluster.delete("podgroups.scheduling.k8s.io", "g")
        elif verb == "incomplete":
            assert waits.place is Place.INCOMPLETE
        elif verb == "+":
            gates = {"schedulingGates": [{"name": "x"}]} if name.endswith("!") else {}
            cluster.create(member(plain, cpu=cpu or "2", **gates))
        elif verb == "-":
            cluster.delete("pods", name)
        elif verb == "ungate":
            cluster.patch("pods", name, {"spec": {"schedulingGates": []}})
        elif verb == "failed":
            cluster.advance(30)
            assert cluster.why_pending(name)
        elif verb == "gated":
            assert waits.gated
        elif verb == "bound":
            cluster.advance(30)
            assert cluster.node_of(name)
        else:
            attempts = waits.attempts
            cluster.advance(30)
            assert queue.get(f"default/{name}").attempts > attempts


@pytest.mark.parametrize(("count", "steps"), [pytest.param(*case, id=name) for name, *case in QUEUEING])
def test_groups_in_the_queue(count, steps):
    group = a_group(gang=count, mode=SINGLE)
    config = configuration({"plugins": {"preBind": {"enabled": [{"name": "FailsOnce"}]}}})
    with cluster_of(node("n1"), group, config=config, plugins=[FailsOnce]) as cluster:
        for step in steps:
            take_step(cluster, step, group)
            cluster.engine.validate()


def test_a_new_pod_joins_the_backoff_of_its_group():
    with cluster_of(node("n1"), gang_of(3)) as cluster:
        cluster.create(member("a", cpu="2"), member("b", cpu="2"), member("c", cpu="2"))
        assert cluster.engine.queue.get("default/a").attempts == 1
        cluster.create(member("d", cpu="2"))
        assert [cluster.engine.queue.get(f"default/{name}").attempts for name in "ad"] == [1, 0]
        cluster.advance(2)
        assert [cluster.engine.queue.get(f"default/{name}").attempts for name in "ad"] == [2, 1]


# -- validation -------------------------------------------------------------------------------------------------------

#: Name, priority and policy of the group, (scheduler, priority, policy) of its waiting pods and of those on nodes,
#: whether the gate PodGroupPreemptionPolicy is on, and whether the group is valid. After TestValidatePodGroup in
#: pkg/scheduler/schedule_one_podgroup_test.go, without the case of a group without pods.
DEFAULT, NEVER, LOWER = "default-scheduler", "Never", "PreemptLowerPriority"
VALIDATED = [
    ("one scheduler", 0, None, [("s1", 0, None)] * 2, [], False, True),
    ("several schedulers", 0, None, [("s1", 0, None), ("s2", 0, None)], [], False, False),
    ("one priority", 10, None, [(DEFAULT, 10, None)] * 2, [], False, True),
    ("several priorities", 10, None, [(DEFAULT, 9, None), (DEFAULT, 10, None)], [], False, False),
    ("another priority than the group's", 9, None, [(DEFAULT, 10, None)] * 2, [], False, False),
    ("as those on nodes", 10, None, [("s1", 10, None)], [("s1", 10, None)], False, True),
    ("another scheduler on a node", 10, None, [("s1", 10, None)], [("s2", 10, None)], False, False),
    ("another priority on a node", 10, None, [("s1", 10, None)], [("s1", 9, None)], False, False),
    ("one policy", 0, NEVER, [(DEFAULT, 0, NEVER)] * 2, [], True, True),
    ("several policies", 0, NEVER, [(DEFAULT, 0, LOWER), (DEFAULT, 0, NEVER)], [], True, False),
    ("another policy than the group's", 0, NEVER, [(DEFAULT, 0, LOWER)] * 2, [], True, False),
    ("another policy, gate off", 0, NEVER, [(DEFAULT, 0, LOWER)] * 2, [], False, True),
    ("several policies, gate off", 0, NEVER, [(DEFAULT, 0, LOWER), (DEFAULT, 0, NEVER)], [], False, False),
]


def pods_of(rows, name, **spec):
    for i, (scheduler, priority, policy) in enumerate(rows):
        own = {} if policy is None else {"preemptionPolicy": policy}
        yield member(f"{name}{i}", schedulerName=scheduler, priority=priority, **own, **spec)


@pytest.mark.parametrize("case", VALIDATED, ids=itemgetter(0))
def test_which_groups_are_valid(case):
    _, priority, policy, waiting, placed, gate, valid = case
    group = a_group(gang=1, mode=SINGLE, priority=priority)
    group["spec"] |= {} if policy is None else {"preemptionPolicy": policy}
    objects = [node("n1"), group, *pods_of(waiting, "w"), *pods_of(placed, "p", nodeName="n1")]
    gates = {**GATES, "PodGroupPreemptionPolicy": gate}
    cluster = stowplan.Cluster(objects, feature_gates=gates, emulated_version="1.37")
    state = cluster.engine.state
    pods = [state.pending.get(f"default/w{i}") for i in range(len(waiting))]
    assert (group_problem(state, "default/g", pods, cluster.engine.features) == "") == valid


def test_an_invalid_group_and_each_of_its_pods_say_why():
    with cluster_of(node("n1"), gang_of(2, priority=10)) as cluster:
        cluster.create(member("a", priority=10), member("b"))
        told = "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 10"
        assert condition(cluster) == [("PodGroupInitiallyScheduled", "False", "SchedulerError", told)]
        assert [cluster.why_pending(name) for name in "ab"] == [told] * 2


# -- preemption -------------------------------------------------------------------------------------------------------


class TestPreemption:
    def test_all_pods_are_nominated_to_the_nodes_of_the_one_trial(self):
        latency = Latency(deletions=lambda pod: 30.0)
        with cluster_of(node("n1", 1), node("n2", 1), gang_of(2, priority=10), latency=latency) as cluster:
            cluster.create(low("victim"))
            cluster.create(member("a", priority=10), member("b", priority=10))
            assert sorted(nominations(cluster, "a", "b")) == ["n1", "n2"]
            told = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, pod group preemption: "
            assert condition(cluster) == refused(f"{told}found a placement for podgroup, preempting 1 victims")
            for _ in range(6):
                cluster.advance(4)
                cluster.engine.validate()
                assert preempted(cluster) == ["victim"]
            cluster.advance(60)
            assert all(nodes_of(cluster, "a", "b"))

    @pytest.mark.parametrize(
        ("priority", "size", "evaluated"),
        [(10, 1, {("podgroup", "Success"): 1}), (10, 5, {("podgroup", "Unschedulable"): 1}), (0, 1, {})],
        ids=["a victim", "too large", "no victims"],
    )
    def test_evaluations_are_counted(self, priority, size, evaluated):
        group, pod = a_group(mode=SINGLE, priority=priority), member("a", cpu=str(size), priority=priority)
        victim = a_pod("victim").requests(cpu="1").on("n1").spec(priority=1).labels(app="x").obj()
        guard = struct(budget("guard", {"matchLabels": {"app": "x"}}, 0))
        cluster = stowplan.Cluster([node("n1", 1), group, pod, victim], feature_gates=GATES, emulated_version="1.37")
        engine = cluster.engine
        engine.state.put_object(guard)
        [info] = engine.state.pod_groups.unscheduled("default/g")
        queued = [QueuedPod(pod=info, key=info.key, timestamp=0.0)]
        framework = engine.frameworks[DEFAULT]
        framework.metrics = framework_metrics()
        framework.metrics.count_calls_of(framework.points)
        trial = run_at_once(engine.groups.trials.run(framework, "default/g", queued))
        run_at_once(engine.groups.preemption.help(framework, "default/g", queued, trial))
        assert numbers(framework.metrics.scheduler.preemption_evaluation_duration_seconds) == evaluated
        assert (0 if trial.plan is None else trial.plan.pdb_violations) == evaluated.get(("podgroup", "Success"), 0)

    def test_a_basic_group_waits_for_its_victim(self):
        with cluster_of(node("n1", 1), a_group(mode=SINGLE, priority=10)) as cluster:
            cluster.create(low("victim"))
            cluster.create(member("a", priority=10))
            told = "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, pod group preemption: "
            assert condition(cluster) == refused(f"{told}found a placement for podgroup, preempting 1 victims")

    def test_pods_of_a_group_resist_with_its_priority(self):
        """In 1.36 its own priority counts for a pod that may be evicted alone."""
        strong = a_group("strong", mode=SINGLE, priority=20)
        with cluster_of(node("n1", 1), strong, gang_of(1, priority=10)) as cluster:
            cluster.create(member("s", "strong", priority=20))
            assert cluster.node_of("s") == "n1"
            cluster.create(member("a", priority=10))
            assert preempted(cluster) == []

    @pytest.mark.parametrize(
        ("gate", "of_group", "of_pods", "evicts"),
        [(False, LOWER, NEVER, False), (True, NEVER, NEVER, False), (True, LOWER, LOWER, True)],
    )
    def test_policies(self, gate, of_group, of_pods, evicts):
        group = gang_of(1, priority=10)
        group["spec"]["preemptionPolicy"] = of_group
        with cluster_of(node("n1", 1), group, gates={**GATES, "PodGroupPreemptionPolicy": gate}) as cluster:
            cluster.create(low("victim"))
            cluster.create(member("a", priority=10, preemptionPolicy=of_pods))
            assert bool(preempted(cluster)) == evicts
            never = "pod group preemption: not eligible due to preemptionPolicy=Never."
            assert evicts or condition(cluster)[0][3].endswith(never)


def objects_of(nodes, groups, pods, wanted, allowed):
    count, cpu, priority = wanted
    yield from (node(f"n{i}", size) for i, size in enumerate(nodes))
    yield a_group("new", gang=count, priority=priority, mode=SINGLE)
    yield from (member(f"new{i}", "new", cpu=str(cpu), priority=priority) for i in range(count))
    yield from (a_group(f"g{i}", priority=rank, mode=mode) for i, (rank, mode) in enumerate(groups))
    for i, (on, group, rank, started, guarded) in enumerate(pods):
        of = {"schedulingGroup": {"podGroupName": f"g{group}"}} if group >= 0 else {}
        made = a_pod(f"p{i}").requests(cpu="1").spec(priority=rank, nodeName=f"n{on}", **of).obj()
        made["metadata"]["labels"] = {"app": "kept"} if guarded else {}
        made["status"] = {} if started is None else {"startTime": f"2026-01-01T00:00:{started:02}Z"}
        yield made
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def plain_victims(nodes, groups, pods, wanted, allowed, chosen):
    """The rule in a few lines, on counts of CPUs. `chosen`: nodes of the gang's pods with all candidates gone."""
    _, cpu, priority = wanted
    needed = [sum(cpu for at in chosen if at == i) for i in range(len(nodes))]
    units = {}
    for i in sorted(range(len(pods)), key=lambda i: (pods[i][0], i)):
        group = pods[i][1]
        whole = group >= 0 and groups[group][1] == ALL
        units.setdefault(("group", group) if whole else ("pod", i), []).append(i)
    rated = []
    for met, of in enumerate(units.values()):
        group = pods[of[0]][1]
        rank = groups[group][0] if group >= 0 else pods[of[0]][2]
        if rank < priority:
            starts = [pods[i][3] for i in of if pods[i][3] is not None]
            start = (not starts, min(starts, default=0), met)
            rated.append(((-rank, group < 0, 0 if group < 0 else -len(of), *start), of))
    rated.sort(key=itemgetter(0))
    broken, kept, left = [], [], allowed
    for _, of in rated:
        before, left = left, left - sum(pods[i][4] for i in of)
        (broken if left < 0 and left < before else kept).append(of)
    off = {i for _, of in rated for i in of}
    used = [sum(pod[0] == n and i not in off for i, pod in enumerate(pods)) for n in range(len(nodes))]
    victims = set()
    for of in broken + kept:
        with_unit = [taken + sum(pods[i][0] == n for i in of) for n, taken in enumerate(used)]
        if all(taken + more <= size for taken, more, size in zip(with_unit, needed, nodes, strict=True)):
            used = with_unit
        else:
            victims |= {f"p{i}" for i in of}
    return victims


@settings(max_examples=times(150), deadline=None)
@given(world=preempting_worlds(SINGLE, ALL))
def test_victims_are_those_of_the_plain_rule(world):
    nodes, groups, pods, (count, cpu, priority), _ = world
    cluster = stowplan.Cluster(objects_of(*world), feature_gates=GATES, emulated_version="1.37")
    engine = cluster.engine
    queued = [
        QueuedPod(pod=info, key=info.key, timestamp=0.0) for info in engine.state.pod_groups.unscheduled("default/new")
    ]
    framework = engine.frameworks[DEFAULT]
    with check_exact_undo():
        trial = run_at_once(engine.groups.trials.run(framework, "default/new", queued))
        if trial.status.code == Code.Success:
            return
        before = engine.state.dump()
        run_at_once(engine.groups.preemption.help(framework, "default/new", queued, trial))
        assert engine.state.dump()["nodes and pods"] == before["nodes and pods"]
    resist = [groups[group][0] if group >= 0 else own for _, group, own, _, _ in pods]
    left = [sum(on == i and r >= priority for (on, *_), r in zip(pods, resist, strict=True)) for i in range(len(nodes))]
    possible = sum((size - taken) // cpu for size, taken in zip(nodes, left, strict=True)) >= count
    if not possible or all(r >= priority for r in resist):
        assert not trial.waiting
        return
    assert trial.waiting
    chosen = [int(name[1:]) for name in trial.nominations.values()]
    assert len(chosen) == count
    found = {info.pod.metadata.name for info in trial.plan.victims}
    assert found == plain_victims(*world, chosen)


# -- single pods that preempt groups ----------------------------------------------------------------------------------


class TestSinglePodsPreemptGroups:
    def of_one_pod(self, mode, *, gates=GATES, version="1.37", group_priority=1):
        """A pod that needs one of two nodes, on each of which a pod of a group runs; the second is alone there."""
        group = a_group("old", mode=mode, priority=group_priority)
        pods = [member(f"old{i}", "old", priority=group_priority, nodeName=f"n{i + 1}") for i in range(2)]
        objects = [node("n1", 1), node("n2", 1), group, *pods]
        with live_cluster(*objects, feature_gates=gates, emulated_version=version) as cluster:
            cluster.create(a_pod("high").requests(cpu="1").spec(priority=10).obj())
            return preempted(cluster)

    @pytest.mark.parametrize(
        ("mode", "options", "victims"),
        [
            pytest.param(ALL, {}, 2, id="as a whole"),
            pytest.param(SINGLE, {}, 1, id="one by one"),
            pytest.param(ALL, {"group_priority": 10}, 0, id="as important"),
            pytest.param(ALL, {"gates": {}}, 1, id="gate off"),
            pytest.param(ALL, {"gates": {**GATES, "GangScheduling": True}, "version": "1.36"}, 1, id="1.36"),
        ],
    )
    def test_groups_are_evicted(self, mode, options, victims):
        assert len(self.of_one_pod(mode, **options)) == victims

    def test_the_priority_of_the_group_counts(self):
        """Its pod is less important, as a pod of another priority cannot be scheduled with it any more."""
        objects = [node("n1", 1), a_group("old", mode=SINGLE, priority=20)]
        objects.append(member("old0", "old", priority=1, nodeName="n1"))
        with cluster_of(*objects) as cluster:
            cluster.create(a_pod("high").requests(cpu="1").spec(priority=10).obj())
            assert preempted(cluster) == []

    def test_a_group_is_evicted_after_single_pods(self):
        objects = [node("n1", 2), a_group("old", mode=ALL, priority=1)]
        objects += [member("old0", "old", priority=1, nodeName="n1"), low("alone")]
        objects[-1]["spec"]["nodeName"] = "n1"
        with cluster_of(*objects) as cluster:
            cluster.create(a_pod("high").requests(cpu="1").spec(priority=10).obj())
            assert preempted(cluster) == ["alone"]


def plain_units(groups, pods, priority):
    """The units of less important pods, the most important first."""
    units = {}
    for i, (_, group, *_) in enumerate(pods):
        units.setdefault(("group", group) if group >= 0 and groups[group][1] == ALL else ("pod", i), []).append(i)
    rated = []
    for of in units.values():
        group = pods[of[0]][1]
        rank = groups[group][0] if group >= 0 else pods[of[0]][2]
        starts = [pods[i][3] for i in of if pods[i][3] is not None]
        start = (not starts, min(starts, default=0), of[0])
        if rank < priority:
            rated.append(((-rank, group < 0, 0 if group < 0 else -len(of), *start), of))
    return [of for _, of in sorted(rated)]


def plain_victims_on(n, size, cpu, pods, units, allowed):
    """Victims and violations on a node for a single pod; None if it does not fit."""
    here = [of for of in units if any(pods[i][0] == n for i in of)]
    on_node = {i for i, pod in enumerate(pods) if pod[0] == n}
    staying = len(on_node - {i for of in here for i in of})
    if not here or staying + cpu > size:
        return None
    judged, left = [], allowed
    for of in here:
        exceeding = 0
        for i in of:
            left -= pods[i][4]
            exceeding += bool(pods[i][4]) and left < 0
        judged.append((exceeding, of))
    victims, violations = set(), 0
    for exceeding, of in [*(one for one in judged if one[0]), *(one for one in judged if not one[0])]:
        back = len(on_node.intersection(of))
        if staying + back + cpu <= size:
            staying += back
        else:
            victims |= {f"p{i}" for i in of}
            violations += exceeding
    return victims, violations


@settings(max_examples=times(150), deadline=None)
@given(world=preempting_worlds(SINGLE, ALL))
def test_victims_of_a_single_pod_are_those_of_the_plain_rule(world):
    nodes, groups, pods, (_, cpu, priority), allowed = world
    pods = [(on, group, own, own * 7 + i, guarded) for i, (on, group, own, _, guarded) in enumerate(pods)]
    objects = [obj for obj in objects_of(nodes, groups, pods, (1, cpu, priority), allowed) if "new" not in str(obj)]
    preemptor = a_pod("high").requests(cpu=str(cpu)).spec(priority=priority).obj()
    cluster = stowplan.Cluster([*objects, preemptor], feature_gates=GATES, emulated_version="1.37")
    (decision,) = cluster.schedule(["default/high"])
    if decision.node_name:
        return
    units = plain_units(groups, pods, priority)
    expected = {
        f"n{n}": found
        for n, size in enumerate(nodes)
        if (found := plain_victims_on(n, size, cpu, pods, units, allowed)) is not None
    }
    result = dict(decision.post_filter)["DefaultPreemption"]
    found = {
        name: ({info.pod.metadata.name for info in candidate.victims}, candidate.pdb_violations)
        for name, candidate in result.detail.run.candidates.items()
    }
    assert found == expected


# -- PodGroupPostFilter -----------------------------------------------------------------------------------------------


def a_helper(name, answer):
    """A plugin that helps groups with `answer`, or raises it."""

    class Helps(PodGroupPostFilterPlugin):
        def pod_group_post_filter(self, group, pods, *, pods_only_take_room):
            if isinstance(answer, Exception):
                raise answer
            return answer if answer is None else PodGroupPostFilterResult(answer)

    Helps.name = Helps.__name__ = name
    return Helps


HELP = Status(Code.Success, ("help is near",))


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([], ""),
        ([unschedulable("not mine")], ""),
        ([unschedulable("not mine"), unresolvable("hopeless"), HELP], "not mine, hopeless"),
        ([HELP], "help is near"),
        ([ValueError("odd")], "ValueError: odd"),
        ([None], "want a PodGroupPostFilterResult or a generator, got None"),
    ],
)
def test_plugins_help_groups_in_turn(answers, told):
    """The first that does not return Unschedulable is the last; DefaultPreemption, which finds a victim, comes after.

    `told`: "" if it is called.
    """
    plugins = [a_helper(f"H{i}", answer) for i, answer in enumerate(answers)]
    enabled = [{"name": plugin.name} for plugin in plugins] + [{"name": "DefaultPreemption"}]
    point = {"enabled": enabled, "disabled": [{"name": "*"}]}
    config = configuration({"schedulerName": "default-scheduler", "plugins": {"podGroupPostFilter": point}})
    with cluster_of(node("n1", 1), low("l"), config=config, plugins=plugins) as cluster:
        cluster.create(gang_of(1, priority=10), member("a", priority=10))
        assert preempted(cluster) == ([] if told else ["l"])
        assert told in condition(cluster)[0][3]
        cluster.engine.validate()
