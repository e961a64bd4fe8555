"""Plans of moves compared with making the moves in a new cluster for each, and scheduling there; and with those of a
recording's moment.
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.rebalance import (
    ByPolicy,
    FreeNodes,
    Mend,
    Pack,
    Rebalance,
    RoomFor,
    Spread,
    Weights,
    read_policy,
    rebalance,
)
from stowplan.ask.rebalance.misplaced_pods import misplaced_pods
from stowplan.ask.rebalance.moves import Limits
from stowplan.ask.rebalance.policy.pods_in_full import PodsInFull
from stowplan.ask.what_if import Put
from stowplan.ask.what_if.budgets import Budgets
from stowplan.ask.what_if.hypothetical_nodes import cordoned
from stowplan.ask.what_if.settling import put_back
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import Pod
from support.examples import examples
from support.live.recordings import recorded
from support.what_if.carried_out import Real, changed_node, without
from support.what_if.objects import owned, pod
from support.what_if.random_clusters import CONFIG, HOST, WEB, ZONE, a_cluster, a_shaped_pod, claims_of

RANDOM = st.randoms(use_true_random=False)


def a_goal(drawn, random):
    kind = random.choice([Mend, Pack, FreeNodes, Spread, RoomFor])
    if kind is FreeNodes:
        return FreeNodes(random.randint(1, 3))
    if kind is RoomFor:
        made, shape = a_shaped_pod("new", random)
        if shape in ("gated", "other scheduler"):
            return Mend()
        made["metadata"]["ownerReferences"] = []
        return RoomFor(Put((*map(decode_object, claims_of(made, drawn, random)), decode_object(made))))
    return kind(some_weights(random)) if kind in (Pack, Spread) else kind()


def some_weights(random, **given):
    return Weights(**{name: random.choice([0, 0.4, 1]) for name in ("disruption", "cost", "time")} | given)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
STRATEGIES = {
    "RemoveDuplicates": ("balance", {}),
    "LowNodeUtilization": ("balance", {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 60}}),
    "HighNodeUtilization": ("balance", {"thresholds": {"cpu": 40}}),
    "RemovePodsViolatingInterPodAntiAffinity": ("deschedule", {}),
    "RemovePodsViolatingNodeAffinity": (
        "deschedule",
        {"nodeAffinityType": [REQUIRED]},
    ),
    "RemovePodsViolatingNodeTaints": ("deschedule", {}),
    "RemovePodsViolatingTopologySpreadConstraint": ("balance", {"constraints": ["DoNotSchedule", "ScheduleAnyway"]}),
    "RemovePodsHavingTooManyRestarts": ("deschedule", {"podRestartThreshold": 1}),
    "RemoveFailedPods": ("deschedule", {}),
    "PodLifeTime": ("deschedule", {"maxPodLifeTimeSeconds": 60}),
}


NOW = datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp()


def a_policy(random, names=(), strategies=STRATEGIES):
    names = names or random.sample(list(strategies), random.randint(1, 3))
    plugins = {
        point: {"enabled": [name for name in names if strategies[name][0] == point]}
        for point in ("deschedule", "balance")
    }
    config = [{"name": name, "args": strategies[name][1]} for name in names]
    profile = {"name": "p", "pluginConfig": config, "plugins": plugins}
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    return read_policy({**head, "profiles": [profile]})


def disorder(drawn, random):
    """Pods that break rules where they run, and have restarted."""
    for raw in drawn.pods:
        if raw["spec"].get("nodeName") and len(raw["spec"]) <= 3:
            raw["status"]["containerStatuses"] = [{"name": "c", "restartCount": random.randint(0, 2)}]
            rule = random.choice(["none", "apart", "zone", "even", "even"])
            raw["metadata"].setdefault("labels", {})["app"] = "web"
            if rule == "apart":
                raw["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [{"labelSelector": WEB, "topologyKey": HOST}]}}
            if rule == "zone":
                term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
                raw["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
            if rule == "even":
                even = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
                raw["spec"]["topologySpreadConstraints"] = [even]


def in_full(cluster, drawn):
    """With a pod that has failed."""
    cluster.documents.keep_also((Pod,))
    cluster.now = NOW
    failed = decode_object(owned(pod("failed", nodeName="n0")) | {"status": {"phase": "Failed"}})
    for raw in drawn.pods:
        cluster.documents.keep(decode_object(raw), msgspec.json.encode(raw))
    return PodsInFull(cluster.documents, (failed,))


@examples(40)
@given(RANDOM)
def test_each_pod_goes_where_the_plan_says(random):
    drawn = a_cluster(random)
    if random.random() < 0.5:
        disorder(drawn, random)
        cluster = drawn.cluster()
        goal = ByPolicy(a_policy(random), in_full(cluster, drawn))
    else:
        cluster = drawn.cluster()
        goal = a_goal(drawn, random)
    at_once = random.choice([None, 1, 2])
    before = cluster.state.dump()
    found = rebalance(cluster, goal, limits=Limits(at_once=at_once, at_once_per_owner=random.choice([None, 1])))
    assert cluster.state.dump() == before
    assert not {move.pod for move in found.moves} & {record.pod for record in found.kept}
    assert len({move.pod for move in found.moves}) == len(found.moves)
    objects, pods = cluster.state.everything(), {info.key: info for info in cluster.state.placed_pods()}
    for name in found.cordon:
        objects = changed_node(objects, name, cordoned)
    real = Real(drawn, objects)
    budgets, step = Budgets(cluster), []
    for move in found.moves:
        if step and move.step > step[0].step:
            for earlier in step:
                budgets.mark_recreated(pods[earlier.pod])
            step = []
        step.append(move)
        assert at_once is None or len(step) <= at_once
        assert budgets.refusal(pods[move.pod]) is None
        budgets.evicted(pods[move.pod])
        objects = real.cluster.state.everything()
        if move.cordons:
            objects = changed_node(objects, move.from_, cordoned)
        pod = next(info.pod for info in real.cluster.state.placed_pods() if info.key == move.pod)
        assert pod.spec.node_name == move.from_
        real.cluster = drawn.cluster(without(objects, [pod]))
        real.places([pod])
        assert real.moves[-1] == (move.pod, move.to)
    assert not real.stranded
    assert not real.displaced


@examples(20)
@given(RANDOM)
def test_weights_are_monotone(random):
    drawn = a_cluster(random)
    kind, name = random.choice([Pack, Spread]), random.choice(["disruption", "cost", "time"])
    weights = some_weights(random)
    few, many = (rebalance(drawn.cluster(), kind(replace(weights, **{name: value}))) for value in (1, 4))
    whole = rebalance(drawn.cluster(), kind())
    measure = {
        "disruption": lambda plan: len(plan.moves),
        "time": lambda plan: plan.moves[-1].step if plan.moves else 0,
        "cost": lambda plan: -len(plan.moves),
    }[name]
    assert measure(many) <= measure(few)
    for plan in (few, many):
        assert plan.moves == whole.moves[: len(plan.moves)]
        dropped = {move.from_ for move in whole.moves[len(plan.moves) :]}
        if kind is Pack:
            assert set(plan.uncordon) <= dropped & set(plan.cordon)
            assert plan.after.empty_nodes == plan.before.empty_nodes + len({move.from_ for move in plan.moves})


@examples(20)
@given(RANDOM)
def test_no_goal_gets_worse(random):
    drawn = a_cluster(random)
    goal = random.choice([Pack(), FreeNodes(2), Spread()])
    found = rebalance(drawn.cluster(), goal)
    if isinstance(goal, Spread):
        assert found.after.unevenness <= found.before.unevenness
        assert not found.cordon
        assert {move.from_ for move in found.moves if move.cordons} == set(found.uncordon)
    else:
        emptied = Counter(move.from_ for move in found.moves)
        assert found.after.empty_nodes == found.before.empty_nodes + len(emptied)
        assert found.met or found.after.empty_nodes < 2


@examples(20)
@given(RANDOM)
def test_mended_clusters_have_fewer_misplaced_pods(random):
    drawn = a_cluster(random)
    disorder(drawn, random)
    cluster = drawn.cluster()
    before = {info.key for info, _ in misplaced_pods(cluster)}
    change = Rebalance(Mend())
    with cluster.transaction():
        change.apply(cluster)
        after = {info.key for info, _ in misplaced_pods(cluster)}
    found = change.plan
    assert len(after) <= len(before)
    # What has moved once stays, even if a later move has made it wrong again.
    assert after <= {record.pod for record in (*found.kept, *found.moves)}
    assert found.met == (not after)


MARKS = ("evict", "prefer-no-eviction")
#: Not all that these read is recorded.
UNRECORDED = {"RemovePodsHavingTooManyRestarts", "RemoveFailedPods"}


@examples(20)
@given(random=RANDOM)
def test_a_policy_plans_the_same_for_a_moment_of_a_recording(random, tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "file"
    drawn = a_cluster(random)
    drawn.config = CONFIG
    disorder(drawn, random)
    for raw in drawn.pods:
        mark = f"descheduler.alpha.kubernetes.io/{random.choice(MARKS)}"
        raw["metadata"]["annotations"] = random.choice([{}, {}, {mark: "true"}, {"other": "text"}])
        raw["spec"].setdefault("volumes", []).extend(
            random.choice([[], [], [{"name": "h", "hostPath": {"path": "/"}}]])
        )
    recorded(path, drawn.objects, drawn.config, drawn.gates, NOW)
    moment = ClusterSource.of_recording(str(path), None, None, (), in_full=True).cluster
    cluster = drawn.cluster()
    running = {"PodLifeTime": ("deschedule", {"maxPodLifeTimeSeconds": 60, "states": ["Running", "Pending"]})}
    for name in (STRATEGIES | running).keys() - UNRECORDED:
        policy = a_policy(random, [name], STRATEGIES | running)
        policy.check_recorded()
        expected = rebalance(cluster, ByPolicy(policy, in_full(cluster, drawn)))
        assert rebalance(moment, ByPolicy(policy)) == expected


@examples(60)
@given(RANDOM)
def test_a_second_run_moves_only_what_the_first_kept_and_why(random):
    drawn = a_cluster(random)
    disorder(drawn, random)
    cluster = drawn.cluster()
    full = in_full(cluster, drawn)
    policies = [ByPolicy(a_policy(random, [name]), full) for name in STRATEGIES]
    goal = random.choice([Mend(), Pack(), FreeNodes(2), Spread(), *policies])
    found = rebalance(cluster, goal)
    with cluster.transaction():
        for move in found.moves:
            _carry_out(move, cluster, drawn)
        full.finished = tuple(pod for pod in full.finished if not found.removals)
        again = rebalance(cluster, goal)
    assert not again.removals
    # A policy tries each pod once: a later move may have made room. With `spread`, a node that gets pods keeps its own.
    got = {move.to for move in found.moves if isinstance(goal, Spread)}
    kept = {record.pod for record in found.kept if not isinstance(goal, Mend)}
    assert {move.pod for move in again.moves if move.from_ not in got} <= kept


def _carry_out(move, cluster, drawn):
    """The replacement is new, and has not restarted."""
    pod = cluster.pod(move.pod).pod
    cluster.evict(move.pod)
    (key,) = put_back(cluster, [pod])
    cluster.place(key, move.to)
    raw = next(one for one in drawn.pods if one["metadata"]["name"] == pod.metadata.name)
    made = datetime.fromtimestamp(NOW, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    raw = raw | {"metadata": raw["metadata"] | {"creationTimestamp": made}, "status": {}}
    cluster.documents.keep(cluster.pod(key).pod, msgspec.json.encode(raw))
