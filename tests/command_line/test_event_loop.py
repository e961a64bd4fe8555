"""What commands do with their event loop."""

import asyncio
import os
import sys

import pytest

from stowplan.command_line import event_loop
from stowplan.command_line.event_loop import end_of_input, first_of, run, run_in_background, running


def test_what_was_run_is_answered():
    async def main():
        return 7

    assert run(main()) == 7


def test_a_task_that_does_not_end_keeps_no_command_from_ending(monkeypatch, caplog):
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


def test_tasks_that_are_left_are_ended_with_the_command(caplog):
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
    async def test_it_ends_with_what_it_runs_beside(self):
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

    async def test_a_failure_is_told_at_once_and_ends_nothing_else(self, caplog):
        async def fails():
            raise KeyError("x")

        async with run_in_background(fails()):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            (told,) = caplog.messages
        assert told.startswith("a background task has failed")
        assert "fails" in told
        assert "KeyError" in told

    async def test_its_end_is_no_failure(self, caplog):
        async with run_in_background(asyncio.Event().wait()):
            await asyncio.sleep(0)
        async with run_in_background(asyncio.sleep(0)):
            await asyncio.sleep(0)
        assert not caplog.messages


class TestFirstOf:
    async def test_tasks_go_on_and_coroutines_do_not(self):
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
    async def test_the_other_end_of_the_pipe_is_let_go_of(self, monkeypatch):
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
