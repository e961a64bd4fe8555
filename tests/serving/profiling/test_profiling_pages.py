"""Pages under /debug/pprof: each profile, its text forms, refusals; values of variables never appear."""

import asyncio
import inspect
import sys
import threading
import tracemalloc

import pytest

from stowplan.api.users import UserInfo
from stowplan.serving.profiling import heap, stacks
from stowplan.serving.profiling.cpu import CpuSampler
from stowplan.serving.profiling.pages import Profiling
from stowplan.serving.requests.messages import Request
from support.serving.pprof_reading import read_profile

CANARY = "canary-5d1f"


class Slept:
    """Sleeps until the test lets it end."""

    def __init__(self):
        self.asked = []
        self.end = asyncio.Event()

    async def __call__(self, seconds):
        self.asked.append(seconds)
        if seconds:
            await self.end.wait()


@pytest.fixture
def sleep():
    return Slept()


class Sampler(CpuSampler):
    """Samples when told to; each thread has used one second."""

    made = None

    def __init__(self):
        self.used = 0.0
        super().__init__(period=3600.0, busy=self.busy)
        Sampler.made = self

    def busy(self, ident):
        self.used += 1.0
        return self.used


@pytest.fixture
def profiling(sleep):
    return Profiling(sleep=sleep, sampler=Sampler)


async def asked(profiling, path, **query):
    request = Request("GET", path, UserInfo("me"), {name: [value] for name, value in query.items()})
    pages = profiling.pages()
    page = pages.get(path) or pages["/debug/pprof/"]
    answer = page(request)
    return await answer if inspect.isawaitable(answer) else answer


async def named(profiling, name, **query):
    return await asked(profiling, f"/debug/pprof/{name}", **query)


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not happen")


async def test_redirect_to_the_trailing_slash(profiling):
    answer = await asked(profiling, "/debug/pprof")
    assert (answer.status, answer.headers) == (302, (("Location", "/debug/pprof/"),))


async def test_the_index_lists_every_profile(profiling):
    index = (await named(profiling, "")).body.decode()
    for name in ("allocs", "block", "goroutine", "heap", "mutex", "symbol", "threadcreate"):
        assert f'href="{name}"' in index
        assert (await named(profiling, name)).status == 200
    assert 'href="cmdline"' not in index


@pytest.mark.parametrize("name", ["cmdline", "nothing", "heap/", "../metrics"])
async def test_unknown_profiles(profiling, name):
    answer = await named(profiling, name)
    assert (answer.status, answer.body, answer.content_type) == (404, b"Unknown profile\n", "text/plain; charset=utf-8")


async def test_traces_are_not_supported(profiling):
    answer = await named(profiling, "trace")
    assert answer.status == 501
    assert b"no execution trace" in answer.body


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ({}, 30.0),
        ({"seconds": "5"}, 5.0),
        ({"seconds": "x"}, 30.0),
        ({"seconds": "-1"}, 30.0),
        ({"seconds": "nan"}, 30.0),
        ({"seconds": "1e9"}, 600.0),
    ],
)
async def test_duration_of_cpu_profiles(profiling, sleep, query, seconds):
    sleep.end.set()
    await named(profiling, "profile", **query)
    assert sleep.asked == [seconds]


@pytest.fixture
def interval():
    """The interpreter's switch interval, restored after the test."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.003)
    yield sys.getswitchinterval()
    sys.setswitchinterval(before)


async def test_cpu_time_is_attributed_to_stacks(profiling, sleep, interval):
    asking = asyncio.create_task(named(profiling, "profile"))
    await until(lambda: sleep.asked)
    assert sys.getswitchinterval() < interval
    Sampler.made.look()
    Sampler.made.look()
    sleep.end.set()
    found = read_profile((await asking).body)
    assert found.types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert found.period == 3600 * 10**9
    assert sum(values[0] for _, values in found.samples) >= 1
    assert sys.getswitchinterval() == interval
    assert "profiler" not in [thread.name for thread in threading.enumerate()]


async def test_one_cpu_profile_at_a_time(profiling, sleep):
    first = asyncio.create_task(named(profiling, "profile"))
    await until(lambda: sleep.asked)
    answer = await named(profiling, "profile")
    assert (answer.status, answer.body) == (500, b"Could not enable profiling: cpu profiling already in use\n")
    assert (await named(profiling, "heap", seconds="1")).status == 500
    sleep.end.set()
    assert (await first).status == 200
    assert (await named(profiling, "profile")).status == 200


async def test_a_disconnected_client_leaves_nothing_behind(profiling, sleep):
    for name in ("profile", "heap"):
        asking = asyncio.create_task(named(profiling, name, seconds="5"))
        await until(lambda: sleep.asked)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        sleep.asked.clear()
        assert not tracemalloc.is_tracing()
        assert "profiler" not in [thread.name for thread in threading.enumerate()]
    sleep.end.set()
    assert (await named(profiling, "profile")).status == 200


async def innermost(secret, event):
    await event.wait()


async def middle(secret, event):
    await innermost(secret, event)


async def test_stacks_of_tasks_are_complete_and_without_values(profiling):
    event = asyncio.Event()
    tasks = [asyncio.create_task(middle(CANARY, event), name="looking") for _ in range(3)]
    await asyncio.sleep(0)
    try:
        profile = read_profile((await named(profiling, "goroutine")).body)
        chain = next(stack for stack, values in profile.samples if values == [3])
        assert [frame[0] for frame in chain] == [
            "locks.Event.wait",
            "test_profiling_pages.innermost",
            "test_profiling_pages.middle",
        ]
        lines = [function.__code__.co_firstlineno + 1 for function in (innermost, middle)]
        assert [frame[2] for frame in chain[1:]] == lines
        counted = (await named(profiling, "goroutine", debug="1")).body.decode()
        total = len(asyncio.all_tasks()) + len(sys._current_frames())
        assert counted.startswith(f"goroutine profile: total {total}\n3 @\n#\tlocks.Event.wait\t")
        single = (await named(profiling, "goroutine", debug="2")).body.decode()
        assert single.count("task looking:\n") == 3
        assert "thread MainThread:\n" in single
        assert CANARY not in counted + single + "".join(profile.strings)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_deep_stacks_are_truncated():
    async def deep(below):
        if below:
            return await deep(below - 1)
        return await asyncio.Event().wait()

    tasks = [asyncio.create_task(deep(below)) for below in (100, 300)]
    await asyncio.sleep(0)
    try:
        assert [len(stacks.task_stack(task)) for task in tasks] == [102, 128]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Counted:
    def __init__(self):
        self.secret = CANARY
        self.others = [self]


async def test_objects_are_counted_by_type(profiling, sleep):
    kept = [Counted() for _ in range(1234)]
    profile = read_profile((await named(profiling, "heap")).body)
    found = {stack[0][0]: values for stack, values in profile.samples}
    assert found[f"{Counted.__module__}.Counted"][0] == len(kept)
    assert profile.types == [("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert set(sleep.asked) == {0}, "it pauses"
    assert CANARY not in "".join(profile.strings)


async def test_allocations_by_line(profiling, sleep):
    asking = asyncio.create_task(named(profiling, "allocs", seconds="3"))
    await until(lambda: sleep.asked)
    kept = [bytes(1000) for _ in range(500)]
    sleep.end.set()
    profile = read_profile((await asking).body)
    here = [values for stack, values in profile.samples if stack[0][1] == __file__ and values[1] > 500 * 1000]
    assert len(here) == 1
    assert len(kept) == 500
    assert profile.duration == 3 * 10**9
    assert not tracemalloc.is_tracing()


async def test_allocations_are_summed_up_beside_the_event_loop_and_untraced(profiling, sleep, monkeypatch):
    where, summed = [], heap._summed

    def watched(snapshot):
        where.append((threading.current_thread() is threading.main_thread(), tracemalloc.is_tracing()))
        return summed(snapshot)

    monkeypatch.setattr(heap, "_summed", watched)
    asking = asyncio.create_task(named(profiling, "heap", seconds="3"))
    await until(lambda: sleep.asked)
    sleep.end.set()
    assert (await asking).status == 200
    assert where == [(False, False)]


async def test_existing_tracing_is_used_and_kept(profiling, sleep):
    tracemalloc.start()
    try:
        kept = bytearray(10_000_000)
        profile = read_profile((await named(profiling, "heap")).body)
        assert any(values[1] >= len(kept) for _, values in profile.samples)
        assert tracemalloc.is_tracing()
        assert not sleep.asked
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["block", "mutex"])
async def test_lock_profiles_are_empty(profiling, name):
    profile = read_profile((await named(profiling, name)).body)
    assert (profile.samples, profile.types[0]) == ([], ("contentions", "count"))


async def test_threads(profiling):
    text = (await named(profiling, "threadcreate", debug="1")).body.decode()
    assert text.startswith(f"threadcreate profile: total {len(sys._current_frames())}\n")


async def test_no_symbols(profiling):
    assert (await named(profiling, "symbol")).body == b"num_symbols: 0\n"
