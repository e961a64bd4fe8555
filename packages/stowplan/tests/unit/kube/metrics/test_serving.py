"""Metrics of the secure port: buckets as observed in the reference, and no names of users in labels."""

import pytest

from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.serving import ServingMetrics, user_class

FROM_1_MS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384)
REVIEW = (0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10)
SOME_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
HALF_AN_HOUR_TO_A_YEAR = (
    *(0, 1800, 3600, 7200, 21600, 43200, 86400),
    *(172800, 345600, 604800, 2592000, 7776000, 15552000, 31104000),
)


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("authentication_duration_seconds", FROM_1_MS),
        ("authorization_duration_seconds", FROM_1_MS),
        ("apiserver_delegated_authn_request_duration_seconds", REVIEW),
        ("apiserver_delegated_authz_request_duration_seconds", REVIEW),
        ("authentication_token_cache_request_duration_seconds", SOME_SECONDS),
        ("apiserver_client_certificate_expiration_seconds", HALF_AN_HOUR_TO_A_YEAR),
    ],
)
def test_bounds(name, bounds):
    family = getattr(ServingMetrics(MetricsRegistry()), name)
    child = family if hasattr(family, "bounds") else family.with_label_values("any")
    assert child.bounds == bounds


@pytest.mark.parametrize(
    ("username", "shown"),
    [
        ("admin", "admin"),
        ("kubelet", "kubelet"),
        ("kube_proxy", "kube_proxy"),
        ("client", "client"),
        ("system:serviceaccount:kube-system:default", "system:serviceaccount:kube-system:default"),
        ("jane@example.com", "email_id"),
        ("system:serviceaccount:default:default", "other"),
        ("system:kube-scheduler", "other"),
        ("", "other"),
    ],
)
def test_kinds_of_users(username, shown):
    assert user_class(username) == shown
