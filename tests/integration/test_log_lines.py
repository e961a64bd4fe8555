"""The program's log at -v=5 compared with the reference's, for the same scenario on one API server.

Compared are level, message, keys, logger and the type of the object: what operators search for. Requires a
kube-scheduler in KUBEBUILDER_ASSETS. Left out is what docs/reference/differences.md lists.
"""

import json
import re

import pytest

from support.api import manifests
from support.processes.beside_reference import AS_REFERENCE
from support.processes.scheduler_process import ADMIN, COMMAND, NOBODY, kube_scheduler
from support.processes.servers import assets, real_server

REFERENCE = assets() and assets() / "kube-scheduler"

pytestmark = pytest.mark.skipif(
    REFERENCE is None or not REFERENCE.exists(), reason="KUBEBUILDER_ASSETS has no kube-scheduler"
)

PROGRAMS = {"theirs": [str(REFERENCE)], "ours": [*COMMAND, AS_REFERENCE]}
NOT_READY = "node.kubernetes.io/not-ready:NoSchedule-"

#: Beginnings of lines that only one of the two has; docs/reference/differences.md gives the reasons.
ONLY_THEIRS = (
    *("The manifest file is empty", "Golang settings"),
    # Lists by WatchList, controllers that poll certificates, events at the end.
    *("Exiting watch because received the bookmark", "Starting DynamicServing", "Shutting down DynamicServing"),
    *("Unable to record event", "Unhandled Error"),
    # Plugins' own lines: verdicts per node, and hints.
    *("SignPod", "OpportunisticBatch", "pod resource claims", "Dry run", "Check the potential node"),
    "Pod is a potential",
    # The nominator's.
    "Pod doesn't exist in podLister",
    *("node was", "node updated", "another", "a scheduled pod", "the added/updated/deleted", "the deleted", "pod got"),
    # When a server closes a watch is up to chance.
    "Watch close",
)
ONLY_OURS = (
    *("Python settings", "Watch close"),
    # The reference's process often ends before what it stops has written these.
    *("Stopping reflector", "Shutting down RequestHeaderAuthRequestController"),
)
UNCOMPARED_KEYS = {"ts", "caller", "msg", "v"}


def sized(name, cpu, **spec):
    container = {"name": "c", "image": "nginx:1.27", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    return manifests.pod(name, **{"containers": [container], "terminationGracePeriodSeconds": 0, **spec})


def node(name, **labels):
    labels = {"kubernetes.io/hostname": name, **labels}
    return {**manifests.node(name), "metadata": {"name": name, "labels": labels}}


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}


def log_of(server, folder, whose):
    """The log of a program while pods are created, bound, refused, woken, gated, preempted and deleted."""
    namespace = server.new_namespace(f"log-{whose}")

    def kubectl(*args, stdin=None):
        return server.kubectl("-n", namespace, *args, stdin=stdin)

    def create(*objects):
        kubectl("create", "-f", "-", stdin=list(objects))

    def bound(name):
        kubectl("wait", f"pod/{name}", "--for=condition=PodScheduled", "--timeout=30s")

    def refused(name):
        kubectl("wait", f"pod/{name}", "--for=condition=PodScheduled=false", "--timeout=30s")

    create(node("n0"), node("n1"), HIGH)
    kubectl("taint", "nodes", "--all", NOT_READY)
    try:
        with kube_scheduler(folder, server.kubeconfig, "-v=5", name=whose, program=PROGRAMS[whose]) as scheduler:
            scheduler.until("Successfully acquired lease")
            scheduler.until("Loaded client CA")
            create(sized("small", "100m"))
            bound("small")
            create(sized("gated", "100m", schedulingGates=[{"name": "example.com/g"}]))
            refused("gated")
            kubectl("patch", "pod", "gated", "--type=merge", "-p", '{"spec":{"schedulingGates":[]}}')
            bound("gated")
            create(sized("homeless", "100m", nodeSelector={"disk": "ssd"}))
            refused("homeless")
            kubectl("label", "node", "n1", "color=red")
            kubectl("label", "node", "n1", "disk=ssd")
            bound("homeless")
            create(sized("special", "3", nodeSelector={"disk": "ssd"}))
            bound("special")
            create(sized("important", "3", nodeSelector={"disk": "ssd"}, priorityClassName="high"))
            bound("important")
            create(sized("big", "100"))
            refused("big")
            kubectl("delete", "pod", "big", "small", "--force", "--grace-period=0")
            kubectl("delete", "node", "n0")
            scheduler.until("Removed node from NodeTree")
            scheduler.until("Successfully renewed lease")
            for path, who in (("/metrics", ADMIN), ("/metrics", NOBODY), ("/healthz", None), ("/nowhere", ADMIN)):
                scheduler.ask(path, who=who)
            assert scheduler.end() == 0
            return lines_of(scheduler.log)
    finally:
        kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        kubectl("delete", "nodes,priorityclasses", "n0", "n1", "high", "--ignore-not-found")
        kubectl("delete", "lease", "-n", "kube-system", "kube-scheduler", "--ignore-not-found")


def lines_of(log):
    found = set()
    for text in log.read_text().splitlines():
        line = json.loads(text)
        if not line["msg"].startswith("FLAG: "):
            message = re.sub(r"\d+", "#", line["msg"])
            keys = tuple(sorted(line.keys() - UNCOMPARED_KEYS))
            found.add((line.get("v", "error"), message, keys, line.get("type", ""), line.get("logger", "")))
    return found


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log-lines")
    with real_server(tmp_path_factory.mktemp("server"), assets()) as server:
        return {whose: log_of(server, folder, whose) for whose in PROGRAMS}


def test_no_line_of_the_reference_is_missing(lives):
    missing = lives["theirs"] - lives["ours"]
    assert {line for line in missing if not line[1].startswith(ONLY_THEIRS)} == set()


def test_there_are_no_additional_lines(lives):
    more = lives["ours"] - lives["theirs"]
    assert {line for line in more if not line[1].startswith(ONLY_OURS)} == set()
