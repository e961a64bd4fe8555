"""Pod groups compared with the reference's kube-scheduler on one API server: a gang preempts a gang.

Requires a kube-scheduler in KUBEBUILDER_ASSETS.
"""

import json
import re
from types import SimpleNamespace

import pytest
import yaml

from support.api import manifests
from support.extenders.running import configuration, running_extender
from support.processes.beside_reference import HAS_REFERENCE, HIGH, NO_REFERENCE, PROGRAMS, wait_for
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import assets, real_server

pytestmark = pytest.mark.skipif(not HAS_REFERENCE, reason=NO_REFERENCE)

GATES = ",".join(f"{name}=true" for name in ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"))
NAMES = ("n0", "n1", "n2")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with real_server(tmp_path_factory.mktemp("server"), assets(), f"--feature-gates={GATES}") as server:
        yield server


def a_node(name):
    made = manifests.node(name)
    made["status"] = {key: {"cpu": "2", "memory": "8Gi", "pods": "110"} for key in ("capacity", "allocatable")}
    return made


def a_group(name, gang, **spec):
    spec |= {"schedulingPolicy": {"gang": {"minCount": gang}}}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def a_pod(name, group="", **spec):
    container = {"name": "c", "image": "nginx:1.27", "resources": {"requests": {"cpu": "2"}}}
    spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
    return manifests.pod(name, **{"containers": [container], "terminationGracePeriodSeconds": 0, **spec})


class Scenario:
    def __init__(self, server, namespace):
        self._server, self._namespace = server, namespace

    def kubectl(self, *args, stdin=None):
        return self._server.kubectl("-n", self._namespace, *args, stdin=stdin)

    def objects(self, plural):
        return json.loads(self.kubectl("get", plural, "-o", "json").stdout)["items"]

    def create(self, *objects):
        self.kubectl("create", "-f", "-", stdin=list(objects))

    def nodes_of(self, *names):
        found = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.objects("pods")}
        return [found.get(name, "") for name in names]

    def bound(self, *names):
        wait_for(lambda: all(self.nodes_of(*names)), f"the bindings of {', '.join(names)}", seconds=90)

    def condition(self, group):
        found = next(one for one in self.objects("podgroups") if one["metadata"]["name"] == group)
        return [
            {key: one.get(key) for key in ("type", "status", "reason", "message")}
            for one in found.get("status", {}).get("conditions", [])
        ]

    def run(self):
        self.create(a_group("low", 2, disruptionMode="PodGroup"), a_pod("low-0", "low"), a_pod("low-1", "low"))
        self.bound("low-0", "low-1")
        self.create(a_pod("alone"))
        self.bound("alone")
        # No pod is evicted for a gang that fits nowhere.
        self.create(a_group("vast", 4, priorityClassName="high"))
        self.create(*(a_pod(f"vast-{i}", "vast", priorityClassName="high") for i in range(4)))
        wait_for(lambda: self.condition("vast"), "the condition of vast")
        self.kubectl("delete", "pod", "--force", "--grace-period=0", *(f"vast-{i}" for i in range(4)))
        self.create(a_group("high", 2, priorityClassName="high"))
        self.create(*(a_pod(f"high-{i}", "high", priorityClassName="high") for i in range(2)))
        self.bound("high-0", "high-1")


def content_of(event):
    """Object, reason and message, without what differs from run to run."""
    note = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", event["note"])
    return event["reason"], event["regarding"]["name"], re.sub(r"\bn[012]\b|life-\w+-\d+", "X", note)


def run_scenario(server, folder, whose):
    namespace = server.new_namespace(f"life-{whose}")
    life = Scenario(server, namespace)
    life.create(*(a_node(name) for name in NAMES), HIGH)
    life.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready:NoSchedule-")
    arguments = (f"--feature-gates={GATES}", "--leader-elect=false")
    seen = '{.metadata.name} "{.status.nominatedNodeName}"{"\\n"}'
    watching = server.started_kubectl("-n", namespace, "get", "pods", "--watch", "-o", f"jsonpath={seen}")
    try:
        with kube_scheduler(folder, server.kubeconfig, *arguments, name=whose, program=PROGRAMS[whose]) as scheduler:
            life.run()
            code = scheduler.end()
        watching.terminate()
        lines = watching.communicate()[0].splitlines()
        return SimpleNamespace(
            code=code,
            conditions={group: life.condition(group) for group in ("low", "vast", "high")},
            pods={pod["metadata"]["name"] for pod in life.objects("pods")},
            nominated={line.split()[0] for line in lines if line and not line.endswith('""')},
            events={content_of(event) for event in life.objects("events.v1.events.k8s.io")},
        )
    finally:
        watching.kill()
        watching.wait()
        life.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        life.kubectl("delete", "nodes,priorityclasses", *NAMES, "high", "--ignore-not-found")


@pytest.fixture(scope="module")
def lives(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lives")
    return SimpleNamespace(**{whose: run_scenario(server, folder, whose) for whose in PROGRAMS})


def test_the_same_victims(lives):
    assert lives.ours.pods == lives.theirs.pods == {"alone", "high-0", "high-1"}


def test_a_complete_gang_is_bound_without_nominations(lives):
    """The reference writes the status of each of its pods but the last once more."""
    assert len(lives.theirs.nominated & {"low-0", "low-1"}) == 1
    assert not lives.ours.nominated & {"low-0", "low-1"}
    for life in (lives.ours, lives.theirs):
        assert "alone" not in life.nominated


def test_group_conditions_are_the_same(lives):
    assert lives.ours.conditions == lives.theirs.conditions


def extender_requests_for_a_gang(server, folder, whose):
    """The extender's requests when a gang preempts and is scheduled: verb, and number of nodes."""
    namespace = server.new_namespace(f"asked-{whose}")
    life = Scenario(server, namespace)
    life.create(*(a_node(name) for name in NAMES[:2]), HIGH)
    life.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready:NoSchedule-")
    with running_extender() as extender:
        document = configuration(
            extender.settings("good", "filter", "preempt", nodeCacheCapable=True),
            clientConnection={"kubeconfig": str(server.kubeconfig)},
            leaderElection={"leaderElect": False},
        )
        config = folder / f"{whose}.yaml"
        config.write_text(yaml.safe_dump(document))
        flags = (f"--config={config}", f"--feature-gates={GATES}")
        try:
            with kube_scheduler(folder, server.kubeconfig, *flags, name=f"{whose}-asks", program=PROGRAMS[whose]):
                life.create(a_pod("low-0"), a_pod("low-1"))
                life.bound("low-0", "low-1")
                extender.asked()
                life.create(a_group("high", 2, priorityClassName="high"))
                life.create(*(a_pod(f"high-{i}", "high", priorityClassName="high") for i in range(2)))
                life.bound("high-0", "high-1")
        finally:
            life.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
            life.kubectl("delete", "nodes,priorityclasses", *NAMES, "high", "--ignore-not-found")
        assert {pod["metadata"]["name"] for pod in life.objects("pods")} == set()
        return [(one.verb, len(one.body["NodeNames"])) for one in extender.asked()]


def test_extender_requests_are_the_same(server, tmp_path):
    """One request per pod in each trial of the preemption, and none for the victims."""
    ours, theirs = (extender_requests_for_a_gang(server, tmp_path, whose) for whose in ("ours", "theirs"))
    assert ours == theirs
    # Without both victims; with one of them restored, and the other; and when they are gone.
    assert ours == [("filter", nodes) for nodes in (2, 1, 1, 1, 2, 1)]


@pytest.mark.parametrize("reason", ["Preempted", "FailedScheduling"])
def test_events_are_the_same(lives, reason):
    ours, theirs = (
        # Whether a pod's turn comes between the start of its deletion and the end is a matter of chance, in both.
        {one for one in life.events if one[0] == reason and not one[2].startswith("skip schedule deleting pod")}
        for life in (lives.ours, lives.theirs)
    )
    assert ours == theirs
    assert ours
