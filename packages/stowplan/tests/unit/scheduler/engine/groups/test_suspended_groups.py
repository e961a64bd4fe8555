"""Pod groups in profiles with extenders: their trials are suspended for answers, and hold no resources meanwhile."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.kube.api.port import Unreachable
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.scheduler.engine.effects import Ask
from stowplan.scheduler.engine.inputs import Answer, Stopped
from stowplan.scheduler.framework.requests import Delete, Done
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.plugins.answering_plugins import configuration
from support.scheduling.engines import DrivenEngine
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.groups import a_group, check_exact_undo
from support.scheduling.worlds import struct

FEATURES = with_chosen({"GenericWorkload": True, "GangScheduling": True}, V1_36)
WHOLE = FEATURES.with_gates({"WorkloadAwarePreemption": True})
PLACED = FEATURES.with_gates({"TopologyAwareWorkloadScheduling": True})


def member(name, group="g", cpu=1):
    """Members are tried in alphabetical order."""
    return a_pod(name).requests(cpu=cpu).priority(200 - ord(name[0])).spec(schedulingGroup={"podGroupName": group})


def nodes(*names, cpu=1, **labels):
    return [a_node(name).allocatable(cpu=cpu, pods=110).labels(**labels) for name in names]


def driven(*objects, extenders=None, gang=2, features=FEATURES, topology=None, **options):
    extenders = [FakeExtender("e", filters=True)] if extenders is None else extenders
    group = struct(a_group("g", gang=gang, topology=topology))
    return DrivenEngine(group, *objects, extenders=extenders, features=features, **options)


def settled(engine):
    """Checks that a suspended trial leaves nothing in the cluster."""
    state = engine.engine.state
    assert state.transactions.depth == 0
    assert not state.pod_groups.on_trial
    assert state.sizes()["assumed_pods"] == 0
    engine.engine.validate()


def answered(engine, choose=lambda names: names):
    """Answer questions until there are none."""
    while questions := engine.questions():
        engine.answer_number(questions[0], choose(engine.under_way[questions[0]].question["nodes"]))
        if engine.questions():
            settled(engine)


def evicted(engine):
    """Evicted pods; the last victim is evicted after the others."""
    gone = []
    while deletes := [number for number, effect in engine.under_way.items() if isinstance(effect, Delete)]:
        for number in deletes:
            gone.append(engine.under_way.pop(number).name)
            engine.step(Answer(number, Done()))
    return sorted(gone)


def test_each_pod_sees_the_earlier_members_on_the_extenders_nodes():
    engine = driven(*nodes("n1", "n2", "n3"))
    engine.create(member("a"), member("b"))
    settled(engine)
    assert engine.question("e") == {"pod": "default/a", "nodes": ["n1", "n2", "n3"]}
    engine.answer("e", ["n2"])
    settled(engine)
    assert engine.bound == {}
    assert engine.question("e") == {"pod": "default/b", "nodes": ["n1", "n3"]}
    engine.answer("e", ["n3"])
    assert engine.bound == {"a": "n2", "b": "n3"}
    assert engine.engine.under_way == 0


def test_a_gang_of_which_the_extender_refuses_one_is_not_placed():
    engine = driven(*nodes("n1", "n2"))
    engine.create(member("a"), member("b"))
    engine.answer("e", ["n1"])
    engine.answer("e", {"failed": {"n2": "no"}})
    assert engine.bound == {}
    told = sorted(engine.notes())
    assert told[0].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 no.")
    assert told[1].startswith("pod group is unschedulable, waiting for minCount pods")
    settled(engine)
    engine.advance(10)
    answered(engine)
    assert sorted(engine.bound) == ["a", "b"]


def test_an_extender_that_fails_fails_the_group():
    engine = driven(*nodes("n1", "n2"))
    engine.create(member("a"), member("b"))
    engine.answer("e", Unreachable("nobody there"))
    assert sorted(engine.notes()) == ["failed to schedule other pod from a pod group: nobody there", "nobody there"]
    assert engine.place("a") is Place.ERROR_BACKOFF
    settled(engine)


def test_no_other_pod_is_tried_while_a_group_waits_for_an_extender():
    engine = driven(*nodes("n1", "n2"), extenders=[FakeExtender("e", filters=True, only="slow")])
    engine.create(member("a").labels(slow="yes"), member("b").labels(slow="yes"), a_pod("p").requests(cpu=1))
    assert engine.suspended() == []
    assert engine.bound == {}
    engine.answer("e", ["n1"])
    engine.answer("e", ["n2"])
    assert engine.bound == {"a": "n1", "b": "n2"}
    assert engine.notes()[0].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_a_group_does_not_wait_if_no_extender_is_interested():
    engine = driven(*nodes("n1", "n2"), extenders=[FakeExtender("e", filters=True, only="slow")])
    engine.create(member("a"), member("b"))
    assert sorted(engine.bound) == ["a", "b"]


@pytest.mark.parametrize("how", ["its node goes", "its node is filled"])
def test_a_member_whose_node_filled_up_meanwhile_is_placed_again(how):
    engine = driven(*nodes("n1", "n2", "n3"))
    engine.create(member("a"), member("b"))
    engine.answer("e", ["n1"])
    if how == "its node goes":
        engine.delete(engine.node("n1"))
    else:
        # By another scheduler.
        engine.create(a_pod("other").requests(cpu=1).on("n1"))
    engine.answer("e", ["n2"])
    assert engine.question("e") == {"pod": "default/a", "nodes": ["n2", "n3"]}
    answered(engine)
    assert sorted(engine.bound.values()) == ["n2", "n3"]


def test_irrelevant_changes_do_not_restart_the_trial():
    engine = driven(*nodes("n1", "n2"))
    engine.create(member("a"), member("b"))
    engine.answer("e", ["n1"])
    engine.create(*nodes("n3"))
    engine.answer("e", ["n2"])
    assert engine.bound == {"a": "n1", "b": "n2"}


class TestCancelled:
    def asking(self, *more, **options):
        engine = driven(*nodes("n1", "n2", "n3"), **options)
        engine.create(member("a"), member("b"), *more)
        engine.answer("e", ["n1"])
        (number,) = engine.questions()
        return engine, number

    def test_a_member_is_deleted(self):
        engine, number = self.asking()
        engine.delete(engine.pod("a"))
        assert number in engine.withdrawn
        settled(engine)
        # The gang is too small now.
        assert engine.bound == {}
        engine.create(member("c"))
        answered(engine)
        assert sorted(engine.bound) == ["b", "c"]

    def test_a_member_is_bound_by_another_client(self):
        engine, number = self.asking()
        engine.change(bound_to(engine.pod("b"), "n2"))
        engine.run()
        assert number in engine.withdrawn
        answered(engine)
        assert engine.bound.keys() == {"a"}

    def test_the_scheduler_stops(self):
        engine, number = self.asking()
        engine.step(Stopped())
        assert number in engine.withdrawn
        assert engine.bound == {}
        assert engine.place("a") is engine.place("b") is Place.ACTIVE
        settled(engine)

    def test_the_profile_is_swapped(self):
        engine, number = self.asking()
        engine.swap(configuration({"percentageOfNodesToScore": 50}))
        assert number in engine.withdrawn
        engine.engine.validate()
        answered(engine)
        assert sorted(engine.bound) == ["a", "b"]

    def test_a_late_answer_is_ignored(self):
        engine, number = self.asking()
        engine.delete(engine.pod("a"))
        engine.answer_number(number, ["n2"])
        settled(engine)
        assert engine.bound == {}


def bound_to(pod, node):
    return replace(pod, spec=replace(pod.spec, node_name=node))


def test_preemption_asks_extenders_for_each_pod():
    full = [
        *nodes("n1", "n2"),
        *(a_pod(f"v-{name}").requests(cpu=1).on(name).priority(1) for name in ("n1", "n2")),
    ]
    engine = driven(*full, extenders=[FakeExtender("e", preempts=True)])
    engine.create(member("a"), member("b"))
    settled(engine)
    asked = engine.question("e")
    engine.answer("e", {"n1": asked["n1"]})
    settled(engine)
    engine.answer("e", {"n2": engine.question("e")["n2"]})
    deleted = sorted(a.name for a in engine.under_way.values() if type(a).__name__ == "Delete")
    assert deleted == ["v-n1", "v-n2"]
    nominator = engine.engine.state.nominator
    assert [nominator.node_of(engine.pod(name).metadata.uid) for name in "ab"] == ["n1", "n2"]


class TestPreemptionAsAWhole:
    """Its trials ask the extenders to filter and to prioritize like any other; no extender is asked about victims."""

    def full(self, *names, extenders=None, **options):
        pods = [a_pod(f"v-{name}").requests(cpu=1).on(name).priority(1) for name in names]
        group = struct(a_group("g", gang=2, priority=10))
        extenders = [FakeExtender("e", filters=True, preempts=True)] if extenders is None else extenders
        engine = DrivenEngine(group, *nodes(*names), *pods, extenders=extenders, features=WHOLE, **options)
        engine.create(member("a"), member("b"))
        return engine

    def test_each_trial_asks_extenders_and_holds_nothing_meanwhile(self):
        engine = self.full("n1", "n2", "n3")
        asked = []
        while questions := engine.questions():
            settled(engine)
            question = engine.under_way[questions[0]]
            assert question.verb == "filter"
            asked.append((question.question["pod"], question.question["nodes"]))
            engine.answer_number(questions[0], question.question["nodes"])
        # Once with all three removed; then they are put back one by one, and the last two cannot be.
        assert [(pod, len(names)) for pod, names in asked] == [
            ("default/a", 3),
            ("default/b", 2),
            ("default/a", 2),
            ("default/b", 1),
            ("default/a", 1),
            ("default/a", 1),
        ]
        spared = set(asked[0][1]) - set(asked[2][1])
        assert evicted(engine) == sorted({"v-n1", "v-n2", "v-n3"} - {f"v-{name}" for name in spared})
        settled(engine)

    def test_no_pod_is_evicted_from_a_node_that_the_extender_refuses(self):
        engine = self.full("n1", "n2", "n3")
        answered(engine, lambda names: [name for name in names if name != "n2"])
        assert evicted(engine) == ["v-n1", "v-n3"]

    def test_no_pod_is_evicted_for_a_gang_that_the_extender_refuses(self):
        engine = self.full("n1", "n2")
        answered(engine, lambda names: [name for name in names if name != "n2"])
        assert evicted(engine) == []
        assert engine.bound == {}

    @pytest.mark.parametrize("how", ["a victim goes", "room comes"])
    def test_the_search_restarts_when_the_cluster_has_changed(self, how):
        engine = self.full("n1", "n2")
        (number,) = engine.questions()
        if how == "a victim goes":
            engine.delete(engine.pod("v-n1"))
        else:
            engine.create(*nodes("n3", "n4"))
        engine.answer_number(number, engine.under_way[number].question["nodes"])
        answered(engine)
        assert evicted(engine) == ([] if how == "room comes" else ["v-n2"])

    def test_a_victim_that_changes_does_not_matter(self):
        engine = self.full("n1", "n2")
        victim = engine.pod("v-n1")
        engine.change(replace(victim, metadata=replace(victim.metadata, labels={"new": "yes"})))
        answered(engine)
        assert evicted(engine) == ["v-n1", "v-n2"]

    def test_a_deleted_member_cancels_the_search(self):
        engine = self.full("n1", "n2")
        (number,) = engine.questions()
        engine.delete(engine.pod("a"))
        assert number in engine.withdrawn
        settled(engine)
        assert evicted(engine) == []


@settings(max_examples=times(40), deadline=None)
@given(
    cpus=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    wanted=st.integers(1, 4),
    victims=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6),
)
def test_victims_are_the_same_if_an_extender_accepts_every_node(cpus, wanted, victims):
    """(node, priority) of the pods that run."""
    made = [one for i, cpu in enumerate(cpus) for one in nodes(f"n{i}", cpu=cpu)]
    free = list(cpus)
    for i, (on, priority) in enumerate(victims):
        if on < len(free) and free[on]:
            free[on] -= 1
            made.append(a_pod(f"v{i}").requests(cpu=1).on(f"n{on}").priority(priority))

    def outcome(extenders):
        group = struct(a_group("g", gang=wanted, priority=2))
        engine = DrivenEngine(group, *made, extenders=extenders, features=WHOLE)
        engine.create(*(member(f"p{i}") for i in range(wanted)))
        answered(engine)
        return engine.bound, sorted(engine.notes()), evicted(engine)

    with check_exact_undo():
        assert outcome([FakeExtender("e", filters=True)]) == outcome([])


def test_placements_are_tried_one_after_the_other():
    racks = [*nodes("a1", "a2", rack="a"), *nodes("b1", "b2", rack="b")]
    engine = driven(*racks, features=PLACED, topology="rack")
    engine.create(member("p"), member("q"))
    asked = []

    def choose(names):
        asked.append(names)
        return [name for name in names if name != "a2"]

    answered(engine, choose)
    assert asked[0] == ["a1", "a2"]
    assert sorted(engine.bound.values()) == ["b1", "b2"]
    engine.engine.validate()


@settings(max_examples=times(40), deadline=None)
@given(
    cpus=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    wanted=st.lists(st.integers(1, 2), min_size=1, max_size=5),
    least=st.integers(1, 5),
    seed=st.integers(0, 9),
    overlaps=st.booleans(),
)
def test_an_extender_that_accepts_every_node_changes_nothing(cpus, wanted, least, seed, overlaps):
    """Suspending after each pod, with undo and replay, has the same result as a trial in one go."""
    made = [one for i, cpu in enumerate(cpus) for one in nodes(f"n{i}", cpu=cpu)]
    pods = [member(f"p{i}", cpu=cpu) for i, cpu in enumerate(wanted)]
    least = min(least, len(wanted))

    def outcome(extenders):
        engine = driven(*made, gang=least, extenders=extenders, random=Random(seed), overlaps=overlaps)
        engine.create(*pods)
        answered(engine)
        return engine.bound, sorted(engine.notes())

    with check_exact_undo():
        assert outcome([FakeExtender("e", filters=True)]) == outcome([])


def test_questions_are_asked_in_groups_of_one():
    engine = driven(
        *nodes("n1", "n2"), extenders=[FakeExtender("e1", filters=True), FakeExtender("e2", prioritizes=True)]
    )
    engine.create(member("a"), member("b"))
    engine.answer("e1", ["n1", "n2"])
    settled(engine)
    (number,) = engine.questions()
    assert isinstance(engine.under_way[number], Ask)
    engine.answer("e2", {"n1": 1, "n2": 9})
    assert engine.question("e1") == {"pod": "default/b", "nodes": ["n1"]}
    engine.answer("e1", ["n1"])
    assert engine.bound == {"a": "n2", "b": "n1"}
