"""Kubeconfig entries, with the file's field names.

Only fields that a client reads; others are ignored, as in kubectl. Secrets are excluded from reprs.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/api/v1/types.go.
"""

# No postponed annotations: msgspec reads them at run time.

from typing import Any

from msgspec import Struct


class NamedExtension(Struct, frozen=True):
    name: str = ""
    extension: Any = None


class Cluster(
    Struct,
    frozen=True,
    rename={
        "tls_server_name": "tls-server-name",
        "insecure_skip_tls_verify": "insecure-skip-tls-verify",
        "certificate_authority": "certificate-authority",
        "certificate_authority_data": "certificate-authority-data",
        "proxy_url": "proxy-url",
        "disable_compression": "disable-compression",
    },
):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[NamedExtension] = []

    def __repr__(self) -> str:
        return f"Cluster(server={self.server!r}, …)"


class ExecEnvVar(Struct, frozen=True):
    name: str = ""
    value: str = ""

    def __repr__(self) -> str:
        return f"ExecEnvVar(name={self.name!r}, …)"


class ExecConfig(Struct, frozen=True, rename="camel"):
    command: str = ""
    args: list[str] = []
    env: list[ExecEnvVar] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""

    def __repr__(self) -> str:
        return f"ExecConfig(command={self.command!r}, …)"


class AuthProviderConfig(Struct, frozen=True):
    name: str = ""


class User(
    Struct,
    frozen=True,
    rename={
        "client_certificate": "client-certificate",
        "client_certificate_data": "client-certificate-data",
        "client_key": "client-key",
        "client_key_data": "client-key-data",
        "token_file": "tokenFile",
        "impersonate": "as",
        "impersonate_uid": "as-uid",
        "impersonate_groups": "as-groups",
        "impersonate_user_extra": "as-user-extra",
        "auth_provider": "auth-provider",
    },
):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = ""
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: list[str] = []
    impersonate_user_extra: dict[str, list[str]] = {}
    username: str = ""
    password: str = ""
    auth_provider: AuthProviderConfig | None = None
    exec: ExecConfig | None = None

    def __repr__(self) -> str:
        return "User(…)"


class Context(Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class Header(Struct, frozen=True, rename={"current_context": "current-context", "api_version": "apiVersion"}):
    """A kubeconfig's own fields; the entries are decoded one by one, so that each error can name its entry."""

    api_version: str = ""
    kind: str = ""
    current_context: str = ""
    clusters: list[dict[str, Any]] = []
    users: list[dict[str, Any]] = []
    contexts: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"Header(current_context={self.current_context!r}, …)"
