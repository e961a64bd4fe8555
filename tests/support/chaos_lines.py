"""Ways to an API server, one for each process: what goes over them is seen, and each can be cut, held up or go silent.

    with Lines(server.kubeconfig, folder) as lines:
        line = lines.new("a")
        ... a process with line.kubeconfig ...
        line.cut()

A line ends TLS on both sides and reads HTTP/1.1 requests; answers go through as they come. Who sent what, and when it
was passed on to the server, is in `lines.sent`. Clients have to prove themselves by something that is in a request.
"""

import asyncio
import base64
import json
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import yaml

from certificates import make_ca, make_server_certificate

_CHUNK = 1 << 16
_ENDED = (OSError, ssl.SSLError, asyncio.IncompleteReadError, RuntimeError)


@dataclass(frozen=True)
class Sent:
    #: By the steady clock, when it was passed on.
    at: float
    line: str
    method: str
    path: str
    body: bytes

    @property
    def binds(self):
        """The pod that it binds, as namespace/name; "" if it binds none."""
        parts = self.path.split("/")
        return f"{parts[4]}/{parts[6]}" if self.method == "POST" and parts[-1] == "binding" else ""

    @property
    def claims(self):
        """(who, when) a Lease is to say holds it; None for other requests."""
        if "/leases" not in self.path or self.method not in ("POST", "PUT"):
            return None
        spec = json.loads(self.body)["spec"]
        return spec["holderIdentity"], spec["renewTime"]


class Lines:
    """They run in an event loop of their own, in a thread."""

    def __init__(self, kubeconfig, folder):
        self._folder = folder
        self._config = yaml.safe_load(kubeconfig.read_text())
        self._server = self._config["clusters"][0]["cluster"]["server"]
        self._ca = make_ca("lines")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._lines = []
        self.sent = []

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

    def new(self, name):
        line = Line(self, name, *self._server.removeprefix("https://").split(":"))
        self.call(line.listen(self._context(name)))
        line.kubeconfig = self._folder / f"{name}.kubeconfig"
        line.kubeconfig.write_text(yaml.safe_dump(self._towards(line.port)))
        self._lines.append(line)
        return line

    def binds(self, line=None):
        return [sent for sent in tuple(self.sent) if sent.binds and line in (None, sent.line)]

    def _context(self, name):
        pair = make_server_certificate(self._ca, ["127.0.0.1"])
        path = self._folder / f"line-{name}.pem"
        path.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _towards(self, port):
        data = base64.b64encode(self._ca.certificate).decode()
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data}
        named = [{**self._config["clusters"][0], "cluster": cluster}]
        return {**self._config, "clusters": named}


class Line:
    def __init__(self, lines, name, host, port):
        self.name = name
        #: (request) -> seconds to hold it up; or None: it is swallowed.
        self.holds = lambda sent: 0.0
        #: (request) -> whether the server gets it, but nobody its answer.
        self.loses_answer = lambda sent: False
        self._lines = lines
        self._target = host, int(port)
        self._upstream = ssl._create_unverified_context()
        self._is_cut = self._is_silent = False
        self._open = set()
        self._tasks = set()

    async def listen(self, context):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self):
        self._server.close()
        self._abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- faults, from the test's thread

    def cut(self):
        self._set(cut=True)

    def go_silent(self):
        """Take everything, pass nothing on."""
        self._set(silent=True)

    def mend(self):
        """New connections work; those of before are gone."""
        self._set()

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
                pumps = [self._requests(reader, back, silenced), self._answers(there, writer, silenced)]
                await asyncio.wait([asyncio.ensure_future(pump) for pump in pumps], return_when="FIRST_COMPLETED")
            finally:
                self._open -= ends
                for end in ends:
                    end.transport.abort()

    async def _requests(self, reader, server, silenced):
        with suppress(*_ENDED):
            while True:
                data, sent = await self._request(reader)
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
        first, *fields = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        lengths = [int(field.split(":")[1]) for field in fields if field.lower().startswith("content-length:")]
        body = await reader.readexactly(lengths[0]) if lengths else b""
        return head + body, Sent(time.monotonic(), self.name, method, target.split("?")[0], body)

    async def _answers(self, server, writer, silenced):
        with suppress(*_ENDED):
            while data := await server.read(_CHUNK):
                if silenced.is_set() or self._is_silent:
                    continue
                writer.write(data)
                await writer.drain()
