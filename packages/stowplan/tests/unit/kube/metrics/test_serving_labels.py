"""User names do not appear in metrics, only their kind."""

import pytest

from stowplan.kube.metrics.serving import user_class


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
