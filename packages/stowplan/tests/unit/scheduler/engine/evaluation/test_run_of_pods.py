"""A run of equal pods that is decided by one placement gives what one pod after the other gives, whatever happens in
between: decisions, effects, metrics, stories, and the state of the random source."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError, Forbidden
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.metrics.registry import MetricsRegistry, family_text
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.evaluation import run_of_pods
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.evaluation.run_of_pods import RunOfPods
from stowplan.scheduler.framework.requests import Create, Delete, Patch, Update
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.profiles import framework
from support.plugins.switchable_plugins import PluginSwitches, plugins_of
from support.plugins.users_plugins import USERS, ByRoom, Crowd, FailsWithFew, Ranks
from support.scheduling.engine_by_hand import EngineByHand
from support.scheduling.worlds import (
    LOOKUP_OBJECTS,
    PLACEABLE,
    ZONE,
    bound,
    clusters,
    lookup_objects,
    nodes,
    pods,
    state_of,
    struct,
)

NEVER = 1 << 60
#: They count calls of plugins, of which runs need fewer.
OF_CALLS = ("scheduler_plugin_evaluation_total", "scheduler_plugin_execution_duration_seconds")


class Meter:
    """Samples some cycles. No time passes."""

    def __init__(self):
        self.random = Random(3).random
        self.clock = lambda: 0.0


class Side:
    """An engine, with runs or without."""

    def __init__(self, plugins, cluster, *, worthwhile, waits):
        self.worthwhile = worthwhile
        self.switches = PluginSwitches()
        self.switches.permit_waits = waits
        self.registry = MetricsRegistry()
        self.hand = EngineByHand(
            *plugins,
            *plugins_of(self.switches),
            validates=worthwhile != NEVER,
            meter=Meter(),
            metrics=SchedulerMetrics(self.registry, gates=DEFAULT_FEATURES),
            settings=EngineSettings(stories=True, events=True),
        )
        self.effects = []
        self.hand.heard.append(lambda input_, effects: self.effects.extend(effect.encoded() for effect in effects))
        self.made = 0
        nodes_, placed, objects = cluster
        for obj in (*nodes_, *objects, *placed):
            self.write(Create(obj=struct(obj)))
        self.all_is_delivered()

    def write(self, request):
        try:
            self.hand.write(request)
        except ApiError:
            return

    # -- actions -------------------------------------------------------------------------------------------------------

    def pods_come(self, pod, count):
        for _ in range(count):
            self.made += 1
            name = f"p{self.made}"
            self.write(Create(obj=struct({**pod, "metadata": {**pod["metadata"], "name": name, "uid": name}})))
        self.hand.deliver(Pod)

    def a_pod_is_bound_elsewhere(self, pod, row):
        node = f"n{row}"
        self.made += 1
        name = f"p{self.made}"
        made = bound({**pod, "metadata": {**pod["metadata"], "name": name, "uid": name}}, node)
        self.write(Create(obj=struct(made)))
        self.hand.deliver(Pod)

    def pods_are_tried(self, count):
        """Return how many of them were evaluated, rather than decided by the run."""
        evaluated = 0
        for _ in range(count):
            if self.hand.engine.wants_turn:
                self.hand.schedule(1)
                evaluated += self.hand.engine.algorithm.run.placement is None
        return evaluated

    def all_is_answered(self):
        for number in self.hand.answerable:
            if number in self.hand.under_way:
                self.hand.answer(number)

    def a_bind_fails(self, which):
        if numbers := self.hand.answerable:
            self.hand.answer(numbers[which % len(numbers)], refused=Forbidden("no"))

    def all_is_delivered(self):
        for kind in list(self.hand.news):
            self.hand.deliver(kind)

    def a_pod_is_deleted(self, which):
        if known := self.hand.store.list(Pod):
            metadata = known[which % len(known)].metadata
            self.write(Delete(kind=Pod, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid))
            self.hand.deliver(Pod)

    def a_pod_changes(self, which, body, subresource=""):
        if known := self.hand.store.list(Pod):
            metadata = known[which % len(known)].metadata
            self.write(
                Patch(
                    kind=Pod,
                    namespace=metadata.namespace,
                    name=metadata.name,
                    body=body,
                    type_="merge",
                    subresource=subresource,
                )
            )
            self.hand.deliver(Pod)

    def a_node_changes(self, node):
        made = struct(node)
        try:
            self.hand.write(Create(obj=made))
        except ApiError:
            self.write(Update(obj=made))
        self.hand.deliver(Node)

    def an_object_comes(self, obj):
        self.write(Create(obj=struct(obj)))
        self.all_is_delivered()

    def a_plugin_answers(self, reserve):
        self.switches.reserve = reserve

    def waiting_pods_are_allowed(self):
        for waiting in list(self.hand.engine.waiting_pods):
            waiting.allow("Doorman")

    def somebody_asks(self, count):
        """What is done in a transaction is undone."""
        state = self.hand.engine.state
        with state.transaction():
            waiting = [info for info in state.pending.values() if not state.is_assumed(info.uid)]
            for info in waiting[:count]:
                state.pending.remove(info.key)
                state.assume(info, "n0")

    def time_passes(self, seconds):
        self.hand.advance(seconds)

    # -- what it leaves ------------------------------------------------------------------------------------------------

    def left(self):
        engine = self.hand.engine
        return {
            "effects": tuple(self.effects),
            "random": engine.random.getstate(),
            "sampling": engine.algorithm.sampling.start,
            "placed": {info.uid: info.node_name for info in engine.state.placed_pods()},
        }

    def told(self):
        engine = self.hand.engine
        engine.refresh_metrics()
        metrics = [family_text(family) for family in self.registry.families() if family.name not in OF_CALLS]
        return metrics, [outcome.record() for outcome in engine.stories.last_decisions(1000)]


shapes = st.one_of(
    pods("shape", special=("spread", "node preference"), namespaces=("default",)),
    pods("shape", special=("owner", "prefers", "prefers no", "near", "away"), namespaces=("default",)),
    pods("shape", special=PLACEABLE),
)
which = st.integers(0, 9)


def actions(count):
    """One action with its arguments; `count` kinds of pods."""
    kinds = st.integers(0, count - 1)
    return st.one_of(
        st.tuples(st.just("pods_come"), kinds, st.integers(1, 8)),
        st.tuples(st.just("all_is_answered")),
        st.tuples(st.just("all_is_delivered")),
        st.tuples(st.just("a_pod_is_bound_elsewhere"), kinds, st.integers(0, 5)),
        st.tuples(st.just("a_bind_fails"), which),
        st.tuples(st.just("a_pod_is_deleted"), which),
        st.tuples(
            st.just("a_pod_changes"),
            which,
            st.sampled_from(({"metadata": {"labels": {"app": "web"}}}, {"metadata": {"annotations": {"wants": "n"}}})),
        ),
        st.tuples(st.just("a_pod_changes"), which, st.just({"status": {"nominatedNodeName": "n1"}}), st.just("status")),
        st.tuples(st.just("a_node_changes"), nodes(names=("n0", "n1", "n7"))),
        st.tuples(st.just("an_object_comes"), lookup_objects()),
        st.tuples(st.just("a_plugin_answers"), st.sampled_from(("yes", "no"))),
        st.tuples(st.just("waiting_pods_are_allowed")),
        st.tuples(st.just("somebody_asks"), st.integers(1, 3)),
        st.tuples(st.just("time_passes"), st.sampled_from((0.5, 12.0))),
    )


def played(monkeypatch, plugins, cluster, kinds, history, *, worthwhile, waits):
    """What is left after each action, and what is told at the end. Some pods are tried after each action."""
    monkeypatch.setattr(run_of_pods, "WORTHWHILE", worthwhile)
    side = Side(plugins, cluster, worthwhile=worthwhile, waits=waits)
    for (action, *arguments), tried in history:
        if action in ("pods_come", "a_pod_is_bound_elsewhere"):
            arguments[0] = kinds[arguments[0]]
        getattr(side, action)(*arguments)
        side.pods_are_tried(tried)
        yield side.left()
    yield side.told()
    side.hand.close()


@examples(60)
@given(
    clusters(least_nodes=2),
    st.lists(shapes, min_size=2, max_size=2),
    st.sampled_from(((), (), *((plugin,) for plugin in (*USERS, ByRoom, Ranks, FailsWithFew)))),
    st.lists(st.tuples(actions(2), st.integers(0, 6)), max_size=8),
    st.sampled_from((0, 0, 1, 3)),
    st.booleans(),
)
def test_runs_give_what_one_pod_after_the_other_gives(cluster, kinds, plugins, history, worthwhile, waits):
    if waits:
        kinds[0] = {**kinds[0], "metadata": {**kinds[0]["metadata"], "labels": {"wait": "x", "app": "web"}}}
    history = [(("pods_come", 0, 20), 5), *history, (("pods_come", 1, 12), 40)]
    with pytest.MonkeyPatch.context() as monkeypatch:
        runs = list(played(monkeypatch, plugins, cluster, kinds, history, worthwhile=worthwhile, waits=waits))
        singly = list(played(monkeypatch, plugins, cluster, kinds, history, worthwhile=NEVER, waits=waits))
    for run, single in zip(runs, singly, strict=True):
        assert run == single


# -- by example --------------------------------------------------------------------------------------------------------


def web():
    return a_pod("web").labels(app="web").requests(cpu="10m").obj()


@pytest.fixture
def a_run(monkeypatch):
    """Makes an engine that has decided some pods together, and has more."""
    sides = []

    def made(pod, *, plugins=(), worthwhile=3):
        monkeypatch.setattr(run_of_pods, "WORTHWHILE", worthwhile)
        cluster = [a_node(f"n{i}").zone("abc"[i % 3]).obj() for i in range(6)], [], []
        side = Side(plugins, cluster, worthwhile=worthwhile, waits=True)
        sides.append(side)
        # No cycle is sampled.
        side.hand.engine.frameworks["default-scheduler"].metrics._chance = lambda: 1.0
        side.pods_come(pod, 20)
        side.pods_are_tried(6)
        return side

    yield made
    for side in sides:
        side.hand.close()


def test_pods_of_a_run_are_not_evaluated(a_run):
    side = a_run(web())
    assert side.pods_are_tried(5) == 0
    side.all_is_answered()
    side.all_is_delivered()
    side.time_passes(1.0)
    assert side.pods_are_tried(10) == 0
    assert len(side.hand.engine.state.placed_pods()) == 20


ZONES = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod("web").labels(app="web").spreads(ZONE, ZONES), id="spread"),
        pytest.param(
            a_pod("web").labels(app="web").spreads(ZONE, ZONES, when_unsatisfiable="ScheduleAnyway"), id="soft"
        ),
        pytest.param(a_pod("web").labels(app="web").prefers_pods(10, ZONE, ZONES), id="affinity"),
    ],
)
def test_pods_that_count_each_other_are_not_evaluated_in_a_run(a_run, pod):
    side = a_run(pod.obj())
    assert side.pods_are_tried(10) == 0


def test_pods_that_wait_on_permit_are_a_run(a_run):
    side = a_run({**web(), "metadata": {"name": "web", "labels": {"wait": "x"}}})
    assert side.pods_are_tried(5) == 0
    assert len(list(side.hand.engine.waiting_pods)) == 11


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda side: side.a_pod_is_bound_elsewhere(a_pod("x").obj(), 1), id="another pod is placed"),
        pytest.param(lambda side: side.a_pod_is_deleted(0), id="a pod goes"),
        pytest.param(lambda side: side.a_node_changes(a_node("n1").labels({"a": "b"}).obj()), id="a node changes"),
        pytest.param(lambda side: side.a_node_changes(a_node("n9").obj()), id="a node comes"),
        pytest.param(lambda side: side.an_object_comes(LOOKUP_OBJECTS[2]), id="a lookup object comes"),
        pytest.param(lambda side: side.an_object_comes(LOOKUP_OBJECTS[4]), id="a Service comes"),
        pytest.param(
            lambda side: side.a_pod_changes(-1, {"status": {"nominatedNodeName": "n1"}}, "status"),
            id="a pod is nominated",
        ),
        pytest.param(lambda side: side.a_bind_fails(0), id="a bind fails"),
    ],
)
def test_whatever_happens_to_the_cluster_ends_a_run(a_run, happens):
    side = a_run(web())
    happens(side)
    assert side.pods_are_tried(1) == 1


def test_a_pod_that_is_not_placed_ends_a_run(a_run):
    side = a_run(web())
    side.a_plugin_answers("no")
    assert side.pods_are_tried(1) == 0
    side.a_plugin_answers("yes")
    assert side.pods_are_tried(1) == 1


def test_pods_are_evaluated_next_to_plugins_without_declarations(a_run):
    side = a_run(web(), plugins=(Crowd,))
    assert side.pods_are_tried(5) == 5


def test_a_short_run_is_evaluated(a_run):
    side = a_run(web(), worthwhile=run_of_pods.WORTHWHILE)
    assert side.pods_are_tried(run_of_pods.WORTHWHILE - 6) == run_of_pods.WORTHWHILE - 6


@pytest.mark.parametrize(("placed_on", "goes_on"), [("n1", True), ("n2", False)])
def test_the_last_pod_has_to_be_where_it_was_decided_to_go(placed_on, goes_on, monkeypatch):
    monkeypatch.setattr(run_of_pods, "WORTHWHILE", 1)
    state = state_of([a_node(f"n{i}") for i in range(3)])
    evaluation, run = Evaluation(framework(state)), RunOfPods(state)
    for name, decided, placed in (("a", "n0", "n0"), ("b", "n1", placed_on)):
        pod = state.pod_info(struct(a_pod(name)))
        run.begin(evaluation, pod)
        run.end(pod, decided)
        state.assume(pod, placed)
    pod = state.pod_info(struct(a_pod("c")))
    run.begin(evaluation, pod)
    assert (run.look_ahead(evaluation, pod, evaluation.filter(pod).feasible) is not None) == goes_on
