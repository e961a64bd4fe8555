"""Carrying out effects on an event loop: requests to the API, meaning of responses, and order."""

import asyncio
from collections import defaultdict
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.drivers.live.effects import Effects
from stowplan.kube.api.api_errors import Conflict, Forbidden, NotFound
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.meta import ObjectMeta, ObjectReference
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Lease, Pod
from stowplan.kube.timing.times import settle
from stowplan.net.client.client_errors import NoResponse, OutcomeUnknown
from stowplan.net.client.events.event_series import EventKey
from stowplan.scheduler.engine.effects import Cancel, Effect, EmitEvent, RunPlugin, Wake, Withdraw
from stowplan.scheduler.framework.requests import Ask, Bind, Create, Delete, Done, Patch, Read, Refused, Unknown, Update
from stowplan.scheduler.framework.status import Code, Status

LEASE = Lease(metadata=ObjectMeta(name="l", namespace="blue"))
POD = Pod(metadata=ObjectMeta(name="p", namespace="default"))


class Calls:
    """An Api that responds when a test says so."""

    def __init__(self):
        #: The calls in order: the verb, and its arguments.
        self.log = []
        #: Calls without a response, in order.
        self.open = []

    def __getattr__(self, verb):
        async def call(*args, **options):
            self.log.append((verb, args, options))
            answer = asyncio.get_running_loop().create_future()
            self.open.append(answer)
            try:
                return await answer
            finally:
                self.open.remove(answer)

        return call

    @property
    def verbs(self):
        return [verb for verb, _, _ in self.log]

    async def answer(self, answer=None, which=0):
        if isinstance(answer, BaseException):
            self.open[which].set_exception(answer)
        else:
            self.open[which].set_result(answer)
        await settle()


class World:
    """Replaces the engine."""

    def __init__(self):
        self.api = Calls()
        self.answers, self.wakes, self.events = [], [], []
        #: Plugin name -> its coroutine function.
        self.plugins = {}
        self.number = 0
        self.effects = self.effects_with({})

    def effects_with(self, extender_clients):
        parts = {"submit": lambda answer: self.submit(answer), "wake_at": self.wakes.append, "broadcaster": self}
        return Effects(self.api, self, hostname="host", extender_clients=extender_clients, **parts)

    def do(self, *actions):
        """Carry out actions in one step; returns the number of the last."""
        effects = [Effect(self.number + i, action) for i, action in enumerate(actions, 1)]
        self.number += len(actions)
        self.effects.carry_out(effects)
        return self.number

    async def done(self, *actions):
        """The same, and run the loop until it is idle."""
        number = self.do(*actions)
        await settle()
        return number

    # -- the engine, and the broadcaster -------------------------------------------------------------------------------

    async def run_plugin(self, action, *, cancelled):
        return await self.plugins[action.plugin]()

    def submit(self, answer):
        self.answers.append((answer.number, answer.outcome))

    def record(self, key, note):
        self.events.append((key, note))


@pytest.fixture
async def world():
    made = World()
    yield made
    for task in made.effects.tasks:
        task.cancel()
    await settle()
    assert made.effects.tasks == []
    assert made.effects._lines == {}


def bind(name="p"):
    return Bind(namespace="default", name=name, uid=f"{name}-uid", node="n")


def patch(name="p", lane="default"):
    return Patch(kind=Pod, namespace="default", name=name, body={}, subresource="status", lane=lane)


def read(name="p"):
    return Read(kind=Pod, namespace="default", name=name)


def plugin(name="Mine"):
    return RunPlugin(profile="prof", point="PreBind", plugin=name, pod="default/p", uid="u", node="n")


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "asked"),
    [
        pytest.param(
            bind(), ("bind", (), {"namespace": "default", "name": "p", "uid": "p-uid", "node": "n"}), id="bind"
        ),
        pytest.param(Create(obj=LEASE), ("create", (LEASE,), {}), id="create"),
        pytest.param(Update(obj=LEASE), ("update", (LEASE,), {}), id="update"),
        pytest.param(
            Patch(
                kind=Pod, namespace="blue", name="p", body={"a": 1}, type_="merge", subresource="status", lane="status"
            ),
            (
                "patch",
                (Pod, "p", {"a": 1}),
                {"type_": "merge", "namespace": "blue", "subresource": "status", "lane": "status"},
            ),
            id="patch",
        ),
        pytest.param(
            Delete(kind=Pod, namespace="blue", name="p", uid="u", resource_version="7"),
            ("delete", (Pod, "p"), {"namespace": "blue", "uid": "u", "resource_version": "7"}),
            id="delete",
        ),
        pytest.param(read(), ("get", (Pod, "p"), {"namespace": "default"}), id="read"),
    ],
)
async def test_requests_and_responses_are_passed_unchanged(world, request_, asked):
    number = await world.done(request_)
    assert world.api.log == [asked]
    assert world.answers == []
    await world.api.answer(POD)
    assert world.answers == [(number, Done(POD))]


BUG = RuntimeError("a bug")
ODD = DecodeError(field="spec", message="odd")
ENDINGS = [
    pytest.param(Conflict("newer"), Refused, Refused, id="refused"),
    pytest.param(NotFound("gone"), Refused, Refused, id="gone"),
    pytest.param(Unreachable("away"), Refused, Refused, id="unreachable"),
    pytest.param(OutcomeUnknown("cut"), Unknown, Unknown, id="answer lost"),
    # A write may have succeeded; a read has no result.
    pytest.param(ODD, Unknown, Refused, id="answer that cannot be read"),
    pytest.param(BUG, Refused, Refused, id="a bug"),
]


@pytest.mark.parametrize(("failure", "of_writes", "of_reads"), ENDINGS)
@pytest.mark.parametrize(
    "request_",
    [
        bind(),
        Create(obj=LEASE),
        Update(obj=LEASE),
        patch(),
        Delete(kind=Pod, namespace="default", name="p"),
        read(),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_outcomes_of_failures(world, request_, failure, of_writes, of_reads):
    number = await world.done(request_)
    await world.api.answer(failure)
    ((answered, outcome),) = world.answers
    assert answered == number
    assert type(outcome) is (of_reads if isinstance(request_, Read) else of_writes)
    assert outcome.error is failure


async def test_the_outcome_of_a_cancelled_request_is_unknown(world):
    number = await world.done(bind())
    world.api.open[0].cancel()
    await settle()
    ((answered, outcome),) = world.answers
    assert (answered, type(outcome)) == (number, Unknown)
    assert str(outcome.error) == "a plugin gave up: what it waited for was cancelled"


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (NoResponse("connection refused", sent=False), Refused),
        (NoResponse("the answer was not complete within the time limit", sent=True), Unknown),
        (ValueError("it says no"), Refused),
    ],
)
async def test_an_extender_that_may_have_done_it_is_told_from_one_that_has_not(world, failure, outcome):
    async def ask(verb, question):
        raise failure

    effects = world.effects_with({"e": SimpleNamespace(ask=ask)})
    assert await effects.ask_extender(Ask(who="e", verb="bind", question={})) == outcome(failure)


async def test_events_are_recorded(world):
    pod, node = ObjectReference(kind="Pod", name="p"), ObjectReference(kind="Node", name="n")
    what = {"type_": "Normal", "reason": "R", "action": "A"}
    world.do(EmitEvent(profile="prof", regarding=pod, note="for you", related=node, **what))
    world.do(EmitEvent(profile="prof", regarding=pod, note="again", **what))
    key = EventKey("Normal", "A", "R", "prof", "prof-host", pod, node)
    assert world.events == [(key, "for you"), (key._replace(related=None), "again")]


async def test_the_engine_is_woken_at_its_time(world):
    world.do(Wake(5.0), Wake(7.0))
    assert world.wakes == [5.0, 7.0]


async def test_an_exception_of_the_engine_is_reported(world, caplog):
    def fail(answer):
        raise BUG

    world.submit = fail
    await world.done(bind())
    await world.api.answer()
    assert "a background task failed" in caplog.text
    assert "a bug" in caplog.text
    assert world.effects.tasks == []


# -- order ------------------------------------------------------------------------------------------------------------


async def test_requests_for_one_object_are_serialized(world):
    first = await world.done(patch("p"), bind("p"), patch("q"))
    assert [options.get("name") or args[1] for _, args, options in world.api.log] == ["p", "q"]
    await world.api.answer(Forbidden("no"))
    assert world.api.verbs == ["patch", "patch", "bind"]
    await world.api.answer(which=1)
    await world.api.answer()
    assert [number for number, _ in world.answers] == [first - 2, first - 1, first]
    assert [type(outcome) for _, outcome in world.answers] == [Refused, Done, Done]


async def test_a_queued_request_that_is_withdrawn_is_not_sent(world):
    last = world.do(patch(), bind(), read())
    await world.done(Withdraw(last - 1))
    assert world.api.verbs == ["patch"]
    await world.api.answer()
    assert world.api.verbs == ["patch", "get"]
    await world.api.answer()
    assert [number for number, _ in world.answers] == [last - 2, last]


async def test_a_request_that_is_withdrawn_after_sending_is_still_waited_for(world):
    last = await world.done(patch(), bind())
    await world.done(Withdraw(last - 1))
    assert world.api.verbs == ["patch", "bind"]
    await world.api.answer()
    assert [number for number, _ in world.answers] == [last]


async def test_a_request_withdrawn_in_its_own_step_is_never_sent(world):
    number = world.number + 1
    await world.done(bind(), Withdraw(number))
    assert (world.api.log, world.answers, world.effects.tasks) == ([], [], [])


async def test_withdrawing_a_finished_request_does_nothing(world):
    number = await world.done(bind())
    await world.api.answer()
    await world.done(Withdraw(number), Withdraw(99), Cancel(number), Cancel(99))
    assert world.answers == [(number, Done())]


@given(
    st.lists(
        st.tuples(st.sampled_from(("ask", "ask", "answer", "withdraw", "pause")), st.integers(0, 9)),
        max_size=40,
    )
)
def test_requests_for_one_object_are_serialized_in_any_history(steps):
    asyncio.run(_requests_at_random(steps))


async def _requests_at_random(steps):
    world = World()
    asked, withdrawn = defaultdict(list), set()

    def check():
        under_way = defaultdict(list)
        for number, name in sent(world):
            under_way[name].append(number)
        assert all(numbers == sorted(numbers) for numbers in under_way.values())
        assert len(world.api.open) <= len(under_way)

    for step, which in steps:
        match step:
            case "ask":
                name = "abc"[which % 3]
                number = world.do(marked(name, world.number + 1))
                asked[name].append(number)
            case "answer" if waiting := [i for i, call in enumerate(world.api.open) if not call.done()]:
                # One that was withdrawn just now is no longer waited for.
                await world.api.answer(which=waiting[which % len(waiting)])
            case "withdraw" if world.number:
                withdrawn.add(1 + which % world.number)
                world.do(Withdraw(1 + which % world.number))
                asked["withdrawals"].append(world.number)
            case "pause":
                await settle(which)
        check()
    await settle()
    while world.api.open:
        await world.api.answer()
        check()
    answered = [number for number, _ in world.answers]
    wanted = {number for name in "abc" for number in asked[name]}
    assert len(answered) == len(set(answered))
    assert wanted - withdrawn <= set(answered) <= wanted
    assert world.effects.tasks == []
    assert world.effects._lines == {}


def marked(name, number):
    return Patch(kind=Pod, namespace="default", name=name, body={"number": number})


def sent(world):
    return [(args[2]["number"], args[1]) for _, args, _ in world.api.log]


# -- plugins' coroutines ----------------------------------------------------------------------------------------------


class Waiting:
    """A plugin that waits until it may proceed."""

    def __init__(self, answer=None):
        self.begun = 0
        self.heard = []
        self.may_go_on = asyncio.Event()
        self.answer = answer

    async def __call__(self):
        self.begun += 1
        try:
            await self.may_go_on.wait()
        except asyncio.CancelledError as cancelled:
            self.heard.append(str(cancelled))
            raise
        return self.answer


class Stubborn(Waiting):
    """Swallows its cancellation, and returns a status."""

    async def __call__(self):
        with suppress(asyncio.CancelledError):
            await super().__call__()
        return self.answer


class Deaf(Waiting):
    """Swallows its cancellation, and continues."""

    async def __call__(self):
        while not self.may_go_on.is_set():
            with suppress(asyncio.CancelledError):
                await super().__call__()
        return self.answer


def cancel(world):
    assert all(outcome.value.code is Code.Error for _, outcome in world.answers)
    return [(number, outcome.value.message) for number, outcome in world.answers]


@pytest.mark.parametrize("answer", [None, Status(Code.Unschedulable, ("no",))], ids=["nothing", "a status"])
async def test_results_of_plugins(world, answer):
    world.plugins["Mine"] = waiting = Waiting(answer)
    number = await world.done(plugin())
    assert world.answers == []
    waiting.may_go_on.set()
    await settle()
    assert world.answers == [(number, Done(answer))]


async def test_plugins_run_concurrently(world):
    world.plugins |= {"A": Waiting(), "B": Waiting()}
    await world.done(plugin("A"), plugin("B"))
    assert [one.begun for one in world.plugins.values()] == [1, 1]


async def test_a_cancelled_plugin_has_the_reason_as_outcome(world):
    world.plugins["Mine"] = waiting = Waiting()
    number = await world.done(plugin())
    await world.done(Cancel(number, "preempted"), Cancel(number, "once more"))
    assert waiting.heard == ["preempted"]
    assert cancel(world) == [(number, "preempted")]


async def test_a_plugin_cancelled_before_it_started_has_the_reason_as_outcome(world):
    world.plugins["Mine"] = waiting = Waiting()
    await world.done(plugin(), Cancel(world.number + 1, "preempted"))
    assert waiting.begun == 0
    assert cancel(world) == [(world.number - 1, "preempted")]


async def test_the_result_of_a_plugin_that_swallows_its_cancellation_counts(world):
    rejected = Status(Code.Unschedulable, ("no",))
    world.plugins["Mine"] = Stubborn(rejected)
    number = await world.done(plugin())
    await world.done(Cancel(number, "preempted"))
    assert world.answers == [(number, Done(rejected))]


async def test_the_cleanup_of_a_cancelled_plugin_is_waited_for(world):
    cleaned = asyncio.Event()

    async def cleaning_up():
        try:
            await asyncio.Event().wait()
        finally:
            await cleaned.wait()

    world.plugins["Mine"] = cleaning_up
    number = await world.done(plugin())
    await world.done(Cancel(number, "preempted"))
    assert world.answers == []
    cleaned.set()
    await settle()
    assert cancel(world) == [(number, "preempted")]


async def test_a_plugin_that_cancels_its_own_task(world):
    async def give_up():
        task = asyncio.create_task(asyncio.sleep(0))
        task.cancel()
        await task

    world.plugins["Mine"] = give_up
    number = await world.done(plugin())
    ((answered, outcome),) = world.answers
    assert answered == number
    assert outcome.value.code is Code.Error
    assert outcome.value.message == "a plugin gave up: what it waited for was cancelled"


async def test_requests_cannot_be_cancelled(world):
    number = await world.done(bind())
    await world.done(Cancel(number, "preempted"))
    assert world.answers == []
    await world.api.answer()
    assert world.answers == [(number, Done())]


async def test_names_of_tasks(world):
    world.plugins["Mine"] = Waiting()
    number = world.do(plugin(), bind())
    names = [task.get_name() for task in world.effects.tasks]
    assert names == ["PreBind of default/p by Mine", f"Pod/default/p ({number})"]
    await settle()


# -- the end ----------------------------------------------------------------------------------------------------------


async def test_an_abandoned_bind_has_no_outcome_and_the_next_request_is_sent(world):
    """`give_up_waiting` cancels the tasks that wait for the rate limit."""
    last = await world.done(bind(), patch())
    world.effects.tasks[0].cancel()
    await settle()
    assert (world.answers, world.effects.given_up) == ([], 1)
    assert world.api.verbs == ["bind", "patch"]
    await world.api.answer()
    assert world.answers == [(last, Done())]


async def test_after_shutdown_only_events_are_written(world):
    world.plugins["Mine"] = waiting = Waiting()
    status, *_ = range(world.number + 1, world.number + 2)
    await world.done(patch("a", "status"), patch("b"), bind("c"), plugin())
    left = world.effects.end()
    assert [task.get_name() for task in left] == [
        "Pod/default/b (2)",
        "Pod/default/c (3)",
        "PreBind of default/p by Mine",
    ]
    for task in left:
        task.cancel()
    await settle()
    assert waiting.heard == [""]
    assert (world.answers, world.effects.given_up) == ([], 0)
    later = await world.done(
        plugin(), bind("d"), patch("e"), read("f"), Create(obj=LEASE), Update(obj=LEASE), patch("g", "status")
    )
    assert world.api.verbs == ["patch", "patch", "bind", "patch"]
    await world.api.answer()
    await world.api.answer()
    assert [number for number, _ in world.answers] == [status, later]
    world.do(Wake(5.0))
    assert world.wakes == [5.0]


@pytest.mark.parametrize("end", ["end", "halt"])
async def test_results_of_plugins_after_shutdown_are_dropped(world, end):
    world.plugins |= {"Stubborn": Stubborn(), "Deaf": Deaf()}
    await world.done(plugin("Stubborn"), plugin("Deaf"))
    if end == "end":
        world.effects.end()
    else:
        world.effects.halted = True
    stubborn, deaf = world.effects.tasks
    stubborn.cancel()
    deaf.cancel()
    await settle()
    assert stubborn.done()
    assert not deaf.done()
    assert world.effects.tasks == [deaf]
    world.effects.abandon({deaf})
    assert world.effects.tasks == []
    world.plugins["Deaf"].may_go_on.set()
    await settle()
    assert deaf.done()
    assert world.answers == []


async def test_once_halted_nothing_is_started_or_reported(world):
    world.plugins["Mine"] = waiting = Waiting()
    number = await world.done(plugin(), bind())
    world.effects.halted = True
    regarding = ObjectReference(kind="Pod", name="p")
    await world.done(
        bind("q"),
        plugin(),
        Wake(1.0),
        EmitEvent(profile="prof", regarding=regarding, type_="Normal", reason="R", action="A", note=""),
        Cancel(number - 1, "preempted"),
    )
    assert (world.api.verbs, waiting.begun, world.wakes, world.events) == (["bind"], 1, [], [])
    waiting.may_go_on.set()
    await world.api.answer()
    assert (world.answers, world.effects.tasks) == ([], [])
