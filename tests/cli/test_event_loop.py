"""What commands do with their event loop."""

import asyncio
import os
import sys

import pytest

from stowplan.cli.event_loop import end_of_input, first_of, run, running


def test_what_was_run_is_answered():
    async def main():
        return 7

    assert run(main()) == 7


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
