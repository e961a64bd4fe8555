"""Requests to HTTP extenders, compared with those of the reference for the same pods on the same API server.

Requires a kube-scheduler in KUBEBUILDER_ASSETS. Ignored are the order of nodes (the reference's workers find them in
parallel) and what differs between any two pods: UIDs, versions, times.
"""

import json
from contextlib import contextmanager

import pytest
import yaml

from support.api import manifests
from support.extenders.running import configuration, running_extender
from support.processes.beside_reference import HAS_REFERENCE, HIGH, NO_REFERENCE, NODES, PROGRAMS, wait_for
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import assets, real_server

pytestmark = pytest.mark.skipif(not HAS_REFERENCE, reason=NO_REFERENCE)

VERBS = ("filter", "prioritize", "preempt")
_OWN = {
    "uid",
    "PodUID",
    "resourceVersion",
    "creationTimestamp",
    "time",
    "lastTransitionTime",
    "UID",
    "lastHeartbeatTime",
}


def sized(name, cpu, **spec):
    container = {"name": "c", "image": "nginx:1.27", "resources": {"requests": {"cpu": cpu}}}
    return manifests.pod(name, **{"containers": [container], "terminationGracePeriodSeconds": 0, **spec})


#: With fields that no scheduler reads: extenders get them all the same.
RICH = sized(
    "rich",
    "100m",
    containers=[
        {
            "name": "c",
            "image": "nginx:1.27",
            "command": ["sh", "-c", "sleep 1 && echo '<&>'"],
            "env": [
                {"name": "A", "value": "ü\u2028"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        }
    ],
    volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
    tolerations=[{"key": "k", "operator": "Exists"}],
    nodeSelector={"kubernetes.io/hostname": "n1"},
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with real_server(tmp_path_factory.mktemp("server"), assets()) as server:
        yield server


@contextmanager
def scheduler_with_extender(server, folder, whose, *verbs, **settings):
    """Nodes, and a scheduler with an extender of these verbs: yields the extender, and a function that
    creates a pod."""

    def kubectl(*args, stdin=None):
        return server.kubectl("-n", "default", *args, stdin=stdin)

    with running_extender() as extender:
        document = configuration(
            extender.settings("good", *verbs, httpTimeout="5s", **settings),
            clientConnection={"kubeconfig": str(server.kubeconfig)},
        )
        config = folder / f"{whose}.yaml"
        config.write_text(yaml.safe_dump(document))
        kubectl("create", "-f", "-", stdin=[*NODES, HIGH])
        kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready:NoSchedule-")
        try:
            flags = (f"--config={config}",)
            with kube_scheduler(folder, server.kubeconfig, *flags, name=whose, program=PROGRAMS[whose]) as scheduler:
                scheduler.until("Successfully acquired lease")
                yield extender, kubectl
                assert scheduler.end() == 0
        finally:
            kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
            kubectl("delete", "nodes,priorityclasses", "n0", "n1", "n2", "high", "--ignore-not-found")
            kubectl("delete", "lease", "-n", "kube-system", "kube-scheduler", "--ignore-not-found")


def requests_of(server, folder, whose, *, capable):
    """The requests for the same pods, one pod after the other."""
    with scheduler_with_extender(server, folder, whose, *VERBS, nodeCacheCapable=capable) as (extender, kubectl):

        def is_bound(name):
            return json.loads(kubectl("get", "pod", name, "-o", "json").stdout)["spec"].get("nodeName")

        important = sized("important", "3", nodeSelector={"special": "yes"}, priorityClassName="high")
        special = sized("special", "3", nodeSelector={"special": "yes"})
        for pod in (sized("plain", "100m"), RICH, special, important):
            kubectl("create", "-f", "-", stdin=[pod])
            name = pod["metadata"]["name"]
            wait_for(lambda name=name: is_bound(name), f"the binding of {name}")
        return extender.asked()


def bind_requests_of(server, folder, whose):
    """The requests for two pods that the extender binds (it only reports success)."""
    with scheduler_with_extender(server, folder, whose, "bind") as (extender, kubectl):
        asked = []
        for count, pod in enumerate((RICH, sized("special", "3", nodeSelector={"special": "yes"})), 1):
            kubectl("create", "-f", "-", stdin=[pod])
            wait_for(lambda count=count: asked.extend(extender.asked()) or len(asked) >= count, "a question")
        return asked


def without_own(value):
    """Nodes in one order, and the fields of a single object replaced by its kind."""
    if isinstance(value, dict):
        return {key: type(item).__name__ if key in _OWN else without_own(item) for key, item in value.items()}
    if isinstance(value, list):
        found = [without_own(item) for item in value]
        return sorted(found, key=_node_name) if found and all(map(_node_name, found)) else found
    return value


def _node_name(value):
    """Of a node, or what is one's name."""
    name = value.get("metadata", {}).get("name") if isinstance(value, dict) else value
    return name if name in ("n0", "n1", "n2") else None


@pytest.mark.parametrize("capable", [True, False], ids=["nodeCacheCapable", "whole nodes"])
def test_bodies_are_the_same_as_the_references(server, tmp_path, capable):
    theirs, ours = (requests_of(server, tmp_path, whose, capable=capable) for whose in PROGRAMS)
    assert [one.verb for one in ours] == [one.verb for one in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert json.dumps(without_own(mine.body)) == json.dumps(without_own(other.body))
        assert mine.headers["Content-Type"] == other.headers["Content-Type"]
    assert "preempt" in {one.verb for one in ours}


def test_bind_requests_are_the_same_as_the_references(server, tmp_path):
    theirs, ours = (bind_requests_of(server, tmp_path, whose) for whose in PROGRAMS)
    assert [without_own(one.body) for one in ours] == [without_own(one.body) for one in theirs]
    assert [(one.path, one.headers["Content-Type"]) for one in ours] == [
        (one.path, one.headers["Content-Type"]) for one in theirs
    ]
    assert [(one.body["PodName"], one.body["Node"]) for one in ours] == [("rich", "n1"), ("special", "n2")]
