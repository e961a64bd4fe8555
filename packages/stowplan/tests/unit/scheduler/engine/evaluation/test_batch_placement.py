"""Equal pods decided together get the nodes that they would get one after the other, each evaluated and placed
separately."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.plugins import PreFilterPlugin, Reads, ShapeSigned
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.engine.decision.algorithm import NodeSubset, SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.evaluation import batch_placement as batch_placement_module
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import CountsPods
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.profiles import framework
from support.plugins.users_plugins import USERS, ByRoom, Crowd, FailsWithFew, Ranks
from support.scheduling.worlds import (
    HOST,
    PLACEABLE,
    ZONE,
    clusters,
    named_like,
    pods,
    service,
    spread_constraints,
    state_of,
)

WEB, DB = {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}


class SkipsWhileEven(PreFilterPlugin, ShapeSigned):
    """Does not declare that it counts pods."""

    name = "SkipsWhileEven"
    reads = Reads.ANYTHING

    def pre_filter(self, state, pod, nodes):
        return None


class FailsInDeclarations(SkipsWhileEven, CountsPods):
    name = "FailsToPromise"

    def filter_holds(self, state, pod):
        return True

    def score_holds(self, state, pod, feasible_moved):
        return True

    def batch_state(self, state, pod, shapes):
        raise RuntimeError("no idea")


class Bench:
    def __init__(self, cluster, shape, plugins=(), *, labels=(), chance=None):
        self.state = state_of(*cluster)
        self.framework = framework(self.state, *plugins)
        self.shape, self.labels, self.chance = shape, labels, chance

    def pods(self, count, first=0):
        found = []
        for i in range(first, first + count):
            labels = {
                **self.shape["metadata"].get("labels", {}),
                **({"index": str(i)} if "index" in self.labels else {}),
            }
            found.append(self.state.pod_info(named_like(self.shape, f"p{i}", labels=labels)))
        return found

    def algorithm(self, *, reuse):
        chance = None if self.chance is None else random.Random(self.chance)
        frameworks = {"default-scheduler": self.framework}
        return SchedulingAlgorithm(self.state, frameworks, random=chance, reuse=reuse), chance

    def plainly(self, pods, within):
        algorithm, chance = self.algorithm(reuse=False)
        found = []
        with self.state.transaction():
            for pod in pods:
                decision = run_at_once(schedule_pod(algorithm, self.framework, pod, within=within))
                found.append(summary_of(decision))
                if decision.node_name:
                    self.state.assume(PodInfo(pod.pod, pod.shape), decision.node_name)
        return found, algorithm.sampling.start, chance and chance.random()

    def together(self, algorithm, chance, pods, within):
        """Decided together as far as possible, the rest one by one."""
        with self.state.transaction():
            filled = algorithm.schedule_batch(self.framework, pods, within=within)
            found = [summary_of(decision) for decision in filled]
            for decision in filled:
                self.state.assume(PodInfo(decision.pod.pod, decision.pod.shape), decision.node_name)
            for pod in pods[len(filled) :]:
                decision = run_at_once(schedule_pod(algorithm, self.framework, pod, within=within))
                found.append(summary_of(decision))
                if decision.node_name:
                    self.state.assume(PodInfo(pod.pod, pod.shape), decision.node_name)
        return found, algorithm.sampling.start, chance and chance.random()


def summary_of(decision):
    return decision.node_name, decision.message, decision.evaluated, decision.feasible, decision.nominated_node_name


def rows(state, drawn):
    if drawn is None:
        return None
    return NodeSubset(np.array(sorted(row for row in drawn if row < state.table.n), np.intp))


placements = st.lists(st.none() | st.sets(st.integers(0, 6), min_size=1), min_size=1, max_size=3)


def agree(bench, count, placements):
    algorithm, _ = bench.algorithm(reuse=True)
    pods = bench.pods(count)
    signatures = [bench.framework.signature(pod) for pod in pods]
    if signatures[0] is None or len(set(signatures)) > 1:
        return
    for drawn in placements:
        within = rows(bench.state, drawn)
        algorithm.sampling.start = 0
        chance = algorithm._random = None if bench.chance is None else random.Random(bench.chance)
        want = bench.plainly(pods, within)
        assert bench.together(algorithm, chance, pods, within) == want


@pytest.fixture(params=[7, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2048))], ids="{} at once".format)
def _at_once(request, monkeypatch):
    monkeypatch.setattr(batch_placement_module, "_AT_ONCE", request.param)


@pytest.mark.usefixtures("_at_once")
def test_filling_agrees_with_single_decisions_on_random_clusters():
    @examples(25)
    @given(
        clusters(least_nodes=2),
        pods("shape", special=PLACEABLE),
        st.integers(1, 14),
        placements,
        st.none() | st.integers(0, 9),
    )
    def agrees(cluster, shape, count, placements, chance):
        agree(Bench(cluster, shape, chance=chance), count, placements)

    agrees()


def spreading(shape, constraints):
    pod = a_pod("shape")
    for constraint in constraints:
        pod.spreads(**constraint)
    spec = shape["spec"] | {"topologySpreadConstraints": pod.obj()["spec"]["topologySpreadConstraints"]}
    return shape | {"spec": spec}


@pytest.mark.usefixtures("_at_once")
def test_filling_agrees_with_single_decisions_for_pods_that_spread():
    @examples(35)
    @given(
        clusters(least_nodes=3),
        pods("shape", special=("prefers", "node preference", "node affinity", "toleration")),
        st.sampled_from((("DoNotSchedule",), ("ScheduleAnyway",), ("DoNotSchedule", "ScheduleAnyway"))).flatmap(
            lambda when: st.lists(spread_constraints(when=when), min_size=1, max_size=3)
        ),
        st.lists(st.sampled_from((ByRoom, Ranks)), max_size=1),
        st.integers(2, 20),
        placements,
        st.none() | st.integers(0, 9),
    )
    def agrees(cluster, shape, constraints, plugins, count, placements, chance):
        agree(Bench(cluster, spreading(shape, constraints), plugins, chance=chance), count, placements)

    agrees()


@pytest.mark.usefixtures("_at_once")
def test_filling_agrees_with_single_decisions_for_pods_that_spread_by_default():
    """Services and controllers select them."""

    @examples(35)
    @given(
        clusters(least_nodes=3),
        pods("shape", special=("owner", "node preference", "prefers no", "away"), namespaces=("default", "blue")),
        st.sampled_from(((), ("index",))),
        st.integers(2, 20),
        placements,
        st.none() | st.integers(0, 9),
    )
    def agrees(cluster, shape, labels, count, placements, chance):
        nodes, placed, objects = cluster
        selecting = [service("web", name, app="web") for name in ("default", "blue")]
        cluster = nodes, placed, [*objects, *selecting, service("everything", tier="1")]
        agree(Bench(cluster, shape, labels=labels, chance=chance), count, placements)

    agrees()


@pytest.mark.usefixtures("_at_once")
def test_filling_agrees_with_single_decisions_for_pods_with_affinity():
    @examples(60)
    @given(
        clusters(least_nodes=3, special=("near", "away", "prefers", "prefers no")),
        pods("shape", special=("near", "away", "prefers", "prefers no", "node preference"), most=3),
        st.lists(st.sampled_from((ByRoom, Ranks)), max_size=1),
        st.sampled_from(((), ("index",))),
        st.integers(2, 20),
        placements,
        st.none() | st.integers(0, 9),
    )
    def agrees(cluster, shape, plugins, labels, count, placements, chance):
        agree(Bench(cluster, shape, plugins, labels=labels, chance=chance), count, placements)

    agrees()


@pytest.mark.usefixtures("_at_once")
def test_filling_agrees_with_single_decisions_with_users_plugins():
    @examples(15)
    @given(
        clusters(least_nodes=3),
        pods("shape", special=("prefers",)),
        st.lists(
            st.sampled_from((*USERS, ByRoom, Ranks, FailsWithFew, SkipsWhileEven, FailsInDeclarations)),
            min_size=1,
            max_size=2,
            unique=True,
        ),
        st.integers(1, 14),
        placements,
        st.none() | st.integers(0, 9),
    )
    def agrees(cluster, shape, plugins, count, placements, chance):
        agree(Bench(cluster, shape, plugins, chance=chance), count, placements)

    agrees()


def refusals_agree(bench, rows, name="PodTopologySpread"):
    """Place pods on these rows, and compare what the plugin refuses with what was foreseen before the first one."""
    state, plugin = bench.state, next(p for p in bench.framework.filter if p.name == name)
    pods, ahead = bench.pods(len(rows)), None
    for pod, row in zip(pods, rows, strict=True):
        cycle = CycleState()
        if plugin.pre_filter(cycle, pod, Nodes(state)) is not None:
            return
        refused = plugin.filter(cycle, pod, Nodes(state))
        expected = np.zeros(state.table.n, np.bool_) if refused is None else refused.mask
        if ahead is None:
            # Without any, what Filter says stays as it is.
            first, ahead = expected, plugin.batch_state(cycle, pod, {pod.shape for pod in pods}).refusals
        foreseen = np.any([each.refused[each.codes] for each in ahead], axis=0) if ahead else first
        assert foreseen.tolist() == expected.tolist()
        row %= state.table.n
        if all(each.codes[row] for each in ahead):
            state.assume(pod, state.table.names[row])
            for each in ahead:
                before = each.refused.copy()
                changed = each.place(row)
                assert set(np.flatnonzero(each.refused != before).tolist()) <= set(changed)


def test_refusals_ahead_are_those_of_filter_after_each_pod():
    """On any node, also on some that other plugins would refuse."""

    @examples(60)
    @given(
        clusters(least_nodes=2),
        pods("shape", special=("node affinity", "toleration")),
        st.lists(spread_constraints(when=("DoNotSchedule",)), min_size=1, max_size=2),
        st.lists(st.integers(0, 5), min_size=1, max_size=12),
    )
    def agrees(cluster, shape, constraints, rows):
        refusals_agree(Bench(cluster, spreading(shape, constraints)), rows)

    agrees()


def test_refusals_of_affinity_ahead_are_those_of_filter_after_each_pod():
    @examples(60)
    @given(
        clusters(least_nodes=2, special=("near", "away")),
        pods("shape", special=("near", "away"), most=3),
        st.lists(st.integers(0, 5), min_size=1, max_size=12),
    )
    def agrees(cluster, shape, rows):
        refusals_agree(Bench(cluster, shape), rows, "InterPodAffinity")

    agrees()


# -- by example -------------------------------------------------------------------------------------------------------


def web():
    return a_pod("shape").labels(app="web").requests(cpu="100m")


def a_cluster(*, nodes=6, pods=(), cpu="1"):
    made = [a_node(f"n{i}").zone("abc"[i % 3]).allocatable(cpu=cpu, pods=str(12 - i)) for i in range(nodes)]
    made[0] = made[0].tainted("soft", effect="PreferNoSchedule")
    return [node.obj() for node in made], [pod.obj() for pod in pods], []


def filled(shape, cluster=None, count=40, plugins=(), labels=()):
    """How many pods are decided together."""
    bench = Bench(a_cluster() if cluster is None else cluster, shape.obj(), plugins, labels=labels, chance=1)
    agree(bench, count, [None, {0, 1, 2}])
    algorithm, _ = bench.algorithm(reuse=True)
    return len(algorithm.schedule_batch(bench.framework, bench.pods(count)))


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        pytest.param(web(), 40, id="plain"),
        pytest.param(a_pod("shape"), 40, id="wants nothing"),
        pytest.param(web().requests(cpu="300m"), 18, id="until the nodes are full"),
        pytest.param(web().requests(cpu="2"), 0, id="no node fits"),
        pytest.param(web().spreads(ZONE, DB), 40, id="spreads others"),
        pytest.param(web().spreads(ZONE, WEB), 40, id="spreads itself"),
        pytest.param(web().spreads(ZONE, WEB, when_unsatisfiable="ScheduleAnyway"), 40, id="rather spreads itself"),
        pytest.param(web().avoids_pods(HOST, WEB), 6, id="avoids itself"),
        pytest.param(web().avoids_pods(HOST, DB), 40, id="avoids others"),
        pytest.param(web().requires_pods(ZONE, WEB), 17, id="wants itself near: one zone"),
        pytest.param(web().requires_pods(ZONE, DB), 0, id="wants others near that do not exist"),
        pytest.param(web().prefers_pods(10, ZONE, WEB).prefers_no_pods(5, HOST, WEB), 40, id="has preferences"),
        pytest.param(web().host_port(8080), 0, id="a port"),
    ],
)
def test_how_many_pods_are_decided_together(shape, count):
    assert filled(shape) == count


def test_pods_of_an_indexed_job_are_equal_though_their_labels_differ():
    assert filled(web(), labels=("index",)) == 40


@pytest.mark.parametrize(
    ("neighbour", "count"),
    [
        pytest.param(a_pod("db").labels(app="db").avoids_pods(ZONE, WEB), 35, id="avoids them: no room in its zone"),
        pytest.param(a_pod("db").labels(app="db").prefers_pods(5, ZONE, WEB), 40, id="wants them near"),
        pytest.param(a_pod("db").labels(app="db").requires_pods(ZONE, WEB), 40, id="needs them near"),
    ],
)
def test_terms_of_other_pods_allow_filling(neighbour, count):
    assert filled(web(), a_cluster(pods=[neighbour.uid("db").on("n0")])) == count


def test_filling_ends_where_a_plugin_fails():
    assert 0 < filled(web(), plugins=(ByRoom,)) < 40


def test_plugins_without_declarations_prevent_filling():
    assert filled(web(), plugins=(Crowd,)) == 0
    assert filled(web(), plugins=(SkipsWhileEven,)) == 0
    assert filled(web(), plugins=(FailsInDeclarations,)) == 0


def test_nominated_pods_prevent_filling():
    bench = Bench(a_cluster(), web().obj())
    pod = bench.pods(1, first=99)[0]
    bench.state.nominator.add(pod, "n0")
    algorithm, _ = bench.algorithm(reuse=True)
    assert algorithm.schedule_batch(bench.framework, bench.pods(3)) == []
