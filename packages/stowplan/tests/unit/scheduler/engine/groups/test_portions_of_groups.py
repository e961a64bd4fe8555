"""Pod groups with long work: their trials pause between portions, and have the same result as without pauses."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.scheduler.engine.inputs import Answer
from stowplan.scheduler.framework.requests import Delete, Done
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.slow_filter import Slow
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.groups import a_group, check_exact_undo
from support.scheduling.worlds import struct

FEATURES = with_chosen({"GenericWorkload": True, "GangScheduling": True}, V1_36)
WHOLE = FEATURES.with_gates({"WorkloadAwarePreemption": True})
PLACED = FEATURES.with_gates({"TopologyAwareWorkloadScheduling": True})


class SlowGroup(Slow):
    """The same with a pod group."""

    def __init__(self, portions, *objects, gang=2, features=FEATURES, topology=None, **options):
        group = struct(a_group("g", gang=gang, topology=topology))
        super().__init__(portions, group, *objects, features=features, **{"allowed": 100, **options})

    def through(self, *, between=None):
        """Answers until nothing waits; returns the number of pauses."""
        taken = 0
        while self.driven.under_way:
            if self.pauses:
                taken += 1
                assert self.driven.engine.state.transactions.depth == 0
                if between is not None:
                    between(taken)
                self.go_on()
            elif questions := self.driven.questions():
                self.driven.answer_number(questions[0], self.driven.under_way[questions[0]].question["nodes"])
            elif deletes := [n for n, effect in self.driven.under_way.items() if isinstance(effect, Delete)]:
                self.driven.under_way.pop(deletes[0])
                self.driven.step(Answer(deletes[0], Done()))
            else:
                break
        return taken


def member(name, slow=None, cpu=1):
    labels = {} if slow is None else {"slow": slow}
    return a_pod(name).requests(cpu=cpu).labels(**labels).spec(schedulingGroup={"podGroupName": "g"})


def nodes(*cpus, **labels):
    return [a_node(f"n{i}").allocatable(cpu=cpu, pods=110).labels(rack=f"r{i % 2}") for i, cpu in enumerate(cpus)]


def test_other_pods_are_tried_while_a_group_pauses():
    slow = SlowGroup(5, *nodes(4, 4))
    slow.driven.create(member("a"), member("b", slow="x"))
    for i in range(5):
        assert slow.driven.bound.keys() == {f"q{j}" for j in range(i)}
        before = len(slow.calls)
        slow.driven.create(a_pod(f"q{i}").requests(cpu="100m"))
        assert len(slow.calls) == before, "other pods' waits do not depend on the group"
        slow.go_on()
        assert len(slow.calls) <= before + 2
    assert slow.driven.bound.keys() >= {"a", "b"}
    assert slow.pauses == []


def test_groups_and_pods_take_turns():
    slow = SlowGroup(3, *nodes(9, 9))
    slow.driven.create(a_pod("single").labels(slow="y"), member("a", slow="x"), member("b"))
    assert len(slow.pauses) == 1
    assert slow.through() == 6
    assert slow.driven.bound.keys() == {"single", "a", "b"}


def test_a_pod_that_is_deleted_ends_the_trial():
    slow = SlowGroup(5, *nodes(4))
    slow.driven.create(member("a"), member("b", slow="x"), member("c"))
    slow.go_on()
    slow.driven.delete(slow.driven.pod("b"))
    slow.driven.advance(30)
    slow.through()
    assert slow.pauses == []
    assert slow.driven.bound.keys() == {"a", "c"}


def test_a_pod_placed_during_a_pause_keeps_its_node():
    slow = SlowGroup(2, *nodes(1, 1))
    slow.driven.create(member("a"), member("b", slow="x"))
    assert slow.pauses
    slow.driven.create(a_pod("q").requests(cpu=1))
    slow.through()
    assert slow.driven.bound.keys() == {"q"}


@pytest.mark.parametrize(("portions", "used"), [(0, {"n0", "n1"}), (2, {"n1"})], ids=["no pause", "pauses"])
def test_pods_decided_together_are_placed_again_if_their_room_is_taken_meanwhile(portions, used):
    slow = SlowGroup(portions, *nodes(2, 3), gang=3)
    with check_exact_undo():
        slow.driven.create(member("a").priority(1), member("b").priority(1), member("c", slow="x"))
        slow.driven.create(*(a_pod(f"q{i}").requests(cpu=1).on("n0") for i in range(2)))
        slow.through()
    assert {slow.driven.bound[name] for name in "abc"} == used


def outcome(portions, cpus, wanted, *, seed, **options):
    slow = SlowGroup(portions, *nodes(*cpus), random=Random(seed), **options)
    slow.driven.create(*(member(f"p{i}", work, cpu) for i, (cpu, work) in enumerate(wanted)))
    pauses = slow.through()
    assert bool(pauses) <= bool(portions)
    return slow.driven.bound, sorted(slow.driven.notes()), slow.driven.engine.algorithm.sampling.start


@examples(60)
@given(
    portions=st.integers(1, 5),
    cpus=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    wanted=st.lists(st.tuples(st.integers(1, 2), st.sampled_from([None, None, "x", "y"])), min_size=1, max_size=5),
    least=st.integers(1, 5),
    seed=st.integers(0, 9),
    variant=st.sampled_from(["plain", "placements", "preemption", "extender"]),
)
def test_portions_change_nothing(portions, cpus, wanted, least, seed, variant):
    """A trial that is undone and restarted between portions decides as one without pauses."""
    options = {"gang": min(least, len(wanted)), "seed": seed}
    if variant == "placements":
        options |= {"features": PLACED, "topology": "rack"}
    if variant == "preemption":
        options |= {"features": WHOLE}
    if variant == "extender":
        options |= {"extenders": [FakeExtender("e", filters=True)]}
    with check_exact_undo():
        assert outcome(portions, cpus, wanted, **options) == outcome(0, cpus, wanted, **options)


@pytest.mark.parametrize("portions", [0, 3])
def test_victims_are_the_same(portions):
    low = [a_pod(f"low{i}").requests(cpu=1).priority(-5).on(f"n{i}") for i in range(2)]
    slow = SlowGroup(portions, *nodes(1, 1), *low, features=WHOLE)
    slow.driven.create(*(member(f"p{i}", "x").priority(10) for i in range(2)))
    gone = []
    while slow.driven.under_way:
        if slow.pauses:
            slow.go_on()
            continue
        number, effect = next(iter(slow.driven.under_way.items()))
        gone.append(getattr(effect, "name", ""))
        slow.driven.under_way.pop(number)
        slow.driven.step(Answer(number, Done()))
    assert sorted(name for name in gone if name.startswith("low")) == ["low0", "low1"]
