"""A scheduler that decides serially and writes its binds in any order agrees with its shadow."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.history.shadow.bind_comparison import Kind, compared
from stowplan.history.shadow.decision_order import CONCURRENT_SECONDS
from stowplan.history.shadow.shadow import Shadow
from stowplan.kube.api.decode import convert
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import load_config
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.inputs import Changes
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.examples import examples

REGISTRY = in_tree_registry()
START = 100.0


def engine_with(nodes):
    engine = Engine(
        load_config(None, plugins=REGISTRY.declarations),
        registry=REGISTRY,
        now=START,
        meter=ManualTime(),
        settings=EngineSettings(stories=False, events=False),
    )
    made = [
        convert(a_node(f"n{i}").allocatable(cpu=str(cpu), memory="64Gi", pods=110).labels(zone=f"z{i % 2}").obj(), Node)
        for i, cpu in enumerate(nodes)
    ]
    return engine, Changes(Node, tuple(Change(None, node) for node in made))


def pod(name, shape, node=""):
    cpu, priority, spreads = shape
    made = a_pod(name).uid(name).labels(app="a").requests(cpu=str(cpu), memory="1Gi").priority(priority)
    if spreads:
        made = made.prefers_pods(5, "zone", {"matchLabels": {"app": "a"}})
    return convert((made.on(node) if node else made).obj(), Pod)


class Other:
    """Decides serially, based on its earlier decisions."""

    def __init__(self, nodes):
        self._engine, listed = engine_with(nodes)
        self._engine.step(listed, START)
        (self._framework,) = self._engine.frameworks.values()

    def best(self, name, shape):
        """Its node; "" if there is none."""
        info = self._engine.state.pod_info(pod(name, shape))
        for node in self._engine.state.table.row_of:
            if compared(self._engine, self._framework, info, node).kind.agrees:
                self._engine.state.add_pod(pod(name, shape, node))
                return node
        return ""


class Watched:
    """What the shadow observes of it."""

    def __init__(self, nodes):
        self._engine, listed = engine_with(nodes)
        self.judged, self._now = [], START
        self._shadow = Shadow(self.judged.append, meter=ManualTime())
        self._tell(listed)

    def _tell(self, changes):
        self._shadow.step(self._engine, changes, self._now)

    def pods(self, changes):
        self._tell(Changes(Pod, tuple(changes)))

    def wait(self, seconds):
        self._now += seconds
        self._shadow.tick(self._engine, self._now)

    def finish(self):
        self._shadow.finish(self._engine, self._now)
        self._engine.validate()


NODES = st.lists(st.integers(2, 8), min_size=2, max_size=5)
SHAPES = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 5]), st.booleans()), min_size=1, max_size=10)


def decided(nodes, shapes):
    """(name, shape, node) in order of decision: by priority, then by creation."""
    other = Other(nodes)
    queue = sorted(range(len(shapes)), key=lambda i: (-shapes[i][1], i))
    found = [(f"p{i}", shapes[i], other.best(f"p{i}", shapes[i])) for i in queue]
    return [one for one in found if one[2]]


@given(NODES, SHAPES, st.randoms(use_true_random=False), st.sampled_from([0.0, 0.01, 0.05]))
@examples(30)
def test_binds_in_any_order_are_evaluated_in_queue_order(nodes, shapes, chance, between):
    binds = decided(nodes, shapes)
    watched = Watched(nodes)
    watched.pods(())
    watched.pods(Change(None, pod(f"p{i}", shape)) for i, shape in enumerate(shapes))
    chance.shuffle(binds)
    for name, shape, node in binds:
        watched.pods([Change(pod(name, shape), pod(name, shape, node))])
        watched.wait(between)
    watched.finish()
    assert len(watched.judged) == len(binds)
    assert [(one.comparison.text(), one.order) for one in watched.judged] == [("", "queue")] * len(binds)


@given(NODES, SHAPES, st.data())
@examples(30)
def test_swapped_binds_of_initial_pods(nodes, shapes, data):
    binds = decided(nodes, shapes)
    i = 0
    while i + 1 < len(binds):
        if data.draw(st.booleans()):
            binds[i : i + 2] = reversed(binds[i : i + 2])
            i += 1
        i += 1
    watched = Watched(nodes)
    watched.pods(Change(None, pod(f"p{i}", shape)) for i, shape in enumerate(shapes))
    watched.pods(Change(pod(name, shape), pod(name, shape, node)) for name, shape, node in binds)
    watched.wait(CONCURRENT_SECONDS)
    watched.finish()
    assert [one.comparison.text() for one in watched.judged] == [""] * len(binds)


@given(NODES, SHAPES, st.data())
@examples(30)
def test_serial_binds_agree_exactly_on_the_best_nodes(nodes, shapes, data):
    engine, listed = engine_with(nodes)
    engine.step(listed, START)
    (framework,) = engine.frameworks.values()
    watched = Watched(nodes)
    watched.pods(())
    expected = []
    for i, shape in enumerate(shapes):
        name = f"p{i}"
        info = engine.state.pod_info(pod(name, shape))
        node = data.draw(st.sampled_from([f"n{j}" for j in range(len(nodes))]))
        kind = compared(engine, framework, info, node).kind
        if kind not in (Kind.SAME, Kind.TIE, Kind.SCORE):
            continue
        expected.append(kind)
        engine.state.add_pod(pod(name, shape, node))
        watched.pods([Change(None, pod(name, shape))])
        watched.pods([Change(pod(name, shape), pod(name, shape, node))])
        watched.wait(2 * CONCURRENT_SECONDS)
    watched.finish()
    assert [one.comparison.kind for one in watched.judged] == expected
