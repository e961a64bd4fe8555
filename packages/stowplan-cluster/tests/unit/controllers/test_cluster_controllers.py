"""All controllers together."""

import pytest

from stowplan_cluster.controllers.controller_manager import cluster_controllers, workload_controllers
from stowplan_cluster.controllers.loop import select_controllers
from support.api.storage_objects import claim, protected, storage_class
from support.live.controller_cluster import workload
from support.live.living_cluster import Living, condition, node, pod


class AllControllers(Living):
    def __init__(self, selection=("*",)):
        super().__init__()
        self.loop.close()
        self._controllers = lambda registry: select_controllers(
            [*workload_controllers(registry), *cluster_controllers(registry)], selection
        )
        self.restart()

    def schedule(self):
        """Bind pending pods to the first node that is ready and not tainted."""
        self.settle()
        free = [one["metadata"]["name"] for one in self.all("Node") if not one["spec"].get("taints")]
        for waiting in self.pods():
            if not waiting["spec"].get("nodeName") and free:
                self.bind(waiting["metadata"]["name"], free[0])
        self.settle()

    def running(self):
        return [one for one in self.pods() if one["status"]["phase"] == "Running"]


@pytest.fixture
def cluster():
    cluster = AllControllers()
    cluster.create(node("node-1"))
    cluster.create(node("node-2"))
    return cluster


def test_it_settles_except_for_leases(cluster):
    cluster.create(workload("Deployment", replicas=3))
    cluster.schedule()
    assert len(cluster.running()) == 3
    assert cluster.get("Deployment", "web")["status"]["availableReplicas"] == 3
    cluster.advance(20)
    before = cluster.store.version
    cluster.advance(30)
    assert cluster.store.version == before + 2 * 3


def test_pods_of_a_dead_node_are_replaced(cluster):
    cluster.create(workload("Deployment", replicas=2))
    cluster.schedule()
    assert {one["spec"]["nodeName"] for one in cluster.running()} == {"node-1"}
    cluster.change("Node", "node-1", lambda obj: obj["metadata"].update(annotations={"stowplan.io/kubelet": "stopped"}))
    cluster.advance(51)
    assert [condition(one, "Ready")[0] for one in cluster.running()] == ["False", "False"]
    # The default tolerations last five minutes.
    cluster.advance(300)
    cluster.schedule()
    assert {one["spec"]["nodeName"] for one in cluster.running()} == {"node-2"}
    assert len(cluster.all("Pod")) == 4
    cluster.delete("Node", "node-1")
    cluster.advance(41)
    assert len(cluster.all("Pod")) == 2
    assert cluster.names("leases.coordination.k8s.io") == ["node-2"]


def test_a_namespace_is_deleted_with_its_content(cluster):
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    cluster.create(storage_class())
    for manifest in (workload("Deployment"), protected(claim(class_="fast")), pod("web", node="node-1")):
        manifest["metadata"]["namespace"] = "team"
        cluster.create(manifest)
    cluster.advance(5)
    assert len(cluster.names("persistentvolumes")) == 1
    cluster.delete("namespaces", "team")
    cluster.advance(10)
    assert "team" not in cluster.names("namespaces")
    assert cluster.names("persistentvolumes") == []


def test_a_restart_changes_nothing(cluster):
    cluster.create(workload("StatefulSet", replicas=2))
    cluster.schedule()
    cluster.schedule()
    before = {one["metadata"]["name"]: one for one in cluster.pods()}
    cluster.loop.close()
    cluster.restart()
    cluster.settle()
    assert {one["metadata"]["name"]: one for one in cluster.pods()} == before


def test_each_controller_can_be_disabled():
    registry = Living().registry
    controllers = [*workload_controllers(registry), *cluster_controllers(registry)]
    names = [one.name for one in controllers]
    assert len(set(names)) == len(names)
    for name in names:
        assert [one.name for one in select_controllers(controllers, ["*", f"-{name}"])] == [
            other for other in names if other != name
        ]
        cluster = AllControllers(["*", f"-{name}"])
        cluster.create(node())
        cluster.create(workload("Deployment"))
        cluster.advance(5)
