"""What recording costs: µs of CPU per pod, of the live scheduler with a recording on disk and without, in one process.

    python benchmarks/recording.py [--nodes 1000 5000] [--pods 200] [--rounds 60] [--file FILE]

A scheduler is given pods round by round, and records every other round. The API is next to nothing,
so the path is the whole one of a pod but for its requests: it is decoded, queued, tried, bound, told of by an event,
decoded again as bound, and deleted.

Two figures. One is the difference in the process's CPU between neighbouring rounds, the median of all. The other is
what the recorder itself takes, as the first is lost in the noise where others use the machine: the time around each
step less that of the engine in it, with a recording and without, as the difference of the medians of each kind of step
times how many there are; the CPU of making lines; and that of the thread that writes. "different" pods all ask for
something else.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from metrics import STAY, pods_of
from shapes import node

from stowplan.app.daemon.recording_file import recording
from stowplan.drivers.hang_guard.hang_guard import HangGuard
from stowplan.drivers.live.scheduler import Scheduler
from stowplan.kube.api.decode import decode_json, decode_object, encode_json
from stowplan.kube.api.port import Change, Listing
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import load_config
from stowplan.scheduler.engine.inputs import Changes
from stowplan.scheduler.engine.schedule_one import on_node
from stowplan.scheduler.in_tree.registry import in_tree_registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from stowplan.app.daemon.recording_file import RecordingFile
    from stowplan.scheduler.engine.engine import Engine
    from stowplan.scheduler.engine.input_log.input_recorder import Recorder


class Nothing:
    """An API with nodes and nothing else, where every write succeeds at once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.bound: dict[str, str] = {}
        #: Binds that are still awaited.
        self.awaited = 0
        self.all_bound = asyncio.Event()

    async def list(self, kind: type[Any], **_: Any) -> Listing[Any]:
        return Listing(self.nodes if kind is Node else (), "1")

    async def watch(self, kind: type[Any], **_: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    async def serves(self, kind: type[Any]) -> bool:
        return True

    async def bind(self, *, name: str, node: str, **_: Any) -> None:
        self.bound[name] = node
        self.awaited -= 1
        if not self.awaited:
            self.all_bound.set()

    async def create(self, obj: Any, **_: Any) -> Any:
        return obj


class Switch:
    """A recorder that is on in some rounds, and how long it takes in each step."""

    def __init__(self, recorder: Recorder) -> None:
        self.on = False
        #: Input, and how many changes -> nanoseconds of each step; without a recording and with one.
        self.took: tuple[dict[Any, list[int]], dict[Any, list[int]]] = (defaultdict(list), defaultdict(list))
        #: Seconds of CPU: making lines, which is not among the above; and the thread's.
        self.in_flushes = self.in_thread = 0.0
        self._recorder = recorder
        self._engine_took = self._flush_took = 0
        file: RecordingFile = recorder._write.__self__  # type: ignore[attr-defined]
        self._write_out = file._write_out
        file._write_out = self._timed_write_out  # type: ignore[method-assign]

    def begin(self, *args: Any, **options: Any) -> None:
        self._recorder.begin(*args, **options)
        recording = self._recorder._recording
        assert recording is not None, "the file can be written"
        self._flush = recording.flush
        recording.flush = self._timed_flush  # type: ignore[method-assign]

    def _timed_flush(self) -> None:
        began, cpu_began = time.perf_counter_ns(), time.thread_time()
        self._flush()
        self.in_flushes += time.thread_time() - cpu_began
        self._flush_took = time.perf_counter_ns() - began

    def step(self, engine: Engine, input_: Any, now: float) -> Any:
        self._engine, self._flush_took = engine, 0
        step = self._recorder.step if self.on else _passed_on
        began = time.perf_counter_ns()
        try:
            return step(_Timed(self), input_, now)  # type: ignore[arg-type]
        finally:
            took = time.perf_counter_ns() - began - self._engine_took - self._flush_took
            changes = len(input_.changes) if isinstance(input_, Changes) else 0
            self.took[self.on][type(input_).__name__, changes].append(took)

    def step_of_engine(self, input_: Any, now: float) -> Any:
        began = time.perf_counter_ns()
        try:
            return self._engine.step(input_, now)
        finally:
            self._engine_took = time.perf_counter_ns() - began

    def _timed_write_out(self) -> None:
        began = time.thread_time()
        self._write_out()
        self.in_thread += time.thread_time() - began

    def microseconds(self) -> float:
        """In all, as if every step had taken as long as most of its kind."""
        off, on = self.took
        steps = sum(
            (statistics.median(took) - statistics.median(off[kind])) * len(took)
            for kind, took in on.items()
            if kind in off
        )
        return steps / 1e3 + 1e6 * (self.in_flushes + self.in_thread)


class _Timed:
    """The engine, for the recorder."""

    def __init__(self, switch: Switch) -> None:
        self.step = switch.step_of_engine


def _passed_on(engine: Any, input_: Any, now: float) -> Any:
    return engine.step(input_, now)


class Scheduling:
    """A scheduler at work."""

    def __init__(self, nodes: Sequence[Node], recorder: Switch) -> None:
        self.api = Nothing(nodes)
        registry = in_tree_registry()
        config = load_config(None, plugins=registry.declarations)
        self.scheduler = Scheduler(
            self.api,
            config,
            registry=registry,
            random=Random(1),
            recorder=recorder,  # type: ignore[arg-type]
        )
        self.running = asyncio.create_task(self.scheduler.run())
        self.there: list[list[Pod]] = []

    async def round(self, pods: Sequence[bytes]) -> float:
        """Bind these pods and hear of it; those of an earlier round leave. The CPU that it takes."""
        handle = self.scheduler.handle
        self.api.awaited = len(pods)
        self.api.all_bound.clear()
        # As news come: not all in one batch.
        news = [pods[i : i + 10] for i in range(0, len(pods), 10)]
        began = time.process_time()
        decoded: list[Pod] = []
        for batch in news:
            read = [decode_json(data, Pod) for data in batch]
            decoded += read
            handle(Pod, [Change(None, pod) for pod in read])
        async with asyncio.timeout(60):
            await self.api.all_bound.wait()
        used = time.process_time() - began
        bound = [encode_json(on_node(pod, self.api.bound[pod.metadata.name])) for pod in decoded]
        there: list[Pod] = []
        began = time.process_time()
        for i in range(0, len(bound), 10):
            read = [decode_json(data, Pod) for data in bound[i : i + 10]]
            there += read
            handle(Pod, [Change(old, new) for old, new in zip(decoded[i : i + 10], read, strict=True)])
        self.there.append(there)
        if len(self.there) > STAY:
            for pod in self.there.pop(0):
                handle(Pod, [Change(pod, None)])
        while self.scheduler.busy:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        return used + time.process_time() - began


async def measure(kind: str, nodes: int, options: argparse.Namespace, file: Path) -> None:
    objects = [decode_object(node(i)) for i in range(nodes)]
    used: tuple[list[float], list[float]] = ([], [])
    with recording(str(file), HangGuard()) as recorder:
        switch = Switch(recorder)
        scheduling = Scheduling(objects, switch)
        await scheduling.scheduler.ready.wait()
        gc.collect()
        gc.freeze()
        gc.disable()
        for number in range(2 * options.rounds + 4):
            pods = [encode_json(pod) for pod in pods_of(kind, number, options.pods)]
            # Which of two goes first changes, too.
            switch.on = number % 4 in (1, 2)
            used[switch.on].append(1e6 * await scheduling.round(pods) / len(pods))
            gc.collect(0)
        gc.enable()
        gc.unfreeze()
        scheduling.running.cancel()
        await asyncio.gather(scheduling.running, return_exceptions=True)
    without, with_it = (rounds[2:] for rounds in used)
    differences = [more - less for less, more in zip(without, with_it, strict=True)]
    base, difference = statistics.median(without), statistics.median(differences)
    quarter, _, three_quarters = statistics.quantiles(differences)
    number = options.pods * (options.rounds + 2)
    itself = switch.microseconds() / number
    print(
        f"{kind:11} pods, {nodes:6,} nodes: {base:6.1f} µs a pod without, {difference:5.1f} more with a recording "
        f"(middle half {quarter:.1f} to {three_quarters:.1f}), {100 * difference / base:.1f} %; the recorder itself "
        f"{itself:.1f}, {100 * itself / base:.1f} %, of it the thread {1e6 * switch.in_thread / number:.1f}; "
        f"{file.stat().st_size / number:,.0f} bytes a pod",  # noqa: ASYNC240
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=200, help="pods a round")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--file", type=Path, help="where to record to; without it, a temporary file")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("equal", "controllers", "different"):
            for nodes in options.nodes:
                asyncio.run(measure(kind, nodes, options, options.file or Path(folder) / "recording"))


if __name__ == "__main__":
    main()
