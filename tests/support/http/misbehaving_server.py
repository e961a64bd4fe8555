"""A server with a scripted action for each request, down to single bytes; it records the requests.

    async with Misbehaving(answers(429, headers={"Retry-After": "1"}), answers(200, {...})) as server: ...

Requests of any path use up the actions in order; `at(path, ...)` reserves some for one path. Without any action left, a
request is answered with 501 and a message.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    #: As in the request line; proxies get whole URLs.
    target: str = ""

    def json(self):
        return json.loads(self.body)


class Exchange:
    """One request, and the connection to answer it on."""

    def __init__(self, seen, reader, writer):
        self.seen = seen
        self.reader = reader
        self.writer = writer
        #: Whether the connection can take another request.
        self.keep = True

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data):
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def reset(self):
        """Close the connection with RST, so that the client gets an error instead of EOF."""
        self.keep = False
        self.writer.transport.abort()


# --- actions


def answers(code, body=None, *, headers=None, content_type="application/json"):
    data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    fields = {"Content-Type": content_type, "Content-Length": str(len(data)), **(headers or {})}
    head = f"HTTP/1.1 {code} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return sends(head.encode() + b"\r\n" + data, keep=True)


def sends(data, *, keep=False):
    """Send raw bytes, then close the connection."""

    async def act(exchange):
        await exchange.send(data)
        exchange.keep = keep

    return act


def trickles(data, *, every):
    """Send one byte at a time, with a pause after each."""

    async def act(exchange):
        for byte in data:
            await exchange.send(bytes([byte]))
            await asyncio.sleep(every)

    return act


async def resets(exchange):
    exchange.reset()


async def closes(exchange):
    exchange.keep = False


async def hangs(exchange):
    """Send nothing until the client gives up."""
    await exchange.reader.read()
    exchange.keep = False


def streams(*pieces, then="end", content_type="application/json"):
    """A chunked response; `then` it ends, is cut off in the middle of a chunk, is reset, or goes silent."""

    async def act(exchange):
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        await exchange.send(head.encode())
        for piece in pieces:
            await exchange.chunk(piece)
            await asyncio.sleep(0)
        await endings[then](exchange)

    endings = {"end": _ends_chunks, "cut": sends(b"ffff\r\nonly this"), "reset": resets, "silence": hangs}
    return act


async def _ends_chunks(exchange):
    await exchange.send(b"0\r\n\r\n")


def does(first, action):
    """Call a function, then act."""

    async def act(exchange):
        first(exchange.seen)
        await action(exchange)

    return act


def status(code, reason, message="no", **details):
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
        **({"details": details} if details else {}),
    }


# --- the server


class Misbehaving:
    def __init__(self, *actions, context: ssl.SSLContext | None = None, greeting=b""):
        self.actions = deque(actions)
        self.seen: list[Seen] = []
        #: Number of connections so far.
        self.connections = 0
        self._by_path: dict[str, deque] = {}
        self._context = context
        #: Sent to each new connection instead of any response.
        self._greeting = greeting
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task] = set()

    def at(self, path, *actions):
        self._by_path.setdefault(path, deque()).extend(actions)
        return self

    def requests(self):
        return [f"{seen.method} {seen.path}" for seen in self.seen]

    @property
    def url(self):
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    async def start(self, port=0):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self):
        self._server.close()
        for task in tuple(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader, writer):
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader, writer):
        self.connections += 1
        writer.write(self._greeting)
        try:
            while not self._greeting:
                exchange = Exchange(await _request(reader), reader, writer)
                self.seen.append(exchange.seen)
                await self._action(exchange.seen.path)(exchange)
                if not exchange.keep:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has gone
        finally:
            writer.close()
            with suppress(OSError, ssl.SSLError, asyncio.CancelledError):
                await writer.wait_closed()

    def _action(self, path):
        for actions in (self._by_path.get(path, ()), self.actions):
            if actions:
                return actions.popleft()
        return answers(501, status(501, "", f"the test has no action left for {path}"))


async def _request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {}
    for line in head[1:-2]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    parts = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Seen(method, parts.path, query, headers, body, target)
