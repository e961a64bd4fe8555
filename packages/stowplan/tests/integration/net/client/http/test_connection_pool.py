"""Which connection a request gets, what happens to it afterwards, and that none is left open."""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from stowplan.net.client.endpoint.file_content import InlineContent
from stowplan.net.client.endpoint.tls import TlsSettings
from stowplan.net.client.http import connection_pool
from stowplan.net.client.http.connection_pool import MAX_DIALS, ConnectionPool
from stowplan.net.client.http.failures import CUT_OFF as CUT_OFF_WORDS
from stowplan.net.client.http.failures import NO_ANSWER, SILENT, NotAnswered
from stowplan.net.client.http.transport import Limits
from support.http.certificates import make_ca, make_server_certificate
from support.http.misbehaving_server import Misbehaving, answers, closes, does, hangs, resets, sends, streams

GET = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
FINE = answers(200, b"fine")
SECONDS = 30


CA = make_ca()


@pytest.fixture
def context(tmp_path):
    pair = make_server_certificate(CA, ["127.0.0.1"])
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    return made


def a_tls():
    return TlsSettings(ca=InlineContent(CA.certificate, where="ca"))


@asynccontextmanager
async def a_pool(server, *, tls=None, **limits):
    pool = ConnectionPool(URL(server if isinstance(server, str) else server.url), tls=tls, limits=Limits(**limits))
    try:
        async with asyncio.timeout(SECONDS):
            yield pool
    finally:
        await pool.close()


def asked(pool, request=GET):
    return asyncio.ensure_future(pool.exchange(request))


async def fine(pool):
    answer = await pool.exchange(GET)
    assert (answer.code, answer.body) == (200, b"fine")


class Held:
    """An action that blocks until it is released."""

    def __init__(self, action=FINE):
        self.arrived = asyncio.Event()
        self.go = asyncio.Event()
        self._action = action

    async def __call__(self, exchange):
        self.arrived.set()
        await self.go.wait()
        await self._action(exchange)


class Gate:
    """Dials that wait until they are released, with the number of concurrent ones."""

    def __init__(self, monkeypatch):
        self.open = asyncio.Event()
        self.now = self.most = self.all = 0
        self.reached = asyncio.Event()
        self._dial = connection_pool.dial
        monkeypatch.setattr(connection_pool, "dial", self)

    async def __call__(self, *arguments):
        self.now += 1
        self.all += 1
        self.most = max(self.most, self.now)
        self.reached.set()
        try:
            await self.open.wait()
            await self._dial(*arguments)
        finally:
            self.now -= 1


async def over(server):
    """Wait until the server has seen the end of all its connections."""
    await asyncio.gather(*server._serving)


async def noticed(pool):
    """Wait until the pool has seen the end of its idle connections: the server's side may end a round earlier."""
    while any(connection.usable for connection in pool._idle):  # noqa: ASYNC110 - the pool tells nobody
        await asyncio.sleep(0)


# -- choosing a connection


async def test_requests_one_after_the_other_share_a_connection():
    async with Misbehaving(*[FINE] * 9) as server, a_pool(server) as pool:
        for _ in range(9):
            await fine(pool)
        assert server.connections == 1


async def test_one_connection_per_request_in_flight():
    held = [Held() for _ in range(3 * MAX_DIALS)]
    async with Misbehaving(*held, *[FINE] * 9) as server, a_pool(server) as pool:
        requests = [asked(pool) for _ in held]
        for one in held:
            await one.arrived.wait()
        for one in held:
            one.go.set()
        await asyncio.gather(*requests)
        await asyncio.gather(*[fine(pool) for _ in range(9)])
        assert server.connections == len(held)


async def test_the_most_recently_used_connection_is_used_next():
    ports = []

    async def noting(exchange):
        ports.append(exchange.writer.get_extra_info("peername"))
        await FINE(exchange)

    first, second = Held(noting), Held(noting)
    async with Misbehaving(first, second, noting, noting) as server, a_pool(server) as pool:
        requests = []
        for held in (first, second):
            requests.append(asked(pool))
            await held.arrived.wait()
        for held, request in zip((second, first), reversed(requests), strict=True):
            held.go.set()
            await request
        await fine(pool)
        await fine(pool)
    assert len(set(ports)) == 2
    assert ports[1:] == [ports[1]] * 3


async def test_concurrent_dials_are_limited(monkeypatch):
    gate = Gate(monkeypatch)
    async with Misbehaving(*[FINE] * 30) as server, a_pool(server) as pool:
        requests = [asked(pool) for _ in range(30)]
        await gate.reached.wait()
        gate.open.set()
        assert {answer.code for answer in await asyncio.gather(*requests)} == {200}
    assert gate.most == MAX_DIALS


async def test_a_waiting_request_takes_a_connection_that_becomes_free(monkeypatch):
    held, both = Held(), [Held(), Held()]
    async with Misbehaving(held, FINE, *both) as server, a_pool(server) as pool:
        first = asked(pool)
        await held.arrived.wait()
        gate = Gate(monkeypatch)
        second = asked(pool)
        await gate.reached.wait()
        held.go.set()
        await asyncio.gather(first, second)
        assert server.connections == 1
        gate.open.set()
        requests = [asked(pool), asked(pool)]
        for one in both:
            await one.arrived.wait()
        for one in both:
            one.go.set()
        await asyncio.gather(*requests)
        # The connection made for the second request is used by this one.
        assert (server.connections, gate.all) == (2, 1)


async def test_each_waiting_request_gets_the_dial_error():
    async with Misbehaving() as server:
        url = server.url
    async with a_pool(url) as pool:
        outcomes = await asyncio.gather(*[asked(pool) for _ in range(3 * MAX_DIALS)], return_exceptions=True)
    assert [(str(error), error.failure.sent) for error in outcomes] == [("connection refused", False)] * len(outcomes)


async def test_waiting_for_a_connection_times_out(monkeypatch):
    Gate(monkeypatch)
    async with Misbehaving() as server, a_pool(server, connect=0.05) as pool:
        requests = [asked(pool) for _ in range(3 * MAX_DIALS)]
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert {(str(error), error.failure.sent) for error in outcomes} == {("no connection within the time limit", False)}


async def test_an_internal_error_while_dialing_is_raised_to_waiters(monkeypatch):
    async def broken(*_):
        raise AssertionError("a bug")

    monkeypatch.setattr(connection_pool, "dial", broken)
    async with a_pool("http://127.0.0.1:1") as pool:
        with pytest.raises(AssertionError, match="a bug"):
            await pool.exchange(GET)


# -- after a response


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(answers(200, b"fine", headers={"Connection": "close"}), id="Connection: close"),
        pytest.param(sends(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nfine", keep=True), id="1.0"),
        pytest.param(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine!", keep=True), id="there was more"),
        pytest.param(sends(b"HTTP/1.1 200 OK\r\n\r\nfine"), id="its end was the answer's"),
    ],
)
async def test_connections_that_are_not_used_again(action):
    async with Misbehaving(action, FINE) as server, a_pool(server) as pool:
        await fine(pool)
        await fine(pool)
        assert server.connections == 2


async def test_an_idle_connection_that_the_server_closes_is_not_used():
    async with Misbehaving(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"), FINE) as server:
        async with a_pool(server) as pool:
            await fine(pool)
            await over(server)
            await noticed(pool)
            await fine(pool)
        assert server.connections == 2


async def test_unsolicited_data_closes_the_connection():
    go = asyncio.Event()

    async def unasked(exchange):
        await FINE(exchange)
        await go.wait()
        await answers(408, b"you are slow")(exchange)

    async with Misbehaving(unasked, FINE) as server, a_pool(server) as pool:
        await fine(pool)
        go.set()
        await over(server)
        await fine(pool)
        assert server.connections == 2


async def test_idle_connections_expire(monkeypatch):
    monkeypatch.setattr(connection_pool, "KEPT_IDLE", 0.01)
    async with Misbehaving(FINE, FINE) as server, a_pool(server) as pool:
        await fine(pool)
        await over(server)
        await fine(pool)
        assert server.connections == 2


async def test_a_server_that_responds_before_reading_the_body():
    """It responds after the head; unsent parts of the body would be taken for the next request."""

    async def refuse(reader, writer):
        connections.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")

    connections = []
    # Small buffers, so that little data is needed.
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    server = await asyncio.start_server(refuse, sock=listening, limit=1 << 10)
    async with a_pool(f"http://127.0.0.1:{listening.getsockname()[1]}") as pool:
        request = GET[:-2] + b"Content-Length: 20000000\r\n\r\n" + bytes(20_000_000)
        for _ in range(2):
            assert (await pool.exchange(request)).code == 413
            assert pool._idle == []
    assert len(connections) == 2
    for writer in connections:
        writer.transport.abort()
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("action", "why"),
    [
        pytest.param(resets, f"connection reset by peer|{NO_ANSWER}", id="reset"),
        pytest.param(closes, NO_ANSWER, id="closed"),
        pytest.param(hangs, SILENT, id="silent"),
        pytest.param(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nf"), CUT_OFF_WORDS, id="cut off"),
        pytest.param(sends(b"HTTP/1.1 200"), CUT_OFF_WORDS, id="head cut off"),
        pytest.param(streams(b"f", then="reset"), f"connection reset by peer|{CUT_OFF_WORDS}", id="reset in a chunk"),
        pytest.param(
            sends(b"\x15\x03\x01\0\2\2\x16", keep=True), 'the response is not HTTP: it begins with "', id="TLS"
        ),
        pytest.param(
            sends(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nx"), "the response is not HTTP", id="no gzip"
        ),
    ],
)
async def test_failures(action, why):
    async with Misbehaving(FINE, action, FINE) as server, a_pool(server, silence=0.05) as pool:
        await fine(pool)
        with pytest.raises(NotAnswered, match=f"^({why})") as caught:
            await pool.exchange(GET)
        assert caught.value.failure.sent
        await fine(pool)
        assert server.connections == 2


async def test_a_silent_connection_does_not_affect_others():
    async def slowly(exchange):
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        for byte in b"fine":
            await asyncio.sleep(0.1)
            await exchange.send(bytes([byte]))

    arrived = asyncio.Event()
    async with (
        Misbehaving(does(lambda seen: arrived.set(), hangs), slowly) as server,
        a_pool(server, silence=0.3) as pool,
    ):
        silent = asked(pool)
        await arrived.wait()
        await fine(pool)
        with pytest.raises(NotAnswered, match=SILENT):
            await silent


# -- cancelled requests


async def test_a_late_response_is_discarded():
    held = Held(answers(200, b"late"))
    async with Misbehaving(held, FINE) as server, a_pool(server) as pool:
        request = asked(pool)
        await held.arrived.wait()
        request.cancel()
        await asyncio.wait([request])
        held.go.set()
        await fine(pool)
        assert server.connections == 2


async def test_cancelling_within_a_response():
    begun = asyncio.Event()

    async def half(exchange):
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfi")
        begun.set()
        await exchange.reader.read()

    async with Misbehaving(half, FINE) as server, a_pool(server) as pool:
        request = asked(pool)
        await begun.wait()
        request.cancel()
        await asyncio.wait([request])
        await fine(pool)
        assert server.connections == 2


async def test_cancelling_while_dialing_leaves_the_connection_to_the_next_request(monkeypatch):
    gate = Gate(monkeypatch)
    async with Misbehaving(FINE) as server, a_pool(server) as pool:
        request = asked(pool)
        await gate.reached.wait()
        request.cancel()
        await asyncio.wait([request])
        following = asyncio.ensure_future(fine(pool))
        gate.open.set()
        await following
        assert (server.connections, gate.all) == (1, 1)


@asynccontextmanager
async def handing_on(pool, held, *, before=lambda: None, after=lambda second, connection: None):
    """A request that waits for the connection of another one, which just finishes; and what happens then."""
    first = asked(pool)
    await held.arrived.wait()
    dial, free = pool._dial_for_waiting, pool.free

    def handed(connection):
        pool._dial_for_waiting, pool.free = dial, free
        before()
        free(connection)
        after(second, connection)

    pool._dial_for_waiting, pool.free = lambda: None, handed
    second = asked(pool)
    await asyncio.sleep(0)
    held.go.set()
    await first
    yield second


async def test_cancelling_when_a_connection_is_handed_over():
    held = Held()
    async with Misbehaving(held, FINE) as server, a_pool(server) as pool:
        async with handing_on(pool, held, after=lambda second, _: second.cancel()) as second:
            await asyncio.wait([second])
            assert second.cancelled()
        await fine(pool)
        assert server.connections == 1


async def test_a_connection_that_breaks_when_it_is_handed_over():
    held = Held()
    async with Misbehaving(held, FINE) as server, a_pool(server) as pool:
        async with handing_on(pool, held, after=lambda _, connection: connection.abort()) as second:
            assert (await second).body == b"fine"
        assert server.connections == 2


# -- closing


async def test_closing_ends_without_connection_lost(monkeypatch):
    """As uvloop does sometimes."""
    monkeypatch.setattr(connection_pool, "LETTING_GO", 0.0)
    async with Misbehaving(FINE) as server:
        async with a_pool(server) as pool:
            await fine(pool)
            told, pool.lost = pool.lost, lambda connection: None
            await pool.close()  # closed once more by a_pool
        told(next(iter(pool._all)))
        await over(server)


async def test_closing_ends_everything(monkeypatch):
    held = Held(hangs)
    async with Misbehaving(FINE, FINE, held) as server, a_pool(server) as pool:
        await asyncio.gather(fine(pool), fine(pool))
        # The first connection may have been fast enough for both.
        await asyncio.gather(*pool._dials)
        flying = asked(pool)
        await held.arrived.wait()
        while pool._idle:
            pool._idle.pop().abort()
        gate = Gate(monkeypatch)
        waiting = asked(pool)
        await gate.reached.wait()
        await pool.close()
        outcomes = await asyncio.gather(flying, waiting, return_exceptions=True)
        assert [(str(error), error.failure.sent) for error in outcomes] == [
            ("this client has been closed", True),
            ("this client has been closed", False),
        ]
        assert all(error.failure.lasting for error in outcomes)
        with pytest.raises(RuntimeError, match="this client has been closed"):
            await pool.exchange(GET)
        held.go.set()
        await over(server)
        assert (pool._all, pool._idle, gate.now) == (set(), [], 0)
        await pool.close()


async def test_closing_when_a_connection_is_handed_over():
    held, closing = Held(), []
    async with Misbehaving(held) as server, a_pool(server) as pool:
        close = lambda: closing.append(asyncio.ensure_future(pool.close()))  # noqa: E731
        async with handing_on(pool, held, before=close) as second:
            with pytest.raises(NotAnswered, match="this client has been closed"):
                await second
        await asyncio.gather(*closing)
        assert len(server.seen) == 1


async def scenario(context):
    """A bit of everything, on the given event loop."""
    held = [Held() for _ in range(6)]
    arrived = asyncio.Semaphore(0)
    actions = [*held, *[FINE] * 20, *[does(lambda seen: arrived.release(), hangs)] * 2]
    async with (
        Misbehaving(*actions, context=context) as server,
        a_pool(server, tls=a_tls() if context else None) as pool,
    ):
        requests = [asked(pool) for _ in held]
        for one in held:
            await one.arrived.wait()
        requests[0].cancel()
        for one in held:
            one.go.set()
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert {answer.body for answer in outcomes[1:]} == {b"fine"}
        await asyncio.gather(*[fine(pool) for _ in range(20)])
        hanging = [asked(pool), asked(pool)]
        for _ in hanging:
            await arrived.acquire()
        await pool.close()
        assert [str(error) for error in await asyncio.gather(*hanging, return_exceptions=True)] == [
            "this client has been closed"
        ] * 2
        await over(server)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_on_each_event_loop(loop, secure, context):
    factory = pytest.importorskip(loop).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(scenario(context if secure else None))


# --- certificates


async def test_a_connection_made_with_old_certificates_gets_no_new_request(context, monkeypatch):
    gate = Gate(monkeypatch)
    tls = a_tls()
    async with Misbehaving(FINE, FINE, context=context) as server, a_pool(server, tls=tls) as pool:
        before = asked(pool)
        await gate.reached.wait()
        tls._context = None
        after = asked(pool)
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(before, after)
        (kept, *_) = pool._idle
        assert kept.context is tls.context()
        assert all(connection.context is tls.context() for connection in pool._idle)


async def test_a_request_in_progress_finishes_on_its_old_connection(context):
    held, tls = Held(), a_tls()
    async with Misbehaving(held, FINE, context=context) as server, a_pool(server, tls=tls) as pool:
        before = asked(pool)
        await held.arrived.wait()
        tls._context = None
        await fine(pool)
        held.go.set()
        assert (await before).body == b"fine"
        assert [connection.context for connection in pool._idle] == [tls.context()]


# --- addresses


class OnIpv6(Misbehaving):
    async def start(self, port=0):
        try:
            self._server = await asyncio.start_server(self._connected, "::1", port)
        except OSError:
            pytest.skip("this machine has no IPv6")
        self.port = self._server.sockets[0].getsockname()[1]


async def test_ipv6():
    async with OnIpv6(FINE) as server, a_pool(f"http://[::1]:{server.port}") as pool:
        await fine(pool)


async def test_the_first_address_that_answers_is_used(monkeypatch):
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo
    with socket.create_server(("127.0.0.1", 0)) as taken:
        dead = taken.getsockname()[1]
    async with Misbehaving(FINE) as server:

        async def found(host, port, **more):
            if host != "api.example":
                return await resolve(host, port, **more)
            places = [("127.0.0.1", dead), ("127.0.0.1", server.port)]
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place) for place in places]

        monkeypatch.setattr(loop, "getaddrinfo", found)
        async with a_pool(f"http://api.example:{server.port}") as pool:
            await fine(pool)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64])
async def test_names_that_do_not_resolve(host):
    async with a_pool(f"http://{host}:1") as pool:
        with pytest.raises(NotAnswered, match="the host name does not resolve") as caught:
            await pool.exchange(GET)
    assert not caught.value.failure.sent
