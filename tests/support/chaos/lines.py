"""TCP proxies to an API server, one per process: requests are recorded, and each proxy can be cut, delayed or silenced.

    with Lines(server.kubeconfig, folder) as lines:
        line = lines.new("a")
        ... a process with line.kubeconfig ...
        line.cut()

A line terminates TLS on both sides and parses HTTP/1.1 requests; responses are streamed. `lines.sent` has each request,
its sender, and when it was forwarded. Clients get the rights of the kubeconfig's user; `admits` decides which clients
are let in.
"""

import asyncio
import base64
import json
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from support.http.certificates import make_ca, make_server_certificate

_CHUNK = 1 << 16
_STATUS = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}'
_UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_STATUS),
    _STATUS,
)
_ENDED = (OSError, ssl.SSLError, asyncio.IncompleteReadError, RuntimeError)


@dataclass(frozen=True)
class Sent:
    #: Monotonic time at which it was forwarded.
    at: float
    line: str
    method: str
    path: str
    body: bytes

    @property
    def binds(self):
        """The pod that it binds, as namespace/name; "" if it is no binding."""
        parts = self.path.split("/")
        return f"{parts[4]}/{parts[6]}" if self.method == "POST" and parts[-1] == "binding" else ""

    @property
    def claims(self):
        """(holder, time) if the request claims a Lease; else None."""
        if "/leases" not in self.path or self.method not in ("POST", "PUT"):
            return None
        spec = json.loads(self.body)["spec"]
        return spec["holderIdentity"], spec["renewTime"]


class Lines:
    """The lines run in an event loop of their own, in a thread."""

    def __init__(self, kubeconfig, folder):
        self._folder = folder
        self._config = yaml.safe_load(kubeconfig.read_text())
        self._server = self._config["clusters"][0]["cluster"]["server"]
        self._ca = make_ca("lines")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._lines = []
        self.sent = []
        self.token = self._config["users"][0]["user"]["token"]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        for line in self._lines:
            self.call(line.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def new(self, name, *, clients=None):
        """`clients`: the authority of client certificates, where they are required."""
        line = Line(self, name, self._ca, *self._server.removeprefix("https://").split(":"))
        self.call(line.listen(self._folder / f"line-{name}.pem", clients))
        line.kubeconfig = self._folder / f"{name}.kubeconfig"
        line.kubeconfig.write_text(yaml.safe_dump(self._towards(line.port)))
        self._lines.append(line)
        return line

    def binds(self, line=None):
        return [sent for sent in tuple(self.sent) if sent.binds and line in (None, sent.line)]

    def _towards(self, port):
        data = base64.b64encode(self._ca.certificate).decode()
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data}
        named = [{**self._config["clusters"][0], "cluster": cluster}]
        return {**self._config, "clusters": named}


class Line:
    kubeconfig: Path

    def __init__(self, lines, name, authority, host, port):
        self.name = name
        #: The certificate authority in the kubeconfig.
        self.authority = authority
        #: (request) -> seconds to delay it; or None: it is dropped.
        self.holds = lambda sent: 0.0
        #: (request) -> whether the request is forwarded and its response dropped.
        self.loses_answer = lambda sent: False
        #: (headers, certificate) -> whether the client is let in; names of headers are in lower case.
        self.admits = lambda headers, certificate: True
        self._lines = lines
        self._target = host, int(port)
        self._upstream = ssl._create_unverified_context()
        self._is_cut = self._is_silent = False
        #: Requests of clients that were not let in.
        self.refused = 0
        self._open = set()
        self._tasks = set()

    async def listen(self, file, clients):
        self._file = file
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.show(make_server_certificate(self.authority, ["127.0.0.1"]))
        if clients is not None:
            self._context.load_verify_locations(cadata=clients.certificate.decode())
            self._context.verify_mode = ssl.CERT_OPTIONAL
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self):
        self._server.close()
        self._abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def show(self, pair):
        """Present this certificate from the next handshake on."""
        self._file.write_bytes(pair.certificate + pair.key)
        self._context.load_cert_chain(self._file)

    # -- faults, from the test's thread

    def cut(self):
        self._set(cut=True)

    def go_silent(self):
        """Accept everything and forward nothing."""
        self._set(silent=True)

    def mend(self):
        """New connections work; existing ones were closed."""
        self._set()

    def drop(self):
        """Close existing connections; new ones work as before."""
        self._lines.call(self._drop())

    @property
    def is_open(self):
        """Whether any connection is open; requests of a client that has exited may still be on their way."""
        return bool(self._open)

    async def _drop(self):
        self._abort()

    def _set(self, *, cut=False, silent=False):
        async def change():
            was_silent, self._is_cut, self._is_silent = self._is_silent, cut, silent
            if cut or (was_silent and not silent):
                self._abort()

        self._lines.call(change())

    def _abort(self):
        for writer in tuple(self._open):
            writer.transport.abort()

    # -- connections

    def _connected(self, reader, writer):
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader, writer):
        with suppress(*_ENDED):
            if self._is_cut:
                writer.transport.abort()
                return
            there, back = await asyncio.open_connection(*self._target, ssl=self._upstream)
            ends = {writer, back}
            self._open |= ends
            try:
                silenced = asyncio.Event()
                pumps = [self._requests(reader, writer, back, silenced), self._answers(there, writer, silenced)]
                await asyncio.wait([asyncio.ensure_future(pump) for pump in pumps], return_when="FIRST_COMPLETED")
            finally:
                self._open -= ends
                for end in ends:
                    end.transport.abort()

    async def _requests(self, reader, writer, server, silenced):
        certificate = writer.get_extra_info("peercert")
        with suppress(*_ENDED):
            while True:
                data, headers, sent = await self._request(reader)
                if not self.admits(headers, certificate):
                    self.refused += 1
                    writer.write(_UNAUTHORIZED)
                    continue
                wait = self.holds(sent)
                if wait is None or self._is_silent:
                    await reader.read()
                    return
                await asyncio.sleep(wait)
                if self.loses_answer(sent):
                    silenced.set()
                self._lines.sent.append(Sent(time.monotonic(), sent.line, sent.method, sent.path, sent.body))
                server.write(data)
                await server.drain()

    async def _request(self, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *fields = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        passed_on = headers | {"authorization": f"Bearer {self._lines.token}"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in passed_on.items())
        sent = Sent(time.monotonic(), self.name, method, target.split("?")[0], body)
        return f"{first}\r\n{lines}\r\n".encode("latin-1") + body, headers, sent

    async def _answers(self, server, writer, silenced):
        with suppress(*_ENDED):
            while data := await server.read(_CHUNK):
                if silenced.is_set() or self._is_silent:
                    continue
                writer.write(data)
                await writer.drain()
