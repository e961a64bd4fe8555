"""Reuse for equal pods is exact: it decides, filters and scores as a full evaluation of the same state does.

Random clusters change randomly while pods of a few shapes are placed one after the other. After every step the shared
evaluation of equal pods must equal a fresh one.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.plugins import (
    Code,
    CountsPods,
    Entry,
    FilterPlugin,
    NodeFilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ReadsNoObjects,
    Reason,
    Rejections,
    ScorePlugin,
    ShapeSigned,
    unschedulable,
)
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.evaluation import columns
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.profiles import framework
from support.plugins.users_plugins import USERS
from support.scheduling.evaluations import findings
from support.scheduling.worlds import (
    HOST,
    PLACEABLE,
    ZONE,
    bound,
    clusters,
    lookup_objects,
    named_like,
    nodes,
    pods,
    service,
    state_of,
    struct,
)

# -- users' plugins ---------------------------------------------------------------------------------------------------


# Column-level plugins that keep the arrays that they return, and do anything with them later.


def refilled(plugin, values):
    """One buffer, as long as there are as many nodes."""
    kept = plugin.kept
    if not kept or len(kept[-1]) != len(values):
        kept.append(np.empty(len(values), values.dtype))
    kept[-1][:] = values
    return kept[-1]


def part_of_a_buffer(plugin, values):
    if not plugin.kept:
        plugin.kept.append(np.zeros(200, values.dtype))
    part = plugin.kept[0][: 2 * len(values) : 2]
    part[:] = values
    return part


def read_only(plugin, values):
    found = refilled(plugin, values) if not plugin.kept else refilled_again(plugin, values)
    found.flags.writeable = False
    return found


def refilled_again(plugin, values):
    plugin.kept[-1].flags.writeable = True
    return refilled(plugin, values)


def spoiled(plugin, values):
    """A new array; all those before are overwritten."""
    for array in plugin.kept:
        array[:] = 1
    plugin.kept.append(values.copy())
    return plugin.kept[-1]


class Special(np.ndarray):
    pass


def of_another_class(plugin, values):
    return refilled(plugin, values).view(Special)


def narrow(plugin, values):
    return values if values.dtype == np.bool_ else refilled(plugin, values.astype(np.int8))


KEEPING = {f.__name__: f for f in (refilled, part_of_a_buffer, read_only, spoiled, of_another_class, narrow)}


def numbers(plugin, nodes):
    """Numbers of 0 to 3 that depend on what the plugin declares to read."""
    placed = len(plugin.handle.cluster.placed_pods()) if plugin.reads in (Reads.CLUSTER_PODS, Reads.ANYTHING) else 0
    own = nodes.take(np.arange(nodes.table.n))
    if plugin.reads is Reads.NODE_SUMS:
        own = nodes.pod_count()
    elif plugin.reads is Reads.NODE_PODS:
        own = np.array([sum("new" in pod.name for pod in nodes.pods(i)) for i in range(len(nodes))], np.int64)
    return (own + placed) % 4


class Keeps(PreFilterPlugin, PreScorePlugin, ShapeSigned, ReadsNoObjects, CountsPods):
    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.kept, self.normalized = [], []
        self.counted = {}

    def pre_filter(self, state, pod, nodes):
        self.counted[state, "filter"] = len(self.handle.cluster.placed_pods())

    def pre_score(self, state, pod, nodes):
        self.counted[state, "score"] = len(self.handle.cluster.placed_pods())

    def filter_holds(self, state, pod):
        return self.counted.get((state, "filter")) == len(self.handle.cluster.placed_pods())

    def score_holds(self, state, pod, feasible_moved):
        return self.counted.get((state, "score")) == len(self.handle.cluster.placed_pods())


class KeepsMasks(Keeps, FilterPlugin):
    name = "KeepsMasks"

    def filter(self, state, pod, nodes):
        mask = self.keep(numbers(self, nodes) == 1)
        return Rejections(mask, lambda: [Entry(mask, Code.Unschedulable, Reason("Odd", "odd"))])


class KeepsScores(Keeps, ScorePlugin):
    name = "KeepsScores"

    def score(self, state, pod, nodes):
        return self.keep(numbers(self, nodes) * 30)


class NormalizesInPlace(KeepsScores):
    name = "NormalizesInPlace"

    def normalize(self, state, pod, scores, feasible):
        scores //= 1 + np.count_nonzero(feasible) % 3
        self.normalized.append(scores)
        return scores


class NormalizesAgain(KeepsScores):
    """Overwrites what it was given and returned before."""

    name = "NormalizesAgain"

    def normalize(self, state, pod, scores, feasible):
        for array in self.normalized:
            array[:] = 77
        own = scores * 100 // max(1, int(scores[feasible].max(initial=0)))
        self.normalized += (scores, own)
        return own


def keeping(plugin, reads, keep):
    return type(plugin.__name__, (plugin,), {"reads": reads, "keep": KEEPING[keep]})


column_plugins = st.builds(
    keeping,
    st.sampled_from((KeepsMasks, KeepsScores, NormalizesInPlace, NormalizesAgain)),
    st.sampled_from(Reads),
    st.sampled_from(sorted(KEEPING)),
)


# -- the bench ---------------------------------------------------------------------------------------------------------


def decided(decision):
    nominated = decision.nominated_node_name
    return decision.node_name, decision.message, decision.unschedulable_plugins, nominated


def answers_of_in_tree_plugins(framework):
    """A list of the arrays that they return from now on, each with a copy of it as it was then."""
    found = []

    def remembering(name, method):
        def remember(*args):
            answer = method(*args)
            array = answer.mask if isinstance(answer, Rejections) else answer
            if isinstance(array, np.ndarray):
                found.append((name, array, array.copy()))
            return answer

        return remember

    for plugin in framework.plugins.values():
        for name in ("filter", "score", "normalize"):
            if type(plugin).__module__.startswith("stowplan.") and hasattr(plugin, name):
                setattr(plugin, name, remembering(plugin.name, getattr(plugin, name)))
    return found


class World:
    """A state, a scheduler with reuse, and the pods' shapes."""

    def __init__(self, cluster, shapes, plugins=(), *, first=False):
        self.state = state_of(*cluster)
        self.framework = framework(self.state, *plugins, first=first)
        frameworks = {"default-scheduler": self.framework}
        self.reusing = SchedulingAlgorithm(self.state, frameworks, reuse=True)
        self.plain = SchedulingAlgorithm(self.state, frameworks, reuse=False)
        self.shapes = shapes
        self.shared = {}
        self.answers = answers_of_in_tree_plugins(self.framework)
        self.count = 0

    def check_answers(self):
        """Arrays of in-tree plugins, which are not copied, have not changed; to be called before nodes do."""
        assert [plugin for plugin, array, before in self.answers if not np.array_equal(array, before)] == []
        self.answers.clear()

    def next_pod(self, which, **annotations):
        self.count += 1
        shape = self.shapes[which % len(self.shapes)]
        return self.state.pod_info(named_like(shape, f"new{self.count}", annotations=annotations))

    def check(self, pod):
        """Both schedulers decide alike; the shared evaluation equals a fresh one."""
        want = decided(run_at_once(schedule_pod(self.plain, self.framework, pod)))
        got = decided(run_at_once(schedule_pod(self.reusing, self.framework, pod)))
        assert got == want
        signature = self.framework.signature(pod)
        if signature is not None:
            shared = self.shared.setdefault(signature, Evaluation(self.framework))
            fresh = Evaluation(self.framework)
            of_fresh = findings(self.framework, fresh, pod)
            assert findings(self.framework, shared, pod) == of_fresh
            assert list(shared.problems()) == []
            self.check_incremental(self.reusing.evaluation(self.framework, pod), pod, of_fresh)
        assert list(self.reusing.problems()) == []
        return want[0]

    def check_incremental(self, evaluation, pod, found):
        """What remains of the decision equals a fresh evaluation."""
        standing = evaluation.try_incremental(pod)
        if standing is not None:
            feasible = [name for name, fits in zip(self.state.table.names, standing.feasible, strict=False) if fits]
            assert (feasible, standing.feasible_count) == (found["feasible"], len(feasible))
        if standing is not None and standing.scored:
            highest = max(found["totals"])
            best = [name for name, total in zip(feasible, found["totals"], strict=True) if total == highest]
            assert [self.state.table.names[row] for row in evaluation.best()] == best


STEPS = ("place", "place", "place", "place", "try", "delete", "delete", "foreign", "node", "remove node", "object",
         "nominate", "label pod", "transaction", "other nodes for a moment")  # fmt: skip

steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 50)), min_size=4, max_size=25)


def step(world, what, which, draw):
    state = world.state
    placed = sorted(info.uid for info in state.placed_pods())
    if "node" in what:
        world.check_answers()
    if what in ("place", "try"):
        pod = world.next_pod(which, wants=str(which % 2) if which % 5 == 0 else "")
        node = world.check(pod)
        if node and what == "place":
            state.assume(pod, node)
    elif what == "delete" and placed:
        state.remove_pod(placed[which % len(placed)])
    elif what == "foreign":
        world.count += 1
        pod = draw(pods(f"f{world.count}", special=PLACEABLE))
        state.add_pod(struct(bound(pod, f"n{which % 6}")))
    elif what == "node":
        state.add_node(struct(draw(nodes(f"n{which % 6}"))))
    elif what == "remove node" and len(state.table.row_of) > 1:
        state.remove_node(sorted(state.table.row_of)[which % len(state.table.row_of)])
    elif what == "object":
        obj = struct(draw(lookup_objects()))
        (state.put_object if which % 3 else state.remove_object)(obj)
    elif what == "nominate":
        if which % 3:
            pod = world.next_pod(which)
            state.nominator.add(pod, f"n{which % 6}")
        else:
            for name in state.nominator.nodes():
                state.nominator.delete(state.nominator.on(name)[0].uid)
    elif what == "label pod" and placed:
        info = state.placed(placed[which % len(placed)])
        if info.pod.spec.node_name:
            labels = {**info.labels, "app": ("web", "db")[which % 2]}
            state.add_pod(replace(info.pod, metadata=replace(info.pod.metadata, labels=labels)))
    elif what == "transaction" and placed:
        with state.transaction():
            state.remove_pod(placed[which % len(placed)])
            world.check(world.next_pod(which))
    elif what == "other nodes for a moment":
        # Pods of another signature share columns with those that are tried after it.
        with state.transaction():
            state.add_node(struct(draw(nodes(f"n{6 + which % 2}"))))
            world.check(world.next_pod(which + 1))
            world.check_answers()


def play(world, steps, draw):
    for what, which in steps:
        step(world, what, which, draw)
        world.check(world.next_pod(which))
    world.check_answers()


WAYS = [
    "many rows as arrays",
    *(pytest.param(way, marks=pytest.mark.slow) for way in ("many rows at once", "as it is")),
]


@pytest.fixture(params=WAYS)
def rows_at_once(request, monkeypatch):
    """On a small table a single changed row exceeds the maximum share for updates, unless that is raised.

    There are few columns that can change at all.
    """
    if request.param != "as it is":
        monkeypatch.setattr(columns, "MAX_CHANGED_SHARE", 1.0)
    if request.param == "many rows as arrays":
        monkeypatch.setattr(columns, "FEW", 0)


many_shapes = st.lists(pods("shape", special=PLACEABLE), min_size=1, max_size=3)


@pytest.mark.usefixtures("rows_at_once")
def test_reuse_decides_as_a_full_evaluation():
    @examples(50)
    @given(clusters(least_nodes=2), many_shapes, steps, st.data())
    def reuse_is_exact(cluster, shapes, steps, data):
        play(World(cluster, shapes), steps, data.draw)

    reuse_is_exact()


WEB, DB = {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}


def web():
    return a_pod("shape").labels(app="web").requests(cpu="100m")


def soft(key, **options):
    return web().spreads(key, WEB, when_unsatisfiable="ScheduleAnyway", **options)


COUNTING = {
    "soft by zone": soft(ZONE),
    "soft by host": soft(HOST),
    "soft by both": soft(HOST).spreads(ZONE, DB, when_unsatisfiable="ScheduleAnyway", max_skew=3),
    "hard by zone": web().spreads(ZONE, WEB),
    "hard by host": web().spreads(HOST, WEB, max_skew=2),
    "near": web().requires_pods(ZONE, DB),
    "near itself": web().requires_pods(ZONE, WEB),
    "away from itself": web().avoids_pods(HOST, WEB),
    "away from others": web().avoids_pods(ZONE, DB),
    "likes": web().prefers_pods(10, ZONE, DB).prefers_pods(3, HOST, WEB),
    "dislikes": web().prefers_no_pods(10, ZONE, WEB),
    "plain, with a service": web(),
    "another": a_pod("shape").labels(app="db").requests(cpu="200m"),
    "another that likes": a_pod("shape").labels(app="db").prefers_pods(5, ZONE, WEB),
    "another that avoids": a_pod("shape").labels(app="db").avoids_pods(ZONE, {"matchLabels": {"app": "none"}}),
    "another that must be near": a_pod("shape").labels(app="db").requires_pods(HOST, WEB),
}


@pytest.mark.usefixtures("rows_at_once")
def test_single_scores_that_change_while_their_sum_does_not():
    """One more pod moves NodeResourcesFit by one, and NodeResourcesBalancedAllocation by one in the other direction."""
    cluster = [a_node(f"n{i}").zone("abc"[i % 3]).obj() for i in range(7)]
    shapes = [COUNTING[name].obj() for name in ("another that avoids", "another")]
    steps = [("place", 1), ("delete", 0), ("place", 0), ("place", 1), ("place", 0)]
    play(World((cluster, [], [service("web", app="web")]), shapes), steps, None)


@pytest.mark.usefixtures("rows_at_once")
def test_reuse_of_pods_that_count_others():
    """Common workloads on a cluster with free room, so that only counters change."""

    @examples(30)
    @given(
        st.lists(st.sampled_from(sorted(COUNTING)), min_size=1, max_size=4, unique=True),
        st.lists(
            st.tuples(
                st.sampled_from(("place", "place", "place", "delete", "transaction", "nominate")), st.integers(0, 50)
            ),
            min_size=5,
            max_size=25,
        ),
        st.integers(0, 3),
        st.data(),
    )
    def reuse_is_exact(names, steps, bare, data):
        cluster = [a_node(f"n{i}").zone("abc"[i % 3]).obj() for i in range(7)]
        for i in range(bare):
            cluster[i] = a_node(f"n{i}").obj()
        play(World((cluster, [], [service("web", app="web")]), [COUNTING[n].obj() for n in names]), steps, data.draw)

    reuse_is_exact()


@pytest.mark.usefixtures("rows_at_once")
@pytest.mark.parametrize("first", [True, False], ids=["before all others", "after all others"])
def test_reuse_with_users_plugins(first):
    @examples(30)
    @given(
        clusters(least_nodes=2, special=("spread", "away", "port")),
        st.lists(pods("shape", special=("spread", "near", "away", "prefers")), min_size=1, max_size=2),
        st.lists(st.sampled_from(USERS), min_size=1, max_size=2, unique=True),
        steps,
        st.data(),
    )
    def reuse_is_exact(cluster, shapes, plugins, steps, data):
        play(World(cluster, shapes, plugins, first=first), steps, data.draw)

    reuse_is_exact()


@pytest.mark.usefixtures("rows_at_once")
def test_reuse_with_users_plugins_that_keep_their_arrays():
    @examples(40)
    @given(
        clusters(least_nodes=2, special=("spread",)),
        st.lists(pods("shape", special=("spread", "away")), min_size=1, max_size=2),
        st.lists(column_plugins, min_size=1, max_size=3, unique_by=lambda plugin: plugin.name),
        steps,
        st.data(),
    )
    def reuse_is_exact(cluster, shapes, plugins, steps, data):
        play(World(cluster, shapes, plugins), steps, data.draw)

    reuse_is_exact()


# -- by example --------------------------------------------------------------------------------------------------------


def world_of(*plugins, shape=None, sizes=(4, 4, 4, 4), first=False):
    cluster = [a_node(f"n{i}").zone("ab"[i % 2]).allocatable(cpu=size).obj() for i, size in enumerate(sizes)]
    return World((cluster, [], []), [(shape or a_pod().requests(cpu="1")).obj()], plugins, first=first)


def filler(node, cpu="4"):
    return struct(a_pod(f"filler-{node}").uid(f"filler-{node}").requests(cpu=cpu).on(node))


def test_a_filter_that_starts_to_skip_is_not_in_the_diagnosis():
    """InterPodAffinity skips once the pod with anti-affinity has left; the last plugin refuses everything."""

    class Never(NodeFilterPlugin, ShapeSigned):
        name = "Never"
        reads = Reads.NODES

        def filter_node(self, state, pod, node):
            return unschedulable("never")

    world = world_of(Never, shape=a_pod().labels(app="web"))
    avoider = a_pod("avoider").uid("avoider").avoids_pods(ZONE, {"matchLabels": {"app": "web"}}).on("n0")
    world.state.add_pod(struct(avoider))
    world.check(world.next_pod(0))
    world.state.remove_pod("avoider")
    world.check(world.next_pod(0))
    world.state.add_pod(struct(avoider))
    world.check(world.next_pod(0))


def test_filters_whose_reasons_may_have_changed_are_called_again_for_a_rejection():
    """After rows changed, masks were updated without reasons; filters on node objects keep their reasons."""

    class Never(FilterPlugin, ShapeSigned, ReadsNoObjects):
        name = "Never"
        reads = Reads.NODES
        asked = 0

        def filter(self, state, pod, nodes):
            type(self).asked += 1
            return Rejections.where(np.ones(len(nodes), np.bool_), Reason("Never", "never"))

    world = world_of(Never, sizes=(2,) * 40)
    want = run_at_once(schedule_pod(world.reusing, world.framework, world.next_pod(0))).message
    asked = Never.asked
    world.state.add_pod(filler("n3", "2"))
    world.state.add_pod(filler("n5", "2"))
    got = decided(run_at_once(schedule_pod(world.reusing, world.framework, world.next_pod(0))))
    assert Never.asked == asked
    assert got[1] != want
    assert got == decided(run_at_once(schedule_pod(world.plain, world.framework, world.next_pod(0))))


def test_only_changed_rows_are_evaluated_for_equal_pods(monkeypatch):
    """Also when one of them becomes full, or has room again."""
    world = world_of(sizes=(3,) * 40)
    for _ in range(2):
        pod = world.next_pod(0)
        world.state.assume(pod, run_at_once(schedule_pod(world.reusing, world.framework, pod)).node_name)
    monkeypatch.setattr(Evaluation, "filter", None)
    world.state.add_pod(filler("n2", "3"))
    full = run_at_once(schedule_pod(world.reusing, world.framework, world.next_pod(0)))
    world.state.remove_pod("filler-n2")
    free = run_at_once(schedule_pod(world.reusing, world.framework, world.next_pod(0)))
    monkeypatch.undo()
    assert (full.node_name, full.feasible) == ("n3", 39)
    assert (free.node_name, free.feasible, free.evaluated) == ("n2", 40, 40)
    assert decided(free) == decided(run_at_once(schedule_pod(world.plain, world.framework, world.next_pod(0))))


def test_a_score_that_skips_just_as_the_feasible_nodes_change_is_dropped(monkeypatch):
    """The pod with the preferred affinity is deleted in the moment in which a node fills up."""
    monkeypatch.setattr(columns, "MAX_CHANGED_SHARE", 1.0)
    wants_web = a_pod("holder").requires_pods(ZONE, {"matchLabels": {"app": "web"}}).on("n0")
    nodes = [a_node("n0").zone("a"), a_node("n1").zone("a"), a_node("n2").allocatable(pods="1")]
    state = state_of(nodes, [wants_web])
    profile = framework(state)
    shared = Evaluation(profile)
    pod = state.pod_info(struct(a_pod("web").labels(app="web")))
    assert findings(profile, shared, pod)["scores"]["InterPodAffinity"] == [200, 200, 0]
    state.remove_pod(state.placed_pods()[0].uid)
    state.add_pod(struct(a_pod("filler").on("n2")))
    assert findings(profile, shared, pod) == findings(profile, Evaluation(profile), pod)
