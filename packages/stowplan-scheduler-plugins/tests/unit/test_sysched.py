"""SySched's costs, for pods with seccomp profiles in all the places where they can be named."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.sysched import ANNOTATION

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"disabled": [{"name": "*"}]},
                "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                "bind": {"enabled": [{"name": "DefaultBinder"}]},
                "score": {"enabled": [{"name": "SySched"}]},
            }
        }
    ],
}


def profile(name, *calls, action="SCMP_ACT_ALLOW"):
    return {
        "apiVersion": "security-profiles-operator.x-k8s.io/v1beta1",
        "kind": "SeccompProfile",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"syscalls": [{"action": action, "names": list(calls)}]},
    }


def localhost(name):
    return {"seccompProfile": {"type": "Localhost", "localhostProfile": f"operator/default/{name}.json"}}


def running(name, node, used):
    return a_pod(name).spec(securityContext=localhost(used)).on(node).phase("Running").obj()


def scores(pod, *objects):
    nodes = [a_node(name).obj() for name in ("n1", "n2")]
    found = stowplan.Cluster([*nodes, *objects], config=CONFIG).explain(pod).to_dict()["scores"]
    return [found[name].get("SySched", 0) for name in ("n1", "n2")]


PROFILES = [profile("few", "read"), profile("many", "read", "write", "open"), profile("all-syscalls", "read", "bpf")]
HOSTS = [running("a", "n1", "few"), running("b", "n2", "many")]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("p").spec(securityContext=localhost("few")).obj(),
        a_pod("p").annotations({f"{ANNOTATION}/pod": "localhost/operator/default/few.json"}).obj(),
    ],
    ids=["of the pod", "annotated"],
)
def test_a_pod_prefers_the_node_with_the_calls_it_uses(pod):
    # On n2, it would have two calls that it does not need.
    assert scores(pod, *PROFILES, *HOSTS) == [100, 0]


def test_a_pod_without_profile_has_the_default_one():
    # n1: bpf is new to the other pod. n2: the pod does not need two calls, and the other one not bpf.
    assert scores(a_pod("p").obj(), *PROFILES, *HOSTS) == [67, 0]


def test_without_any_known_call_all_nodes_are_equal():
    assert scores(a_pod("p").obj(), *HOSTS) == [100, 100]


def test_denied_calls_do_not_count():
    denied = [profile("few", "read"), profile("many", "read", "write", action="SCMP_ACT_ERRNO")]
    # The pod on n2 has none, so it would get one that it does not need.
    assert scores(a_pod("p").spec(securityContext=localhost("few")).obj(), *denied, *HOSTS) == [100, 0]
