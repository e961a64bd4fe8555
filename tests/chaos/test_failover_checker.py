"""The checks of the failover tests detect violations."""

import json
from types import SimpleNamespace

import pytest

from support.chaos.lines import Sent
from support.chaos.outside_view import Cluster

BINDING = "/api/v1/namespaces/default/pods/{}/binding"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l"


def bind(at, line, pod="p"):
    return Sent(at, line, "POST", BINDING.format(pod), b"{}")


def claim(at, line, holder=None):
    spec = {"holderIdentity": line if holder is None else holder, "renewTime": f"{line} {at}"}
    return Sent(at, line, "PUT", LEASE, json.dumps({"spec": spec}).encode())


def checked(*sent, refused=()):
    cluster = object.__new__(Cluster)
    claims = [one for one in sent if one.claims and one not in refused]
    cluster.records = [(*one.claims, "l") for one in claims]
    lines = SimpleNamespace(
        sent=list(sent), binds=lambda line=None: [s for s in sent if s.binds and line in (None, s.line)]
    )
    return cluster.check_leaders(lines, lease="l", patience=3.0)


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        pytest.param([bind(0, "a")], "without any leader", id="without a lease"),
        pytest.param([claim(0, "a"), claim(1, "b"), bind(2, "a")], "while b leads", id="lease taken by another"),
        pytest.param([claim(0, "a"), bind(4, "a")], "expired claim", id="expired lease"),
        pytest.param([claim(0, "a"), claim(1, "a", ""), bind(2, "a")], "after it lost the lease", id="released lease"),
    ],
)
def test_two_leaders_at_once_are_detected(sent, wrong):
    with pytest.raises(AssertionError, match=wrong):
        checked(*sent)


def test_a_correct_failover_passes():
    refused = claim(1, "b")
    sent = [claim(0, "a"), refused, bind(2, "a"), claim(2.5, "a", ""), claim(3, "b"), bind(4, "b")]
    assert checked(*sent, refused=[refused]) == [(0, "a"), (3, "b")]


def test_a_moved_pod_is_detected():
    cluster = object.__new__(Cluster)
    cluster.bound, cluster.wrong, nodes = [], [], {}
    for node in ("", "n1", "n1", "n2"):
        pod = {"metadata": {"uid": "u", "name": "p"}, "spec": {"nodeName": node}}
        cluster._see_pod("MODIFIED", pod, nodes)
    assert [(name, node) for _, name, node in cluster.bound] == [("p", "n1")]
    assert cluster.wrong == ["p was on n1, is on n2"]
