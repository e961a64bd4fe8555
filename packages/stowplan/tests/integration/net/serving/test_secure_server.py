"""The secure port from outside: responses, and shutdown."""

import asyncio
import gzip
import http.client
import json
import logging
import shutil
import socket

import aiohttp
import pytest
from msgspec.structs import replace

from stowplan.kube.timing.times import REAL_TIMES, RealTimes
from stowplan.net.serving.pages import metrics_page
from stowplan.net.serving.requests.health import HealthChecks
from stowplan.net.serving.requests.messages import Response, text
from stowplan.net.serving.secure_server import Listener, SecureServer
from stowplan.net.serving.serving_error import ServingError
from stowplan.net.serving.tls.transport import TlsTransport, address_text, host_of
from stowplan.net.serving.user import AuthorizationFailed
from support.serving.secure_port import FakeAccess, connected, secure_server, trusting, with_settings


def _echo(request):
    shown = {
        "method": request.method,
        "path": request.path,
        "user": request.user.name,
        "query": dict(request.query),
        "headers": dict(request.headers),
        "body": request.body.decode(),
        "remote": request.remote,
    }
    return Response(json.dumps(shown).encode(), content_type="application/json")


PAGES = {**HealthChecks("healthz", {}).pages, "/echo": _echo, "/echo/": _echo}


async def test_pages_do_not_see_credentials():
    async with secure_server(PAGES) as server, await connected(server) as client:
        status, headers, body = await client.ask(
            "/echo/a%2Fb?x=1&x=%32&y", "PUT", b"hello", Authorization="Bearer me", X_Other="o"
        )
    shown = json.loads(body)
    assert (status, shown.pop("headers")) == (200, {"Host": "test", "X-Other": "o", "Content-Length": "5"})
    assert shown == {
        "method": "PUT",
        "path": "/echo/a/b",
        "user": "me",
        "query": {"x": ["1", "2"], "y": [""]},
        "body": "hello",
        "remote": "127.0.0.1",
    }
    assert headers["Cache-Control"] == "no-cache, private"


@pytest.mark.parametrize(
    ("path", "headers", "status", "body"),
    [
        pytest.param("/healthz", {}, 200, b"ok", id="page"),
        pytest.param("/healthz/ping", {}, 200, b"ok", id="one check"),
        pytest.param("/healthz/", {}, 404, b"404 page not found\n", id="no slash at the end of a page"),
        pytest.param("//healthz", {}, 404, b"404 page not found\n", id="no path is cleaned"),
        pytest.param("/echo/../healthz", {}, 200, None, id="the beginning counts, as it is"),
        pytest.param("/%68ealthz", {}, 200, b"ok", id="escaped"),
        pytest.param("http://elsewhere/healthz?verbose", {}, 200, None, id="as to a proxy"),
        pytest.param("/healthz%zz", {}, 400, b"400 Bad Request", id="no escape"),
        pytest.param("http://[/healthz", {}, 400, b"400 Bad Request", id="no URL"),
        pytest.param("/nothing", {}, 404, b"404 page not found\n", id="no page"),
        pytest.param("/hidden", {}, 403, None, id="forbidden before it is looked for"),
        pytest.param("/healthz", {"Authorization": "Bearer wrong"}, 401, None, id="wrong token, open page"),
        pytest.param("/nothing", {"Authorization": "Bearer wrong"}, 401, None, id="wrong token, no page"),
    ],
)
async def test_answers(path, headers, status, body):
    async with (
        secure_server(PAGES, access=FakeAccess(forbidden=("/hidden",))) as server,
        await connected(server) as client,
    ):
        answered, _, got = await client.ask(path, **headers)
        assert answered == status
        assert body is None or got == body
        # The connection stays open, except after malformed requests.
        assert status == 400 or (await client.ask("/healthz"))[0] == 200


async def test_absolute_urls_keep_their_path():
    access = FakeAccess()
    async with secure_server(PAGES, access=access) as server, await connected(server) as client:
        assert (await client.ask("http://elsewhere//echo?x=1"))[0] == 404
    assert [path for _, _, path in access.asked] == ["//echo"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_health_accepts_any_method(method):
    async with secure_server(PAGES) as server, await connected(server) as client:
        status, headers, body = await client.ask("/healthz", method)
    assert (status, headers["Content-Length"], body) == (200, "2", b"" if method == "HEAD" else b"ok")


async def test_authorization_uses_method_and_decoded_path():
    access = FakeAccess()
    async with secure_server(PAGES, access=access) as server, await connected(server) as client:
        await client.ask("/%6dotrics?x=y", "DELETE", Authorization="Bearer me")
    assert access.asked == [("me", "delete", "/motrics")]


@pytest.mark.parametrize(
    ("headers", "content_type", "body"),
    [
        pytest.param(
            {},
            "application/json",
            b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
            b'"message":"Unauthorized","reason":"Unauthorized","code":401}\n',
            id="JSON",
        ),
        pytest.param({"Accept": "application/yaml"}, "application/yaml", b"apiVersion: v1\ncode: 401\n", id="YAML"),
    ],
)
async def test_a_refusal_is_a_status(headers, content_type, body):
    async with secure_server(PAGES) as server, await connected(server) as client:
        status, answered, got = await client.ask("/healthz", Authorization="Bearer wrong", **headers)
    assert (status, answered["Content-Type"]) == (401, content_type)
    assert got.startswith(body)


async def test_failed_authorization_is_plain_text():
    class Undecided(FakeAccess):
        async def authorize(self, user, *, verb, path):
            raise AuthorizationFailed("nobody knows")

    async with secure_server(PAGES, access=Undecided()) as server, await connected(server) as client:
        status, answered, got = await client.ask("/healthz?a=<b>")
    assert (status, answered["Content-Type"]) == (500, "text/plain; charset=utf-8")
    assert got == b'Internal Server Error: "/healthz?a=&lt;b&gt;": nobody knows\n'


async def test_exceptions_in_pages_are_logged_and_the_connection_stays(caplog):
    def broken(request):
        raise KeyError("bug")

    async def broken_later(request):
        await asyncio.sleep(0)
        raise KeyError("bug")

    pages = {**PAGES, "/broken": broken, "/later": broken_later}
    async with secure_server(pages) as server, await connected(server) as client:
        for path in ("/broken", "/later"):
            status, _, body = await client.ask(path)
            assert (status, body) == (
                500,
                b"This request caused apiserver to panic. Look in the logs for details.\n",
            )
        assert (await client.ask("/healthz"))[0] == 200
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 2
    assert all("KeyError" in record.getMessage() and "broken" in record.getMessage() for record in errors)


async def test_the_access_log_has_the_keys_of_upstream(caplog):
    from stowplan.kube.klog import logger

    caplog.set_level(logging.DEBUG)
    logger.set_verbosity(3)
    try:
        async with secure_server(PAGES) as server, await connected(server) as client:
            await client.ask('/healthz?a="b"', User_Agent='ti"tle', Authorization="Bearer s3cret")
    finally:
        logger.set_verbosity(0)
    line = next(record.getMessage() for record in caplog.records if record.getMessage().startswith("HTTP"))
    assert line.startswith(r'HTTP verb="GET" URI="/healthz?a=\"b\"" latency="')
    assert r' userAgent="ti\"tle" audit-ID="" srcIP="127.0.0.1:' in line
    assert line.endswith(" resp=200")
    assert "s3cret" not in caplog.text


async def test_metrics_are_reset_and_compressed():
    resets = []
    page = metrics_page(lambda accept: ("text/plain", b"x 1\n" * 50_000), reset=lambda: resets.append(1))
    async with secure_server({"/metrics": page}) as server, await connected(server) as client:
        _, headers, body = await client.ask("/metrics")
        assert (headers["Content-Type"], len(body)) == ("text/plain", 200_000)
        _, headers, packed = await client.ask("/metrics", Accept_Encoding="br, gzip;q=0.5")
        assert (headers["Content-Encoding"], gzip.decompress(packed)) == ("gzip", body)
        _, headers, body = await client.ask("/metrics", Accept_Encoding="gzip;q=0")
        assert "Content-Encoding" not in headers
        assert (await client.ask("/metrics", "DELETE"))[2] == b"metrics reset\n"
    assert resets == [1]


async def test_a_body_of_any_size_is_refused_beyond_a_limit():
    async with secure_server(PAGES) as server, await connected(server) as client:
        status, _, body = await client.ask("/echo", "PUT", b"x" * 100_000)
        assert (status, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")


async def test_expect_100_continue():
    async with secure_server(PAGES) as server, await connected(server) as client:
        await client.send(b"PUT /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await client.reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hi")
        assert json.loads((await client.answer())[2])["body"] == "hi"


async def test_common_clients():
    def with_http_client(port):
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusting(), timeout=5)
        try:
            connection.request("GET", "/healthz?verbose")
            return connection.getresponse().read()
        finally:
            connection.close()

    async def with_aiohttp(port):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{port}/healthz?verbose", ssl=trusting()) as answer,
        ):
            return await answer.read()

    async def with_curl(port):
        command = ("curl", "-sk", f"https://127.0.0.1:{port}/healthz?verbose")
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0]

    expected = b"[+]ping ok\nhealthz check passed\n"
    async with secure_server(PAGES) as server:
        assert await asyncio.to_thread(with_http_client, server.port) == expected
        assert await with_aiohttp(server.port) == expected
        if shutil.which("curl"):
            assert await with_curl(server.port) == expected


async def test_close_notify_is_sent():
    """So that a client can distinguish the end of a response from a cut connection."""

    def asked(port):
        with socket.create_connection(("127.0.0.1", port)) as plain:
            tls = trusting().wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)
            with tls:
                tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = b""
                while piece := tls.recv(1000):
                    answer += piece
                return answer

    async with secure_server(PAGES) as server:
        answer = await asyncio.to_thread(asked, server.port)
    assert answer.endswith(b"\r\n\r\nok")


# Listening


@pytest.mark.parametrize(
    ("bind_address", "shown", "hosts"),
    [
        pytest.param("127.0.0.1", "127.0.0.1", ["127.0.0.1"], id="one address"),
        pytest.param("0.0.0.0", "[::]", ["127.0.0.1", "::1"], id="all, written as IPv4"),
        pytest.param("::", "[::]", ["127.0.0.1", "::1"], id="all, written as IPv6"),
        pytest.param("::1", "[::1]", ["::1"], id="one of IPv6"),
    ],
)
async def test_addresses(bind_address, shown, hosts):
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    async with secure_server(PAGES, settings=with_settings(bind_address=bind_address)) as server:
        assert server.address == f"{shown}:{server.port}"
        for host in hosts:
            _, writer = await asyncio.open_connection(host, server.port, ssl=trusting(), server_hostname="localhost")
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize(("address", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
async def test_a_port_in_use_is_reported_as_upstream_does(address, shown):
    if shown != address and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    settings = with_settings(bind_address=address)
    async with secure_server(PAGES, settings=settings) as first:
        in_use = replace(settings, port=first.port)
        second = SecureServer(in_use, pages=PAGES, authenticator=FakeAccess(), authorizer=FakeAccess())
        with pytest.raises(ServingError) as caught:
            await second.start()
        await second.stop()
    where = f"{shown}:{first.port}"
    assert str(caught.value) == (
        f"failed to create listener: failed to listen on {where}: listen tcp {where}: bind: address already in use"
    )


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param(("127.0.0.1", 80), "127.0.0.1:80", id="IPv4"),
        pytest.param(("::1", 80, 0, 0), "[::1]:80", id="IPv6"),
        pytest.param(("::ffff:10.0.0.7", 80, 0, 0), "10.0.0.7:80", id="IPv4 on a socket of both"),
        pytest.param(None, "", id="a connection that is gone"),
    ],
)
def test_addresses_are_written_as_go_does(address, expected):
    assert address_text(address) == expected
    assert host_of(address) == expected.rpartition(":")[0].strip("[]")


def test_pieces_are_sent_in_one_write():
    class Connection:
        def __init__(self):
            self.sent = []
            self.send = self.sent.append

    connection = Connection()
    TlsTransport(connection, None, ()).writelines([b"a", bytearray(b"b"), memoryview(b"c")])
    assert connection.sent == [b"abc"]


async def test_ports_can_be_shared():
    settings = with_settings(reuse_port=True)
    async with secure_server(PAGES, settings=settings) as first:
        settings = with_settings(reuse_port=True, port=first.port)
        async with secure_server(PAGES, settings=settings) as second:
            assert second.port == first.port


async def test_a_port_that_was_opened_and_never_served_is_closed():
    settings = with_settings()
    listener = Listener(settings, wall_clock=REAL_TIMES.wall_clock)
    listener.open()
    access = FakeAccess()
    await SecureServer(settings, pages=PAGES, authenticator=access, authorizer=access, listener=listener).stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", listener.port)


async def test_a_client_may_wait_at_a_port_that_is_open_but_not_yet_served():
    listener = Listener(with_settings(), wall_clock=lambda: 1_800_000_000)
    listener.open()
    waiting = asyncio.ensure_future(connected(listener))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    async with secure_server(PAGES, listener=listener), await waiting as client:
        assert (await client.ask("/healthz"))[2] == b"ok"


# Shutdown


async def test_shutdown_finishes_requests_and_closes_idle_connections(caplog):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request):
        begun.set()
        await go_on.wait()
        return text("late")

    async with (
        secure_server({**PAGES, "/slow": slow}) as server,
        await connected(server) as idle,
        await connected(server) as busy,
        await connected(server, plain=True) as silent,
    ):
        await idle.ask("/healthz")
        answer = asyncio.ensure_future(busy.ask("/slow"))
        await begun.wait()
        stopping = asyncio.ensure_future(server.stop())
        assert await idle.rest() == b""
        assert await silent.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await connected(server)
        assert not stopping.done()
        go_on.set()
        assert (await answer)[2] == b"late"
        await stopping
    # No connection had to be cut.
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_shutdown_aborts_requests_after_the_grace_period():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(request):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with secure_server({"/endless": endless}) as server, await connected(server) as client:
        await client.send(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await begun.wait()
        await server.stop(grace=0.01)
        assert ended.is_set()
        assert await client.rest() == b""


async def test_a_page_is_cancelled_after_its_client_disconnects():
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def endless(request):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def sleep(seconds):
        await asyncio.sleep(0 if seconds == 5.0 else seconds)

    times = RealTimes()
    times.sleep = sleep
    async with secure_server({"/endless": endless}, times=times) as server, await connected(server) as client:
        await client.send(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await begun.wait()
        assert not cancelled.is_set()
        client.writer.transport.abort()
        await asyncio.wait_for(cancelled.wait(), 5)
