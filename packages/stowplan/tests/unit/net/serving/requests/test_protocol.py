"""Changes to aiohttp's server, tested without TLS and with simple handlers."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from stowplan.kube.timing.times import ManualTime
from stowplan.net.serving.handler import refuse
from stowplan.net.serving.requests.protocol import HttpServer, Timer


@asynccontextmanager
async def serving(handler):
    http = HttpServer(handler, refuse=refuse, sleep=asyncio.sleep, write_timeout=60)
    server = await asyncio.get_running_loop().create_server(http, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await http.shutdown(1)
        await server.wait_closed()


async def answered(port):
    """Everything until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return answer


def errors(caplog):
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_exceptions_in_handlers_are_status_500_and_logged(caplog):
    async def broken(request):
        raise ValueError("bug")

    async with serving(broken) as port:
        answer = await answered(port)
    assert answer.startswith(b"HTTP/1.1 500 ")
    (told,) = errors(caplog)
    assert told.exc_info[1].args == ("bug",)


async def test_a_started_response_is_aborted(caplog):
    async def broken(request):
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half")
        raise ValueError("bug")

    async with serving(broken) as port:
        answer = await answered(port)
    assert answer.endswith(b"\r\n\r\nhalf")
    assert len(errors(caplog)) == 1


class Timed:
    def __init__(self):
        self.time = ManualTime()
        self.timer = Timer(self.time.sleep)
        self.acted = []

    def start(self, seconds):
        self.timer.start(seconds, lambda: self.acted.append(self.time.now))


@pytest.fixture
async def timed():
    timed = Timed()
    yield timed
    timed.timer.stop()


async def test_a_timer_fires_once(timed):
    assert not timed.timer.runs
    timed.start(5)
    assert timed.timer.runs
    await timed.time.advance(20)
    assert timed.acted == [5]
    assert not timed.timer.runs


async def test_restarting_a_timer_replaces_its_action(timed):
    timed.start(5)
    await timed.time.advance(3)
    timed.start(5)
    await timed.time.advance(20)
    assert timed.acted == [8]


async def test_a_timer_that_is_stopped_does_nothing(timed):
    timed.start(5)
    timed.timer.stop()
    assert not timed.timer.runs
    await timed.time.advance(20)
    assert timed.acted == []
