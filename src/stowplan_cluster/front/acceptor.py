"""Listening sockets, and TLS handshakes in progress.

`asyncio.Server` performs the handshakes of a listening socket internally: they count as no connection, and nothing
limits their number. So connections are accepted here. At most `max_handshakes` are in a handshake at a time; beyond
that the oldest is closed, most likely a client that connects and sends nothing.

Upstream: net/http (tlsHandshakeTimeout).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from stowplan_cluster.front.protocol import Sleep

log = logging.getLogger(__name__)

_BACKLOG = 128
#: Seconds until the next attempt if accepting fails; asyncio uses the same.
_RETRY = 1.0


class Acceptor:
    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        *,
        context: ssl.SSLContext | None,
        handshake_timeout: float,
        max_handshakes: int,
        sleep: Sleep,
    ) -> None:
        """`protocol` is the factory of connections' protocols; without `context` there is no TLS."""
        self._protocol = protocol
        self._context = context
        self._handshake_timeout = handshake_timeout if context is not None else None
        self._most = max_handshakes
        self._sleep = sleep
        self._listening: list[tuple[socket.socket, asyncio.Task[None]]] = []
        #: Oldest first.
        self._handshakes: dict[asyncio.Task[None], None] = {}

    @property
    def addresses(self) -> Sequence[Any]:
        return [listening.getsockname() for listening, _ in self._listening]

    @property
    def handshakes(self) -> int:
        return len(self._handshakes)

    async def start(self, host: str, port: int) -> None:
        """Listen on all addresses of the host; raise OSError if that fails."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
                listening = _listen(family, address)
                self._listening.append((listening, loop.create_task(self._accept(listening))))
        except OSError:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening and cancel handshakes; connections stay open."""
        listening, self._listening = self._listening, []
        # In this order: a handshake task cancelled before it started would not close its socket.
        await _cancelled([task for _, task in listening])
        await _cancelled(list(self._handshakes))
        for opened, _ in listening:
            opened.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("cannot accept a connection: %s; trying again", error.strerror or error)
                await self._sleep(_RETRY)
                continue
            if len(self._handshakes) >= self._most:
                self._close_oldest()
            task = loop.create_task(self._connect(accepted))
            self._handshakes[task] = None
            task.add_done_callback(self._ended)
            # `sock_accept` does not yield while connections are pending: let other tasks run.
            await asyncio.sleep(0)

    def _close_oldest(self) -> None:
        oldest = next(iter(self._handshakes))
        self._ended(oldest)
        oldest.cancel()
        log.info("too many TLS handshakes: the oldest was closed")

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)

    async def _connect(self, accepted: socket.socket) -> None:
        # Failed handshakes need no handling: the client left or does not speak TLS.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_timeout,
            )


def _listen(family: socket.AddressFamily, address: Any) -> socket.socket:
    try:
        listening = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else error
        raise OSError(error.errno, f"error while attempting to bind on address {address}: {why}") from None
    listening.setblocking(False)
    return listening


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
