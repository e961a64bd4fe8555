"""Settings of the HTTP front: address, credentials and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stowplan.api.users import UserInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontSettings:
    host: str = "127.0.0.1"
    #: 0: one that is free.
    port: int = 0
    tls: bool = True
    #: Where certificates outlive the process; without it they are made anew each time.
    certificates: Path | None = None
    #: The administrator's bearer token; without one it is made up.
    token: str = field(default="", repr=False)
    #: Further bearer tokens and whose they are.
    users: Mapping[str, UserInfo] = field(default_factory=dict, repr=False)

    max_body_bytes: int = 3 * 1024 * 1024
    #: Of the request line, and of each header.
    max_line_bytes: int = 64 * 1024
    max_headers: int = 128
    #: Of a whole head; and of all connections together, of which those that have sent but a little are not asked.
    max_head_bytes: int = 1024 * 1024
    max_heads_bytes: int = 16 * 1024 * 1024
    #: For each more, one that waits for its client is closed.
    max_connections: int = 4096
    #: Beside the connections; for each more, the oldest is closed.
    max_handshakes: int = 512
    #: Requests at once: reading, writing; and watches, which are not among them.
    max_reading: int = 400
    max_mutating: int = 200
    max_watches: int = 2000

    #: Seconds for a TLS handshake, for a head, for a body, for an answer to be read, for a connection to stay unused.
    handshake_timeout: float = 32
    head_timeout: float = 32
    read_timeout: float = 60
    write_timeout: float = 60
    idle_timeout: float = 300
    #: Watches without a timeout of their own last this long and up to as much again.
    watch_timeout: float = 1800
    bookmark_interval: float = 60
