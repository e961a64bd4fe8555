"""Sources of measured data that answer, fail, are slow or wrong, under a manual clock."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from stowplan.drivers.live.measuring import FIRST_ANSWERS_TIMEOUT, Measuring, measured_now
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.scheduler.framework.sources import Source, SourceError

Heat = custom_resource("heats.v1.example.com", namespaced=False)


class Thermometer(Source, frozen=True):
    """Answers what `ANSWERS` has for it: a value, an exception to raise, or None for never."""

    at: str

    @property
    def kind(self):
        return Heat

    @property
    def name(self):
        return self.at

    async def measure(self, client):
        ASKED.append(self.at)
        answer = ANSWERS[self.at]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer


ANSWERS: dict = {}
ASKED: list = []
A, B = Thermometer("a"), Thermometer("b")


@pytest.fixture(autouse=True)
def _forgotten():
    ANSWERS.clear()
    ASKED.clear()


class Run:
    def __init__(self):
        self.times = ManualTime()
        self.delivered, self.reports = [], []
        self.measuring = Measuring(None, deliver=self._deliver, times=self.times, report=self.reports.append)

    def _deliver(self, kind, changes):
        assert kind is Heat
        self.delivered += [
            (change.old and change.old.content["degrees"], change.new and change.new.content["degrees"])
            for change in changes
        ]


@asynccontextmanager
async def running(*sources):
    run = Run()
    run.measuring.adopt(sources)
    task = asyncio.create_task(run.measuring.run())
    try:
        await settle()
        yield run
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_is_an_object_that_changes_with_the_next_one():
    ANSWERS["a"] = {"degrees": 20}
    async with running(A) as run:
        assert run.delivered == [(None, 20)]
        await run.times.advance(29)
        assert len(ASKED) == 1
        await run.times.advance(1)
        assert (len(ASKED), run.delivered[1:]) == (2, [])
        ANSWERS["a"] = {"degrees": 21}
        await run.times.advance(30)
        assert run.delivered[1:] == [(20, 21)]
        assert run.reports == []


async def test_a_source_that_fails_keeps_its_last_object_and_is_reported_once():
    ANSWERS["a"] = {"degrees": 20}
    async with running(A) as run:
        ANSWERS["a"] = SourceError("connection refused")
        await run.times.advance(90)
        assert run.reports == ["a cannot be read: connection refused; its last answer is used"]
        ANSWERS["a"] = {"degrees": 22}
        await run.times.advance(30)
        assert run.reports[1:] == ["a answers again"]
        assert run.delivered == [(None, 20), (20, 22)]


async def test_a_source_that_is_wrong_from_the_start():
    ANSWERS["a"] = ZeroDivisionError("oh")
    async with running(A) as run:
        assert run.reports == ["a cannot be read: ZeroDivisionError('oh'); there is no measured data"]
        assert run.delivered == []


async def test_a_slow_source_delays_no_other_and_times_out():
    ANSWERS.update(a=None, b={"degrees": 5})
    async with running(A, B) as run:
        assert run.delivered == [(None, 5)]
        await run.times.advance(54)
        assert ASKED.count("b") == 2
        ANSWERS["a"] = {"degrees": 1}
        await run.times.advance(2)
        assert run.reports == [
            "a cannot be read: no answer within 55 s; there is no measured data",
            "a answers again",
        ]
        assert run.delivered[1:] == [(None, 1)]


async def test_the_first_pods_wait_for_answers_only_briefly():
    ANSWERS.update(a=None, b=SourceError("down"))
    async with running(A, B) as run:
        waiting = asyncio.create_task(run.measuring.first_answers())
        await run.times.advance(FIRST_ANSWERS_TIMEOUT - 0.1)
        assert not waiting.done()
        await run.times.advance(0.2)
        assert waiting.done()
        assert run.reports[1:] == ["no answer yet from a; pods are scheduled without measured data until there is one"]


async def test_nothing_is_waited_for_without_sources():
    async with running() as run:
        await asyncio.wait_for(run.measuring.first_answers(), 1)


async def test_other_sources_are_adopted():
    ANSWERS.update(a={"degrees": 1}, b={"degrees": 2})
    async with running(A) as run:
        run.measuring.adopt([B])
        await settle()
        assert run.delivered == [(None, 1), (1, None), (None, 2)]
        await run.times.advance(60)
        assert (ASKED.count("a"), ASKED.count("b")) == (1, 3)
        # One that is asked already goes on.
        run.measuring.adopt([B, Thermometer("b")])
        await settle()
        assert ASKED.count("b") == 3


async def test_asked_once_for_somebody_who_waits():
    ANSWERS.update(a={"degrees": 20}, b=None, c=SourceError("down"))
    times, told = ManualTime(), []
    asked = measured_now(None, (A, B, Thermometer("c")), times=times, report=told.append)
    found = asyncio.create_task(asked)
    await settle()
    assert not found.done()
    await times.advance(FIRST_ANSWERS_TIMEOUT)
    assert [(one.metadata.name, one.content["degrees"]) for one in await found] == [("a", 20)]
    assert told == [
        "c cannot be read: down; there is no measured data",
        "b cannot be read: no answer within 5 s; there is no measured data",
    ]
