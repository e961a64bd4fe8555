"""Binding cycles whose plugins wait in steps: what they may wait for, what ends a wait, and cleanup.

The rest of the binding cycle is tested in unit/drivers/live/test_binding_cycle.py. There is no driver here: the test
answers plugins' requests.
"""

import pytest

from stowplan.kube.api.api_errors import Conflict, Forbidden, InternalError, NotFound, ServiceUnavailable
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Lease, PersistentVolumeClaim
from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.scheduler.engine import engine as engine_module
from stowplan.scheduler.engine.effects import RunPlugin
from stowplan.scheduler.engine.inputs import Answer, Cancelled
from stowplan.scheduler.framework.interface import BindPlugin, PostBindPlugin, PreBindPlugin, PreBindPreFlightResult
from stowplan.scheduler.framework.requests import Ask, Create, Done, Read, Refused, Unknown, Wait
from stowplan.scheduler.framework.status import SKIP, error
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration, profile
from support.plugins.raised import in_short
from support.scheduling.engines import DrivenEngine

POINTS = {
    "PreBind": (PreBindPlugin, "pre_bind", "preBind"),
    "Bind": (BindPlugin, "bind", "bind"),
    "PostBind": (PostBindPlugin, "post_bind", "postBind"),
}
READ = Read(kind=Lease, namespace="default", name="l")
CLAIM = ("PersistentVolumeClaim", "default/c")
OTHER_CLAIM = ("PersistentVolumeClaim", "default/d")
ALLOW_PARALLEL = PreBindPreFlightResult(allow_parallel=True)


def stepping(name, script, point="PreBind", **methods):
    """A plugin whose method for this point runs the script, a generator function."""
    base, method, _ = POINTS[point]

    def steps(self, state, pod, node_name):
        return (yield from script(state, pod, node_name))

    return type(name, (base,), {"name": name, "point": point, method: steps, **methods})


def parallel(name, script):
    return stepping(name, script, pre_bind_pre_flight=lambda *_: ALLOW_PARALLEL)


def coroutine(name):
    """A PreBind plugin that waits as a coroutine, beside others; the test acts as its driver."""

    async def pre_bind(self, state, pod, node_name):
        raise AssertionError("the coroutine does not run in this test")

    methods = {"pre_bind": pre_bind, "pre_bind_pre_flight": lambda *_: ALLOW_PARALLEL}
    return type(name, (PreBindPlugin,), {"name": name, "point": "PreBind", **methods})


def driven(*plugins, nodes=("n",), **options):
    points = {}
    for plugin in plugins:
        points.setdefault(POINTS[plugin.point][2], []).append(plugin)
    config = configuration(profile(without={"bind": ["DefaultBinder"]} if "bind" in points else None, **points))
    rooms = [a_node(name).allocatable(cpu=1, pods=10) for name in nodes]
    return DrivenEngine(*rooms, config=config, plugins=plugins, **options)


class Script:
    """What a plugin yields, step by step; records what it is sent, how long it waited, and whether it was closed."""

    def __init__(self, *yields, answer=None):
        self.yields = yields
        self.answer = answer
        self.sent = []
        self.waited = []
        self.closed = False

    def __call__(self, state, pod, node_name):
        try:
            for one in self.yields:
                outcome = yield one
                if isinstance(one, Wait):
                    self.waited.append(outcome.value)
                    outcome = Done()
                self.sent.append(outcome)
        except GeneratorExit:
            self.closed = True
            raise
        return self.answer


def claim(name="c", version=1):
    return PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="default", resource_version=str(version)))


def bindings(engine):
    return engine.engine.bindings


def no_binding_is_left(engine):
    engine.engine.validate()
    assert engine.engine.under_way == 0
    assert bindings(engine).writes == 0
    assert engine.under_way == {}
    assert engine.engine.context.outbox.awaited == {}
    assert not engine.engine.context.outbox.watched_by


def failed_for(engine, text, name="p"):
    assert name not in engine.bound
    assert [in_short(note) for note in engine.notes()] == [text]
    no_binding_is_left(engine)


# -- what they wait for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "bound"),
    [
        pytest.param("PreBind", False, id="PreBind"),
        pytest.param("Bind", False, id="Bind"),
        pytest.param("PostBind", True, id="PostBind"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(None, Done(), id="done"),
        pytest.param(claim(), Done(claim()), id="done with an object"),
        pytest.param(AWAY := Unreachable("away"), Refused(AWAY), id="refused"),
        pytest.param(LOST := OutcomeUnknown("cut"), Unknown(LOST), id="unknown"),
    ],
)
def test_a_yielded_request_is_an_effect_and_its_outcome_is_sent_back(point, bound, answer, outcome):
    create = Create(obj=claim())
    script = Script(READ, create, answer=SKIP if point == "Bind" else None)
    plugins = [stepping("Mine", script, point)]
    if point == "Bind":
        # Leaves the binding to the next plugin.
        plugins.append(stepping("Next", Script(), "Bind"))
    engine = driven(*plugins)
    engine.create(a_pod("p"))
    assert list(engine.under_way.values()) == [READ]
    assert ("p" in engine.bound) is bound
    assert (engine.engine.under_way, bindings(engine).writes) == (1, 1)
    engine.answer_number(next(iter(engine.under_way)), answer)
    assert script.sent == [outcome]
    assert list(engine.under_way.values()) == [create]
    engine.answer_number(next(iter(engine.under_way)))
    assert script.sent == [outcome, Done()]
    assert not script.closed
    no_binding_is_left(engine)
    assert ("p" in engine.bound) is (point != "Bind")
    assert engine.notes("Scheduled") == ["Successfully assigned default/p to n"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("change", ["comes", "changes", "goes"])
def test_a_wait_for_an_object_ends_when_the_object_changes(point, change):
    script = Script(Wait(keys=frozenset({CLAIM})))
    engine = driven(stepping("Mine", script, point))
    if change != "comes":
        engine.create(claim())
    engine.create(a_pod("p"), claim("d"))
    engine.advance(3600.0)
    assert script.sent == []
    assert (engine.engine.under_way, bindings(engine).writes) == (1, 0)
    if change == "goes":
        engine.delete(engine.objects[PersistentVolumeClaim, "default/c"])
    else:
        engine.create(claim(version=2))
    assert script.sent == [Done()]
    assert script.waited == [3600.0]
    no_binding_is_left(engine)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("seconds", [0.0, -1.0, 600.0])
def test_a_timed_wait_ends_at_its_time(point, seconds):
    script = Script(Wait(seconds=seconds))
    engine = driven(stepping("Mine", script, point))
    engine.create(a_pod("p"))
    if seconds > 0:
        engine.advance(seconds - 0.001)
    assert script.sent == []
    engine.advance(0.001)
    assert script.sent == [Done()]
    assert script.waited == pytest.approx([max(seconds, 0.001)])
    no_binding_is_left(engine)


@pytest.mark.parametrize("first", ["object", "time"])
def test_the_first_of_several_conditions_ends_the_wait_and_the_others_have_no_effect(first):
    script = Script(Wait(keys=frozenset({CLAIM, OTHER_CLAIM}), seconds=10.0), READ)
    engine = driven(stepping("Mine", script))
    engine.create(a_pod("p"))
    for what in (first, "object", "time", "other object"):
        match what:
            case "object":
                engine.create(claim(version=engine.now))
            case "time":
                engine.advance(10.0)
            case "other object":
                engine.create(claim("d"))
        assert script.sent == [Done()]
    engine.answer_number(next(iter(engine.under_way)))
    assert engine.bound == {"p": "n"}


def test_a_wait_takes_no_request_slot_and_a_request_takes_one(monkeypatch):
    monkeypatch.setattr(engine_module, "MAX_BINDING_WRITES", 1)
    waits, asks = Script(Wait(seconds=600.0)), Script(READ)

    def script(state, pod, node_name):
        return (waits if pod.name == "waits" else asks)(state, pod, node_name)

    engine = driven(stepping("Mine", script))
    engine.create(a_pod("waits"), a_pod("asks"))
    assert list(engine.under_way.values()) == [READ]
    engine.create(a_pod("later"))
    assert engine.place("later") is Place.ACTIVE
    assert not engine.engine.wants_turn
    engine.answer_number(next(iter(engine.under_way)))
    assert engine.bound == {"asks": "n"}
    assert list(engine.under_way.values()) == [READ], "of the later pod"


# -- failures ---------------------------------------------------------------------------------------------------------


def raising(what, *yields):
    def script(state, pod, node_name):
        yield from Script(*yields)(state, pod, node_name)
        raise what

    return script


def yielding_an_endless_wait(state, pod, node_name):
    yield Wait()


BUG = RuntimeError("a bug")
FAILURES = [
    pytest.param(raising(BUG), "a bug", id="raises"),
    pytest.param(raising(SystemExit("I quit")), "SystemExit: I quit", id="wants to exit"),
    pytest.param(Script(answer=error("no")), "no", id="answers an error"),
    pytest.param(Script(answer="no"), "want a Status or None, got 'no'", id="answers nonsense"),
    pytest.param(Script(5), "yielded a int, want a request or a Wait", id="yields nonsense"),
    pytest.param(Script(None), "yielded a NoneType, want a request or a Wait", id="yields nothing"),
    pytest.param(
        Script(Ask(who="e", verb="filter", question=1)),
        "yielded a Ask, want a request or a Wait",
        id="asks an extender",
    ),
    pytest.param(
        yielding_an_endless_wait, "a Wait needs keys or seconds: this one would never end", id="waits for nothing"
    ),
]


@pytest.mark.parametrize("point", ["PreBind", "Bind"])
@pytest.mark.parametrize(("script", "why"), FAILURES)
def test_a_failing_step_fails_the_attempt(point, script, why):
    engine = driven(stepping("Mine", script, point))
    engine.create(a_pod("p"))
    failed_for(engine, f'running {point} plugin "Mine": {why}')
    assert engine.place("p") is Place.ERROR_BACKOFF


def test_a_step_that_fails_after_an_answer_fails_the_attempt():
    engine = driven(stepping("Mine", raising(BUG, READ)))
    engine.create(a_pod("p"))
    engine.answer_number(next(iter(engine.under_way)))
    failed_for(engine, 'running PreBind plugin "Mine": a bug')


@pytest.mark.parametrize(
    ("script", "said"),
    [
        *(
            pytest.param(*case.values, id=case.id)
            for case in FAILURES
            if case.id not in ("answers an error", "answers nonsense")
        ),
        # No error message is expected.
        pytest.param(Script(answer=error("no")), None, id="answers an error"),
        pytest.param(Script(answer="no"), None, id="answers nonsense"),
    ],
)
def test_a_failing_post_bind_is_reported_and_the_next_plugin_is_called(script, said, caplog):
    engine = driven(stepping("Mine", script, "PostBind"), stepping("Next", Script(READ), "PostBind"))
    engine.create(a_pod("p"))
    assert engine.bound == {"p": "n"}
    assert list(engine.under_way.values()) == [READ]
    engine.answer_number(next(iter(engine.under_way)))
    assert (f'running PostBind plugin "Mine": {said}' in in_short(caplog.text)) is (said is not None)
    assert ("running PostBind" in in_short(caplog.text)) is (said is not None)
    no_binding_is_left(engine)


def test_steps_without_waits_end_at_once_and_each_point_runs_once():
    log = []

    def saying(what, answer=None):
        def script(state, pod, node_name):
            log.append(what)
            return answer
            yield

        return script

    engine = driven(
        *(stepping(name, saying(name)) for name in ("A", "B")),
        *(parallel(name, saying(name)) for name in ("C", "D")),
        stepping("E", saying("E", SKIP), "Bind"),
        stepping("F", saying("F"), "Bind"),
        stepping("G", saying("G"), "PostBind"),
    )
    engine.create(a_pod("p"))
    assert log == list("ABCDEFG")
    assert engine.notes("Scheduled") == ["Successfully assigned default/p to n"]
    no_binding_is_left(engine)


def test_the_attempt_fails_once_if_all_binders_skip_in_steps():
    engine = driven(stepping("A", Script()), stepping("B", Script(answer=SKIP), "Bind"))
    engine.create(a_pod("p"))
    assert engine.place("p") is Place.ERROR_BACKOFF
    no_binding_is_left(engine)


# -- cancellation -----------------------------------------------------------------------------------------------------


def preempted(engine):
    """A pod of higher priority preempts one that is in PreBind."""
    engine.create(a_pod("boss").requests(cpu=1).priority(100))


WAITS = [
    pytest.param(READ, id="a request"),
    pytest.param(Wait(keys=frozenset({CLAIM})), id="an object"),
    pytest.param(Wait(seconds=600.0), id="a time"),
    pytest.param(Wait(keys=frozenset({CLAIM, OTHER_CLAIM}), seconds=600.0), id="an object or a time"),
]


@pytest.mark.parametrize("waits_for", WAITS)
def test_preemption_cancels_steps_while_they_wait(waits_for):
    script = Script(waits_for)

    def of_the_victim(state, pod, node_name):
        return script(state, pod, node_name) if pod.name == "low" else Script()(state, pod, node_name)

    engine = driven(stepping("Mine", of_the_victim))
    engine.create(a_pod("low").requests(cpu=1))
    asked = list(engine.under_way)
    preempted(engine)
    assert script.closed
    assert script.sent == []
    assert engine.withdrawn == asked
    assert "preempted by DefaultPreemption" in engine.notes()
    # A late answer is ignored.
    engine.create(claim(), claim("d"))
    for number in asked:
        engine.step(Answer(number, Done()))
    assert script.sent == []
    engine.advance(600.0)
    assert engine.bound == {"boss": "n"}
    no_binding_is_left(engine)


def test_steps_that_ignore_cancellation_are_reported(caplog):
    def stubborn(state, pod, node_name):
        try:
            yield READ
        finally:
            yield READ

    engine = driven(stepping("Mine", stubborn))
    engine.create(a_pod("low"))
    engine.step(Cancelled(engine.pod("low").metadata.uid, "preempted by Somebody"))
    assert 'plugin "Mine", aborted in PreBind: generator ignored GeneratorExit' in in_short(caplog.text)
    failed_for(engine, "preempted by Somebody", "low")


def test_steps_may_cancel_their_own_pod():
    closed = []

    def script(state, pod, node_name):
        assert engine.engine.context.pods_in_pre_bind.get(pod.uid).cancel("not worth it")
        try:
            yield READ
        finally:
            closed.append(pod.name)

    engine = driven(stepping("Mine", script))
    engine.create(a_pod("p"))
    assert closed == ["p"]
    assert engine.under_way == {}
    failed_for(engine, "not worth it")


def test_a_pod_cancelled_within_its_last_step_still_fails():
    def script(state, pod, node_name):
        assert engine.engine.context.pods_in_pre_bind.get(pod.uid).cancel("not worth it")
        return
        yield

    engine = driven(stepping("Mine", script))
    engine.create(a_pod("p"))
    failed_for(engine, "not worth it")


# -- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_runs_in_parallel_and_the_next_group_after_all_of_it():
    first, second, third = Script(READ), Script(Wait(seconds=10.0)), Script(READ)
    engine = driven(parallel("A", first), parallel("B", second), coroutine("C"), stepping("D", third))
    engine.create(a_pod("p"))
    asked, run = engine.under_way.items()
    assert (asked[1], run[1].plugin) == (READ, "C")
    assert bindings(engine).writes == 1, "a coroutine in PreBind is not a request"
    engine.answer_number(asked[0])
    engine.advance(10.0)
    assert list(engine.under_way) == [run[0]]
    engine.answer_number(run[0], Done(None))
    assert list(engine.under_way.values()) == [READ]
    engine.answer_number(next(iter(engine.under_way)))
    assert (first.sent, second.sent, third.sent) == ([Done()], [Done()], [Done()])
    assert engine.bound == {"p": "n"}
    no_binding_is_left(engine)


def test_the_first_failure_of_a_group_cancels_the_others_and_is_reported():
    waits, asks = Script(Wait(keys=frozenset({CLAIM}))), Script(READ)
    fails = raising(BUG, READ)
    engine = driven(parallel("A", waits), parallel("B", asks), parallel("C", fails), coroutine("D"))
    engine.create(a_pod("p"))
    asked, failing, run = engine.under_way
    engine.answer_number(failing)
    assert waits.closed
    assert asks.closed
    assert engine.withdrawn == [asked]
    assert engine.notes() == [], "the coroutine has not ended yet"
    assert isinstance(engine.under_way[run], RunPlugin)
    engine.answer_number(run, Done(error("some other PreBind operation failed")))
    failed_for(engine, 'running PreBind plugin "C": a bug')


def test_a_plugin_that_fails_at_once_stops_the_rest_of_its_group_from_starting():
    before, after = Script(Wait(seconds=10.0)), Script(READ)
    engine = driven(parallel("A", before), parallel("B", raising(BUG)), parallel("C", after), coroutine("D"))
    engine.create(a_pod("p"))
    assert before.closed
    assert engine.under_way == {}
    failed_for(engine, 'running PreBind plugin "B": a bug')


def test_preemption_cancels_a_whole_group():
    asks, waits = Script(READ), Script(Wait(seconds=600.0))
    engine = driven(parallel("A", asks), parallel("B", waits), coroutine("C"))
    engine.create(a_pod("p"))
    asked, run = engine.under_way
    engine.step(Cancelled(engine.pod("p").metadata.uid, "preempted by Somebody"))
    assert asks.closed
    assert waits.closed
    assert engine.withdrawn == [asked]
    engine.answer_number(run, Done(error("preempted by Somebody")))
    failed_for(engine, "preempted by Somebody")


# -- a request that is sent again -------------------------------------------------------------------------------------


class Refusing(DrivenEngine):
    """Its API server refuses the first bindings."""

    def __init__(self, *objects, refusals, **options):
        self.refusals = list(refusals)
        self.sent_at = []
        super().__init__(*objects, **options)

    def _bind(self, number, bind):
        self.sent_at.append(round(self.now - 1000, 3))
        if self.refusals:
            self.step(Answer(number, Refused(self.refusals.pop(0))))
        else:
            super()._bind(number, bind)


TRANSIENT = (Unreachable("away"), Conflict("newer"), InternalError("broken"), ServiceUnavailable("busy"))


@pytest.mark.parametrize("failed", TRANSIENT)
def test_a_refused_binding_is_sent_again(failed):
    engine = Refusing(a_node("n"), refusals=[failed])
    engine.create(a_pod("p"))
    assert (engine.bound, bindings(engine).asleep) == ({}, 1)
    engine.advance(0.01)
    assert (engine.bound, engine.sent_at) == ({"p": "n"}, [0, 0.01])
    no_binding_is_left(engine)


def test_the_fourth_refusal_is_final():
    engine = Refusing(a_node("n"), refusals=TRANSIENT)
    engine.create(a_pod("p"))
    for delay in (0.01, 0.05, 0.25):
        engine.advance(delay)
    assert engine.sent_at == [0, 0.01, 0.06, 0.31]
    failed_for(engine, 'running Bind plugin "DefaultBinder": busy')


@pytest.mark.parametrize(
    ("failed", "version"),
    [(Forbidden("no"), V1_37), (NotFound("gone"), V1_37), *((failed, V1_36) for failed in TRANSIENT)],
)
def test_other_refusals_are_final(failed, version):
    engine = Refusing(a_node("n"), refusals=[failed], features=default_features(version))
    engine.create(a_pod("p"))
    assert engine.sent_at == [0]
    failed_for(engine, f'running Bind plugin "DefaultBinder": {failed}')
