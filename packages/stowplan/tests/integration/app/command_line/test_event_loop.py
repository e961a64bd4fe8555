"""Event loops of commands."""

import asyncio
import os
import sys

import pytest

from stowplan.app.command_line import event_loop
from stowplan.app.command_line.event_loop import end_of_input, first_of, run, run_in_background, running


def test_run_returns_the_result():
    async def main():
        return 7

    assert run(main()) == 7


def test_a_task_that_ignores_cancellation_does_not_block_the_exit(monkeypatch, caplog):
    monkeypatch.setattr(event_loop, "PATIENCE", 0.01)
    heard = []

    async def deaf():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard.append(1)

    async def main():
        task = asyncio.create_task(deaf(), name="deaf")
        await asyncio.sleep(0)
        return task

    task = run(main())
    assert not task.done()
    assert heard
    assert 'a cancelled task does not stop, and is abandoned task="deaf"' in caplog.text


def test_remaining_tasks_are_cancelled_at_exit(caplog):
    ended = []

    async def other():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    async def main():
        main.other = asyncio.create_task(other())
        await asyncio.sleep(0)
        raise KeyError("x")

    with pytest.raises(KeyError):
        run(main())
    assert ended == [1]
    assert main.other.cancelled()
    assert "left behind" not in caplog.text


class TestBeside:
    async def test_a_background_task_ends_with_its_block(self):
        ended = asyncio.Event()

        async def forever():
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with run_in_background(forever()):
            await asyncio.sleep(0)
            assert not ended.is_set()
        assert ended.is_set()

    async def test_a_failure_is_reported_at_once_and_cancels_nothing(self, caplog):
        async def fails():
            raise KeyError("x")

        async with run_in_background(fails()):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            (told,) = caplog.messages
        assert told.startswith("a background task has failed")
        assert "fails" in told
        assert "KeyError" in told

    async def test_a_regular_end_is_no_failure(self, caplog):
        async with run_in_background(asyncio.Event().wait()):
            await asyncio.sleep(0)
        async with run_in_background(asyncio.sleep(0)):
            await asyncio.sleep(0)
        assert not caplog.messages


class TestFirstOf:
    async def test_tasks_continue_and_coroutines_are_cancelled(self):
        ended = []

        async def forever():
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("coroutine")

        async with running(asyncio.Event().wait()) as task:
            await first_of(forever(), task, asyncio.sleep(0))
            assert not task.done()
            await asyncio.sleep(0)
        assert ended == ["coroutine"]

    async def test_a_failure_is_raised(self):
        async def fails():
            raise KeyError("x")

        with pytest.raises(KeyError):
            await first_of(asyncio.Event().wait(), fails())


class TestEndOfInput:
    async def test_the_pipe_is_closed(self, monkeypatch):
        reading, writing = os.pipe()
        with os.fdopen(reading) as ours:
            monkeypatch.setattr(sys, "stdin", ours)
            async with running(end_of_input()) as ended:
                os.write(writing, b"of no interest")
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not ended.done()
                os.close(writing)
                await asyncio.wait_for(ended, 10)
