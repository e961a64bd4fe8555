"""ResourceQuotas: pods that exceed one are refused, its status says what is used."""

import pytest

from stowplan.kube.api.api_errors import Forbidden
from stowplan.kube.timing.times import ManualTime
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.controllers.controller_manager import set_up_controllers
from support.live.controller_cluster import workload
from support.live.living_cluster import pod


class Cluster:
    def __init__(self, **options):
        self.time = ManualTime()
        self.server = ApiServer(clock=self.time.wall_clock)
        self.registry = self.server.registry
        self.loop = set_up_controllers(self.server, **options)

    def create(self, obj):
        resource = self.server.catalogue.of_kind(obj["apiVersion"], obj["kind"])
        options = Options()
        self.registry.create(resource, obj["metadata"].get("namespace", "default"), obj, options=options)
        self.loop.settle()
        return options.warnings

    def quota(self, hard, name="q", **spec):
        metadata = {"name": name, "namespace": "default"}
        return self.create(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}}
        )

    def used(self, name="q"):
        return self.server.store.get("resourcequotas", "default", name).to_dict()["status"]["used"]

    def end(self, name):
        found = self.server.store.get("pods", "default", name).to_dict()
        found["status"]["phase"] = "Succeeded"
        self.registry.update(self.registry.of_storage("pods"), "default", name, found, subresource="status")
        self.loop.settle()

    def delete(self, storage, name):
        options = DeleteOptions(grace_period_seconds=0)
        self.registry.delete(self.registry.of_storage(storage), "default", name, options=options)
        self.loop.settle()


@pytest.fixture
def cluster():
    return Cluster()


def test_pods_that_exceed_it_are_refused(cluster):
    cluster.quota({"pods": "2", "requests.cpu": "1500m", "memory": "2Gi", "limits.cpu": "9"})
    cluster.create(pod("a", requests={"cpu": "1", "memory": "1Gi"}))
    with pytest.raises(Forbidden) as refused:
        cluster.create(pod("b", requests={"cpu": "600m", "memory": "2Gi"}))
    assert str(refused.value) == (
        'pods "b" is forbidden: exceeded quota: q, requested: memory=2Gi,requests.cpu=600m, '
        "used: memory=1Gi,requests.cpu=1, limited: memory=2Gi,requests.cpu=1500m"
    )
    assert cluster.used() == {"pods": "1", "requests.cpu": "1", "memory": "1Gi", "limits.cpu": "1"}
    cluster.create(pod("b", requests={"cpu": "500m", "memory": "1Gi"}))
    with pytest.raises(Forbidden, match=r"limited: memory=2Gi,pods=2,requests\.cpu=1500m"):
        cluster.create(pod("c", requests={"cpu": "1m", "memory": "1"}))
    cluster.delete("pods", "a")
    assert cluster.used() == {"pods": "1", "requests.cpu": "500m", "memory": "1Gi", "limits.cpu": "500m"}


def test_finished_pods_use_no_more_than_their_object(cluster):
    cluster.quota({"pods": "1", "count/pods": "2", "cpu": "1"})
    cluster.create(pod("a", requests={"cpu": "1"}))
    cluster.end("a")
    assert cluster.used() == {"pods": "0", "count/pods": "1", "cpu": "0"}
    cluster.create(pod("b", requests={"cpu": "1"}))
    with pytest.raises(Forbidden, match="requested: count/pods=1,cpu=1,pods=1, used: count/pods=2,cpu=1,pods=1"):
        cluster.create(pod("c", requests={"cpu": "1"}))


def test_extended_resources_and_hugepages(cluster):
    cluster.quota({"requests.example.com/gpu": "1", "hugepages-2Mi": "4Mi"})
    cluster.create(pod("a", requests={"example.com/gpu": "1", "hugepages-2Mi": "2Mi", "cpu": "1"}))
    with pytest.raises(
        Forbidden, match=r"requested: requests\.example\.com/gpu=1, used: requests\.example\.com/gpu=1, "
    ):
        cluster.create(pod("b", requests={"example.com/gpu": "1"}))
    assert cluster.used() == {"requests.example.com/gpu": "1", "hugepages-2Mi": "2Mi"}


def test_what_is_limited_has_to_be_named(cluster):
    cluster.quota({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "5"})
    with pytest.raises(
        Forbidden, match=r"failed quota: q: must specify limits\.memory for: main; requests\.cpu for: main$"
    ):
        cluster.create(pod("a"))
    cluster.create(pod("a", requests={"cpu": "1", "memory": "1Gi"}))


@pytest.mark.parametrize(
    ("scope", "refused", "allowed"),
    [
        ("BestEffort", {}, {"requests": {"cpu": "1"}}),
        ("NotBestEffort", {"requests": {"cpu": "1"}}, {}),
        ("Terminating", {"activeDeadlineSeconds": 9}, {}),
        ("NotTerminating", {}, {"activeDeadlineSeconds": 9}),
        ("PriorityClass", {"priorityClassName": "system-node-critical"}, {}),
    ],
)
def test_scopes(cluster, scope, refused, allowed):
    cluster.quota({"pods": "0"}, scopes=[scope])
    cluster.create(pod("a", **allowed))
    with pytest.raises(Forbidden, match="exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"):
        cluster.create(pod("b", **refused))


@pytest.mark.parametrize(
    ("operator", "values", "refused"),
    [("In", ["system-node-critical"], True), ("NotIn", ["system-node-critical"], False), ("DoesNotExist", [], False)],
)
def test_scopes_of_priority_classes(cluster, operator, values, refused):
    requirement = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    cluster.quota({"pods": "0"}, scopeSelector={"matchExpressions": [requirement]})
    first, second = {"priorityClassName": "system-node-critical"}, {}
    cluster.create(pod("a", **(second if refused else first)))
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        cluster.create(pod("b", **(first if refused else second)))


def test_pods_that_look_into_other_namespaces(cluster):
    cluster.quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    term = {"topologyKey": "zone", "namespaces": ["other"], "labelSelector": {}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.create(pod("a"))
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        cluster.create(pod("b", affinity=affinity))


def test_a_burst_of_creations_does_not_exceed_it_and_its_controller_says_why(cluster):
    cluster.quota({"pods": "2"})
    cluster.create(workload("Deployment", replicas=5))
    assert len(cluster.server.store.list("pods")) == 2
    (found,) = cluster.server.store.list("deployments.apps")
    conditions = {one["type"]: one for one in found.to_dict()["status"]["conditions"]}
    assert conditions["ReplicaFailure"]["reason"] == "FailedCreate"
    assert (
        "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" in conditions["ReplicaFailure"]["message"]
    )


def test_changed_and_deleted_quotas(cluster):
    cluster.create(pod("a"))
    cluster.quota({"pods": "1"})
    assert cluster.used() == {"pods": "1"}
    with pytest.raises(Forbidden):
        cluster.create(pod("b"))
    quotas = cluster.registry.of_storage("resourcequotas")
    cluster.registry.patch(quotas, "default", "q", {"spec": {"hard": {"pods": "2"}}}, kind="merge")
    cluster.create(pod("b"))
    assert cluster.used() == {"pods": "2"}
    cluster.delete("resourcequotas", "q")
    cluster.create(pod("c"))


def test_without_its_controller_nothing_is_limited():
    cluster = Cluster(controllers=["*", "-resourcequota-controller"])
    cluster.quota({"pods": "0"})
    cluster.create(pod("a"))


def test_a_warning_names_what_is_not_counted(cluster):
    assert cluster.quota({"pods": "3", "requests.nvidia.com/gpu": "1"}, "counted") == []
    (warning,) = cluster.quota({"pods": "3", "services": "1", "requests.storage": "1Gi"})
    assert "spec.hard of services, requests.storage limits nothing" in warning


def test_quotas_of_a_state_that_is_loaded(tmp_path):
    first = ApiServer(state=tmp_path / "state")
    first.create_all(
        [
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}},
            pod("a"),
        ]
    )
    first.close()
    second = ApiServer(state=tmp_path / "state")
    set_up_controllers(second)
    with pytest.raises(Forbidden, match="used: pods=1"):
        second.create_all([pod("b")])
    second.close()
