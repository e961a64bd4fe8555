"""Questions to an engine: the hypothetical decision, plugins and extenders that were not asked, and no side effects."""

import pytest

from golden import compare
from stowplan.ask.explain.judging import judged
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.explain.text.verdict_text import explanation
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.interface import PreEnqueuePlugin
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.scheduling.engine_by_hand import EngineByHand
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.worlds import struct

CATEGORIES = (
    "mixed",
    "preemption",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("podaffinity", "resources", "spread", "taints")),
)


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_answer_is_the_decision_that_an_attempt_would_make(category):
    placed = refused = 0
    for scenario in compare.scenarios(category):
        cluster = compare.cluster_of(scenario)
        for pod in scenario["pods"]:
            verdict = cluster.explain(pod)
            if verdict.gated is not None:
                continue
            info = cluster.pod(pod)
            decision = run_at_once(schedule_pod(cluster.algorithm, cluster.framework_of(info), info))
            assert (decision.node_name, decision.message) == (
                verdict.node_name,
                verdict.full_message if verdict.error is None else verdict.error.message,
            )
            placed, refused = placed + bool(decision.node_name), refused + (not decision.node_name)
    assert placed
    # Some categories have few pods that fit nowhere, or none in a tenth of the scenarios.
    assert refused or category not in ("mixed", "preemption")


# -- not asked --------------------------------------------------------------------------------------------------------


def asked(*extenders, nodes=2, pods=110, placed=()):
    hand = EngineByHand(extenders=extenders)
    hand.create(*(a_node(f"n{i}").allocatable(cpu=4, pods=pods) for i in range(nodes)), *placed)
    pod = struct(a_pod("p").uid("p").labels(mine="yes").priority(5))
    verdict = judged(hand.engine, hand.engine.state.pod_info(pod))
    assert not hand.under_way, "no extender is asked"
    return hand.engine, verdict


def not_asked_note(verbs):
    return f"an attempt would call it, this question did not; its {verbs} may change this"


EVERYTHING = {"filters": True, "prioritizes": True, "preempts": True}


@pytest.mark.parametrize(
    ("extender", "room", "missing"),
    [
        pytest.param(
            FakeExtender("e", **EVERYTHING),
            {},
            {"e": not_asked_note("filter and prioritize")},
            id="with nodes to choose",
        ),
        pytest.param(
            FakeExtender("e", prioritizes=True), {"nodes": 1}, {}, id="points do not matter for a single node"
        ),
        pytest.param(
            FakeExtender("e", **EVERYTHING), {"nodes": 1}, {"e": not_asked_note("filter")}, id="a single node"
        ),
        pytest.param(FakeExtender("e", **EVERYTHING), {"pods": 0}, {"e": not_asked_note("preempt")}, id="no node"),
        pytest.param(FakeExtender("e", filters=True), {"pods": 0}, {}, id="nothing is left to be filtered"),
        pytest.param(
            FakeExtender("e", only="mine", filters=True), {}, {"e": not_asked_note("filter")}, id="it is interested"
        ),
        pytest.param(FakeExtender("e", only="yours", **EVERYTHING), {}, {}, id="it is not interested"),
        pytest.param(FakeExtender("e", **EVERYTHING), {"nodes": 0}, {}, id="the attempt would fail before"),
    ],
)
def test_extenders_that_an_attempt_would_ask_are_named(extender, room, missing):
    engine, verdict = asked(extender, **room)
    assert verdict.to_dict().get("notAsked", {}) == missing
    page = plain(explanation(engine, verdict))
    for name, why in missing.items():
        assert f"Not asked\n  {name}: {why}\n" in page
    assert missing or "Not asked" not in page


def test_an_extender_that_cannot_say_what_interests_it_is_named():
    class Odd(FakeExtender):
        def is_interested(self, pod):
            raise RuntimeError("odd")

    _, verdict = asked(Odd("e", filters=True))
    assert list(verdict.not_asked) == ["e"]


# -- no side effects --------------------------------------------------------------------------------------------------


class Waking(PreEnqueuePlugin):
    """Activates all pending pods whenever it is called."""

    name = "Waking"

    def pre_enqueue(self, pod):
        self.handle.activate(list(self.handle.cluster.pending.values()))
        self.handle.event_recorder.event(pod.pod, type_="Normal", reason="Asked", action="Asking", note="who?")


def test_plugins_requests_have_no_effect_during_a_question():
    hand = EngineByHand(Waking)
    hand.create(a_node("n").allocatable(cpu=1, pods=10))
    hand.create(a_pod("there").uid("there").requests(cpu=1), a_pod("big").uid("big").requests(cpu=100))
    hand.schedule()
    hand.answer_all()
    assert hand.engine.queue.get("default/big").place is Place.UNSCHEDULABLE
    told, version = list(hand.told), hand.engine.state.version
    with hand.engine.asking(hand.engine.state.placed("there")) as question:
        assert hand.engine.state.placed("there") is None, "the pod is taken off its node"
        judgement = question.judgement()
    assert (judgement.node_name, judgement.current_node) == ("n", "n")
    assert hand.engine.queue.get("default/big").place is Place.UNSCHEDULABLE
    assert (hand.told, hand.engine.state.version) == (told, version)
    hand.engine.validate()


def test_a_pod_without_a_profile_cannot_be_asked_about():
    hand = EngineByHand()
    pod = hand.engine.state.pod_info(struct(a_pod("p").scheduler("else")))
    with pytest.raises(ValueError, match='no profile for scheduler name "else"'), hand.engine.asking(pod):
        pass
