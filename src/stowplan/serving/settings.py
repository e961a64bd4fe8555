"""Settings of the secure port: address, certificates, limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stowplan.serving.tls.options import TlsOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.serving.tls.key_pairs import CertificateFiles


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    #: An unspecified one (0.0.0.0, ::) is all of both families.
    bind_address: str = "0.0.0.0"
    #: 0: one that is free.
    port: int = 10259
    reuse_port: bool = False

    #: None: one that is made.
    certificate: CertificateFiles | None = None
    #: Where the one that is made outlives the process; empty: nowhere.
    certificate_directory: str = ""
    named_certificates: Sequence[CertificateFiles] = ()
    tls: TlsOptions = field(default_factory=TlsOptions)

    #: Seconds: for a handshake, and for the head of a request; between requests; for an answer to be read.
    head_timeout: float = 32
    idle_timeout: float = 90
    write_timeout: float = 60
    max_head_bytes: int = 1024 * 1024
    #: Of all connections together; who has sent but a little is not asked.
    max_heads_bytes: int = 16 * 1024 * 1024
    #: For each more, one that waits for its client is closed: a scheduler that has no file left for its API server
    #: is worse.
    max_connections: int = 1000
