"""The cluster autoscaler on the embedded cluster, with a scheduler that is made up.

What it decides is tested in `reconcile`, and with a scheduler's filters beside a simulation. The clock starts at a
multiple of ten seconds.
"""

import pytest

from stowplan_cluster.controllers.controller_manager import workload_controllers
from stowplan_cluster.controllers.nodes.cluster_autoscaler import TO_BE_DELETED, ClusterAutoscaler
from stowplan_cluster.controllers.nodes.node_groups import groups_of
from support.live.controller_cluster import LiveCluster, workload


class Trials:
    """Accepts all pods, unless there is a `refusal`; nodes have these shares; pods fit elsewhere if `room`."""

    def __init__(self):
        self.used = {}
        self.room = True
        self.refusal = ""

    def accepted_pods(self, node, pods):
        return () if self.refusal else {pod.metadata.uid for pod in pods}

    def refusals(self, node, pods):
        return {pod.metadata.uid: [self.refusal] for pod in pods}

    def fit_elsewhere(self, node, pods):
        return self.room

    def shares(self, nodes):
        return {node: self.used.get(node, 1.0) for node in nodes}

    def is_wanted(self, node):
        return False


class Cluster(LiveCluster):
    def __init__(self, least):
        self.trials = Trials()
        limits = {"min-nodes": str(least), "max-nodes": "3", "boot-after": "4s", "idle-for": "1m"}
        template = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "g-{n}", "annotations": {f"stowplan.io/{key}": one for key, one in limits.items()}},
            "status": {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "110"}},
        }
        (self.group,) = groups_of([template])

        def controllers(registry):
            autoscaler = ClusterAutoscaler(registry, [self.group])
            autoscaler.trials = self.trials
            return [*workload_controllers(registry), autoscaler]

        super().__init__(controllers)
        self.server.create_all(self.group.node(number) for number in range(least))

    @property
    def nodes(self):
        return [node["metadata"]["name"] for node in self.all("Node")]

    def reject(self):
        """What the scheduler says of pods without a node."""
        rejected = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
        for pod in self.pods():
            if not pod["spec"].get("nodeName"):
                name = pod["metadata"]["name"]
                self.change("Pod", name, lambda one: one["status"].update(rejected), subresource="status")
        self.settle()

    def place(self, *nodes):
        """A ReplicaSet with a running pod on each of these nodes."""
        self.create(workload("ReplicaSet", replicas=len(nodes)))
        self.settle()
        for pod, node in zip(self.pods(), nodes, strict=True):
            self.bind(pod["metadata"]["name"], node)
            self.set_pod(pod["metadata"]["name"])
        self.settle()

    def is_marked(self, node):
        return any(taint["key"] == TO_BE_DELETED for taint in self.get("Node", node)["spec"].get("taints") or ())


@pytest.fixture
def start():
    return Cluster


def test_nodes_come_up_to_the_limit(start):
    cluster = start(0)
    template = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}
    cluster.create(workload("ReplicaSet", replicas=5, pod_spec=template))
    cluster.settle()
    cluster.reject()
    cluster.advance(13)
    assert cluster.nodes == []
    triggered = [pod["metadata"]["name"] for pod in cluster.pods() if cluster.events(pod["metadata"]["name"])]
    assert len(triggered) == 3
    assert cluster.events(triggered[0]) == [
        ("Normal", "TriggeredScaleUp", "pod triggered scale-up: [{g 0->3 (max: 3)}]")
    ]
    cluster.advance(1)
    assert cluster.nodes == ["g-0000", "g-0001", "g-0002"]


def test_pods_that_no_group_helps(start):
    cluster = start(0)
    cluster.trials.refusal = "Insufficient cpu"
    cluster.create(workload("ReplicaSet", replicas=1))
    cluster.settle()
    cluster.reject()
    (name,) = [pod["metadata"]["name"] for pod in cluster.pods()]
    cluster.advance(10)
    assert cluster.events(name) == [("Normal", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 Insufficient cpu")]
    cluster.trials.refusal = ""
    cluster.advance(10)
    assert cluster.events(name)[-1][1] == "TriggeredScaleUp"


def test_idle_nodes_go_down_to_the_minimum(start):
    cluster = start(1)
    cluster.server.create_all([cluster.group.node(1)])
    cluster.advance(59)
    assert cluster.nodes == ["g-0000", "g-0001"]
    cluster.advance(1)
    assert cluster.nodes == ["g-0001"]
    assert cluster.events("g-0000") == [("Normal", "ScaleDown", "node removed by cluster autoscaler")]
    cluster.advance(1000)
    assert cluster.nodes == ["g-0001"]


def test_a_node_with_few_pods_is_drained(start):
    cluster = start(0)
    cluster.server.create_all(cluster.group.node(number) for number in range(2))
    cluster.trials.used["g-0001"] = 0.2
    cluster.place("g-0000", "g-0001")
    cluster.advance(79)
    assert not cluster.is_marked("g-0001")
    (pod,) = [pod for pod in cluster.pods() if pod["spec"]["nodeName"] == "g-0001"]
    cluster.advance(1)
    assert cluster.is_marked("g-0001")
    assert cluster.events(pod["metadata"]["name"]) == [("Normal", "ScaleDown", "deleting pod for node scale down")]
    assert cluster.nodes == ["g-0000", "g-0001"]
    cluster.finish_deletions()
    cluster.advance(1)
    assert cluster.nodes == ["g-0000"]
    marked = ("Normal", "ScaleDown", "marked the node as toBeDeleted/unschedulable")
    assert cluster.events("g-0001") == [marked, ("Normal", "ScaleDown", "node removed by cluster autoscaler")]


@pytest.mark.parametrize("why", ["no room", "a pod of nobody", "not safe to evict"])
def test_nodes_that_stay(start, why):
    cluster = start(0)
    cluster.server.create_all(cluster.group.node(number) for number in range(2))
    cluster.trials.used["g-0001"] = 0.2
    cluster.place("g-0000", "g-0001")
    (pod,) = [pod for pod in cluster.pods() if pod["spec"]["nodeName"] == "g-0001"]
    about = {
        "no room": {},
        "a pod of nobody": {"ownerReferences": [], "labels": {}},
        "not safe to evict": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
    }
    if why == "no room":
        cluster.trials.room = False
    cluster.change("Pod", pod["metadata"]["name"], lambda one: one["metadata"].update(about[why]))
    cluster.advance(500)
    assert "g-0001" in cluster.nodes
    assert not cluster.is_marked("g-0001")


def test_a_restart_forgets_a_drain(start):
    cluster = start(0)
    cluster.server.create_all([cluster.group.node(0)])
    cluster.trials.used["g-0000"] = 0.2
    cluster.place("g-0000")
    cluster.advance(80)
    assert cluster.is_marked("g-0000")
    cluster.restart()
    cluster.settle()
    assert not cluster.is_marked("g-0000")
