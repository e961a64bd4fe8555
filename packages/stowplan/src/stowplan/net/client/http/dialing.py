"""Open a connection: resolve the name, try each address, negotiate TLS.

Addresses of both families race with a head start for the first (RFC 8305), using the same library as aiohttp, because
not every event loop supports that.

Upstream: net.Dialer of Go, with the settings of staging/src/k8s.io/client-go/transport/cache.go.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from aiohappyeyeballs import start_connection

from stowplan.kube.structs import PlainStruct
from stowplan.net.client.endpoint.tls import TlsSettings

if TYPE_CHECKING:
    import ssl

    from aiohappyeyeballs import AddrInfoType
    from yarl import URL


_SECONDS_BETWEEN_PROBES = 30
_PROBES = 3
_HEAD_START = 0.25


class Address(PlainStruct, frozen=True):
    host: str
    port: int
    #: The name that the server's certificate must have; None without TLS.
    name: str | None
    #: A Unix socket to connect to instead; "" for none.
    socket_path: str = ""

    @classmethod
    def of(cls, server: URL, tls: TlsSettings | None, *, socket_path: str = "") -> Address:
        # A trailing dot keeps resolvers from trying search domains. Certificates have none.
        host = server.raw_host or ""
        name = None if tls is None else tls.server_name or host.rstrip(".")
        return cls(host, server.port or 0, name, socket_path)


async def dial(address: Address, protocol: asyncio.Protocol, context: ssl.SSLContext | None) -> None:
    """Open a connection for a protocol; raises OSError or UnicodeError. On failure, abort what may have been opened."""
    loop = asyncio.get_running_loop()
    if address.socket_path:
        await loop.create_unix_connection(lambda: protocol, address.socket_path)
        return
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    sock = await start_connection(found, happy_eyeballs_delay=_HEAD_START, socket_factory=probed_socket)
    # From here on the event loop owns the socket, in all cases.
    await loop.create_connection(lambda: protocol, sock=sock, ssl=context, server_hostname=address.name)


def probed_socket(address: AddrInfoType) -> socket.socket:
    """Create a socket that detects a dead peer within two minutes."""
    family, type_, protocol, _, _ = address
    made = socket.socket(family=family, type=type_, proto=protocol)
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _SECONDS_BETWEEN_PROBES),
        ("TCP_KEEPINTVL", _SECONDS_BETWEEN_PROBES),
        ("TCP_KEEPCNT", _PROBES),
    ):
        # Not available on every system.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
