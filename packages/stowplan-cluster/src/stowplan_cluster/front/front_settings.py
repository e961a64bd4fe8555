"""Settings of the HTTP front: address, credentials and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.kube.api.users import UserInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontSettings:
    host: str = "127.0.0.1"
    #: 0 for any free port.
    port: int = 0
    tls: bool = True
    #: Directory of persistent certificates; without it they are created on each start.
    certificates: Path | None = None
    #: The administrator's bearer token; generated if empty.
    token: str = field(default="", repr=False)
    #: Further bearer tokens and their users.
    users: Mapping[str, UserInfo] = field(default_factory=dict, repr=False)

    max_body_bytes: int = 3 * 1024 * 1024
    #: Limit on the request line and on each header.
    max_line_bytes: int = 64 * 1024
    max_headers: int = 128
    #: Maximum requests in flight: non-mutating, mutating; and watches, which are counted separately.
    max_reading: int = 400
    max_mutating: int = 200
    max_watches: int = 2000

    #: Seconds for a body, an idle connection.
    read_timeout: float = 60
    idle_timeout: float = 300
    #: Watches without timeoutSeconds last a random time between this and twice this.
    watch_timeout: float = 1800
    bookmark_interval: float = 60
