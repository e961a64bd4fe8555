"""A front on 127.0.0.1 and a client for it; sleeps end only when the test advances time."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.http_front import Front

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "the-administrators-token"
NOW = 1_800_000_000.0


class Sleeper:
    """Sleeps until the test advances time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleeping: list[tuple[float, asyncio.Future[None]]] = []

    async def __call__(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._sleeping.append((self.now + seconds, future))
        await future

    @property
    def sleeping(self) -> int:
        return sum(not future.done() for _, future in self._sleeping)

    @staticmethod
    async def settle() -> None:
        """Run everything that is ready to run."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Advance time, waking sleepers in order."""
        end = self.now + seconds
        while True:
            await self.settle()
            due = [(at, future) for at, future in self._sleeping if at <= end and not future.done()]
            if not due:
                break
            self.now, future = min(due, key=lambda pair: pair[0])
            future.set_result(None)
        self.now = end


@dataclass
class Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Requests to one front, as the administrator unless specified otherwise."""

    def __init__(self, server: ApiServer, front: Front, session: aiohttp.ClientSession, sleeper: Sleeper) -> None:
        self.server = server
        self.front = front
        self.session = session
        self.sleeper = sleeper

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """`Content_Type="…"` is the header Content-Type; a header of "" is not sent."""
        sent = {"Authorization": f"Bearer {TOKEN}", "User-Agent": "tests/1", "Accept": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in sent.items() if value}
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        url = aiohttp.client.URL(self.front.url + path, encoded=True)
        async with self.session.request(method, url, data=data, headers=sent) as response:
            return Reply(response.status, response.headers, await response.read())

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.request("GET", path, **headers)

    async def post(self, path: str, body: Any, **headers: str) -> Reply:
        return await self.request("POST", path, body, **headers)

    async def create(self, path: str, body: Any) -> Any:
        reply = await self.post(path, body)
        assert reply.status == 201, reply.text
        return reply.json

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[Raw]:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.front.url.rpartition(":")[2]))
        try:
            yield Raw(reader, writer)
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    @asynccontextmanager
    async def watching(self, path: str, **headers: str) -> AsyncIterator[Watching]:
        sent = {"Authorization": f"Bearer {TOKEN}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        async with self.session.get(self.front.url + path, headers=sent) as response:
            yield Watching(response)


class Watching:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Any:
        """The next event; None at the end."""
        line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def told(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"].get("metadata", {}).get("name", "")) for event in events]


class Raw:
    """A bare connection, for bytes that no HTTP library would send."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def reply(self) -> Reply:
        """One response, with the length that it declares."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.title(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await self._reader.readexactly(int(headers.get("Content-Length", "0")))
        return Reply(int(status.split()[1]), headers, body)

    async def rest(self) -> bytes:
        """Everything until the server closes the connection."""
        try:
            return await self._reader.read(-1)
        except ConnectionError:
            return b""


@asynccontextmanager
async def _serving(**settings: Any) -> AsyncIterator[Client]:
    sleeper, tasks = Sleeper(), asyncio.all_tasks()
    server = ApiServer(clock=lambda: NOW, random=Random(1))
    front = Front(
        server,
        settings=FrontSettings(**{"tls": False, "token": TOKEN, **settings}),
        sleep=sleeper,
        monotonic=lambda: 0.0,
        chance=lambda: 0.0,
    )
    await front.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(server, front, session, sleeper)
    finally:
        await front.stop()
        server.close()
    await sleeper.settle()
    # Nothing of the test is still running, waiting or following the store.
    assert asyncio.all_tasks() - {asyncio.current_task()} <= tasks
    assert sleeper.sleeping == 0
    assert not any(table.history.asleep for table in server.store._tables.values())
    assert not any(front.metrics.inflight.values())
    assert front.metrics.watches == 0


@pytest.fixture
def serving():
    """`async with serving(max_watches=1) as client`: a front with these settings."""
    return _serving


@pytest.fixture
async def client(serving) -> AsyncIterator[Client]:
    async with serving() as made:
        yield made
