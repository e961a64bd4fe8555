"""Client request metrics per server.

A request's duration is the total, from the call until the last response, including waiting for its turn and retries.
Each try is counted and its size recorded. Watches are only counted, as they do not end.

Upstream: staging/src/k8s.io/client-go/rest/request.go and with_retry.go.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from stowplan.kube.metrics.client_metrics import ClientMetrics
    from stowplan.kube.metrics.families import Counter, Histogram

#: Used instead of a status code.
NO_ANSWER = "<error>"


class RequestMetrics:
    """Metrics of one server, by method."""

    def __init__(self, metrics: ClientMetrics, *, server: str) -> None:
        self._metrics = metrics
        #: As in the server's URL, without user info.
        self._host = urlsplit(server).netloc.rpartition("@")[2]
        self._methods: dict[str, MethodMetrics] = {}

    def of(self, method: str) -> MethodMetrics:
        found = self._methods.get(method)
        if found is None:
            found = self._methods[method] = MethodMetrics(self._metrics, method, self._host)
        return found


class MethodMetrics:
    """The children of one method."""

    def __init__(self, metrics: ClientMetrics, method: str, host: str) -> None:
        self._metrics = metrics
        self._labels = method, host
        #: By code; created on first use, as a series is exported once it exists.
        self._codes: dict[str, Counter] = {}

    def tried(self, code: str) -> None:
        """A try ended with a response, or without one."""
        counter = self._codes.get(code)
        if counter is None:
            counter = self._codes[code] = self._metrics.rest_client_requests_total.with_label_values(
                code, *self._labels
            )
        counter.inc()

    def tried_again(self, code: str) -> None:
        """A retry ended; also counted as a try."""
        self._metrics.rest_client_request_retries_total.with_label_values(code, *self._labels).inc()

    def waited(self, seconds: float) -> None:
        """A try waited this long for its turn."""
        self._waits.observe(seconds)

    def sent(self, size: int) -> None:
        self._request_sizes.observe(size)

    def ended(self, seconds: float) -> None:
        """The request is complete."""
        self._durations.observe(seconds)

    def received(self, size: int) -> None:
        self._response_sizes.observe(size)

    @cached_property
    def _waits(self) -> Histogram:
        return self._metrics.rest_client_rate_limiter_duration_seconds.with_label_values(*self._labels)

    @cached_property
    def _durations(self) -> Histogram:
        return self._metrics.rest_client_request_duration_seconds.with_label_values(*self._labels)

    @cached_property
    def _request_sizes(self) -> Histogram:
        return self._metrics.rest_client_request_size_bytes.with_label_values(*self._labels)

    @cached_property
    def _response_sizes(self) -> Histogram:
        return self._metrics.rest_client_response_size_bytes.with_label_values(*self._labels)
