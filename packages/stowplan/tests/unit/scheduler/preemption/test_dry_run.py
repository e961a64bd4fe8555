"""The dry run over all nodes at once equals a plain one, node by node and pod by pod."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from stowplan.kube.api.types import PodDisruptionBudget
from stowplan.plugins import FilterPlugin, NodeFilterPlugin, Reads, Reason, Rejections, unschedulable
from stowplan.scheduler.cluster.nominator import Nominator
from stowplan.scheduler.cluster.pod_info import NOT_STARTED
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.preemption.go_sort import go_sort
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.profiles import framework
from support.scheduling.plain_rules import matches, on_node, requirements
from support.scheduling.worlds import GPU, HOST, MOMENTS, RACK, SELECTORS, ZONE, bound, budget, state_of, struct

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class FewPods(NodeFilterPlugin):
    """A node-level plugin that allows at most three pods per node."""

    name = "FewPods"
    reads = Reads.NODE_PODS

    def filter_node(self, state, pod, node):
        return unschedulable("too many pods for my taste") if len(node.pods) >= 3 else None


class CountsListed(FilterPlugin):
    """The same for all nodes at once."""

    name = "CountsListed"
    reads = Reads.NODE_PODS

    def filter(self, state, pod, nodes):
        crowded = np.array([len(nodes.pods(i)) >= 3 for i in range(len(nodes))])
        return Rejections.where(crowded, Reason("Crowded", "too many pods for my taste"))


# -- the plain rule ----------------------------------------------------------------------------------------------------


class Plain:
    """The rule of the spec, on the state itself, with hypothetical removals."""

    def __init__(self, profile, state, pod):
        self.profile, self.state, self.pod = profile, state, pod
        nominator = state.nominator
        self.nominated = {
            name: [p for p in nominator.on(name) if p.priority >= pod.priority and p.uid != pod.uid]
            for name in nominator.nodes()
        }
        self.budgets = sorted(
            state.objects.all(PodDisruptionBudget), key=lambda b: (b.metadata.namespace, b.metadata.name)
        )

    def run(self, diagnosis):
        """({node: (victims, violations)}, reason -> nodes)."""
        candidates, failures = {}, Counter()
        for name, row in self.state.table.row_of.items():
            status = diagnosis.status(row)
            if status is None or status.code is not Code.Unschedulable:
                failures[NOT_HELPFUL] += 1
                continue
            # The nominator is bypassed: nominated pods are added explicitly.
            keep, self.state.nominator = self.state.nominator, Nominator(self.state.pod_info)
            try:
                found = self.on_node(name, row)
            finally:
                self.state.nominator = keep
            if isinstance(found, list):
                failures.update(found)
            else:
                candidates[name] = found
        return candidates, failures

    def on_node(self, name, row):
        lesser = [p for p in self.state.row_pods[row] if p.priority < self.pod.priority]
        if not lesser:
            return [NO_VICTIMS]
        with self.state.transaction():
            for info in lesser:
                self.state.remove_pod(info.uid)
            reasons = self.reasons(name, row)
            if reasons:
                return reasons
            violating, others = self.grouped(by_importance(lesser))
            victims, violations = [], 0
            for info in (*violating, *others):
                self.state.assume(info, name)
                if self.reasons(name, row):
                    self.state.remove_pod(info.uid)
                    victims.append(info)
                    violations += info in violating
        return [v.uid for v in (by_importance(victims) if violating and others else victims)], violations

    def reasons(self, name, row):
        """Both passes: with the pods nominated to the node, and without."""
        if self.nominated.get(name):
            with self.state.transaction():
                for info in self.nominated[name]:
                    self.state.assume(info, name)
                reasons = self.reasons_now(row)
            if reasons:
                return reasons
        return self.reasons_now(row)

    def reasons_now(self, row):
        evaluation = Evaluation(self.profile)
        outcome = evaluation.filter(self.pod)
        assert outcome.error is None
        if outcome.feasible[row]:
            return []
        return list((outcome.diagnosis or evaluation.diagnosis({})).status(row).reasons)

    def grouped(self, infos):
        remaining = [b.status.disruptions_allowed for b in self.budgets]
        violating, others = [], []
        for info in infos:
            hit = False
            for i, b in enumerate(self.budgets):
                if self.covered(b, info):
                    remaining[i] -= 1
                    hit = hit or remaining[i] < 0
            (violating if hit else others).append(info)
        return violating, others

    @staticmethod
    def covered(b, info):
        selector = b.spec.selector
        if selector is None or not info.labels or b.metadata.namespace != info.namespace:
            return False
        needed = requirements(
            {
                "matchLabels": selector.match_labels,
                "matchExpressions": [
                    {"key": e.key, "operator": e.operator, "values": list(e.values)} for e in selector.match_expressions
                ],
            }
        )
        return bool(needed) and matches(needed, info.labels) and info.pod.metadata.name not in b.status.disrupted_pods


def by_importance(infos):
    """Higher priority first, then earlier start; sorted as in Go. A pod that has not started counts as started "now"
    at each comparison, so the first argument of two such pods is always earlier."""

    def less(a, b):
        if a.priority != b.priority:
            return a.priority > b.priority
        return a.start_time < b.start_time or a.start_time == b.start_time == NOT_STARTED

    found = list(infos)
    go_sort(found, less)
    return found


def plain_best(candidates, state):
    """The nodes among which the rules leave the choice."""

    def keys(name):
        uids, violations = candidates[name]
        victims = [state.placed(uid) for uid in uids]
        first = victims[0].priority
        earliest = min(v.start_time for v in victims if v.priority == first)
        return violations, first, sum(v.priority + (1 << 31) for v in victims), len(victims), -earliest

    best = min(map(keys, candidates))
    return {name for name in candidates if keys(name) == best}


# -- random clusters ---------------------------------------------------------------------------------------------------

#: `{}` counts differently after pods are moved (see the spec), so a rebuilt cluster would differ.
CHOOSING = tuple(s for s in SELECTORS if s)
POD_KINDS = ("none", "none", "port", "disk", "spread", "spread", "away", "near", "gpu")


# Created once: creating a strategy costs more than drawing from it.
choosing, keys, two_keys = st.sampled_from(CHOOSING), st.sampled_from((ZONE, HOST, RACK)), st.sampled_from((ZONE, HOST))
skews, domains, flags = st.sampled_from((1, 2)), st.sampled_from((None, 3)), st.booleans()
#: (labels, requests, priority, wishes)
preemptor_parts = st.tuples(
    st.sampled_from(({}, {"app": "web"}, {"app": "db", "tier": "1"})),
    st.sampled_from(({}, {"cpu": "1"}, {"cpu": "2"}, {"cpu": "500m", "memory": "1Gi"})),
    st.sampled_from((100, 100, 10)),
    st.lists(st.sampled_from(POD_KINDS), max_size=2),
)
#: (zone, GPUs, CPUs, pods)
node_parts = st.tuples(
    st.sampled_from("aab"), st.sampled_from((0, 1)), st.sampled_from((1, 2, 3)), st.sampled_from((110, 110, 3))
)
#: (labels, requests, priority, start, wish)
lesser_parts = st.tuples(
    st.sampled_from(({}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "1"})),
    st.sampled_from(({}, {"cpu": "1"}, {"cpu": "500m"}, {"cpu": "500m", GPU: 1})),
    st.sampled_from((0, 0, 5, 10, 100)),
    st.sampled_from((*MOMENTS, None)),
    st.sampled_from(("none", "none", "none", "port", "disk", "away")),
)


@st.composite
def preemptors(draw):
    labels, requests, priority, wishes = draw(preemptor_parts)
    pod = a_pod("big").labels(labels).requests(requests).priority(priority)
    for wish in wishes:
        matching = draw(choosing)
        key = draw(keys)
        if wish == "port":
            pod.host_port(80)
        elif wish == "disk":
            pod.volume("d", gcePersistentDisk={"pdName": "d1"})
        elif wish == "spread":
            pod.spreads(key, matching, max_skew=draw(skews), min_domains=draw(domains))
        elif wish == "away":
            pod.avoids_pods(key, matching)
        elif wish == "near":
            pod.requires_pods(key, matching)
        elif wish == "gpu":
            pod.requests({GPU: 1})
    return pod.obj()


@st.composite
def worlds(draw):
    count = draw(st.integers(1, 4))
    nodes = []
    for i in range(count):
        zone, gpus, cpus, most = draw(node_parts)
        node = a_node(f"n{i}").zone(zone).allocatable({GPU: gpus}, cpu=cpus, memory="4Gi", pods=most)
        nodes.append(node.obj() if draw(flags) else node.labels({RACK: "r1"}).obj())
    placed, used, on = [], set(), st.integers(0, count - 1)
    for i in range(draw(st.integers(1, 14))):
        pod, node = draw(lesser_pods(f"e{i}")), f"n{draw(on)}"
        # Two pods with the same host port on a node: the reference frees the port with the first that is removed.
        ports = {(node, p.get("hostPort")) for p in pod["spec"]["containers"][0].get("ports", [])}
        if not ports & used:
            used |= ports
            placed.append(bound(pod, node))
    return nodes, placed


@st.composite
def lesser_pods(draw, name):
    labels, requests, priority, started, wish = draw(lesser_parts)
    pod = a_pod(name).labels(labels).requests(requests).priority(priority)
    if started:
        pod.started(started)
    if wish == "port":
        pod.host_port(80)
    elif wish == "disk":
        pod.volume("d", gcePersistentDisk={"pdName": "d1"})
    elif wish == "away":
        pod.avoids_pods(draw(two_keys), draw(choosing))
    return pod.obj()


@st.composite
def nominated_pods(draw, name):
    """Without anti-affinity: a skipping plugin is not told of added pods."""
    pod = a_pod(name).uid(name).labels(draw(st.sampled_from(({}, {"app": "web"}, {"app": "db"}))))
    pod.requests(draw(st.sampled_from(({}, {"cpu": "1"}, {"cpu": "500m", "example.com/new": 1}))))
    pod.priority(draw(st.sampled_from((5, 100, 100, 1000))))
    if draw(st.integers(0, 3)) == 3:
        pod.host_port(80)
    return pod.obj()


budgets = st.builds(
    budget,
    st.sampled_from(("a", "b", "c")),
    st.sampled_from((*SELECTORS, {})),
    st.integers(-1, 2),
    disrupted=st.sampled_from(((), ("e1", "e2"))),
)


def preempted(profile, state, pod):
    """The decision, and the result of its dry run."""
    decision = run_at_once(schedule_pod(SchedulingAlgorithm(state, {"default-scheduler": profile}), profile, pod))
    return decision, decision.post_filter[-1][1].detail if decision.post_filter else None


def spelled_out(run):
    return {name: ([v.uid for v in c.victims], c.pdb_violations) for name, c in run.candidates.items()}


def assert_equals_the_rule(profile, state, pod):
    decision, outcome = preempted(profile, state, pod)
    assume(outcome is not None)
    event(f"{min(len(outcome.run), 2)} candidates")
    candidates, failures = Plain(profile, state, pod).run(decision.diagnosis)
    run = outcome.run
    assert run.error is None
    assert spelled_out(run) == candidates
    if candidates:
        best = plain_best(candidates, state)
        assert set(run.best) == best
        assert decision.nominated_node_name in best
        chosen, plan = run.candidates[decision.nominated_node_name], decision.plan
        assert (plan.node_name, plan.victims, plan.pdb_violations) == (
            chosen.node_name,
            chosen.victims,
            chosen.pdb_violations,
        )
    else:
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in failures.items()))
        assert decision.message.endswith(f"preemption: 0/{state.table.count} nodes are available: {listed}.")
        assert decision.nominated_node_name == ""


nominations = st.lists(st.tuples(nominated_pods("nominated"), st.integers(0, 3)), max_size=2)


def nominate(state, nominated):
    for i, (other, node) in enumerate(nominated):
        name = f"nominated{i}"
        other["metadata"] |= {"name": name, "uid": name}
        state.nominator.add(state.pod_info(struct(other)), f"n{node}")


@examples(100)
@given(worlds(), preemptors(), st.lists(budgets, max_size=3), nominations, st.lists(st.integers(0, 13), max_size=3))
def test_dry_run_equals_the_rule(world, pod, pdbs, nominated, gone):
    nodes, placed = world
    state = state_of(nodes, placed, pdbs)
    for i in gone:
        # Removals change the order of the lists of pods.
        state.remove_pod(f"default-e{i}-uid")
    nominate(state, nominated)
    assert_equals_the_rule(framework(state), state, state.pod_info(struct(pod)))


WEB = {"matchLabels": {"app": "web"}}


@st.composite
def crowds(draw):
    """Nodes full of pods that differ only in priority: only their topology matters."""
    nodes = [a_node(f"n{i}").zone(draw(st.sampled_from("aabbc"))) for i in range(draw(st.integers(2, 5)))]
    placed = []
    for i in range(draw(st.integers(1, 12))):
        pod = a_pod(f"e{i}").labels(app=draw(st.sampled_from(("web", "web", "web", "db"))))
        pod.priority(draw(st.sampled_from((0, 0, 5, 200))))
        placed.append(bound(pod.obj(), f"n{draw(st.integers(0, len(nodes) - 1))}"))
    full = [node.allocatable(pods=len(on_node(placed, node.obj()))).obj() for node in nodes]
    pod = a_pod("big").priority(100).labels(app=draw(st.sampled_from(("web", "web", "db"))))
    for key in draw(st.sampled_from(((ZONE,), (HOST,), (ZONE, HOST)))):
        matching = draw(st.sampled_from((WEB, WEB, {"matchLabels": {"app": "db"}})))
        domains = draw(st.sampled_from((None, None, 3, 9)))
        pod.spreads(key, matching, max_skew=draw(st.sampled_from((1, 1, 2))), min_domains=domains)
    return full, placed, pod.obj()


@examples(75)
@given(crowds(), nominations)
def test_dry_run_of_pods_that_spread(crowd, nominated):
    nodes, placed, pod = crowd
    state = state_of(nodes, placed)
    nominate(state, nominated)
    assert_equals_the_rule(framework(state), state, state.pod_info(struct(pod)))


@examples(30)
@given(worlds(), preemptors(), nominations)
def test_dry_run_with_a_plugin_that_looks_at_pods(world, pod, nominated):
    nodes, placed = world
    state = state_of(nodes, placed)
    nominate(state, nominated)
    assert_equals_the_rule(framework(state, FewPods), state, state.pod_info(struct(pod)))


# -- examples ----------------------------------------------------------------------------------------------------------


def victims_on(state, pod, node, *plugins):
    profile = framework(state, *plugins)
    _, outcome = preempted(profile, state, state.pod_info(struct(pod)))
    return [v.uid for v in outcome.run.candidates[node].victims]


def small(name, priority=0, **more):
    return a_pod(name).uid(name).priority(priority).requests(cpu="1").on("n")


def test_column_plugins_see_removed_pods():
    state = state_of([a_node("n").allocatable(cpu=9)], [small("a", 3), small("b", 2), small("c", 1)])
    assert victims_on(state, a_pod("big").priority(10), "n", CountsListed) == ["c"]


@pytest.mark.parametrize("started", [True, False], ids=["started", "not started"])
@pytest.mark.parametrize("count", [13, 20, 60])
def test_many_equal_pods_are_ordered_as_by_the_reference(count, started):
    pods = [small(f"p{i:02}", i % 3) for i in range(count)]
    pods = [pod.started(MOMENTS[0]) for pod in pods] if started else pods
    state = state_of([a_node("n").allocatable(cpu=count)], pods)
    listed = [info.uid for info in by_importance(state.row_pods[0])]
    assert victims_on(state, a_pod("big").priority(10).requests(cpu="5"), "n") == listed[-5:]
