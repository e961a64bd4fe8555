"""Plugins' coroutines in simulated time may await only the API; anything else fails with a message."""

import asyncio

import pytest

from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.latency import Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.api_errors import BadRequest, Conflict, MethodNotAllowed, NotFound
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.engine.effects import Cancel, RunPlugin, Wake, Withdraw
from stowplan.scheduler.engine.inputs import Activated, Answer, Started, Tick
from stowplan.scheduler.framework.requests import Create, Done, Read
from stowplan.scheduler.framework.status import Code, error, unschedulable
from stowplan.testing import a_node, a_pod
from support.plugins.raised import in_short
from support.simulate.scripted_engine import ScriptedEngine

CALL = RunPlugin(profile="p", point="PreBind", plugin="Mine", pod="default/p", uid="u", node="n1")
API = VirtualApi()


@pytest.fixture
def engine():
    return ScriptedEngine()


def simulated(engine, coroutine=None, **options):
    """The coroutine function runs as effect 1."""
    time = VirtualTime(engine, ObjectStore(), **options)
    time.write(Create(obj=convert(a_pod("web").uid("u1").obj(), Pod)))
    if coroutine is not None:
        engine.coroutines["Mine"] = coroutine
        engine.on(Started, CALL)
    return time


def answer(engine):
    ((at, _, outcome),) = engine.answers
    assert isinstance(outcome, Done)
    return at, outcome.value


async def as_the_engine_does(work):
    """`Engine.run_plugin`: exceptions become an Error."""
    try:
        return await work
    except Exception as e:
        return error(e)


# -- the API -----------------------------------------------------------------------------------------------------------


async def everything():
    node = await API.create(convert(a_node("n1").obj(), Node))
    assert node.metadata.resource_version == "2"
    found = await API.get(Pod, "web", namespace="default")
    patch = {"metadata": {"labels": {"a": "b"}}}
    labelled = await API.patch(Pod, "web", patch, type_="merge", namespace="default")
    assert labelled.metadata.labels == {"a": "b"}
    with pytest.raises(Conflict):
        await API.update(found)
    updated = await API.update(convert({**a_pod("web").uid("u1").labels(c="d").obj()}, Pod))
    assert updated.metadata.labels == {"c": "d"}
    await API.bind(namespace="default", name="web", uid="u1", node="n1", annotations={"why": "because"})
    (bound,) = (await API.list(Pod, namespace="default")).items
    assert (bound.spec.node_name, bound.metadata.annotations) == ("n1", {"why": "because"})
    listing = await API.list(Pod)
    assert listing.resource_version == "5"
    await API.delete(Pod, "web", namespace="default", uid="u1", grace_period_seconds=0)
    with pytest.raises(NotFound):
        await API.get(Pod, "web", namespace="default")
    assert await API.serves(Pod)
    await API.close()
    return unschedulable("all done")


def test_all_methods_of_the_api(engine):
    time = simulated(engine, everything, latency=Latency(deletions=30.0))
    time.run()
    at, status = answer(engine)
    assert (at, status.message) == (0.0, "all done"), status
    assert time.store.count(Pod) == 0


def test_its_requests_have_latency(engine):
    seen = []

    async def patient():
        for _ in range(2):
            await API.list(Pod)
            seen.append(time.now)

    time = simulated(engine, patient, latency=Latency(requests=1.0, answers=0.5))
    time.run()
    assert seen == [1.5, 3.0]
    assert answer(engine) == (3.0, None)


def test_its_requests_do_not_wait_for_others(engine):
    """Not even for the engine's requests about the same object."""
    seen = []

    async def reads():
        await API.get(Pod, "web", namespace="default")
        seen.append(time.now)

    time = simulated(engine, reads, latency=Latency(requests=1.0))
    engine.on(Activated, Read(kind=Pod, namespace="default", name="web"))
    time.submit(Activated(()))
    time.run()
    assert seen == [1.0]


def test_the_grace_period_defaults_to_the_latency_model(engine):
    async def deletes():
        await API.bind(namespace="default", name="web", uid="", node="n1")
        await API.delete(Pod, "web", namespace="default")
        found = await API.get(Pod, "web", namespace="default")
        assert found.metadata.deletion_grace_period_seconds == 30

    time = simulated(engine, deletes, latency=Latency(deletions=30.0))
    time.run()
    assert (time.now, time.store.count(Pod)) == (30.0, 0)


def test_its_writes_cause_events(engine):
    async def labels():
        await API.patch(Pod, "web", {"metadata": {"labels": {"a": "b"}}}, type_="merge", namespace="default")

    time = simulated(engine, labels)
    time.run()
    _, _, ((_, new),) = engine.news[-1]
    assert new.metadata.labels == {"a": "b"}


@pytest.mark.parametrize("selector", ["label_selector", "field_selector"])
def test_selectors_are_refused_with_a_message(engine, selector):
    async def lists():
        with pytest.raises(BadRequest, match="by namespace only"):
            await API.list(Pod, **{selector: "a=b"})

    simulated(engine, lists).run()
    assert answer(engine) == (0.0, None)


def test_watching_is_refused_with_a_message():
    with pytest.raises(
        MethodNotAllowed, match="a plugin cannot watch in simulated time: register for events of the kind instead"
    ):
        API.watch(Pod, resource_version="")


def test_actions_of_a_coroutine_are_processed_at_once(engine):
    async def activates():
        time.submit(Activated(("default/web",)))
        assert engine.inputs(Activated)
        await API.list(Pod)

    time = simulated(engine, activates)
    time.run()
    assert answer(engine) == (0.0, None)


def test_base_exceptions_propagate(engine):
    async def gives_up():
        raise asyncio.CancelledError("gave up")

    simulated(engine, gives_up).run()
    status = answer(engine)[1]
    assert (status.code, in_short(status.message)) == (Code.Error, "CancelledError: gave up")


# -- foreign awaitables ------------------------------------------------------------------------------------------------


async def sleeps():
    await asyncio.sleep(1)


async def yields():
    await asyncio.sleep(0)


async def asks_for_the_loop():
    asyncio.get_running_loop()


async def has_a_time_limit():
    async with asyncio.timeout(1):
        await API.list(Pod)


class Foreign:
    def __await__(self):
        yield "something"


async def awaits_something_else():
    await Foreign()


@pytest.mark.parametrize(
    ("coroutine", "what"),
    [
        (sleeps, "something that needs an event loop"),
        (yields, "a NoneType"),
        (asks_for_the_loop, "something that needs an event loop"),
        (has_a_time_limit, "something that needs an event loop"),
        (awaits_something_else, "a str"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_foreign_await_ends_the_call(engine, coroutine, what):
    simulated(engine, lambda: as_the_engine_does(coroutine())).run()
    status = answer(engine)[1]
    assert status.code is Code.Error
    assert status.message == (
        f'plugin "Mine" awaited {what} in PreBind: in simulated time a plugin may await only the handle\'s api; '
        "one that is written as steps (a generator) can wait for time, too"
    )


async def test_on_an_event_loop_as_well(engine):
    """A program with an event loop may run a simulation; its futures would never complete."""
    simulated(engine, lambda: as_the_engine_does(sleeps())).run()
    assert 'plugin "Mine" awaited a Future in PreBind' in answer(engine)[1].message


def test_the_original_exception_is_kept(engine):
    simulated(engine, lambda: as_the_engine_does(sleeps())).run()
    assert str(answer(engine)[1].error.__cause__) == "no running event loop"


@pytest.mark.parametrize("failure", [RuntimeError("mine"), AttributeError("mine"), ValueError("no running event loop")])
def test_other_exceptions_are_unchanged(engine, failure):
    async def fails():
        raise failure

    simulated(engine, lambda: as_the_engine_does(fails())).run()
    assert answer(engine)[1].error is failure


def test_a_coroutine_with_a_foreign_await_can_clean_up(engine):
    closed = []

    async def careful():
        try:
            await Foreign()
        finally:
            closed.append(True)

    simulated(engine, careful).run()
    assert closed == [True]


def test_a_coroutine_that_swallows_its_end_is_abandoned(engine):
    async def stubborn():
        try:
            await API.list(Pod)
        finally:
            await API.list(Pod)

    time = simulated(engine, stubborn, latency=Latency(requests=10.0))
    engine.on(Activated, Cancel(1, "enough"))
    time.at(1.0, Activated(()))
    time.run()
    assert answer(engine)[1].message == "enough"


# -- cancellation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1.0, 15.0])
def test_a_cancelled_call_ends_at_once(engine, after):
    """Before the request is processed, and before its response."""
    closed = []

    async def waits():
        try:
            await API.patch(Pod, "web", {"metadata": {"labels": {"a": "b"}}}, type_="merge", namespace="default")
        except GeneratorExit:
            closed.append(True)
            raise

    time = simulated(engine, waits, latency=Latency(requests=10.0, answers=10.0))
    engine.on(Activated, Cancel(1, "preempted"))
    time.at(after, Activated(()))
    time.run()
    at, status = answer(engine)
    assert (at, status.code, status.message) == (after, Code.Error, "preempted")
    assert closed == [True]
    carried_out = bool(time.store.get(Pod, "default", "web").metadata.labels)
    assert carried_out == (after > 10.0)
    assert time.under_way == 0


def test_a_withdrawn_call_is_closed_without_result(engine):
    closed = []

    async def waits():
        try:
            await API.list(Pod)
        finally:
            closed.append(True)

    time = simulated(engine, waits, latency=Latency(requests=10.0))
    engine.on(Activated, Withdraw(1))
    time.at(1.0, Activated(()))
    time.run()
    assert (closed, engine.inputs(Answer), time.under_way) == ([True], [], 0)


def test_a_call_may_cancel_itself(engine):
    """A plugin's action may make the engine cancel it; it runs until its next await."""
    reached = []

    async def undoes_itself():
        time.submit(Activated(()))
        reached.append(True)
        await API.list(Pod)
        reached.append(False)

    time = simulated(engine, undoes_itself, latency=Latency(requests=10.0))
    engine.on(Activated, Cancel(1, "stopped"))
    time.run()
    assert reached == [True]
    assert answer(engine)[1].message == "stopped"


def test_a_cancellation_that_comes_too_late_changes_nothing(engine):
    async def says_no():
        time.submit(Activated(()))
        return unschedulable("no")

    time = simulated(engine, says_no)
    engine.on(Activated, Cancel(1, "stopped"))
    time.run()
    assert answer(engine)[1].message == "no"


@pytest.mark.parametrize(
    ("action", "messages"), [(Withdraw(1), []), (Cancel(1, "too late"), ["too late"])], ids=["withdrawn", "cancelled"]
)
def test_a_call_cancelled_before_it_started(engine, action, messages):
    async def never():
        raise AssertionError

    time = simulated(engine)
    engine.coroutines["Mine"] = never
    engine.on(Started, CALL, action)
    time.run()
    assert [outcome.value.message for _, _, outcome in engine.answers] == messages


def test_calls_of_one_step_run_in_their_order(engine):
    order = []

    def named(name):
        async def runs():
            order.append(name)
            await API.list(Pod)
            order.append(name)

        return runs

    time = simulated(engine)
    engine.coroutines = {name: named(name) for name in ("a", "b")}
    engine.on(
        Started,
        *(RunPlugin(profile="p", point="PreBind", plugin=name, pod="default/p", uid="u", node="n") for name in "ab"),
    )
    time.run()
    assert order == ["a", "b", "a", "b"]
    assert [outcome for _, _, outcome in engine.answers] == [Done(None), Done(None)]


def test_time_advances_during_a_call(engine):
    async def waits():
        await API.list(Pod)

    time = simulated(engine, waits, latency=Latency(requests=10.0))
    engine.on(Activated, Wake(5.0))
    time.submit(Activated(()))
    time.run()
    assert [at for at, _ in engine.inputs(Tick)] == [5.0]
    assert answer(engine) == (10.0, None)
