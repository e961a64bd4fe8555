"""Ask the sources of measured data, and deliver what they answer as objects of the cluster.

Each source has a task, so a slow one delays no other, and nothing waits for an answer but, for a few seconds, the first
pod: its scores would otherwise be those without data. A source that fails is logged once, until it answers again; its
last object stays.

Upstream: pkg/trimaran/collector.go in scheduler-plugins, which asks when a plugin is created, and then from a timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.kube.timing.times import within
from stowplan.scheduler.framework.sources import Source, SourceError, answer_of
from stowplan.scheduler.framework.status import RAISED

if TYPE_CHECKING:
    from stowplan.kube.api.custom_objects import CustomObject
    from stowplan.kube.api.port import Api
    from stowplan.kube.timing.times import Times
    from stowplan.net.client.json_http import JsonHttp

T = TypeVar("T", bound=ApiStruct)

#: How long the first pod waits for sources that have not answered yet.
FIRST_ANSWERS_TIMEOUT = 5.0


async def measured_now(
    api: Api, sources: Iterable[Source], *, times: Times, report: Callable[[str], None], agent: str = "stowplan"
) -> list[CustomObject]:
    """What the sources answer when they are asked once; one that fails, or takes seconds, is reported."""
    client = SourceClient(api, times, agent)

    async def asked(source: Source) -> CustomObject | None:
        found = await _answer(source, client, min(source.timeout, FIRST_ANSWERS_TIMEOUT), times)
        if isinstance(found, str):
            report(f"{source.name} cannot be read: {found}; there is no measured data")
            return None
        return found

    try:
        return [obj for obj in await asyncio.gather(*map(asked, sources)) if obj is not None]
    finally:
        await client.close()


async def _answer(source: Source, client: SourceClient, seconds: float, times: Times) -> CustomObject | str:
    """What the source answers, or what is wrong with it."""
    try:
        return await within(seconds, answer_of(source, client), sleep=times.sleep)
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except RAISED as error:
        return str(error) if isinstance(error, SourceError) else repr(error)


class Measuring:
    def __init__(
        self,
        api: Api,
        *,
        deliver: Callable[[type[ApiStruct], Sequence[Change[Any]]], None],
        times: Times,
        report: Callable[[str], None],
        agent: str = "stowplan",
    ) -> None:
        self._deliver = deliver
        self._times = times
        self._report = report
        self._client = SourceClient(api, times, agent)
        #: The last object of each source.
        self._measured: dict[Source, CustomObject | None] = {}
        self._asking: dict[Source, asyncio.Task[None]] = {}
        #: Sources that have neither answered nor failed.
        self._awaited: set[Source] = set()
        self._none_awaited = asyncio.Event()
        self._none_awaited.set()
        #: What is wrong with a source.
        self._problems: dict[Source, str] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def adopt(self, sources: Iterable[Source]) -> None:
        """Ask these from now on, and no others."""
        wanted = dict.fromkeys(sources)
        for source in [source for source in self._measured if source not in wanted]:
            self._drop(source)
        for source in wanted:
            if source not in self._measured:
                self._measured[source] = None
                self._awaited.add(source)
                self._none_awaited.clear()
                self._begin(source)

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for source in self._measured:
                    self._begin(source)
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            self._asking.clear()
            await self._client.close()

    async def first_answers(self) -> None:
        """Return once each source has answered or failed, or after a few seconds."""
        if not self._none_awaited.is_set():
            try:
                await within(FIRST_ANSWERS_TIMEOUT, self._all_tried(), sleep=self._times.sleep)
            except TimeoutError:
                late = ", ".join(sorted(source.name for source in self._awaited))
                self._report(f"no answer yet from {late}; pods are scheduled without measured data until there is one")

    async def _all_tried(self) -> None:
        await self._none_awaited.wait()

    def _begin(self, source: Source) -> None:
        if self._tasks is not None:
            self._asking[source] = self._tasks.create_task(self._ask_again_and_again(source))

    def _drop(self, source: Source) -> None:
        if (task := self._asking.pop(source, None)) is not None:
            task.cancel()
        last = self._measured.pop(source)
        if last is not None:
            self._deliver(source.kind, [Change(last, None)])
        self._problems.pop(source, None)
        self._is_tried(source)

    def _is_tried(self, source: Source) -> None:
        self._awaited.discard(source)
        if not self._awaited:
            self._none_awaited.set()

    async def _ask_again_and_again(self, source: Source) -> None:
        while True:
            began = self._times.clock()
            found = await _answer(source, self._client, source.timeout, self._times)
            if isinstance(found, str):
                self._fails(source, found)
            else:
                self._answers(source, found)
            self._is_tried(source)
            await self._times.sleep(max(source.interval - (self._times.clock() - began), 0.0))

    def _answers(self, source: Source, obj: CustomObject) -> None:
        if self._problems.pop(source, None) is not None:
            self._report(f"{source.name} answers again")
        last, self._measured[source] = self._measured[source], obj
        if last is None or last.content != obj.content:
            self._deliver(source.kind, [Change(last, obj)])

    def _fails(self, source: Source, problem: str) -> None:
        if self._problems.get(source) != problem:
            self._problems[source] = problem
            kept = "there is no measured data" if self._measured[source] is None else "its last answer is used"
            self._report(f"{source.name} cannot be read: {problem}; {kept}")


class SourceClient:
    """A `MeasuringClient`; to be closed."""

    def __init__(self, api: Api, times: Times, agent: str) -> None:
        self._api = api
        self._agent = agent
        self.wall_clock = times.wall_clock
        #: Made on first use: most schedulers measure nothing.
        self._http: JsonHttp | None = None

    async def get_json(
        self,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        insecure: bool = False,
    ) -> Any:
        if self._http is None:
            from stowplan.net.client.json_http import JsonHttp

            self._http = JsonHttp(agent=self._agent)
        try:
            return await self._http.get(url, query=query or {}, headers=headers or {}, insecure=insecure)
        except ValueError as error:
            raise SourceError(str(error)) from error

    async def list(self, kind: type[T]) -> Sequence[T]:
        return (await self._api.list(kind)).items

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None
