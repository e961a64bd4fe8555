"""Metrics of authentication and authorization, with upstream's result names.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/metrics.go, pkg/authentication/token/cache/stats.go,
pkg/authentication/authenticatorfactory/metrics.go, pkg/authorization/authorizerfactory/metrics.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

from stowplan.kube.metrics.families import CounterVec, HistogramVec
from stowplan.kube.metrics.serving import ServingMetrics, user_class

Decision = Literal["allowed", "denied", "no-opinion", "error"]


class RequestMetrics:
    """Metrics of requests to the API server."""

    def __init__(self, total: CounterVec, seconds: HistogramVec) -> None:
        self._total = total
        self._seconds = seconds

    def observe(self, code: str, seconds: float) -> None:
        self._total.with_label_values(code).inc()
        self._seconds.with_label_values(code).observe(seconds)


class AuthenticationMetrics:
    def __init__(self, metrics: ServingMetrics) -> None:
        self._metrics = metrics
        self.requests = RequestMetrics(
            metrics.apiserver_delegated_authn_request_total, metrics.apiserver_delegated_authn_request_duration_seconds
        )

    def attempted(self, username: str | None, seconds: float) -> None:
        """None for rejected credentials."""
        result = "error" if username is None else "success"
        if username is not None:
            self._metrics.authenticated_user_requests.with_label_values(user_class(username)).inc()
        self._metrics.authentication_attempts.with_label_values(result).inc()
        self._metrics.authentication_duration_seconds.with_label_values(result).observe(seconds)


class AuthorizationMetrics:
    def __init__(self, metrics: ServingMetrics) -> None:
        self._metrics = metrics
        self.requests = RequestMetrics(
            metrics.apiserver_delegated_authz_request_total, metrics.apiserver_delegated_authz_request_duration_seconds
        )

    def decided(self, decision: Decision, seconds: float) -> None:
        self._metrics.authorization_attempts_total.with_label_values(decision).inc()
        self._metrics.authorization_duration_seconds.with_label_values(decision).observe(seconds)


class TokenCacheMetrics:
    """Metrics of the token cache; without metrics, nothing."""

    def __init__(self, metrics: ServingMetrics | None, *, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock

    def hit(self) -> None:
        self._requested("hit", 0.0)

    @contextmanager
    def missed(self) -> Iterator[None]:
        began = self._clock()
        with self._active("blocked"):
            try:
                yield
            finally:
                self._requested("miss", self._clock() - began)

    def fetching(self) -> AbstractContextManager[None]:
        return self._active("in_flight")

    def fetched(self, *, accepted: bool) -> None:
        """Parity: a token that is rejected with a message counts as an error, too."""
        if self._metrics is not None:
            status = "ok" if accepted else "error"
            self._metrics.authentication_token_cache_fetch_total.with_label_values(status).inc()

    def _requested(self, status: str, seconds: float) -> None:
        if self._metrics is None:
            return
        self._metrics.authentication_token_cache_request_total.with_label_values(status).inc()
        self._metrics.authentication_token_cache_request_duration_seconds.with_label_values(status).observe(seconds)

    @contextmanager
    def _active(self, status: str) -> Iterator[None]:
        if self._metrics is None:
            yield
            return
        active = self._metrics.authentication_token_cache_active_fetch_count.with_label_values(status)
        active.inc()
        try:
            yield
        finally:
            active.dec()
