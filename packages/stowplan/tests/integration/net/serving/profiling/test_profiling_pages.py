"""Pages under /debug/pprof: CPU time and stacks, read by an independent decoder; values of variables never appear."""

import asyncio
import gzip
import inspect
import sys
import threading
from collections import defaultdict

import pytest

from stowplan.kube.api.users import UserInfo
from stowplan.net.serving.profiling.profile_pages import CpuSampler, Profiling
from stowplan.net.serving.requests.messages import Request

CANARY = "canary-5d1f"
EMPTY = ("allocs", "block", "heap", "mutex", "threadcreate")


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def message(data):
    """Values of each field: numbers, or bytes."""
    found, rest = defaultdict(list), iter(data)
    for tag in (numbers := varints(rest)):
        value = next(numbers)
        found[tag >> 3].append(bytes(next(rest) for _ in range(value)) if tag & 7 else value)
    return found


def read(body):
    """Types of the values; {stack of (function, file, line): values}; the whole message, and its strings."""
    whole = message(gzip.decompress(body))
    strings = [text.decode() for text in whole[6]]
    functions = {one[1][0]: (strings[one[2][0]], strings[one[4][0]]) for one in map(message, whole[5])}
    lines = {one[1][0]: message(one[4][0]) for one in map(message, whole[4])}
    places = {number: (*functions[line[1][0]], line[2][0]) for number, line in lines.items()}
    samples = {
        tuple(places[number] for number in varints(one[1][0])): list(varints(one[2][0]))
        for one in map(message, whole[2])
    }
    return [strings[message(one)[1][0]] for one in whole[1]], samples, whole, strings


class Sampler(CpuSampler):
    """Looks when told to; each thread has used a second more each time."""

    def __init__(self):
        self.used = 0.0
        super().__init__(period=3600.0, busy=self.busy)

    def busy(self, ident):
        self.used += 1.0
        return self.used


class Asked:
    """Profiles whose seconds pass when `end` is set."""

    def __init__(self):
        self.slept, self.samplers, self.end = [], [], asyncio.Event()
        self.pages = Profiling(sleep=self.sleep, sampler=self.sampler).pages()

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.samplers[-1].look()
        self.samplers[-1].look()
        await self.end.wait()

    def sampler(self):
        self.samplers.append(Sampler())
        return self.samplers[-1]

    async def __call__(self, name, **query):
        page = self.pages["/debug/pprof/"]
        fields = {key: [value] for key, value in query.items()}
        answer = page(Request("GET", f"/debug/pprof/{name}", UserInfo("me"), fields))
        return await answer if inspect.isawaitable(answer) else answer


@pytest.fixture
def ask():
    return Asked()


async def test_the_index_lists_every_profile(ask):
    index = (await ask("")).body.decode()
    for name in ("goroutine", "symbol", *EMPTY):
        assert f'href="{name}"' in index
        assert (await ask(name)).status == 200
    assert (await ask("trace")).status == 501
    # As in kube-scheduler: a command line may have secrets.
    for name in ("cmdline", "nothing", "heap/", "../metrics"):
        assert ((await ask(name)).status, (await ask(name)).body) == (404, b"Unknown profile\n")


@pytest.mark.parametrize("name", EMPTY)
async def test_what_python_does_not_record_is_empty_and_says_why(ask, name):
    _, samples, whole, strings = read((await ask(name)).body)
    assert not samples
    assert strings[next(varints(whole[13][0]))]


@pytest.mark.parametrize(
    ("asked", "seconds"), [({}, 30.0), ("5", 5.0), ("x", 30.0), ("-1", 30.0), ("nan", 30.0), ("1e9", 600.0)]
)
async def test_duration_of_cpu_profiles(ask, asked, seconds):
    ask.end.set()
    await ask("profile", **({"seconds": asked} if asked else {}))
    assert ask.slept == [seconds]


async def test_cpu_time_is_attributed_to_stacks_by_one_sampler_that_leaves_nothing_behind(ask):
    interval = sys.getswitchinterval()
    first = asyncio.create_task(ask("profile"))
    await asyncio.sleep(0)
    assert sys.getswitchinterval() < interval
    busy = await ask("profile")
    assert (busy.status, busy.body) == (500, b"Could not enable profiling: cpu profiling already in use\n")
    ask.end.set()
    types, samples, whole, _ = read((await first).body)
    assert (types, whole[12]) == (["samples", "cpu"], [3600 * 10**9])
    # The test looks from the main thread, so the sampler's own is among what it sees.
    sampler = next(
        values for stack, values in samples.items() if "profile_pages.CpuSampler._run" in [name for name, *_ in stack]
    )
    assert sampler[0] >= 1
    assert sampler[1] >= 10**9
    ask.end.clear()
    gone = asyncio.create_task(ask("profile"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert sys.getswitchinterval() == interval
    assert "profiler" not in [thread.name for thread in threading.enumerate()]


async def innermost(secret, event):
    await event.wait()


async def middle(secret, event):
    await innermost(secret, event)


async def deep(below, event):
    await (deep(below - 1, event) if below else event.wait())


async def test_stacks_of_tasks_are_complete_but_for_very_deep_ones_and_without_values(ask):
    event = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(middle(CANARY, event), name="looking")
        group.create_task(deep(300, event))
        await asyncio.sleep(0)
        _, samples, _, strings = read((await ask("goroutine")).body)
        counted = (await ask("goroutine", debug="1")).body.decode()
        single = (await ask("goroutine", debug="2")).body.decode()
        event.set()
    assert [len(stack) for stack in samples if len(stack) > 100] == [128]
    chain = next(stack for stack, values in samples.items() if values == [3])
    module = "test_profiling_pages"
    assert [name for name, _, _ in chain] == ["locks.Event.wait", f"{module}.innermost", f"{module}.middle"]
    lines = [function.__code__.co_firstlineno + 1 for function in (innermost, middle)]
    assert [(file, line) for _, file, line in chain[1:]] == [(__file__, line) for line in lines]
    assert counted.startswith("goroutine profile: total ")
    assert "\n3 @\n#\tlocks.Event.wait\t" in counted
    assert single.count("task looking:\n") == 3
    assert "thread MainThread:\n" in single
    assert CANARY not in counted + single + "".join(strings)
