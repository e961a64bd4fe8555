"""Resolve the API server's address and credentials from flags, kubeconfig or a service account.

kubectl and kube-scheduler look in different places, and both orders are kept:

- kubectl: --kubeconfig, else the files of KUBECONFIG, else ~/.kube/config, else the service account of the pod;
- kube-scheduler: --kubeconfig and --master, if either is given, else the service account. Never ~/.kube/config.

Everything that can be checked offline is checked here: an existing Connection has readable files, a client key that
matches its certificate, and a valid proxy. Exec plugins run later, with the first request.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/client_config.go and merged_client_builder.go, rest/config.go.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stowplan.kube.api.durations import parse_duration
from stowplan.net.client.client_errors import ClientConfigError, CredentialsError
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.credentials.kubeconfig import (
    Kubeconfig,
    Selection,
    known_contexts,
    kubeconfig_paths,
    load_kubeconfig,
    load_kubeconfigs,
    overridden,
    select,
)
from stowplan.net.client.credentials.kubeconfig_validation import check
from stowplan.net.client.credentials.request_credentials import TokenFile, UserCredentials
from stowplan.net.client.credentials.user_credentials import Readers, content_of, credentials_of
from stowplan.net.client.endpoint.file_content import FileContent
from stowplan.net.client.endpoint.proxies import proxy_from_environment, server_url
from stowplan.net.client.endpoint.tls import TlsSettings

__all__ = [
    "ClientConfigError",
    "Connection",
    "CredentialsError",
    "ProcessEnvironment",
    "connect_from_flags",
    "connect_from_scheduler_flags",
    "connect_in_cluster",
    "request_timeout",
]

_log = logging.getLogger(__name__)

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NO_CONFIGURATION = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)
_NOT_A_POD = (
    "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
)

_NO_TIMEOUT = (
    "Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by a corresponding "
    "time unit (e.g. 1s | 2m | 3h)"
)
#: Seconds of requests without a limit; timers need a number.
_WITHOUT_END = 7 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Connection:
    #: `https://host:6443`, optionally with a path, without a trailing slash.
    server: str
    namespace: str
    credentials: UserCredentials = field(repr=False)
    #: None for http://
    tls: TlsSettings | None
    #: May contain a password.
    proxy_url: str | None = field(default=None, repr=False)
    disable_compression: bool = False
    #: Connect to this Unix socket instead of the server's address, without TLS.
    socket_path: str = ""
    #: Seconds for each request but watches, instead of the client's own limits.
    request_timeout: float | None = None

    @property
    def shown(self) -> str:
        """The server, for messages."""
        return f"unix:{self.socket_path}" if self.socket_path else self.server


def _stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


@dataclass(frozen=True, kw_only=True)
class ProcessEnvironment:
    """What a connection reads from the process and the machine."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    #: Monotonic seconds, for periodic re-reads.
    clock: Callable[[], float] = time.monotonic
    #: Seconds since the epoch, for expiration times.
    wall_clock: Callable[[], float] = time.time
    is_terminal: Callable[[], bool] = _stdin_is_terminal
    service_account: Path = _SERVICE_ACCOUNT

    def readers(self) -> Readers:
        return Readers(environ=self.environ, clock=self.clock, wall_clock=self.wall_clock, is_terminal=self.is_terminal)


def connect_from_flags(flags: ClusterFlags, environment: ProcessEnvironment | None = None) -> Connection:
    """Connect as kubectl would; raise ClientConfigError."""
    found = replace(_as_oneself(flags, environment or ProcessEnvironment()), request_timeout=request_timeout(flags))
    if flags.disable_compression:
        found = replace(found, disable_compression=True)
    user, others = flags.as_user, (flags.as_uid, *flags.as_groups)
    if any(others) and not user:
        raise ClientConfigError("--as-group and --as-uid need --as: groups cannot be impersonated without a user")
    if not user:
        return found
    if not all(one.isprintable() for one in (user, *others)):
        raise ClientConfigError("--as, --as-uid, --as-group: names of users and groups have no control characters")
    return replace(found, credentials=found.credentials.impersonating(user, flags.as_uid, flags.as_groups))


def request_timeout(flags: ClusterFlags) -> float | None:
    """Seconds; None if no such flag was given. Raises ClientConfigError, with kubectl's message."""
    text = flags.request_timeout
    if not text:
        return None
    try:
        seconds = int(text) if re.fullmatch(r"\+?[0-9]+", text) else parse_duration(text).seconds
    except ValueError:
        raise ClientConfigError(_NO_TIMEOUT) from None
    return min(seconds, _WITHOUT_END) if seconds > 0 else _WITHOUT_END


def _as_oneself(flags: ClusterFlags, environment: ProcessEnvironment) -> Connection:
    kubeconfig = flags.kubeconfig
    paths = [kubeconfig] if kubeconfig else kubeconfig_paths(environment.environ)
    config = load_kubeconfig(kubeconfig) if kubeconfig else load_kubeconfigs(paths)
    selection = overridden(select(config, flags.context), config, flags)
    if selection.cluster is not None or selection.context is not None:
        return _from_selection(config, selection, server="", environment=environment)
    reason = _not_in_cluster(environment)
    if reason is None and not kubeconfig:
        return _in_cluster(environment)
    if config.files:
        raise ClientConfigError(_no_current_context(config))
    looked = "neither KUBECONFIG nor HOME is set"
    if paths:
        looked = f"{paths[0]} does not exist" if len(paths) == 1 else f"none of the files {', '.join(paths)} exists"
    raise ClientConfigError(
        f"no cluster to talk to: {looked}, and this process is not in a pod ({reason}); "
        "name a kubeconfig with --kubeconfig or KUBECONFIG"
    )


def connect_from_scheduler_flags(
    *, kubeconfig: str | None, master: str | None = None, environment: ProcessEnvironment | None = None
) -> Connection:
    """Connect as kube-scheduler would; raise ClientConfigError."""
    environment = environment or ProcessEnvironment()
    if not kubeconfig and not master:
        return _in_cluster_only(environment)
    config = load_kubeconfig(kubeconfig) if kubeconfig else Kubeconfig()
    selection = select(config)
    if selection.context is None and not master:
        raise ClientConfigError(_no_current_context(config))
    # Parity: the scheduler always requests uncompressed responses.
    return _from_selection(config, selection, server=master or "", environment=environment, disable_compression=True)


def _no_current_context(config: Kubeconfig) -> str:
    return f"invalid configuration: {config.where}: current-context is not set; {known_contexts(config)}"


# --- from a kubeconfig


def _from_selection(
    config: Kubeconfig,
    selection: Selection,
    *,
    server: str,
    environment: ProcessEnvironment,
    disable_compression: bool = False,
) -> Connection:
    """`server`: --master of kube-scheduler."""
    check(selection)
    given, server = server, _server_of(config, selection, server)
    cluster = None if selection.cluster is None else selection.cluster.value
    uncompressed = disable_compression or (cluster is not None and cluster.disable_compression)
    # Parity: the cluster's TLS server name is not used for another server.
    name = cluster.tls_server_name if cluster is not None and not given else ""
    tls = _tls(selection, environment, server_name=name) if server.startswith("https:") else None
    readers = environment.readers()
    credentials = credentials_of(selection, readers, server=server, tls=tls, disable_compression=uncompressed)
    if tls is not None:
        tls.certificate = credentials
        tls.context()
    namespace = "" if selection.context is None else selection.context.value.namespace
    return Connection(
        server=server,
        namespace=namespace or "default",
        credentials=credentials,
        tls=tls,
        proxy_url=(cluster.proxy_url if cluster is not None else "")
        or proxy_from_environment(server, environment.environ),
        disable_compression=uncompressed,
    )


def _server_of(config: Kubeconfig, selection: Selection, master: str) -> str:
    if master:
        return server_url(master, where="--master")
    if selection.cluster is None:
        where = selection.context.where if selection.context else config.where
        raise ClientConfigError(f"invalid configuration: {where}: cluster is not set; name one, or give --master")
    return server_url(selection.cluster.value.server, where=f"{selection.cluster.where}: server")


def _tls(selection: Selection, environment: ProcessEnvironment, *, server_name: str) -> TlsSettings:
    entry = selection.cluster
    if entry is None:
        return TlsSettings()
    cluster = entry.value
    ca = content_of(
        entry,
        environment.clock,
        data=("certificate-authority-data", cluster.certificate_authority_data),
        file=("certificate-authority", cluster.certificate_authority),
    )
    return TlsSettings(ca=ca, server_name=server_name or None, insecure=cluster.insecure_skip_tls_verify)


# --- in a pod


def connect_in_cluster(environment: ProcessEnvironment | None = None) -> Connection | None:
    """Connect with the pod's service account; None outside of a pod; ClientConfigError for a pod without an account."""
    environment = environment or ProcessEnvironment()
    reason = _not_in_cluster(environment)
    if reason is None:
        return _in_cluster(environment, disable_compression=True)
    if reason == _NOT_A_POD:
        return None
    raise ClientConfigError(reason)


def _in_cluster_only(environment: ProcessEnvironment) -> Connection:
    _log.warning("Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  This might not work.")
    reason = _not_in_cluster(environment)
    if reason is None:
        return _in_cluster(environment, disable_compression=True)
    _log.warning("error creating inClusterConfig, falling back to default config: %s", reason)
    raise ClientConfigError(_NO_CONFIGURATION)


def _not_in_cluster(environment: ProcessEnvironment) -> str | None:
    """Why there is no service account; None if there is one."""
    if not environment.environ.get("KUBERNETES_SERVICE_HOST") or not environment.environ.get("KUBERNETES_SERVICE_PORT"):
        return _NOT_A_POD
    token = environment.service_account / "token"
    return None if token.is_file() else f"open {token}: no such file or directory"


def _in_cluster(environment: ProcessEnvironment, *, disable_compression: bool = False) -> Connection:
    host, port = environment.environ["KUBERNETES_SERVICE_HOST"], environment.environ["KUBERNETES_SERVICE_PORT"]
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    token = TokenFile(
        str(environment.service_account / "token"), where="service account", clock=environment.clock
    ).check()
    return Connection(
        server=server_url(server, where="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT"),
        namespace=_pod_namespace(environment),
        credentials=UserCredentials(token),
        tls=_service_account_tls(environment),
        proxy_url=proxy_from_environment(server, environment.environ),
        disable_compression=disable_compression,
    )


def _service_account_tls(environment: ProcessEnvironment) -> TlsSettings:
    path = environment.service_account / "ca.crt"
    tls = TlsSettings(ca=FileContent(str(path), where="service account:", clock=environment.clock))
    try:
        tls.context()
    except ClientConfigError as error:
        # Parity: the system's trusted certificates may suffice.
        _log.error("Expected to load root CA config from %s, but got err: %s", path, error)
        return TlsSettings()
    return tls


def _pod_namespace(environment: ProcessEnvironment) -> str:
    try:
        mounted = (environment.service_account / "namespace").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        mounted = ""
    return environment.environ.get("POD_NAMESPACE") or mounted or "default"
