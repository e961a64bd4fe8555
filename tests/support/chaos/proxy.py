"""A proxy to an API server on which a test decides about each request.

    with Proxy(server.kubeconfig, folder) as proxy:
        proxy.fault = refuses(429, of=BINDS)
        ... a process with proxy.kubeconfig ...
        proxy.fault = None

It terminates TLS on both sides and reads whole requests. Responses are forwarded unchanged unless the fault says
otherwise; watches are forwarded line by line, and each line may be replaced. A fault is a coroutine function of an
`Exchange`; unless it passes the request on, it answers it or cuts the connection. `fates` counts what was done.
"""

import asyncio
import base64
import json
import ssl
import threading
from collections import Counter
from contextlib import suppress
from itertools import cycle
from urllib.parse import parse_qs

import aiohttp
import yaml

from support.http.certificates import make_ca, make_server_certificate

_ENDED = (OSError, ssl.SSLError, asyncio.IncompleteReadError, aiohttp.ClientError)
#: Hop-by-hop headers, and encodings of the body, which are set anew.
_NOT_PASSED_ON = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "content-encoding"}
#: Seconds between two checks whether a watch may go on.
_LOOK = 0.02


#: Keys of `fates` that are not about requests.
_NO_TROUBLE = ("cut", "connections", "watches", "spoilt", "withheld")


class Proxy:
    """Runs in an event loop of its own, in a thread; tests set its attributes from theirs."""

    def __init__(self, kubeconfig, folder, name="proxy"):
        self._config = yaml.safe_load(kubeconfig.read_text())
        self.server = self._config["clusters"][0]["cluster"]["server"]
        self._folder, self._name = folder, name
        self._ca = make_ca("proxy")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open, self._watching, self._tasks = set(), set(), set()
        self.fault = None
        #: (line of a watch) -> the bytes to send instead; None: unchanged.
        self.spoil = None
        #: While set, watches deliver nothing.
        self.silent = False
        self.fates = Counter()

    def __enter__(self):
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(self, *_):
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def cut(self, *, watches_only=False):
        """Reset all connections."""

        async def cut():
            for writer in tuple(self._watching if watches_only else self._open):
                writer.transport.abort()

        self.fates["cut"] += 1
        self._call(cut())

    def troubled(self):
        """The counts of what was done to requests."""
        # The proxy's thread goes on counting.
        return {fate: number for fate, number in self.fates.copy().items() if fate not in _NO_TROUBLE}

    # -- start and stop

    async def _start(self):
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False, limit=0))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = make_server_certificate(self._ca, ["127.0.0.1"])
        file = self._folder / f"{self._name}.pem"
        file.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file)
        self._listening = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=context, limit=1 << 20)
        port = self._listening.sockets[0].getsockname()[1]
        data = base64.b64encode(self._ca.certificate).decode()
        named = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data}
        clusters = [{**self._config["clusters"][0], "cluster": named}]
        self.kubeconfig = self._folder / f"{self._name}.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump({**self._config, "clusters": clusters}))

    async def _stop(self):
        self._listening.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.session.close()
        await asyncio.sleep(0.05)

    # -- connections

    def _connected(self, reader, writer):
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader, writer):
        self._open.add(writer)
        self.fates["connections"] += 1
        try:
            with suppress(*_ENDED):
                while not writer.transport.is_closing():
                    exchange = await self._exchange(reader, writer)
                    fault = self.fault
                    await (exchange.pass_on() if fault is None else fault(exchange))
        finally:
            self._open.discard(writer)
            self._watching.discard(writer)
            writer.transport.abort()

    async def _exchange(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Exchange(self, writer, method, target, headers, body)

    async def lines_of(self, response, writer):
        """Forward a watch, including the rest of a line that does not end."""
        self._watching.add(writer)
        self.fates["watches"] += 1
        try:
            async for line in _lines(response.content):
                self.fates["withheld"] += self.silent
                while self.silent:
                    await asyncio.sleep(_LOOK)
                    if writer.transport.is_closing():
                        return
                spoil = self.spoil
                data = line if spoil is None else spoil(line)
                if data is not line:
                    self.fates["spoilt"] += 1
                writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                await writer.drain()
        finally:
            self._watching.discard(writer)


async def _lines(content):
    """Lines of any length."""
    rest = b""
    async for piece in content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


class Exchange:
    """One request, and ways to answer it."""

    def __init__(self, proxy, writer, method, target, headers, body):
        self.proxy, self._writer = proxy, writer
        self.method, self._target, self._headers, self._body = method, target, headers, body
        self.path, _, query = target.partition("?")
        self.query = {name: values[0] for name, values in parse_qs(query).items()}

    @property
    def is_watch(self):
        return "watch" in self.query

    @property
    def is_bind(self):
        return self.method == "POST" and self.path.endswith("/binding")

    @property
    def is_list(self):
        return self.method == "GET" and not self.is_watch and self.path.rpartition("/")[2] in ("pods", "nodes")

    @property
    def is_lease(self):
        return "/leases" in self.path

    def count(self, fate):
        self.proxy.fates[fate] += 1

    def _asked(self):
        headers = {name: value for name, value in self._headers.items() if name not in _NOT_PASSED_ON}
        headers["Accept-Encoding"] = "identity"
        url = self.proxy.server + self._target
        return self.proxy.session.request(
            self.method, url, data=self._body or None, headers=headers, timeout=aiohttp.ClientTimeout(total=None)
        )

    async def pass_on(self):
        async with self._asked() as response:
            if self.is_watch and response.status == 200:
                self._head(200, response.headers, "Transfer-Encoding: chunked")
                await self.proxy.lines_of(response, self._writer)
                self._writer.write(b"0\r\n\r\n")
                await self._writer.drain()
                return
            body = await response.read()
        await self.answer(response.status, body, response.headers)

    async def carry_out(self):
        """Forward it to the server; returns the response."""
        async with self._asked() as response:
            return response.status, await response.read(), response.headers

    async def answer(self, status, body, headers=()):
        self._head(status, headers, f"Content-Length: {len(body)}")
        self._writer.write(body)
        await self._writer.drain()

    async def truncate(self, status, body, headers=()):
        """Announce the whole body, send half of it, and cut the connection."""
        self._head(status, headers, f"Content-Length: {len(body)}")
        self._writer.write(body[: len(body) // 2])
        await self._writer.drain()
        self._writer.close()

    async def half_a_chunk(self, data):
        """Start a chunked response, and end in the middle of the first chunk."""
        self._head(200, {"Content-Type": "application/json"}, "Transfer-Encoding: chunked")
        self._writer.write(b"%x\r\n%b" % (2 * len(data), data))
        await self._writer.drain()
        self._writer.close()

    def reset(self):
        self._writer.transport.abort()

    def _head(self, status, headers, length):
        items = headers.items() if headers else ()
        lines = [f"{name}: {value}" for name, value in items if name.lower() not in _NOT_PASSED_ON]
        self._writer.write("\r\n".join([f"HTTP/1.1 {status} Any", length, *lines, "", ""]).encode("latin-1"))


# -- which requests


def binds(exchange):
    return exchange.is_bind


def lists(exchange):
    return exchange.is_list


def watches(exchange):
    return exchange.is_watch


def all_but_leases(exchange):
    return not exchange.is_lease


def first_time(of):
    """The first attempt of each request; retries pass."""
    met = set()

    def meets(exchange):
        key = exchange.method, exchange.path, exchange.query.get("continue")
        if not of(exchange) or key in met:
            return False
        met.add(key)
        return True

    return meets


def any_request(exchange):
    return True


def at_random(of, share, random):
    return lambda exchange: of(exchange) and random.random() < share


# -- faults


def in_turn(faults, *, of):
    """Applies these faults in turn, one per request."""
    ring = cycle([fault(of=any_request) for fault in faults])

    async def fault(exchange):
        await (next(ring)(exchange) if of(exchange) else exchange.pass_on())

    return fault


def refuses(code, *, of, reason="", headers=()):
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {}, "code": code}
    status |= {"reason": reason, "message": f"the test answers {code}"}
    body = json.dumps(status).encode()
    fields = {"Content-Type": "application/json", **dict(headers)}

    async def fault(exchange):
        if not of(exchange):
            return await exchange.pass_on()
        exchange.count(str(code))
        return await exchange.answer(code, body, fields)

    return fault


def loses_answers(*, of):
    """The server carries requests out, and the responses are dropped."""

    async def fault(exchange):
        if not of(exchange):
            return await exchange.pass_on()
        await exchange.carry_out()
        exchange.count("answer lost")
        return exchange.reset()

    return fault


def resets(*, of):
    async def fault(exchange):
        if not of(exchange):
            return await exchange.pass_on()
        exchange.count("reset")
        return exchange.reset()

    return fault


def truncates(*, of):
    """Responses end half-way."""

    async def fault(exchange):
        if not of(exchange):
            return await exchange.pass_on()
        answer = await exchange.carry_out()
        exchange.count("truncated")
        return await exchange.truncate(*answer)

    return fault


def ends_in_a_chunk(*, of):
    async def fault(exchange):
        if not of(exchange):
            return await exchange.pass_on()
        exchange.count("half a chunk")
        return await exchange.half_a_chunk(b'{"type":"ADDED","object":{"meta')

    return fault
