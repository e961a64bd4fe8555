"""Set up delegated authentication and authorization from flags.

Each flag is a field of the options, with its name and default. Invalid options are rejected, and partially working ones
logged, with upstream's messages.

    delegation = await delegated(
        authentication, authorization, authentication_api=..., authorization_api=..., gate=gates.enabled, times=...
    )
    following = asyncio.create_task(delegation.run())      # cancel it, then `await delegation.close()`

Upstream: staging/src/k8s.io/apiserver/pkg/server/options/authentication.go, authorization.go.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Literal

from stowplan.kube.api.durations import Duration
from stowplan.kube.api.port import Api
from stowplan.kube.config import ClientConnection
from stowplan.kube.klog import get_logger
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import Times
from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.connection import (
    Connection,
    ProcessEnvironment,
    connect_from_scheduler_flags,
    connect_in_cluster,
)
from stowplan.net.client.http.transport import Limits
from stowplan.net.serving.access_metrics import AuthenticationMetrics, AuthorizationMetrics
from stowplan.net.serving.authentication.authenticator import DelegatedAuthenticator, Method
from stowplan.net.serving.authentication.authorities import Authorities, AuthoritiesFile, BundleError
from stowplan.net.serving.authentication.client_certificates import ClientCertificates
from stowplan.net.serving.authentication.lookup import (
    CLIENT_CA,
    NAME,
    NAMESPACE,
    PROXY_CA,
    ClusterAuthentication,
    LookupFailed,
)
from stowplan.net.serving.authentication.request_header import FrontProxy, RequestHeaders
from stowplan.net.serving.authentication.tokens import BearerTokens, ReviewedTokens, WebSocketTokens
from stowplan.net.serving.authorization import AccessReviews, AllowedPaths, DelegatedAuthorizer
from stowplan.net.serving.reviewer import REQUEST_TIMEOUT, Reviewer

Gate = Callable[[str], bool]

_log = get_logger(__name__)

UID_FROM_CERTIFICATE = "AllowParsingUserUIDFromCertAuth"
UID_HEADERS = "RemoteRequestHeaderUID"

#: For the clients that send reviews; `Reviewer` has lower limits for retries and timeouts, which apply first.
CLIENT_SETTINGS = ClientConnection(qps=200.0, burst=400)
CLIENT_LIMITS = Limits(total=2 * REQUEST_TIMEOUT, tries=1, connection_tries=1)

_TEN_SECONDS = Duration.of_seconds(10)

#: Timeout in seconds for the ConfigMap lookup: if its failure is tolerated, and if not.
_TOLERATED_LOOK = 5.0
_NEEDED_LOOK = 30.0


class AuthenticationOptions(PlainStruct, frozen=True, kw_only=True):
    authentication_kubeconfig: str = ""
    authentication_skip_lookup: bool = False
    authentication_token_webhook_cache_ttl: Duration = _TEN_SECONDS
    authentication_tolerate_lookup_failure: bool = True
    client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_client_ca_file: str = ""
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)


class AuthorizationOptions(PlainStruct, frozen=True, kw_only=True):
    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorization_kubeconfig: str = ""
    authorization_webhook_cache_authorized_ttl: Duration = _TEN_SECONDS
    authorization_webhook_cache_unauthorized_ttl: Duration = _TEN_SECONDS


class DelegationError(ValueError):
    """Invalid options; `str()` is upstream's text."""


def check_authentication(options: AuthenticationOptions, *, gate: Gate) -> list[str]:
    """Problems of the flags by themselves, in upstream's order; oddities are logged."""
    headers = {
        "requestheader-username-headers": options.requestheader_username_headers,
        "requestheader-group-headers": options.requestheader_group_headers,
        "requestheader-extra-headers-prefix": options.requestheader_extra_headers_prefix,
        "requestheader-allowed-names": options.requestheader_allowed_names,
    }
    errors = [f'empty value in "{flag}"' for flag, values in headers.items() if not _all_non_empty(values)]
    for flag, standard, what in (
        ("requestheader-username-headers", "X-Remote-User", "header"),
        ("requestheader-group-headers", "X-Remote-Group", "header"),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-", "header prefix"),
    ):
        if not _has_standard(headers[flag], standard):
            _log.warning(_no_aggregation(flag, standard, what))
    return errors + _uid_errors(options.requestheader_uid_headers, gate)


def _uid_errors(headers: Sequence[str], gate: Gate) -> list[str]:
    flag = "requestheader-uid-headers"
    if not gate(UID_HEADERS):
        return [f'--{flag} requires the "{UID_HEADERS}" feature to be enabled'] if headers else []
    errors = [] if _all_non_empty(headers) else [f'empty value in "{flag}"']
    if not _has_standard(headers, "X-Remote-Uid"):
        errors.append(_no_aggregation(flag, "X-Remote-Uid", "header"))
    return errors


def _all_non_empty(values: Sequence[str]) -> bool:
    return all(value.strip() for value in values)


def _has_standard(headers: Sequence[str], standard: str) -> bool:
    return not headers or standard.lower() in (header.lower() for header in headers)


def _no_aggregation(flag: str, standard: str, what: str) -> str:
    return f"--{flag} is set without specifying the standard {standard} {what} - API aggregation will not work"


def delegated_connection(
    kubeconfig: str,
    *,
    purpose: Literal["authentication", "authorization"],
    environment: ProcessEnvironment | None = None,
) -> Connection | None:
    """The connection for delegation: the kubeconfig's, else the pod's own cluster; None outside of any."""
    try:
        if kubeconfig:
            return connect_from_scheduler_flags(kubeconfig=kubeconfig, environment=environment)
    except ClientConfigError as error:
        why = f"failed to get delegated {purpose} kubeconfig: {error}"
        # Parity: upstream repeats the prefix.
        doubled = f"failed to get delegated {purpose} kubeconfig: {why}"
        raise DelegationError(doubled if purpose == "authentication" else why) from None
    try:
        return connect_in_cluster(environment)
    except ClientConfigError as error:
        _log.warning(f"failed to read in-cluster kubeconfig for delegated {purpose}: {error}")
        return None


class Delegation(PlainStruct, frozen=True, kw_only=True):
    authenticator: DelegatedAuthenticator
    authorizer: DelegatedAuthorizer
    _cluster: ClusterAuthentication | None
    _tokens: ReviewedTokens | None
    _reviews: AccessReviews | None

    async def run(self) -> None:
        """Follow the cluster's certificates until cancelled; returns if there is nothing to follow."""
        if self._cluster is not None:
            await self._cluster.follow()

    async def close(self) -> None:
        """Cancel requests in progress."""
        for asked in (self._tokens, self._reviews):
            if asked is not None:
                await asked.close()


async def delegated(
    authentication: AuthenticationOptions,
    authorization: AuthorizationOptions,
    *,
    authentication_api: Api | None,
    authorization_api: Api | None,
    gate: Gate,
    times: Times,
    metrics: ServingMetrics | None = None,
    cache_key: bytes | None = None,
) -> Delegation:
    """Raises DelegationError. Without an API, neither tokens nor permissions can be checked."""
    parts = _Parts(authentication, authentication_api, gate=gate, times=times, metrics=metrics)
    methods = await parts.methods()
    tokens = None if authentication_api is None else parts.tokens(cache_key or secrets.token_bytes(32))
    if tokens is not None:
        methods += [BearerTokens(tokens), WebSocketTokens(tokens)]
    reviews = _reviews(authorization, authorization_api, times=times, metrics=metrics)
    try:
        allowed_paths = AllowedPaths.of(authorization.authorization_always_allow_paths)
    except ValueError as error:
        raise DelegationError(str(error)) from None
    return Delegation(
        authenticator=DelegatedAuthenticator(methods, clock=times.clock, headers=parts.headers, metrics=metrics),
        authorizer=DelegatedAuthorizer(
            allowed_paths=allowed_paths, reviews=reviews, clock=times.clock, metrics=metrics
        ),
        _cluster=parts.cluster,
        _tokens=tokens,
        _reviews=reviews,
    )


def _reviews(
    options: AuthorizationOptions, api: Api | None, *, times: Times, metrics: ServingMetrics | None
) -> AccessReviews | None:
    if api is None:
        _log.warning("No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work.")
        return None
    requests = None if metrics is None else AuthorizationMetrics(metrics).requests
    return AccessReviews(
        Reviewer(api, times=times, metrics=requests),
        clock=times.clock,
        yes_kept_for=options.authorization_webhook_cache_authorized_ttl.seconds,
        no_kept_for=options.authorization_webhook_cache_unauthorized_ttl.seconds,
    )


class _Parts:
    """The parts of authentication."""

    def __init__(
        self,
        options: AuthenticationOptions,
        api: Api | None,
        *,
        gate: Gate,
        times: Times,
        metrics: ServingMetrics | None,
    ) -> None:
        self._options = options
        self._api = api
        self._gate = gate
        self._times = times
        self._metrics = metrics
        given = {CLIENT_CA: options.client_ca_file, PROXY_CA: options.requestheader_client_ca_file}
        self._wanted = (
            frozenset() if options.authentication_skip_lookup else frozenset(key for key in given if not given[key])
        )
        self.cluster = (
            ClusterAuthentication(api, times=times, wanted=self._wanted) if api is not None and self._wanted else None
        )

    def headers(self) -> RequestHeaders:
        if self._options.requestheader_client_ca_file:
            return RequestHeaders(
                usernames=self._options.requestheader_username_headers,
                uids=self._options.requestheader_uid_headers,
                groups=self._options.requestheader_group_headers,
                extra_prefixes=self._options.requestheader_extra_headers_prefix,
                allowed_names=self._options.requestheader_allowed_names,
            )
        return self.cluster.headers() if self.cluster is not None else RequestHeaders()

    async def methods(self) -> list[Method]:
        """Front proxies, then client certificates. Files and the cluster are read in upstream's order."""
        clients, proxies = self._client_authorities(), self._proxy_authorities()
        await self._look()
        methods: list[Method] = []
        if proxies is not None:
            methods.append(FrontProxy(proxies, self.headers, wall_clock=self._times.wall_clock))
        if clients is not None:
            methods.append(self._certificates(clients))
        return methods

    def tokens(self, key: bytes) -> ReviewedTokens | None:
        if self._api is None:
            return None
        requests = None if self._metrics is None else AuthenticationMetrics(self._metrics).requests
        return ReviewedTokens(
            Reviewer(self._api, times=self._times, metrics=requests),
            kept_for=self._options.authentication_token_webhook_cache_ttl.seconds,
            key=key,
            times=self._times,
            metrics=self._metrics,
        )

    def _certificates(self, authorities: Authorities) -> ClientCertificates:
        metrics = self._metrics
        return ClientCertificates(
            authorities,
            wall_clock=self._times.wall_clock,
            uid_allowed=self._gate(UID_FROM_CERTIFICATE),
            expiration=None if metrics is None else metrics.apiserver_client_certificate_expiration_seconds,
        )

    def _client_authorities(self) -> Authorities | None:
        path = self._options.client_ca_file
        if path:
            return self._file(path, purpose="client-ca-bundle", otherwise="unable to load client CA provider")
        return self._looked_up(CLIENT_CA, "client certificate authentication")

    def _proxy_authorities(self) -> Authorities | None:
        path = self._options.requestheader_client_ca_file
        if path:
            why = "unable to create request header authentication config"
            return self._file(path, purpose="request-header", otherwise=why)
        return self._looked_up(PROXY_CA, "request-header client certificate authentication")

    def _file(self, path: str, *, purpose: str, otherwise: str) -> Authorities:
        try:
            return AuthoritiesFile(path, purpose=purpose, clock=self._times.clock)
        except BundleError as error:
            raise DelegationError(f"{otherwise}: {error}") from None

    def _looked_up(self, key: str, what: str) -> Authorities | None:
        if key not in self._wanted:
            return None
        if self.cluster is None:
            _log.warning(
                f"No authentication-kubeconfig provided in order to lookup {key} in configmap/{NAME} in {NAMESPACE}, "
                f"so {what} won't work."
            )
            return None
        return self.cluster.client_authorities if key == CLIENT_CA else self.cluster.proxy_authorities

    async def _look(self) -> None:
        if self.cluster is None:
            return
        tolerant = self._options.authentication_tolerate_lookup_failure or PROXY_CA not in self._wanted
        try:
            await self.cluster.look(seconds=_TOLERATED_LOOK if tolerant else _NEEDED_LOOK)
        except LookupFailed as error:
            if PROXY_CA not in self._wanted:
                # Parity: for client certificates alone, upstream does not read at startup, but only watches.
                return
            if not tolerant:
                why = f"unable to load configmap based request-header-client-ca-file: {error}"
                raise DelegationError(why) from None
            _log.warning(f"Error looking up in-cluster authentication configuration: {error}")
            _log.warning("Continuing without authentication configuration. This may treat all requests as anonymous.")
            _log.warning(
                "To require authentication configuration lookup to succeed, "
                "set --authentication-tolerate-lookup-failure=false"
            )
