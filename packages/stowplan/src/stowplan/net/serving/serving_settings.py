"""Settings of the secure port: address, certificates, limits."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.tls.key_pairs import CertificateFiles
from stowplan.net.serving.tls.tls_parameters import TlsOptions


class ServingSettings(PlainStruct, frozen=True, kw_only=True):
    #: An unspecified address (0.0.0.0, ::) listens on both families.
    bind_address: str = "0.0.0.0"
    #: 0: any free port.
    port: int = 10259
    reuse_port: bool = False

    #: None: a generated one.
    certificate: CertificateFiles | None = None
    #: Where the generated certificate is stored; empty: nowhere.
    certificate_directory: str = ""
    named_certificates: Sequence[CertificateFiles] = ()
    tls: TlsOptions = field(default_factory=TlsOptions)

    #: Seconds: for a handshake and the head of a request; between requests; for a response to be read.
    head_timeout: float = 32
    idle_timeout: float = 90
    write_timeout: float = 60
    max_head_bytes: int = 1024 * 1024
    #: Over all connections; clients that have sent little are exempt.
    max_heads_bytes: int = 16 * 1024 * 1024
    #: For each further one, a connection that waits for its client is closed: a scheduler without file descriptors for
    #: its API server would be worse.
    max_connections: int = 1000
