"""What no client in its right mind sends to the secure port: it refuses, logs no traceback, and goes on.

On both event loops, as each has transports of its own.
"""

import asyncio
import gc
import inspect
import logging
import random
import socket
import ssl
import weakref
from contextlib import suppress

import pytest
import uvloop
from cryptography import x509
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.kube.klog import logger
from stowplan.kube.timing.times import RealTimes
from stowplan.net.serving.requests.health import HealthChecks
from stowplan.net.serving.requests.messages import Response
from support.examples import times
from support.http.certificates import make_ca, make_client_certificate
from support.http.client_chains import authority, key_with_a_long_exponent
from support.http.client_chains import client as issued_client
from support.serving.secure_port import FakeAccess, connected, secure_server, trusting, with_settings

PIECES = (
    b"GET /healthz HTTP/1.1\r\n",
    b"PUT /body HTTP/1.1\r\n",
    b"Host: x\r\n",
    b"\r\n",
    b"Content-Length: 9\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Upgrade: websocket\r\n",
    b"Connection: upgrade\r\n",
    b"Expect: 100-continue\r\n",
    b"0\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01",
)
BIG = b"x" * 8_000_000
PAGES = {
    **HealthChecks("healthz", {}).pages,
    "/big": lambda request: Response(BIG),
    "/body": lambda request: Response(request.body),
}


def on_both_loops(test):
    def run(new_loop, **fixtures):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(**fixtures))

    own = inspect.signature(test).parameters.values()
    new_loop = inspect.Parameter("new_loop", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([new_loop, *own])
    run.__name__, run.__doc__, run.pytestmark = test.__name__, test.__doc__, getattr(test, "pytestmark", [])
    loops = [asyncio.new_event_loop, uvloop.new_event_loop]
    return pytest.mark.parametrize("new_loop", loops, ids=["asyncio", "uvloop"])(run)


@pytest.fixture(autouse=True)
def quiet(caplog):
    """Clients cannot make the server log errors, let alone tracebacks."""
    caplog.set_level(logging.INFO)
    yield
    # The log of the test itself; by now caplog has that of the teardown.
    records = [*caplog.get_records("call"), *caplog.records]
    told = [record for record in records if record.levelno >= logging.WARNING]
    assert [record.getMessage() for record in told] == []


class Patience(RealTimes):
    """Sleeps of some lengths end when they are told to; others last."""

    def __init__(self, *ends):
        super().__init__()
        self.sleep = self._sleep
        self.over = asyncio.Event()
        self.ends = set(ends)

    async def _sleep(self, seconds):
        if seconds in self.ends:
            await self.over.wait()
        else:
            await asyncio.sleep(seconds)

    def end(self):
        """End those that have begun."""
        self.over.set()
        self.over = asyncio.Event()


async def answers(server):
    """It does; and all that came before has been looked at."""
    async with await connected(server) as client:
        assert (await client.ask("/healthz"))[2] == b"ok"


async def emptied(server, *, meanwhile=lambda: None):
    for _ in range(1_000_000):
        if not len(server._connections):
            return
        meanwhile()
        await asyncio.sleep(0)
    assert len(server._connections) == 0


async def unharmed(server):
    await answers(server)
    await emptied(server)


@on_both_loops
@pytest.mark.parametrize(
    ("sent", "received"),
    [
        pytest.param(b"", b"", id="nothing"),
        pytest.param(b"\x16", b"", id="one byte of a handshake"),
        pytest.param(b"\x16\x03\x01\xff\xff" + b"\x00" * 1000, None, id="a handshake of zeros"),
        pytest.param(b"\x15\x03\x01\x00\x02\x02\x00", None, id="an alert"),
        pytest.param(b"\x80\x2e\x01\x00\x02" + b"\x00" * 50, None, id="SSL 2"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", None, id="SSH"),
        pytest.param(b"\x00" * 100_000, None, id="zeros"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            id="plain HTTP",
        ),
    ],
)
async def test_no_handshake(sent, received):
    async with secure_server(PAGES) as server:
        async with await connected(server, plain=True) as client:
            await client.send(sent)
            client.writer.write_eof()
            rest = await client.rest()
        assert received is None or rest == received
        assert received is not None or not rest.startswith(b"HTTP")
        await unharmed(server)


@on_both_loops
async def test_handshake_errors_are_logged_in_words(caplog):
    caplog.set_level(logging.DEBUG)
    logger.set_verbosity(5)
    try:
        async with secure_server(PAGES) as server:
            for sent in (b"SSH-2.0-OpenSSH\r\n", b"\x16"):
                async with await connected(server, plain=True) as client:
                    host, port = client.writer.get_extra_info("sockname")
                    await client.send(sent)
                    client.writer.write_eof()
                    await client.rest()
            await unharmed(server)
    finally:
        logger.set_verbosity(0)
    told = [text.partition(f"http: TLS handshake error from {host}:")[2] for text in caplog.messages]
    reasons = [text.partition(": ")[2] for text in told if text]
    assert reasons == ["wrong version number", "EOF"]
    assert f"{port}: EOF" in told


@on_both_loops
async def test_plain_http_byte_by_byte():
    async with secure_server(PAGES) as server:
        async with await connected(server, plain=True) as client:
            for byte in b"GET /":
                await client.send(bytes([byte]))
                await asyncio.sleep(0)
            assert (await client.rest()).startswith(b"HTTP/1.0 400")
        await unharmed(server)


@on_both_loops
@pytest.mark.parametrize(
    ("plain", "sent"),
    [
        pytest.param(True, b"", id="no handshake"),
        pytest.param(True, b"\x16\x03\x01", id="a part of a handshake"),
        pytest.param(False, b"", id="no head"),
        pytest.param(False, b"GET /healthz HT", id="a part of a line"),
        pytest.param(False, b"GET /healthz HTTP/1.1\r\nHost: x\r\n", id="a part of a head"),
    ],
)
async def test_handshakes_and_heads_time_out(plain, sent):
    patience = Patience(32)
    async with secure_server(PAGES, times=patience) as server:
        async with await connected(server, plain=plain) as client:
            await client.send(sent)
            await answers(server)
            assert not client.reader.at_eof()
            patience.end()
            assert await client.rest() == b""
        await unharmed(server)


@on_both_loops
async def test_second_heads_time_out():
    patience = Patience(32)
    async with secure_server(PAGES, times=patience) as server:
        async with await connected(server) as client:
            await client.ask("/healthz")
            patience.end()
            # Between requests no head is awaited.
            await answers(server)
            assert (await client.ask("/healthz"))[0] == 200
            await client.send(b"GET")
            await answers(server)
            patience.end()
            assert await client.rest() == b""
        await unharmed(server)


@on_both_loops
async def test_bodies_time_out():
    patience = Patience(32.0)
    async with secure_server(PAGES, times=patience) as server:
        async with await connected(server) as client:
            await client.send(b"PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
            await answers(server)
            patience.end()
            assert (await client.answer())[0] == 400
        await unharmed(server)


@on_both_loops
async def test_an_idle_connection_is_closed():
    settings = with_settings(idle_timeout=0.05)
    async with secure_server(PAGES, settings=settings) as server, await connected(server) as client:
        await client.ask("/healthz")
        assert await client.rest() == b""


@on_both_loops
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"garbage\r\n\r\n", b"400 Bad Request", id="garbage"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400 Bad Request", id="HTTP/2"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost x\r\n\r\n", b"400 Bad Request", id="header without a colon"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nA: \x00\r\n\r\n", b"400 Bad Request", id="NUL"),
        pytest.param(
            b"GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"400 Bad Request",
            id="two lengths",
        ),
        pytest.param(
            b"GET /healthz HTTP/1.1\r\nA: " + b"x" * 1_100_000 + b"\r\n\r\n",
            b"431 Request Header Fields Too Large",
            id="header of 1.1 MB",
        ),
        pytest.param(
            b"GET /healthz HTTP/1.1\r\n" + b"A: " + b"x" * 6000 + b"\r\n" + (b"B: " + b"x" * 6000 + b"\r\n") * 200,
            b"431 Request Header Fields Too Large",
            id="head of 1.2 MB",
        ),
        pytest.param(
            b"GET /" + b"x" * 1_100_000 + b" HTTP/1.1\r\n\r\n",
            b"431 Request Header Fields Too Large",
            id="path of 1.1 MB",
        ),
        pytest.param(b"GET /healthz HTTP/1.1\r\n" + b"A: x\r\n" * 100_000 + b"\r\n", None, id="100,000 headers"),
    ],
)
async def test_malformed_http(sent, status):
    async with secure_server(PAGES) as server:
        async with await connected(server) as client:
            try:
                await client.send(sent)
                rest = await client.rest()
            except ConnectionError:
                # Whoever goes on sending may find it closed before the answer is read.
                rest = b""
        assert status is None or not rest or rest.endswith(status)
        await unharmed(server)


@on_both_loops
async def test_an_oversized_head_is_refused_before_its_end():
    settings = with_settings(max_head_bytes=4096)
    async with secure_server(PAGES, settings=settings) as server:
        async with await connected(server) as client:
            for _ in range(5):
                # The size of the second request's head is counted from zero.
                assert (await client.ask("/healthz", A="x" * 1000))[0] == 200
            await client.send(b"GET /healthz HTTP/1.1\r\n" + (b"A: " + b"x" * 995 + b"\r\n") * 3)
            await answers(server)
            assert not client.reader.at_eof()
            await client.send((b"A: " + b"x" * 995 + b"\r\n") * 2)
            assert (await client.rest()).endswith(b"431 Request Header Fields Too Large")
        await unharmed(server)


@on_both_loops
async def test_a_malformed_body_is_reported():
    async with secure_server(PAGES) as server:
        async with await connected(server) as client:
            await client.send(b"PUT /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
            assert b"400" in (await client.rest()).split(b"\r\n")[0]
        await unharmed(server)


@on_both_loops
async def test_large_responses_wait_for_their_reader():
    async with secure_server(PAGES) as server:
        async with await connected(server) as client:
            client.reader._limit = 1024
            assert (await client.ask("/big"))[2] == BIG
        await unharmed(server)


@on_both_loops
async def test_clients_that_do_not_read_are_disconnected():
    patience = Patience(60)
    async with secure_server(PAGES, times=patience) as server:
        async with await connected(server) as client:
            client.writer.transport.pause_reading()
            await client.send(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n" * 4)
            await emptied(server, meanwhile=patience.end)
        await unharmed(server)


@on_both_loops
async def test_half_closed_clients_get_their_response():
    """A request, followed at once by the end of the stream, as `openssl s_client` does."""
    async with secure_server(PAGES) as server:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting().wrap_bio(incoming, outgoing, server_hostname="x")
        async with await connected(server, plain=True) as client:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await client.send(outgoing.read())
                    incoming.write(await client.reader.read(65536))
            tls.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            with pytest.raises(ssl.SSLWantReadError):
                tls.unwrap()
            await client.send(outgoing.read())
            client.writer.write_eof()
            incoming.write(await client.rest())
            received = b""
            with pytest.raises((ssl.SSLError, OSError)):  # noqa: PT012
                while chunk := tls.read(65536):
                    received += chunk
                raise OSError("the end")
            assert received.endswith(b"ok")
        await unharmed(server)


WAITING = {
    "nothing": (True, b""),
    "half a handshake": (True, b"\x16\x03\x01\x02\x00\x01"),
    "no request": (False, b""),
    "half a head": (False, b"GET /healthz HTTP/1.1\r\nA: "),
    "half a body": (False, b"PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"),
    "an answer that nobody reads": (False, b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n"),
}


@pytest.mark.parametrize("what", WAITING)
@on_both_loops
async def test_idle_connections_do_not_block_others(what):
    """At the limit of connections, each new one closes the oldest that is waiting for its client."""
    plain, sent = WAITING[what]
    async with secure_server(PAGES, settings=with_settings(max_connections=3)) as server:
        clients = []
        for _ in range(12):
            clients.append(await connected(server, plain=plain))
            clients[-1].writer.write(sent)
            await answers(server)
            assert len(server._connections) <= 3
        for client in clients:
            client.writer.transport.abort()
        await unharmed(server)


@on_both_loops
async def test_active_connections_are_not_closed():
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(request):
        asked.set()
        await answer.wait()
        return Response(b"at last")

    async with secure_server({**PAGES, "/slow": slow}, settings=with_settings(max_connections=1)) as server:
        async with await connected(server) as one:
            asking = asyncio.create_task(one.ask("/slow"))
            await asked.wait()
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await connected(server)
            answer.set()
            assert (await asking)[2] == b"at last"
        await unharmed(server)


HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: " + b"x" * 30_000


@on_both_loops
async def test_the_total_size_of_heads_is_bounded():
    """Each head is short enough; the client that exceeds the total is disconnected, the others get responses."""
    async with secure_server(PAGES, settings=with_settings(max_heads_bytes=100_000)) as server:
        clients = [await connected(server) for _ in range(12)]
        for client in clients:
            with suppress(OSError):
                await client.send(HEAD)
            await answers(server)
            assert server._http.heads_bytes <= 100_000
        codes = []
        for client in clients:
            with suppress(OSError, asyncio.IncompleteReadError):
                await client.send(b"\r\n\r\n")
                codes.append((await client.answer())[0])
        assert codes == [200] * 3
        for client in clients:
            client.writer.transport.abort()
        await unharmed(server)
        assert server._http.heads_bytes == 0


@on_both_loops
async def test_heads_that_wait_for_their_turn_count():
    """A client may send a request before the previous response, but only for a limited time."""
    answer = asyncio.Event()

    async def slow(request):
        await answer.wait()
        return Response(b"at last")

    async with secure_server({**PAGES, "/slow": slow}, settings=with_settings(max_heads_bytes=100_000)) as server:
        async with await connected(server) as one:
            with suppress(OSError):
                await one.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + (HEAD + b"\r\n\r\n") * 20)
            assert await one.rest() == b""
        answer.set()
        await unharmed(server)
        assert server._http.heads_bytes == 0


@on_both_loops
async def test_many_requests_on_a_connection_hold_no_memory():
    async with secure_server(PAGES, settings=with_settings(max_heads_bytes=100_000)) as server:
        async with await connected(server) as one:
            for _ in range(20):
                await one.send(HEAD + b"\r\n\r\n")
                assert (await one.answer())[0] == 200
        await unharmed(server)
        assert server._http.heads_bytes == 0


@pytest.mark.parametrize(
    "sent", [b"", HEAD, HEAD + b"\r\n\r\n", b"\x00" * 100], ids=["nothing", "part", "all", "nonsense"]
)
@on_both_loops
async def test_what_a_client_sent_is_freed_with_its_connection(sent):
    """Not at the next garbage collection: until then, clients that come and go would use up the memory."""
    async with secure_server(PAGES) as server:
        gc.disable()
        try:
            async with await connected(server, plain=sent.startswith(b"\x00")) as client:
                await answers(server)
                open_ones = [weakref.ref(connection) for connection in server._connections]
                await client.send(sent)
                await answers(server)
                client.writer.transport.abort()
            await unharmed(server)
            assert open_ones
            assert all(connection() is None for connection in open_ones)
        finally:
            gc.enable()


@pytest.fixture(scope="module")
def client_files(tmp_path_factory):
    made = make_client_certificate(make_ca("nobody"), "me")
    folder = tmp_path_factory.mktemp("client")
    (folder / "me.crt").write_bytes(made.certificate)
    (folder / "me.key").write_bytes(made.key)
    return {"cert": folder / "me.crt", "key": folder / "me.key"}


@on_both_loops
async def test_any_certificate_comes_through_unverified(tmp_path):
    """From an unknown authority: only the authenticator evaluates it."""
    made = make_client_certificate(make_ca("nobody"), "me")
    cert, key = tmp_path / "me.crt", tmp_path / "me.key"
    cert.write_bytes(made.certificate + make_ca("somebody").certificate)
    key.write_bytes(made.key)
    access = FakeAccess()
    async with secure_server(PAGES, access=access) as server:
        async with await connected(server, tls=trusting(cert=cert, key=key)) as client:
            await client.ask("/healthz")
        async with await connected(server) as client:
            await client.ask("/healthz")
    shown = [ssl.DER_cert_to_PEM_cert(der).encode() for der in access.peers[0].certificates]
    assert shown[0] == made.certificate
    assert len(shown) == 2
    assert access.peers[1].certificates == ()


def of_a_slow_key(place):
    """10 ms for each signature, in a chain of eighty, would hold up everybody's handshakes."""
    slow = key_with_a_long_exponent()
    issuer = authority("slow", key=None if place == "its own" else slow)
    shown = issued_client(issuer, key=slow if place == "its own" else None)
    return shown.pem + issuer.pem + shown.key_pem


def of_thousands_of_names():
    """OpenSSL would keep more than a megabyte for each such connection."""
    names = x509.SubjectAlternativeName([x509.DNSName(f"a{number}.example.com") for number in range(3000)])
    shown = issued_client(authority("many"), extensions=[(names, False)])
    return shown.pem + shown.key_pem


@pytest.mark.parametrize(
    "certificate",
    [
        pytest.param(lambda: of_a_slow_key("its own"), id="its own key is slow"),
        pytest.param(lambda: of_a_slow_key("its issuer's"), id="its issuer's key is slow"),
        pytest.param(of_thousands_of_names, id="thousands of names"),
    ],
)
async def test_expensive_certificates_end_the_handshake(certificate, tmp_path):
    file = tmp_path / "client.pem"
    file.write_bytes(certificate())
    access = FakeAccess()
    async with secure_server(PAGES, access=access) as server:
        with suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
            async with await connected(server, tls=trusting(cert=file, key=file)) as client:
                await client.ask("/healthz")
        assert not access.peers
        await unharmed(server)


@on_both_loops
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_is_not_resumed_without_its_certificate(version, client_files):
    tls, access = trusting(**client_files), FakeAccess()
    tls.maximum_version = version

    def ask(port, session):
        with socket.create_connection(("127.0.0.1", port), 5) as tcp, tls.wrap_socket(tcp, session=session) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            while sock.recv(65536):
                pass
            return sock.session, sock.session_reused

    async with secure_server(PAGES, access=access) as server:
        session, _ = await asyncio.to_thread(ask, server.port, None)
        _, reused = await asyncio.to_thread(ask, server.port, session)
    assert not reused
    assert [len(peer.certificates) for peer in access.peers] == [1, 1]


@settings(deadline=None, max_examples=times(60), suppress_health_check=list(HealthCheck))
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=300),
            st.sampled_from(PIECES),
        ),
        max_size=12,
    ),
    plain=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_no_bytes_kill_it(pieces, plain, seed):
    chance = random.Random(seed)

    async def attack():
        async with secure_server(PAGES) as server:
            async with await connected(server, plain=plain) as client:
                try:
                    for piece in pieces:
                        await client.send(piece)
                        if chance.random() < 0.3:
                            await asyncio.sleep(0)
                except (ConnectionError, ssl.SSLError):
                    pass
                client.writer.transport.abort()
            await unharmed(server)

    asyncio.run(attack())


@settings(deadline=None, max_examples=times(80), suppress_health_check=list(HealthCheck))
@given(
    flips=st.lists(st.tuples(st.integers(0, 2500), st.integers(1, 255)), min_size=1, max_size=4),
    version=st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]),
)
def test_no_handshake_kills_it(flips, version, client_files):
    """A good one, certificate and all, with some of its bytes changed."""

    async def attack():
        context = trusting(**client_files)
        context.maximum_version = version
        context.set_alpn_protocols(["h2", "http/1.1"])
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="name.test")
        async with secure_server(PAGES) as server:
            async with await connected(server, plain=True) as client:
                with suppress(OSError, ssl.SSLError):
                    await _talk(client, tls, incoming, outgoing, dict(flips))
                client.writer.transport.abort()
            await unharmed(server)

    asyncio.run(attack())


async def _talk(client, tls, incoming, outgoing, flips):
    sent = 0
    for turn in range(10):
        try:
            tls.do_handshake()
            tls.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        except ssl.SSLWantReadError:
            pass
        data = bytearray(outgoing.read())
        for at, mask in flips.items():
            if sent <= at < sent + len(data):
                data[at - sent] ^= mask
        sent += len(data)
        if turn and not data:
            return
        await client.send(bytes(data))
        try:
            received = await asyncio.wait_for(client.reader.read(65536), 0.05)
        except TimeoutError:
            # A length field grew, so the server waits for more.
            return
        incoming.write(received)
