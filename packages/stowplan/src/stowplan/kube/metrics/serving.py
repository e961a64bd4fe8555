"""Metrics of the secure port: requests, authentication, authorization.

Upstream: staging/src/k8s.io/apiserver/pkg/{endpoints/filters/metrics.go,authentication/token/cache/stats.go,
authentication/authenticatorfactory/metrics.go,authorization/authorizerfactory/metrics.go,
authentication/request/x509/x509.go}.
"""

from __future__ import annotations

from stowplan.kube.metrics.families import CounterVec, GaugeVec, Histogram, HistogramVec
from stowplan.kube.metrics.registry import MetricsRegistry, exponential_buckets

_FROM_1_MS = exponential_buckets(0.001, 2, 15)
_REVIEW = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
#: The default buckets of Prometheus libraries.
_DEFAULT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_HOUR = 3600.0
_DAY = 24 * _HOUR
_LIFETIME = (
    *(0.0, _HOUR / 2, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 4 * _DAY, 7 * _DAY, 30 * _DAY, 90 * _DAY, 180 * _DAY, 360 * _DAY),
)


class ServingMetrics:
    """One attribute per metric, with the metric's name."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._authentication(registry)
        self._token_cache(registry)
        self._authorization(registry)

    def _authentication(self, registry: MetricsRegistry) -> None:
        #: Few user names are exported unchanged: see `user_class`.
        self.authenticated_user_requests: CounterVec = registry.counter_vec(
            "authenticated_user_requests", "Authenticated requests, by user name (well-known ones only).", ("username",)
        )
        self.authentication_attempts: CounterVec = registry.counter_vec(
            "authentication_attempts",
            "Authentication attempts by result: success, failure, error.",
            ("result",),
        )
        self.authentication_duration_seconds: HistogramVec = registry.histogram_vec(
            "authentication_duration_seconds",
            "How long it took to tell the user of a request, in seconds.",
            ("result",),
            _FROM_1_MS,
        )
        self.apiserver_client_certificate_expiration_seconds: Histogram = registry.histogram(
            "apiserver_client_certificate_expiration_seconds",
            "How long the client certificates that requests came with were still valid, in seconds.",
            _LIFETIME,
        )
        self.apiserver_delegated_authn_request_total: CounterVec = registry.counter_vec(
            "apiserver_delegated_authn_request_total", "Token reviews sent, by status code.", ("code",)
        )
        self.apiserver_delegated_authn_request_duration_seconds: HistogramVec = registry.histogram_vec(
            "apiserver_delegated_authn_request_duration_seconds",
            "How long a token review took, in seconds.",
            ("code",),
            _REVIEW,
        )

    def _token_cache(self, registry: MetricsRegistry) -> None:
        self.authentication_token_cache_active_fetch_count: GaugeVec = registry.gauge_vec(
            "authentication_token_cache_active_fetch_count",
            "Tokens on their way to a review (in_flight), and waiting for one (blocked).",
            ("status",),
        )
        self.authentication_token_cache_fetch_total: CounterVec = registry.counter_vec(
            "authentication_token_cache_fetch_total", "Token reviews for the cache: ok or error.", ("status",)
        )
        self.authentication_token_cache_request_total: CounterVec = registry.counter_vec(
            "authentication_token_cache_request_total", "Tokens looked up in the cache: hit or miss.", ("status",)
        )
        self.authentication_token_cache_request_duration_seconds: HistogramVec = registry.histogram_vec(
            "authentication_token_cache_request_duration_seconds",
            "How long it took to look a token up, the review included, in seconds.",
            ("status",),
            _DEFAULT,
        )

    def _authorization(self, registry: MetricsRegistry) -> None:
        self.authorization_attempts_total: CounterVec = registry.counter_vec(
            "authorization_attempts_total",
            "Requests by whether they may: allowed, denied, no-opinion, error.",
            ("result",),
        )
        self.authorization_duration_seconds: HistogramVec = registry.histogram_vec(
            "authorization_duration_seconds",
            "How long it took to tell whether a request may, in seconds.",
            ("result",),
            _FROM_1_MS,
        )
        self.apiserver_delegated_authz_request_total: CounterVec = registry.counter_vec(
            "apiserver_delegated_authz_request_total", "Access reviews sent, by status code.", ("code",)
        )
        self.apiserver_delegated_authz_request_duration_seconds: HistogramVec = registry.histogram_vec(
            "apiserver_delegated_authz_request_duration_seconds",
            "How long an access review took, in seconds.",
            ("code",),
            _REVIEW,
        )


_NAMED_USERS = frozenset(("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"))


def user_class(username: str) -> str:
    """The label for a user: bounded in number, and without names of people."""
    if username in _NAMED_USERS:
        return username
    return "email_id" if "@" in username else "other"
