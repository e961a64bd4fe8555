"""Build credentials from a kubeconfig user entry.

Credentials in the entry itself take precedence: token file and token, user name and password, client certificate. Only
an entry without any of these runs its exec plugin.

Parity: no credentials are sent to a server without TLS.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/client_config.go, transport/round_trippers.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.credentials.exec_credentials import GROUP, ExecCluster, ExecCredentials, ExecPlugin
from stowplan.net.client.credentials.kubeconfig import Entry, Selection
from stowplan.net.client.credentials.kubeconfig_types import Cluster, ExecConfig, User
from stowplan.net.client.credentials.kubeconfig_validation import authenticates_without_plugin
from stowplan.net.client.credentials.request_credentials import (
    AuthorizationSource,
    FixedAuthorization,
    TokenFile,
    UserCredentials,
    basic,
    bearer,
    is_sendable,
)
from stowplan.net.client.endpoint.file_content import Content, FileContent, InlineContent
from stowplan.net.client.endpoint.tls import CertificatePair, TlsSettings

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
#: Bytes of an extra's key that are allowed in a header name; `%` must be escaped.
_HEADER_BYTES = frozenset(b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

#: A field's name and value.
Given: TypeAlias = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Readers:
    """Injected functions of credentials in use."""

    environ: Mapping[str, str] = field(repr=False)
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    is_terminal: Callable[[], bool]


def credentials_of(
    selection: Selection, readers: Readers, *, server: str, tls: TlsSettings | None, disable_compression: bool
) -> UserCredentials:
    """Build the credentials of a selection; raises ClientConfigError."""
    entry = selection.user
    if entry is None:
        return UserCredentials()
    impersonation = tuple(_impersonation(entry))
    if tls is None:
        return UserCredentials(impersonation=impersonation)
    if entry.value.exec is None or authenticates_without_plugin(entry.value):
        certificate = _certificate(entry, readers)
        return UserCredentials(_authorization(entry, readers), certificate=certificate, impersonation=impersonation)
    cluster = _exec_cluster(
        selection.cluster, entry.value.exec, server=server, tls=tls, disable_compression=disable_compression
    )
    plugin = ExecCredentials(
        _plugin(entry, entry.value.exec, cluster),
        environ=readers.environ,
        wall_clock=readers.wall_clock,
        is_terminal=readers.is_terminal,
    )
    return UserCredentials(plugin, certificate=plugin, impersonation=impersonation)


def content_of(
    entry: Entry[User] | Entry[Cluster], clock: Callable[[], float], *, data: Given, file: Given
) -> Content | None:
    """The content of one of two fields, inline in base64 or the name of a file; None if neither is set."""
    (data_field, text), (file_field, path) = data, file
    if text:
        where = f"{entry.where}: {data_field}"
        try:
            decoded = base64.b64decode(text.translate({10: None, 13: None}), validate=True)
        except (binascii.Error, ValueError):
            raise ClientConfigError(f"invalid configuration: {where}: not valid base64") from None
        return InlineContent(decoded, where=where)
    if path:
        return FileContent(entry.path(path), where=f"{entry.where}: {file_field}", clock=clock)
    return None


# --- token, password, certificate


def _authorization(entry: Entry[User], readers: Readers) -> AuthorizationSource:
    user = entry.value
    if user.token and not is_sendable(user.token):
        raise ClientConfigError(
            f"invalid configuration: {entry.where}: token: there are spaces, line ends or control characters in it"
        )
    if user.token_file:
        return _token_file(entry, readers)
    if user.token:
        return FixedAuthorization(bearer(user.token))
    if user.username or user.password:
        return FixedAuthorization(basic(user.username, user.password))
    return FixedAuthorization()


def _token_file(entry: Entry[User], readers: Readers) -> TokenFile:
    user = entry.value
    where = f"{entry.where}: tokenFile"
    return TokenFile(entry.path(user.token_file), where=where, clock=readers.clock, fallback=user.token).check()


def _certificate(entry: Entry[User], readers: Readers) -> CertificatePair | None:
    user = entry.value
    certificate = content_of(
        entry,
        readers.clock,
        data=("client-certificate-data", user.client_certificate_data),
        file=("client-certificate", user.client_certificate),
    )
    key = content_of(
        entry,
        readers.clock,
        data=("client-key-data", user.client_key_data),
        file=("client-key", user.client_key),
    )
    # Parity: a key alone is ignored.
    return None if certificate is None or key is None else CertificatePair(certificate=certificate, key=key)


# --- impersonation


def _impersonation(entry: Entry[User]) -> Iterator[tuple[str, str]]:
    for name, value in _impersonation_headers(entry.value):
        if _CONTROL_CHARACTER.search(value):
            raise ClientConfigError(
                f"invalid configuration: {entry.where}: as, as-uid, as-groups, as-user-extra: "
                f"control characters in what {name} would say"
            )
        yield name, value


def _impersonation_headers(user: User) -> Iterator[tuple[str, str]]:
    if user.impersonate:
        yield "Impersonate-User", user.impersonate
    if user.impersonate_uid:
        yield "Impersonate-Uid", user.impersonate_uid
    for group in user.impersonate_groups:
        yield "Impersonate-Group", group
    for key, values in user.impersonate_user_extra.items():
        name = "Impersonate-Extra-" + "".join(_header_byte(byte) for byte in key.encode())
        yield from ((name, value) for value in values)


def _header_byte(byte: int) -> str:
    return chr(byte) if byte in _HEADER_BYTES else f"%{byte:02X}"


# --- exec plugins


def _plugin(entry: Entry[User], config: ExecConfig, cluster: ExecCluster | None) -> ExecPlugin:
    return ExecPlugin(
        command=entry.path(config.command) if "/" in config.command else config.command,
        args=tuple(config.args),
        env={variable.name: variable.value for variable in config.env},
        api_version=config.api_version,
        interactive_mode=config.interactive_mode or "IfAvailable",
        install_hint=config.install_hint,
        cluster=cluster,
        where=entry.where,
    )


def _exec_cluster(
    entry: Entry[Cluster] | None, config: ExecConfig, *, server: str, tls: TlsSettings, disable_compression: bool
) -> ExecCluster | None:
    if not config.provide_cluster_info:
        return None
    extensions = [] if entry is None else entry.value.extensions
    return ExecCluster(
        server=server,
        tls_server_name=tls.server_name or "",
        insecure=tls.insecure,
        ca=tls.ca,
        proxy_url="" if entry is None else entry.value.proxy_url,
        disable_compression=disable_compression,
        config=next((item.extension for item in extensions if item.name == f"{GROUP}/exec"), None),
    )
