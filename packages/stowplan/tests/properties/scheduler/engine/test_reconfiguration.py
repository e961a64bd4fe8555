"""A new configuration between two steps: which profile decides from then on, and what happens to work in progress."""

from random import Random

import numpy as np
import pytest

from stowplan.plugins import (
    Action,
    Code,
    EnqueueExtensions,
    FilterPlugin,
    PreEnqueuePlugin,
    Reason,
    Rejections,
    Status,
    on,
    unschedulable,
)
from stowplan.scheduler.cluster.transaction import CopiedAtBeginning
from stowplan.scheduler.engine.inputs import Adopted, Answer, Declined
from stowplan.scheduler.framework.requests import Done
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.engines import DrivenEngine
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.worlds import struct

NOBODY = configuration(profile())


class Counted:
    """A mixin that counts its open instances."""

    open = ()

    def __init__(self, args, handle):
        super().__init__(args, handle)
        type(self).open = (*type(self).open, self)

    def close(self):
        type(self).open = tuple(one for one in type(self).open if one is not self)


def refusing(name="Refusing", *, wakes=()):
    """A plugin that refuses all nodes, and counts its open instances."""

    class Refusing(Counted, FilterPlugin, EnqueueExtensions):
        def filter(self, state, pod, nodes):
            return Rejections.where(np.ones(len(nodes), np.bool_), Reason("Refusing", "not here"))

        def events_to_register(self):
            return list(wakes)

    Refusing.name = name
    return Refusing


def gating(name="Gating"):
    class Gating(Counted, PreEnqueuePlugin, EnqueueExtensions):
        def pre_enqueue(self, pod):
            return unschedulable("not yet") if "gated" in pod.labels else None

        def events_to_register(self):
            return []

    Gating.name = name
    return Gating


def node(name="n1", **sizes):
    return a_node(name).allocatable(**{"cpu": 4, "pods": 110} | sizes)


# -- who decides ------------------------------------------------------------------------------------------------------


def test_the_new_profile_decides_and_rejected_pods_are_tried_again():
    plugin = refusing()
    engine = DrivenEngine(node(), config=configuration(profile(filter=[plugin])), plugins=[plugin])
    engine.create(a_pod("p"))
    assert engine.place("p") is Place.UNSCHEDULABLE
    engine.swap(NOBODY)
    assert engine.bound == {"p": "n1"}
    engine.swap(configuration(profile(filter=[plugin])))
    engine.create(a_pod("q"))
    assert engine.bound == {"p": "n1"}


def test_cached_results_of_the_old_profile_are_dropped():
    """Equal pods share an evaluation: later ones must not use results of the old plugins."""
    engine = DrivenEngine(node("n1"), node("n2"), config=NOBODY)
    engine.create(*(a_pod(f"p{i}").requests(cpu="100m") for i in range(4)))
    assert len({engine.bound[f"p{i}"] for i in range(2)}) == 2
    most = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    packing = profile(without={"score": ["NodeResourcesBalancedAllocation", "PodTopologySpread"]})
    engine.swap(configuration(packing | {"pluginConfig": [most]}))
    engine.create(*(a_pod(f"q{i}").requests(cpu="100m") for i in range(4)))
    assert len({engine.bound[f"q{i}"] for i in range(4)}) == 1


def test_an_unchanged_profile_is_kept_and_no_pod_is_requeued():
    plugin = refusing()
    both = [profile("default-scheduler", filter=[plugin]), profile("other")]
    engine = DrivenEngine(node(), config=configuration(*both), plugins=[plugin])
    engine.create(a_pod("p"))
    same, other = engine.engine.frameworks["default-scheduler"], engine.engine.frameworks["other"]
    engine.swap(configuration(both[0], {**profile("other"), "percentageOfNodesToScore": 50}))
    assert engine.engine.frameworks["default-scheduler"] is same
    assert engine.engine.frameworks["other"] is not other
    assert engine.place("p") is Place.UNSCHEDULABLE
    assert len(plugin.open) == 1


def test_percentage_and_backoff_of_all_profiles():
    engine = DrivenEngine(*(node(f"n{i}") for i in range(200)), config=NOBODY)
    engine.swap(
        configuration(profile(), percentageOfNodesToScore=1, podInitialBackoffSeconds=7, podMaxBackoffSeconds=9)
    )
    engine.create(a_pod("p"))
    assert engine.engine.algorithm.sampling.stops_early(engine.engine.frameworks["default-scheduler"])
    assert engine.engine.algorithm.sampling.start == 100
    engine.create(a_pod("big").requests(cpu=99))
    queued = engine.engine.queue.get("default/big")
    engine.engine.queue.activate([queued.pod])
    engine.run()
    assert engine.engine.queue._places.backoff.expiry(engine.engine.queue.get("default/big")) - engine.now in (8, 9)


@pytest.mark.parametrize("seconds", [(0, 0), (3, 30), (1, 1)])
def test_pods_in_backoff_use_the_new_durations(seconds):
    first, most = seconds
    plugin = answering("Fails", reserve=Status(Code.Error, ("broken",)))
    config = configuration(profile(reserve=[plugin]), podInitialBackoffSeconds=5, podMaxBackoffSeconds=50)
    engine = DrivenEngine(node(), config=config, plugins=[plugin])
    engine.create(a_pod("p"))
    assert engine.place("p") is Place.ERROR_BACKOFF
    changed = {"podInitialBackoffSeconds": first, "podMaxBackoffSeconds": most} if first else {}
    engine.swap(configuration(profile(reserve=[plugin]), **changed))
    assert engine.place("p") is Place.ERROR_BACKOFF
    plugin.answers["reserve"] = None
    engine.advance((first or 1) + 2.0)
    assert engine.bound == {"p": "n1"}


def test_a_new_queue_sort_plugin():
    backwards = answering("Backwards")
    backwards.less = lambda self, a, b: a.pod.name > b.pod.name
    config = configuration(profile(queueSort=[backwards], without={"queueSort": ["PrioritySort"]}))
    engine = DrivenEngine(config=NOBODY, plugins=[backwards], starts=False)
    for name in ("a", "b", "c"):
        engine.step_create(a_pod(name))
    engine.offer(config)
    engine.step(Adopted(frozenset()))
    queue = engine.engine.queue
    assert [queue.pop().pod.name for _ in range(3)] == ["c", "b", "a"]


def test_questions_are_put_to_the_new_profile():
    plugin = refusing()
    engine = DrivenEngine(node(), config=NOBODY, plugins=[plugin])
    info = engine.engine.state.pod_info(struct(a_pod("p")))
    for config, found in ((NOBODY, "n1"), (configuration(profile(filter=[plugin])), ""), (NOBODY, "n1")):
        engine.swap(config)
        with engine.engine.asking(info) as question:
            assert question.judgement().node_name == found
    assert engine.engine.profiles.configuration.profiles[0].scheduler_name == "default-scheduler"


# -- pods that wait ---------------------------------------------------------------------------------------------------


def test_ready_pods_pass_the_gates_of_the_new_profile():
    plugin = gating()
    engine = DrivenEngine(config=NOBODY, plugins=[plugin], starts=False)
    engine.step_create(a_pod("p").labels(gated="yes"))
    engine.step_create(a_pod("q"))
    assert engine.place("p") is Place.ACTIVE
    engine.offer(configuration(profile(preEnqueue=[plugin])))
    engine.step(Adopted(frozenset()))
    assert engine.engine.queue.get("default/p").gated
    assert engine.place("q") is Place.ACTIVE
    engine.offer(NOBODY)
    engine.step(Adopted(frozenset()))
    assert engine.place("p") is Place.ACTIVE


def test_pods_of_a_removed_pre_enqueue_plugin_are_released():
    plugin = gating()
    engine = DrivenEngine(node(), config=configuration(profile(preEnqueue=[plugin])), plugins=[plugin])
    engine.create(a_pod("p").labels(gated="yes"))
    assert engine.bound == {}
    engine.swap(NOBODY)
    assert engine.bound == {"p": "n1"}


def test_hints_are_registered_again():
    plugin = refusing(wakes=[on("Node", Action.Add)])
    engine = DrivenEngine(node(), config=NOBODY, plugins=[plugin])
    engine.swap(configuration(profile(filter=[plugin])))
    engine.create(a_pod("p"))
    engine.advance(20.0)
    attempts = engine.engine.queue.get("default/p").attempts
    engine.create(node("n2"))
    assert engine.engine.queue.get("default/p").attempts == attempts + 1


# -- profiles that come and go ----------------------------------------------------------------------------------------


def test_pods_of_a_removed_profile_are_forgotten():
    plugin = refusing()
    config = configuration(profile(), profile("other", filter=[plugin]))
    engine = DrivenEngine(node(), config=config, plugins=[plugin])
    engine.create(a_pod("p").scheduler("other"))
    engine.swap(NOBODY)
    assert engine.place("p") is None
    assert not engine.engine.state.pending
    engine.delete(engine.pod("p"))
    assert plugin.open == ()


def test_a_binding_completes_after_its_profile_was_removed():
    wait = answering("Wait", permit=(Status(Code.Wait), 60.0))
    engine = DrivenEngine(node(), config=configuration(profile(), profile("other", permit=[wait])), plugins=[wait])
    engine.create(a_pod("p").scheduler("other"), a_pod("q").scheduler("other"), a_pod("r").scheduler("other"))
    engine.swap(NOBODY)
    waiting = engine.engine.waiting_pods
    waiting.get("default-p-uid").allow("Wait")
    engine.advance(0.0)
    assert engine.bound == {"p": "n1"}
    engine.delete(engine.pod("q"))
    engine.advance(61.0)
    assert engine.bound == {"p": "n1"}
    assert not engine.engine.state.pending
    assert not engine.engine.under_way
    assert [info.name for info in engine.engine.state.placed_pods()] == ["p"]


# -- what is under way ------------------------------------------------------------------------------------------------


def test_a_binding_completes_with_its_original_plugins():
    log = []
    old = answering("Old", log=log, permit=(Status(Code.Wait), 60.0))
    engine = DrivenEngine(node(), config=configuration(profile(permit=[old], reserve=[old])), plugins=[old])
    engine.create(a_pod("p"), a_pod("q"))
    framework = engine.engine.frameworks["default-scheduler"]
    engine.swap(NOBODY)
    assert engine.engine.profiles.retired == [framework]
    engine.engine.waiting_pods.get("default-p-uid").allow("Old")
    engine.advance(0.0)
    assert engine.bound == {"p": "n1"}
    assert engine.engine.profiles.retired == [framework]
    engine.advance(61.0)
    assert any("unreserve" in str(entry) for entry in log)
    assert engine.engine.profiles.retired == []
    # Rejected by a plugin that is gone, whose events no longer matter.
    engine.advance(20.0)
    assert engine.bound == {"p": "n1", "q": "n1"}


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_cycle_suspended_for_an_extender_is_cancelled(overlaps):
    extender = FakeExtender("e", filters=True)
    plugin = refusing()
    engine = DrivenEngine(node(), config=NOBODY, plugins=[plugin], extenders=[extender], overlaps=overlaps)
    engine.create(a_pod("p"))
    (number,) = engine.questions("e")
    engine.swap(configuration(profile(filter=[plugin])))
    assert engine.withdrawn == [number]
    assert engine.place("p") is Place.UNSCHEDULABLE
    engine.step(Answer(number, Done(["n1"])))
    engine.swap(NOBODY)
    engine.answer("e", ["n1"])
    assert engine.bound == {"p": "n1"}


def test_a_suspended_cycle_of_an_unchanged_profile_continues():
    extender = FakeExtender("e", filters=True)
    engine = DrivenEngine(node(), config=configuration(profile(), profile("other")), extenders=[extender])
    engine.create(a_pod("p"), a_pod("q").scheduler("other"))
    engine.swap(configuration(profile(), profile("third")))
    assert engine.suspended() == ["p"]
    engine.answer("e", ["n1"])
    assert engine.bound == {"p": "n1"}


def test_the_pod_of_a_cancelled_cycle_passes_the_new_pre_enqueue_plugins():
    plugin = gating()
    engine = DrivenEngine(node(), config=NOBODY, plugins=[plugin], extenders=[FakeExtender("e", filters=True)])
    engine.create(a_pod("p").labels(gated="yes"))
    engine.swap(configuration(profile(preEnqueue=[plugin])))
    assert engine.engine.queue.get("default/p").gated
    assert not engine.questions()


# -- offers -----------------------------------------------------------------------------------------------------------


class Unbuildable(FilterPlugin):
    name = "Unbuildable"

    def __init__(self, args, handle):
        raise ValueError("no such thing")


class Unregistrable(FilterPlugin, EnqueueExtensions):
    name = "Unregistrable"

    def filter(self, state, pod, nodes):
        return None

    def events_to_register(self):
        raise ValueError("which events?")


@pytest.mark.parametrize("bad", [Unbuildable, Unregistrable])
def test_an_offer_that_cannot_be_built_changes_nothing(bad):
    plugin = refusing("Aaa")
    engine = DrivenEngine(node(), config=NOBODY, plugins=[plugin, bad])
    before = dict(engine.engine.frameworks)
    engine.offer(configuration(profile(filter=[plugin, bad])))
    assert bad.name in engine.engine.profiles.refusal
    assert plugin.open == ()
    engine.step(Adopted(frozenset()))
    assert engine.engine.frameworks == before
    engine.create(a_pod("p"))
    assert engine.bound == {"p": "n1"}


@pytest.mark.parametrize(
    "config", [configuration(), configuration(profile("a"), profile("a")), configuration(profile(), parallelism=-1)]
)
def test_an_offer_that_is_not_valid(config):
    engine = DrivenEngine(config=NOBODY)
    engine.offer(config | {"profiles": config["profiles"] or [{"schedulerName": "x", "plugins": {"filter": 7}}]})
    assert engine.engine.profiles.refusal
    assert engine.engine.profiles.offer is None


def test_an_offer_decides_nothing_and_is_closed_when_it_is_declined():
    plugin = refusing()
    engine = DrivenEngine(node(), config=NOBODY, plugins=[plugin])
    engine.offer(configuration(profile(filter=[plugin])))
    assert len(plugin.open) == 1
    assert "a configuration is offered" in engine.engine.unfinished()
    engine.create(a_pod("p"))
    assert engine.bound == {"p": "n1"}
    engine.offer(configuration(profile(filter=[plugin]), profile("other", filter=[plugin])))
    assert len(plugin.open) == 2
    engine.step(Declined())
    assert plugin.open == ()
    assert engine.engine.unfinished() == []


def test_everything_is_closed_at_the_end():
    plugin = refusing()
    engine = DrivenEngine(node(), config=configuration(profile(filter=[plugin])), plugins=[plugin])
    engine.swap(configuration({**profile(filter=[plugin]), "percentageOfNodesToScore": 70}))
    engine.offer(configuration(profile("other", filter=[plugin])))
    assert len(plugin.open) == 2
    engine.engine.close()
    assert plugin.open == ()


def test_plugins_whose_kinds_are_not_served_start_disabled():
    plugin = refusing()
    engine = DrivenEngine(node(), config=NOBODY, plugins=[plugin])
    engine.swap(configuration(profile(filter=[plugin])), lacking=["Refusing"])
    engine.create(a_pod("p"))
    assert engine.bound == {"p": "n1"}


# -- what plugins keep ------------------------------------------------------------------------------------------------


class Keeping(FilterPlugin):
    """Has state that transactions restore."""

    name = "Keeping"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.kept = []
        handle.register_participant("kept", CopiedAtBeginning(lambda: list(self.kept), self._restore))

    def _restore(self, kept):
        self.kept = kept

    def filter(self, state, pod, nodes):
        self.kept.append(pod.name)


def test_only_current_plugins_take_part_in_transactions():
    with_it = configuration(profile(filter=[Keeping]))
    engine = DrivenEngine(node(), config=NOBODY, plugins=[Keeping])
    transactions = engine.engine.state.transactions
    engine.offer(with_it)
    assert "default-scheduler/kept" not in transactions.dump()
    engine.step(Adopted(frozenset()))
    first = engine.engine.frameworks["default-scheduler"].plugins["Keeping"]
    first.kept = ["a"]
    assert transactions.dump()["default-scheduler/kept"] == ["a"]
    engine.swap(with_it | {"profiles": [{**with_it["profiles"][0], "percentageOfNodesToScore": 9}]})
    second = engine.engine.frameworks["default-scheduler"].plugins["Keeping"]
    second.kept = ["b"]
    with engine.engine.state.transaction():
        first.kept, second.kept = ["c"], ["d"]
    assert (first.kept, second.kept) == (["c"], ["b"])
    engine.swap(NOBODY)
    assert "default-scheduler/kept" not in transactions.dump()


# -- histories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_no_pod_is_lost_in_random_histories(seed):
    """Random histories of pods, nodes, swaps and answers; the engine is validated after each step."""
    random = Random(seed)
    refuse, gate = refusing(), gating()
    wait = answering(
        "Wait", permit=lambda state, pod, name: (Status(Code.Wait), 30.0) if "w" in pod.name else (None, 0.0)
    )
    choices = [
        NOBODY,
        configuration(profile(), profile("other")),
        configuration(profile(filter=[refuse]), profile("other", permit=[wait])),
        configuration(profile(preEnqueue=[gate], permit=[wait])),
        configuration(profile(permit=[wait]), profile("other", preEnqueue=[gate]), podMaxBackoffSeconds=3),
        configuration(profile("other", permit=[wait]), podInitialBackoffSeconds=4),
    ]
    extender = FakeExtender("e", filters=True, only="asks")
    engine = DrivenEngine(
        node(cpu=50), config=choices[1], plugins=[refuse, gate, wait], extenders=[extender], overlaps=bool(seed % 2)
    )
    for number in range(150):
        match random.randrange(6):
            case 0 | 1:
                pod = a_pod(f"{random.choice('pqw')}{number}").scheduler(random.choice(["default-scheduler", "other"]))
                pod = pod.labels(**({random.choice(["gated", "asks"]): "yes"} if random.random() < 0.5 else {}))
                engine.create(pod.requests(cpu=random.choice(["100m", "60"])))
            case 2:
                engine.swap(random.choice(choices), lacking=random.choice([(), ("Refusing",)]))
                engine.take_in_pods()
            case 3:
                for _ in engine.questions()[:2]:
                    engine.answer("e", random.choice([["n1"], [], RuntimeError("no")]))
            case 4:
                engine.advance(random.choice([0.5, 3.0, 40.0]))
            case 5 if engine.unbound():
                engine.delete(engine.pod(random.choice(engine.unbound())))
    engine.swap(choices[1])
    engine.take_in_pods()
    for _ in range(40):
        engine.advance(20.0)
        while engine.questions():
            engine.answer("e", ["n1"])
    amounts = {name: engine.pod(name).spec.containers[0].resources.requests["cpu"] for name in engine.unbound()}
    assert set(amounts.values()) <= {"60"}, "the others have been placed"
    assert not engine.engine.under_way
    assert not engine.engine.profiles.retired
