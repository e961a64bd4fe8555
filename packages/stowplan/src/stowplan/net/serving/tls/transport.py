"""TLS in memory between an asyncio transport and the HTTP protocol.

asyncio's own TLS either verifies client certificates in the handshake or does not request any; here they are requested
and passed on unverified (`contexts.py`). So this is an asyncio protocol below and a transport above:

    TCP transport  <->  TlsConnection (ciphertext | OpenSSL | plaintext)  <->  TlsTransport  <->  HttpConnection

Backpressure works in both directions: writes go to the TCP transport immediately, which signals when its buffer is
full. The steps of a handshake run in a thread; everything else is fast. A client that sends garbage, nothing, or plain
HTTP costs one log line at v5.

Upstream: Go's crypto/tls and net/http (tlsHandshakeTimeout, badRequestError for plain HTTP).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from OpenSSL import SSL, crypto

from stowplan.kube.klog.logger import get_logger
from stowplan.net.serving.requests.protocol import HttpConnection, Sleep, Timer

if TYPE_CHECKING:
    from stowplan.net.serving.tls.contexts import TlsContexts

# The thread that carries out the steps of TLS handshakes, and the order in which it does.
#
# A step signs, which takes up to a millisecond, and anyone can ask for it. One thread does all of them, so that many
# of them delay neither the lease nor responses. If a thousand clients connect at once, a health probe behind them
# would wait for a second. So the client that came last and the client that has waited longest take turns: most probes
# are served within milliseconds, and nobody waits for more than twice the steps ahead of it.


class Handshakes:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "TLS handshakes")
        #: In order of arrival. Each has one run of `_do_one`, whichever it takes.
        self._waiting: deque[tuple[SSL.Connection, Future[SSL.Error | None]]] = deque()
        self._newest = False

    def step(self, tls: SSL.Connection) -> asyncio.Future[SSL.Error | None]:
        """What OpenSSL misses for the end of the handshake, or why it fails; None: it is complete."""
        outcome: Future[SSL.Error | None] = Future()
        self._waiting.append((tls, outcome))
        self._thread.submit(self._do_one)
        return asyncio.wrap_future(outcome)

    def _do_one(self) -> None:
        self._newest = not self._newest
        tls, outcome = self._waiting.pop() if self._newest else self._waiting.popleft()
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            outcome.set_result(_step(tls))
        except BaseException as error:
            outcome.set_exception(error)


def _step(tls: SSL.Connection) -> SSL.Error | None:
    """A raised error would stay in the future, and refer to the connection through its traceback: a cycle that keeps
    all that a client has sent until the next garbage collection, which is rare (`timing/process_tuning.py`)."""
    try:
        tls.do_handshake()
    except SSL.Error as error:
        return error.with_traceback(None)
    return None


log = get_logger(__name__)

#: Bytes to exchange with OpenSSL at a time.
_PORTION = 64 * 1024
#: The part of a record that identifies it, and plain HTTP.
_RECORD_HEAD = 5
_PLAIN_HTTP = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO", b"DELET", b"PATCH", b"CONNE", b"TRACE")
_PLAIN_ANSWER = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
#: Seconds for the client to finish after either side closed the connection.
_CLOSING = 5.0
#: extra_info of the transport: the client's certificates as DER, its own first.
PEER_CERTIFICATES = "peer_certificates"


class OpenConnections:
    """The open connections of one server, limited in number.

    Beyond the limit, the oldest connection that is idle or not yet authenticated is closed. So clients that open idle
    connections, or send invalid tokens, do not lock out others such as health probes.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        #: In order of arrival.
        self._all: dict[TlsConnection, None] = {}
        self._none = asyncio.Event()
        self._none.set()

    def __iter__(self) -> Iterator[TlsConnection]:
        return iter(tuple(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: TlsConnection) -> bool:
        """Whether there is room for it."""
        if len(self._all) >= self._most and not self._make_room():
            return False
        self._all[connection] = None
        self._none.clear()
        return True

    def _make_room(self) -> bool:
        # Never one in a handshake first: it may be the newest client.
        waiting = next((one for one in self._all if one.awaits_client or not one.is_authorized), None)
        if waiting is None:
            return False
        del self._all[waiting]
        waiting.make_room()
        return True

    def discard(self, connection: TlsConnection) -> None:
        self._all.pop(connection, None)
        if not self._all:
            self._none.set()

    async def ended(self) -> None:
        await self._none.wait()


class TlsConnection(asyncio.Protocol):
    def __init__(
        self,
        make_http: Callable[[], HttpConnection],
        *,
        contexts: TlsContexts,
        open_connections: OpenConnections,
        sleep: Sleep,
        handshake_timeout: float,
    ) -> None:
        self._make_http = make_http
        self._contexts = contexts
        self._open = open_connections
        self._handshake_timeout = handshake_timeout
        self._timer = Timer(sleep)
        #: Data received before its kind is known; None afterwards.
        self._begun: bytes | None = b""
        self._http: HttpConnection | None = None
        #: A step of the handshake, in its thread.
        self._step: asyncio.Future[SSL.Error | None] | None = None
        self._closing = False

    # Callbacks of the TCP transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tcp = cast("asyncio.Transport", transport)
        if not self._open.add(self):
            log.v(2).info("Too many connections: one more was closed", srcIP=_address_of(self._tcp))
            self.abort()
            return
        # Keep a reference, as the connection may switch to another context: OpenSSL still calls this one's callbacks.
        self._context = self._contexts.of_connection(host_of(self._tcp.get_extra_info("sockname")))
        self._tls = SSL.Connection(self._context, None)
        self._tls.set_accept_state()
        self._timer.start(self._handshake_timeout, lambda: self._handshake_failed("i/o timeout"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._open.discard(self)
        self._timer.stop()
        if self._step is not None:
            self._step.cancel()
        if self._http is not None:
            self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._begun is not None:
            self._begun += data
            if len(self._begun) < _RECORD_HEAD:
                return
            data, self._begun = self._begun, None
            if data.startswith(_PLAIN_HTTP):
                self._tcp.write(_PLAIN_ANSWER)
                self._handshake_failed("client sent an HTTP request to an HTTPS server")
                return
        self._feed(data)

    def eof_received(self) -> bool:
        """Keep the connection for unanswered requests, for a while: most such clients are gone."""
        if self._http is None:
            if not self._closing:
                self._handshake_failed("EOF")
            return False
        if self._closing or not self._http.ended_by_client():
            return False
        self._timer.start(_CLOSING, self._tcp.abort)
        return True

    def pause_writing(self) -> None:
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        if self._http is not None:
            self._http.resume_writing()

    # OpenSSL

    def _feed(self, data: bytes) -> None:
        self._tls.bio_write(data)
        if self._http is not None:
            self._work(self._receive)
            return
        # The connection is not used otherwise meanwhile.
        self._tcp.pause_reading()
        self._step = _handshakes().step(self._tls)
        self._step.add_done_callback(self._stepped)

    def _stepped(self, step: asyncio.Future[SSL.Error | None]) -> None:
        """A step of the handshake has ended."""
        self._step = None
        if self._closing or step.cancelled():
            return
        if not self._tcp.is_closing():
            self._tcp.resume_reading()
        problem = step.result()
        if problem is None:
            self._work(self._established)
        else:
            self._interrupted(problem)
            self._flush()

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except SSL.Error as error:
            self._interrupted(error)
        self._flush()

    def _interrupted(self, error: SSL.Error) -> None:
        """OpenSSL needs more data, or cannot go on."""
        if isinstance(error, SSL.WantReadError):
            return
        self._flush()
        if not isinstance(error, SSL.ZeroReturnError):
            self._broken(error)
        elif not self.eof_received():
            self.close()

    def _established(self) -> None:
        self._timer.stop()
        self._flush()
        self._http = self._make_http()
        self._http.connection_made(TlsTransport(self, self._tcp, _certificates_of(self._tls)))
        self._receive()

    def _receive(self) -> None:
        """Deliver all readable data; ends with one of OpenSSL's exceptions."""
        assert self._http is not None
        while not self._closing:
            self._http.data_received(self._tls.recv(_PORTION))

    def _broken(self, error: SSL.Error) -> None:
        if self._http is None:
            self._handshake_failed(_reason_of(error))
        else:
            log.v(5).info("A TLS connection broke", srcIP=_address_of(self._tcp), reason=_reason_of(error))
            self._closing = True
            self._tcp.abort()

    def _handshake_failed(self, reason: str) -> None:
        verbose = log.v(5)
        if verbose.enabled:
            verbose.plain(f"http: TLS handshake error from {_address_of(self._tcp)}: {reason}")
        self._end()

    def _flush(self) -> None:
        """Send OpenSSL's output."""
        while not self._tcp.is_closing():
            try:
                self._tcp.write(self._tls.bio_read(_PORTION))
            except SSL.WantReadError:
                return

    # Calls of the transport above

    @property
    def closing(self) -> bool:
        return self._closing

    def send(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")
        try:
            while view and not self._closing:
                view = view[self._tls.send(bytes(view[:_PORTION])) :]
                self._flush()
        except SSL.Error as error:
            self._broken(error)

    def close(self) -> None:
        """Send close_notify, and wait a little for the client to read the rest."""
        if self._closing:
            return
        try:
            self._tls.shutdown()
        except SSL.Error as error:
            log.v(5).info("A TLS connection ended early", srcIP=_address_of(self._tcp), reason=_reason_of(error))
        self._flush()
        self._end()

    def _end(self) -> None:
        self._closing = True
        self._tcp.close()
        self._timer.start(_CLOSING, self._tcp.abort)

    def abort(self) -> None:
        self._closing = True
        self._tcp.abort()

    @property
    def awaits_client(self) -> bool:
        return self._http is None or self._http.awaits_client

    @property
    def is_authorized(self) -> bool:
        return self._http is not None and self._http.is_authorized

    def make_room(self) -> None:
        why = "idle" if self.awaits_client else "not authorized yet"
        log.v(2).info(f"Too many connections: closed one that was {why}", srcIP=_address_of(self._tcp))
        self.abort()

    def end_if_idle(self) -> None:
        """Close it unless a request is in progress."""
        if self._http is None:
            self.abort()
        elif not self._http.busy:
            self.close()


class TlsTransport(asyncio.Transport):
    """The plaintext transport for HTTP."""

    def __init__(self, connection: TlsConnection, tcp: asyncio.Transport, certificates: tuple[bytes, ...]) -> None:
        super().__init__({PEER_CERTIFICATES: certificates})
        self._connection = connection
        self._tcp = tcp

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        own = super().get_extra_info(name)
        return self._tcp.get_extra_info(name, default) if own is None else own

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._connection.send(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._connection.send(b"".join(list_of_data))

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()

    def is_closing(self) -> bool:
        return self._connection.closing

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        if not self._tcp.is_closing():
            self._tcp.resume_reading()

    def is_reading(self) -> bool:
        return self._tcp.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._tcp.get_write_buffer_size()


@cache
def _handshakes() -> Handshakes:
    """One for the process."""
    return Handshakes()


def _certificates_of(tls: SSL.Connection) -> tuple[bytes, ...]:
    leaf = tls.get_peer_certificate()
    if leaf is None:
        return ()
    # For a server this excludes the client's own.
    return tuple(_der(one) for one in (leaf, *(tls.get_peer_cert_chain() or ())))


def _der(certificate: crypto.X509) -> bytes:
    return crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)


def host_of(address: Any) -> str:
    """Without the IPv4-mapped prefix of dual-stack sockets."""
    return str(address[0]).removeprefix("::ffff:") if address else ""


def _address_of(tcp: asyncio.Transport) -> str:
    return address_text(tcp.get_extra_info("peername"))


def address_text(address: Any) -> str:
    """A socket address in Go's format: `127.0.0.1:10259`, `[::1]:10259`."""
    if not address:
        return ""
    host = host_of(address)
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"


def _reason_of(error: SSL.Error) -> str:
    """OpenSSL's last error."""
    queue = error.args[0] if error.args else None
    if isinstance(queue, list) and queue:
        return str(queue[-1][-1])
    return str(error) or type(error).__name__
