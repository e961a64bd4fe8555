"""A limited number per kind at a time, in order of request, with cancellations."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.serving.turns import Turns
from stowplan.timing.manual_time import settle


async def test_the_limit_is_per_kind():
    turns = Turns(most=2)
    first, _ = await turns.take("a"), await turns.take("a")
    third = asyncio.create_task(turns.take("a"))
    await settle()
    assert not third.done()
    await turns.take("b")
    first.end()
    first.end()
    await settle()
    assert third.done()
    assert len(turns) == 3


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "end", "give up"]), st.sampled_from("ab"), st.integers(0, 9)), max_size=60
)


@given(STEPS)
def test_agrees_with_the_plain_rule(steps):
    async def play():
        turns = Turns(most=2)
        #: Kind -> tasks in order; finished ones have their turn.
        asked = {"a": [], "b": []}
        for what, kind, which in steps:
            line = asked[kind]
            if what == "take":
                line.append(asyncio.create_task(turns.take(kind)))
            elif line and what == "end" and line[which % len(line)].done():
                line.pop(which % len(line)).result().end()
            elif line and what == "give up" and not line[which % len(line)].done():
                task = line.pop(which % len(line))
                task.cancel()
            await settle()
            for tasks in asked.values():
                assert [task.done() for task in tasks] == [i < 2 for i in range(len(tasks))]
            assert len(turns) == sum(task.done() for tasks in asked.values() for task in tasks)
        for task in [task for tasks in asked.values() for task in tasks if not task.done()]:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(play())


async def test_cancelling_at_the_moment_of_its_turn_passes_it_on():
    turns = Turns(most=1)
    first = await turns.take("a")
    second, third = asyncio.create_task(turns.take("a")), asyncio.create_task(turns.take("a"))
    await settle()
    first.end()
    second.cancel()
    await settle()
    assert second.cancelled()
    assert third.done()
    third.result().end()
    assert len(turns) == 0
