"""Repeated attempts of equal pods that fit nowhere: cached results equal those of a full evaluation.

Nothing is recomputed while nothing changes; every change that may matter to filters or to preemption invalidates the
cache.
"""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.plugins import (
    NodeFilterPlugin,
    NodePodExtensions,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    ShapeSigned,
    unschedulable,
)
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.preemption import dry_run as preemption
from stowplan.testing import a_node, a_pod, expression
from support.examples import examples
from support.plugins.profiles import framework
from support.scheduling.worlds import HOST, ZONE, budget, state_of, struct

WEB = {"matchLabels": {"app": "web"}}


def summary_of(decision):
    """Everything that an attempt reports: the node, the reasons of all nodes, and preemption's results."""
    if decision.diagnosis is None:
        return decision.node_name, decision.message
    names = range(len(decision.diagnosis.valid))
    statuses = [decision.diagnosis.status(row) for row in names]
    found = []
    for plugin, result in decision.post_filter:
        run = getattr(result.detail, "run", None)
        found.append((plugin, result.status.code, result.status.message, result.nominated_node_name))
        if run is not None:
            found += [(c.node_name, [v.uid for v in c.victims], c.pdb_violations) for c in run.candidates.values()]
            found += run.best
    return (
        decision.message,
        [s and (s.code, sorted(s.reasons), s.plugin) for s in statuses],
        decision.unschedulable_plugins,
        decision.pending_plugins,
        decision.evaluated,
        found,
    )


class World:
    """A full cluster and pending pods of a few kinds."""

    def __init__(self, *plugins, pods_a_node=3, random=None):
        nodes = [a_node(f"n{i}").zone("ab"[i % 2]).allocatable(cpu="3", pods="9") for i in range(4)]
        self.state = state = state_of(nodes, map(self.victim, range(4 * pods_a_node)), [budget("web", WEB, 1)])
        self.framework = framework(state, *plugins)
        if random is not None:
            self.framework.handle.random = random
        frameworks = {"default-scheduler": self.framework}
        self.keeping = SchedulingAlgorithm(state, frameworks)
        self.plain = SchedulingAlgorithm(state, frameworks, reuse=False)
        self.count = 0

    @staticmethod
    def victim(i, **changes):
        pod = a_pod(f"v{i}").uid(f"v{i}").requests(cpu="1").priority(i % 3).on(f"n{i % 4}")
        pod = pod.labels(app=("web", "db")[i % 2]).started(f"2026-01-01T00:00:0{i % 2}Z")
        return msgspec.structs.replace(struct(pod), **changes)

    def pod(self, kind):
        self.count += 1
        name = f"p{self.count}"
        pod = a_pod(name).uid(name).requests(cpu="2").labels(app="web")
        if kind in ("high", "choosy"):
            pod = pod.priority(2)
        if kind == "choosy":
            pod = pod.avoids_pods(HOST, WEB)
        if kind == "other labels":
            pod = pod.labels(app="web", index=name)
        if kind == "spread":
            pod = pod.spreads(ZONE, WEB)
        if kind == "never":
            pod = pod.priority(5).preemption_policy("Never")
        if kind == "narrowed":
            pod = pod.requires_node(expression("disk", "Exists"))
        return self.state.pod_info(struct(pod))

    def nominate(self, number, node, **wants):
        name, priority = f"nominated{number}", wants.pop("priority")
        pod = self.state.pod_info(struct(a_pod(name).uid(name).requests(**wants).priority(priority)))
        self.state.nominator.add(pod, node)

    def check(self, kind):
        pod = self.pod(kind)
        want = summary_of(run_at_once(schedule_pod(self.plain, self.framework, pod)))
        assert summary_of(run_at_once(schedule_pod(self.keeping, self.framework, pod))) == want


KINDS = ("low", "high", "choosy", "other labels", "spread", "never", "narrowed")


def change(world, what, which):
    """A change that may matter to pending pods."""
    state = world.state
    placed = sorted(info.uid for info in state.placed_pods())
    if what == "delete" and placed:
        state.remove_pod(placed[which % len(placed)])
    elif what == "bring back":
        state.add_pod(world.victim(which % 12))
    elif what == "touch" and placed:
        # Only moves the pod to the end of the node's list.
        info = state.placed(placed[which % len(placed)])
        state.add_pod(msgspec.structs.replace(info.pod))
    elif what == "start" and placed:
        info = state.placed(placed[which % len(placed)])
        begun = msgspec.structs.replace(info.pod.status, start_time="2026-01-01T00:00:09Z")
        state.add_pod(msgspec.structs.replace(info.pod, status=begun))
    elif what == "terminate" and placed:
        info = state.placed(placed[which % len(placed)])
        dying = msgspec.structs.replace(info.pod.metadata, deletion_timestamp="2026-01-01T00:00:09Z")
        state.add_pod(msgspec.structs.replace(info.pod, metadata=dying))
    elif what == "budget":
        state.put_object(struct(budget("web", WEB, which % 3)))
    elif what == "nominate":
        world.count += 1
        name = f"nominated{world.count}"
        pod = a_pod(name).uid(name).requests(cpu="1").priority(which % 4)
        if which % 5 == 0:
            pod = pod.avoids_pods(HOST, {"matchLabels": {"index": "p1"}})
        state.nominator.add(state.pod_info(struct(pod)), f"n{which % 4}")
    elif what == "take back":
        for name in state.nominator.nodes():
            state.nominator.delete(state.nominator.on(name)[0].uid)
    elif what == "node":
        state.add_node(struct(a_node(f"n{which % 5}").zone("ab"[which % 2]).allocatable(cpu="3", pods=str(which))))
    elif what == "remove node" and len(state.table.row_of) > 1:
        state.remove_node(sorted(state.table.row_of)[which % len(state.table.row_of)])
    elif what == "transaction" and placed:
        with state.transaction():
            state.remove_pod(placed[which % len(placed)])
            world.check(KINDS[which % len(KINDS)])


CHANGES = ("delete", "bring back", "touch", "start", "terminate", "budget", "nominate", "take back", "node",
           "remove node", "transaction")  # fmt: skip


def test_cached_results_equal_a_full_evaluation():
    @examples(60)
    @given(
        st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
        st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 20)), min_size=1, max_size=12),
        st.data(),
    )
    def the_same(kinds, changes, data):
        world = World(pods_a_node=data.draw(st.integers(1, 3)))
        for i in range(data.draw(st.integers(0, 4))):
            world.nominate(i, f"n{i}", cpu="1", priority=5)
        for what, which in changes:
            for _ in range(data.draw(st.integers(1, 3))):
                for kind in kinds:
                    world.check(kind)
            change(world, what, which)
        for kind in kinds:
            world.check(kind)

    the_same()


@pytest.fixture
def dry_runs(monkeypatch):
    """Counts the dry runs that are really made."""
    made = []
    real = preemption._dry_run
    monkeypatch.setattr(preemption, "_dry_run", lambda *args: (made.append(1), real(*args))[1])
    return made


def tried(world, kind, times=1):
    return [run_at_once(schedule_pod(world.keeping, world.framework, world.pod(kind))) for _ in range(times)]


@pytest.mark.parametrize("kind", ["low", "high", "spread", "choosy", "other labels"])
def test_nothing_is_recomputed_while_nothing_changes(kind, dry_runs):
    first, *others = tried(World(), kind, times=5)
    assert len(dry_runs) == 1
    assert all(decision.diagnosis is first.diagnosis for decision in others)
    assert all(summary_of(decision) == summary_of(first) for decision in others)
    assert len({decision.pod.uid for decision in (first, *others)}) == 5


def test_each_attempt_chooses_again_among_equal_victims(dry_runs):
    world = World(random=Random(3))
    chosen = {decision.nominated_node_name for decision in tried(world, "high", times=40)}
    assert len(chosen) > 1
    assert len(dry_runs) == 1


class ChangingFilter(NodeFilterPlugin, ShapeSigned):
    """Returns a different reason on each call for the same nodes."""

    name = "Moody"
    moods = iter(())

    def filter_node(self, state, pod, node):
        return unschedulable(f"mood {next(self.moods)}")


def test_a_filter_without_declared_reads_is_called_each_time(monkeypatch):
    monkeypatch.setattr(ChangingFilter, "moods", iter(range(100)))
    world = World(ChangingFilter, pods_a_node=0)
    texts = [decision.message for decision in tried(world, "low", times=3)]
    assert len(set(texts)) == 3


class ChangingPreFilter(PreFilterPlugin, NodePodExtensions, ShapeSigned):
    """The same, depending on removed pods."""

    name = "MoodyWithPods"
    moods = iter(())

    def pre_filter(self, state, pod, nodes):
        state.write(self.name, next(self.moods))

    def add_pod(self, state, pod, added, node):
        return None

    def remove_pod(self, state, pod, removed, node):
        return unschedulable(f"mood {state.read(self.name)}")


def test_a_pre_filter_without_declared_reads_is_called_each_time(monkeypatch):
    monkeypatch.setattr(ChangingPreFilter, "moods", iter(range(100)))
    texts = [decision.message for decision in tried(World(ChangingPreFilter), "high", times=3)]
    assert [text.split()[-1] for text in texts] == ["0", "1", "2"]


class Helps(PostFilterPlugin):
    name = "Helps"
    calls = 0

    def post_filter(self, state, pod, diagnosis):
        Helps.calls += 1
        return PostFilterResult(unschedulable(f"call {Helps.calls}"))


def test_post_filter_plugins_are_called_in_every_attempt(monkeypatch):
    monkeypatch.setattr(Helps, "calls", 0)
    decisions = tried(World(Helps), "low", times=3)
    assert [decision.message.split(", ")[-1] for decision in decisions] == ["call 1", "call 2", "call 3"]


class Notes(PostFilterPlugin):
    name = "Notes"

    def post_filter(self, state, pod, diagnosis):
        before = state.get(self.name)
        state.write(self.name, pod.name)
        return PostFilterResult(unschedulable(f"read {before}"))


def test_cycle_state_written_by_post_filter_is_not_shared_with_the_next_equal_pod():
    decisions = tried(World(Notes), "low", times=3)
    assert [decision.message.split(", ")[-1] for decision in decisions] == ["read None"] * 3
