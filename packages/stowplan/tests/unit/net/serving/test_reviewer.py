"""Results that are requested once and cached, compared with the plain rule."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.kube.timing.times import settle
from stowplan.net.serving.reviewer import ReviewCache
from support.examples import times


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


async def asked(answers, key, answer):
    async def question():
        return answer

    return await answers.ask(key, question, kind="k")


KEYS = st.sampled_from([b"a", b"b", b"c"])
STEPS = st.lists(st.one_of(st.tuples(st.just("ask"), KEYS), st.tuples(st.just("wait"), st.integers(0, 3))), max_size=40)


@settings(max_examples=times(500))
@given(STEPS)
@pytest.mark.slow
def test_least_recently_used_and_expired_entries_are_dropped(steps):
    async def play():
        clock = Clock()
        answers = ReviewCache(clock=clock, seconds_of=lambda answer: answer[1], most=2)
        plain = []  # (key, answer, until), what was used last at the end
        for number, (what, value) in enumerate(steps):
            if what == "wait":
                clock.now += value
                continue
            known = next((one for one in plain if one[0] == value and clock.now < one[2]), None)
            plain = [one for one in plain if one[0] != value]
            kept = answers.kept(value)
            assert kept == (known[1] if known else None)
            if known:
                plain.append(known)
                continue
            answer = (number, float(number % 7))
            assert await asked(answers, value, answer) == answer
            if answer[1] > 0:
                plain = [*plain, (value, answer, clock.now + answer[1])][-2:]
        assert len(answers) <= 2

    asyncio.run(play())


async def test_a_failure_without_waiters_is_ignored():
    answers = ReviewCache(clock=Clock(), seconds_of=lambda _: 1.0)
    gate = asyncio.Event()

    async def question():
        await gate.wait()
        raise ValueError("no")

    waiting = asyncio.ensure_future(answers.ask(b"a", question, kind="k"))
    await settle()
    waiting.cancel()
    gate.set()
    await settle()
    assert await asked(answers, b"a", "yes") == "yes"


async def test_a_failure_is_raised_for_all_waiters():
    answers = ReviewCache(clock=Clock(), seconds_of=lambda _: 1.0)

    async def question():
        raise ValueError("no")

    results = await asyncio.gather(*(answers.ask(b"a", question, kind="k") for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["no"] * 3
    assert answers.kept(b"a") is None


async def test_closing_cancels_requests():
    answers = ReviewCache(clock=Clock(), seconds_of=lambda _: 1.0)
    waiting = asyncio.ensure_future(answers.ask(b"a", asyncio.Event().wait, kind="k"))
    await settle()
    await answers.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_requests_of_a_kind_wait_for_each_other_until_they_are_answered():
    answers = ReviewCache(clock=Clock(), seconds_of=lambda _: 0.0, most_asked=1)
    gates, begun = {key: asyncio.Event() for key in "abc"}, []

    def ask(key, kind):
        async def question():
            begun.append(key)
            await gates[key].wait()

        return asyncio.create_task(answers.ask(key.encode(), question, kind=kind))

    first, second, _ = ask("a", "crowd"), ask("b", "crowd"), ask("c", "other")
    await settle()
    assert begun == ["a", "c"]
    # Whoever leaves does not make room: the request goes on.
    first.cancel()
    await settle()
    assert begun == ["a", "c"]
    gates["a"].set()
    await settle()
    assert begun == ["a", "c", "b"]
    # Nor does one that leaves before its turn take a place.
    gone = ask("a", "crowd")
    await settle()
    gone.cancel()
    for gate in gates.values():
        gate.set()
    await second
    await settle()
    # Tasks that were cancelled keep their frames.
    del first, gone
    assert not answers._slots
