"""The port for the local user: who gets a response, and who does not."""

import contextlib

import aiohttp
import pytest

from stowplan.net.serving.loopback import LoopbackServer
from stowplan.net.serving.requests.messages import Response, Stream
from stowplan.net.serving.serving_error import ServingError

TOKEN = "a-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Pages:
    def __init__(self):
        self.seen = []
        self.ended = False

    def data(self, request):
        self.seen.append(request)
        return Response(b"data")

    def stream(self, request):
        return Stream(self._pieces(), "text/event-stream")

    async def _pieces(self):
        try:
            for number in range(3):
                yield b"%d" % number
        finally:
            self.ended = True


@contextlib.asynccontextmanager
async def serving(pages):
    routes = {"/page/": pages.data, "/page/data": pages.data, "/page/stream": pages.stream}
    server = LoopbackServer(routes, token=TOKEN, public=lambda path: path == "/page/")
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield session, server
    finally:
        await server.stop()


@pytest.fixture
def pages():
    return Pages()


async def status_of(session, path="/page/data", **headers):
    async with session.get(path, headers=headers) as answer:
        return answer.status


async def test_requests_with_the_token(pages):
    async with serving(pages) as (session, _), session.get("/page/data", headers=BEARER) as answer:
        assert (answer.status, await answer.read()) == (200, b"data")
    assert "Authorization" not in pages.seen[0].headers


@pytest.mark.parametrize("given", ["", "Bearer other", f"Basic {TOKEN}", "Bearer", "Bearer \u00ff"])
async def test_requests_without_the_token(pages, given):
    async with serving(pages) as (session, _):
        assert await status_of(session, **({"Authorization": given} if given else {})) == 401
        assert await status_of(session, "/page/stream", **({"Authorization": given} if given else {})) == 401
    assert pages.seen == []


async def test_public_paths_are_exact(pages):
    async with serving(pages) as (session, _):
        assert await status_of(session, "/page/") == 200
        assert await status_of(session, "/page/other") == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "0.0.0.0"])
async def test_foreign_host_names_are_refused_even_with_the_token(pages, host):
    async with serving(pages) as (session, _):
        assert await status_of(session, **BEARER, Host=host) == 403
        assert await status_of(session, "/page/", Host=host) == 403


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:80", "LOCALHOST"])
async def test_allowed_host_names_and_ports(pages, host):
    async with serving(pages) as (session, _):
        assert await status_of(session, **BEARER, Host=host) == 200
        assert await status_of(session, **BEARER, Host=host, Origin=f"http://{host}") == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
async def test_foreign_origins_are_refused_even_with_the_token(pages, origin):
    async with serving(pages) as (session, _):
        assert await status_of(session, **BEARER, Origin=origin) == 403


async def test_a_stream_is_sent_to_its_end(pages):
    async with serving(pages) as (session, _), session.get("/page/stream", headers=BEARER) as answer:
        assert (answer.headers["Content-Type"], await answer.read()) == ("text/event-stream", b"012")
    assert pages.ended


async def test_a_port_in_use_is_reported(pages):
    async with serving(pages) as (_, server):
        with pytest.raises(ServingError, match=f"cannot listen on 127.0.0.1:{server.port}: "):
            await LoopbackServer({}, token=TOKEN, port=server.port).start()
