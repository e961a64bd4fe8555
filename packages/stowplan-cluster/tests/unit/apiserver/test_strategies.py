"""Fields that a write cannot set: statuses on create, specs in status updates, generations."""

import copy

import pytest

from stowplan.kube.api.api_errors import BadRequest
from stowplan.testing import a_pod, selector
from stowplan_cluster.apiserver import strategies
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue, Resource

CATALOGUE = Catalogue(BUILT_IN)
NOW = 1_767_225_600.0
WHEN = "2026-01-01T00:00:00Z"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
QUEUES = Resource(group="example.com", plural="queues", kind="Queue", generation=True, custom=True)
QUEUES_WITH_STATUS = Resource(
    group="example.com", plural="queues", kind="Queue", generation=True, custom=True, subresources=("status",)
)


def resource_of(obj):
    return CATALOGUE.of_kind(obj["apiVersion"], obj["kind"])


def created(obj):
    obj = copy.deepcopy(obj)
    apply_defaults(resource_of(obj), obj)
    strategies.prepare_for_create(resource_of(obj), obj, now=NOW)
    return obj


def updated(old, subresource="", **changes):
    new = copy.deepcopy(old)
    new.update(copy.deepcopy(changes))
    strategies.prepare_for_update(resource_of(old), new, old, subresource, now=NOW)
    strategies.count_generation(resource_of(old), new, old, subresource)
    return new


def named(api_version, kind, **fields):
    metadata = {"name": "x", "namespace": "default", "uid": "u1"} | fields.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


class TestPods:
    def test_label_keys_become_requirements(self):
        term = {
            "topologyKey": "zone",
            "labelSelector": selector(labels={"app": "web"}),
            "matchLabelKeys": ["version", "absent"],
            "mismatchLabelKeys": ["tenant"],
        }
        spread = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
            "matchLabelKeys": ["version"],
        }
        pod = a_pod().labels(version="2", tenant="t")
        pod.spec(affinity={"podAntiAffinity": {REQUIRED: [term]}}, topologySpreadConstraints=[spread])
        spec = created(pod.obj())["spec"]
        version = {"key": "version", "operator": "In", "values": ["2"]}
        assert spec["affinity"]["podAntiAffinity"][REQUIRED][0]["labelSelector"] == {
            "matchLabels": {"app": "web"},
            "matchExpressions": [version, {"key": "tenant", "operator": "NotIn", "values": ["t"]}],
        }
        assert spec["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": [version]}

    def test_a_missing_selector_stays_missing(self):
        term = {"topologyKey": "zone", "matchLabelKeys": ["a"]}
        pod = created(a_pod().labels(a="b").spec(affinity={"podAffinity": {REQUIRED: [term]}}).obj())
        assert pod["spec"]["affinity"]["podAffinity"][REQUIRED] == [term]

    def test_status_is_updated_separately(self):
        old = created(a_pod().obj())
        new = updated(old, spec=old["spec"] | {"nodeName": "n"}, status={"phase": "Failed"})
        assert new["status"] == old["status"]
        assert new["spec"]["nodeName"] == "n"
        new = updated(old, "status", spec={}, status={"phase": "Failed"})
        assert new["spec"] == old["spec"]
        assert new["status"] == {"phase": "Failed", "qosClass": "BestEffort"}

    def test_generations_count_specs(self):
        old = created(a_pod().obj())
        assert updated(old, metadata=old["metadata"] | {"labels": {"a": "b"}})["metadata"]["generation"] == 1
        assert updated(old, spec=old["spec"] | {"activeDeadlineSeconds": 3})["metadata"]["generation"] == 2
        assert updated(old, "status", status={"phase": "Failed"})["metadata"]["generation"] == 1

    @pytest.mark.parametrize(
        ("status", "addresses"),
        [
            ({"podIP": "1.1.1.1"}, ("1.1.1.1", ["1.1.1.1"])),
            ({"podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}, ("1.1.1.1", ["1.1.1.1", "::1"])),
            ({"podIP": "2.2.2.2", "podIPs": [{"ip": "1.1.1.1"}]}, ("2.2.2.2", ["2.2.2.2"])),
        ],
        ids=["one", "all", "both"],
    )
    def test_both_address_fields_are_kept_in_sync(self, status, addresses):
        new = updated(created(a_pod().obj()), "status", status=status)["status"]
        assert (new["podIP"], [entry["ip"] for entry in new["podIPs"]]) == addresses

    def test_observed_generations_are_not_lost(self):
        old = created(a_pod().obj())
        old["status"] |= {"observedGeneration": 3, "conditions": [{"type": "Ready", "observedGeneration": 2}]}
        status = updated(old, "status", status={"conditions": [{"type": "Ready", "status": "True"}]})["status"]
        assert status["observedGeneration"] == 3
        assert status["conditions"] == [{"type": "Ready", "status": "True", "observedGeneration": 2}]

    def test_a_resize_changes_only_resources(self):
        old = created(a_pod().requests(cpu="1").obj())
        main = old["spec"]["containers"][0]
        bigger = main | {"image": "other", "resources": {"requests": {"cpu": "2"}}}
        spec = updated(old, "resize", spec=old["spec"] | {"containers": [bigger], "nodeName": "n"})["spec"]
        assert spec["containers"] == [main | {"resources": {"requests": {"cpu": "2"}}}]
        assert "nodeName" not in spec

    def test_the_ephemeral_containers_subresource_changes_nothing_else(self):
        old = created(a_pod().obj())
        debug = {"name": "debug", "image": "shell"}
        spec = updated(old, "ephemeralcontainers", spec={"ephemeralContainers": [debug]})["spec"]
        assert spec == old["spec"] | {"ephemeralContainers": [debug]}


def test_nodes_keep_their_status_on_create():
    assert created(named("v1", "Node", status={"phase": "x"}))["status"] == {"phase": "x"}


def test_namespaces_get_a_finalizer():
    namespace = created(named("v1", "Namespace"))
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert updated(namespace, spec={"finalizers": []})["spec"] == {"finalizers": ["kubernetes"]}
    assert updated(namespace, "finalize", spec={"finalizers": []})["spec"] == {"finalizers": []}


def test_daemon_sets_count_the_changes_of_their_template():
    def count(obj):
        return obj["metadata"]["annotations"]["deprecated.daemonset.template.generation"]

    old = created(named("apps/v1", "DaemonSet", spec={}))
    assert count(old) == "1"
    assert count(updated(old, spec=old["spec"] | {"minReadySeconds": 3})) == "1"
    new = updated(old, spec=old["spec"] | {"template": {"spec": {"hostNetwork": True}}})
    assert count(new) == "2"
    assert count(updated(new, metadata={"name": "x", "annotations": {"a": "b"}})) == "2"


def test_counts_of_daemon_sets_are_numbers():
    annotations = {"deprecated.daemonset.template.generation": "many"}
    with pytest.raises(BadRequest, match=r'strconv.ParseInt: parsing "many": invalid syntax'):
        created(named("apps/v1", "DaemonSet", spec={}, metadata={"name": "x", "annotations": annotations}))


def test_manual_selectors_of_jobs():
    spec = created(named("batch/v1", "Job", spec={"template": {}, "manualSelector": True}))["spec"]
    assert "selector" not in spec


@pytest.mark.parametrize(("field", "counts"), [("annotations", True), ("labels", False)])
def test_generations_of_deployments_and_annotations(field, counts):
    old = created(named("apps/v1", "Deployment", spec={}))
    new = updated(old, metadata=old["metadata"] | {field: {"a": "b"}})
    assert new["metadata"]["generation"] == (2 if counts else 1)


def test_device_statuses_are_dropped_with_their_devices():
    result = {"driver": "d", "pool": "p", "device": "gpu-0"}
    old = created(named("resource.k8s.io/v1", "ResourceClaim", spec={}))
    old["status"] = {"allocation": {"devices": {"results": [result]}}, "devices": [result]}
    assert updated(old, "status", status={"devices": [result]})["status"] == {}


ALLOCATED = {
    "type": "NodePort",
    "clusterIP": "10.96.0.9",
    "clusterIPs": ["10.96.0.9"],
    "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}],
    "externalTrafficPolicy": "Cluster",
}


class TestServices:
    def spec(self, **changes):
        new = {name: value for name, value in changes.items() if value is not None}
        return updated(named("v1", "Service", spec=ALLOCATED), spec=new)["spec"]

    def test_allocated_values_are_kept(self):
        spec = self.spec(type="NodePort", ports=[{"port": 80, "protocol": "TCP"}])
        assert spec["clusterIP"] == "10.96.0.9"
        assert spec["ports"][0]["nodePort"] == 30080

    def test_node_ports_are_dropped_with_the_type(self):
        spec = self.spec(**ALLOCATED | {"type": "ClusterIP"})
        assert spec["ports"] == [{"port": 80, "protocol": "TCP"}]
        assert "externalTrafficPolicy" not in spec

    def test_addresses_are_dropped_with_the_type(self):
        spec = self.spec(**ALLOCATED | {"type": "ExternalName"})
        assert "clusterIP" not in spec
        assert "clusterIPs" not in spec


class TestCustomResources:
    def test_without_a_status_subresource(self):
        old = {"metadata": {"generation": 1}, "spec": {"a": 1}, "status": {"b": 1}}
        new = {"metadata": {}, "spec": {"a": 1}, "status": {"b": 2}}
        strategies.prepare_for_update(QUEUES, new, old, "", now=NOW)
        strategies.count_generation(QUEUES, new, old, "")
        assert new == {"metadata": {"generation": 2}, "spec": {"a": 1}, "status": {"b": 2}}

    def test_with_a_status_subresource(self):
        new = {"metadata": {}, "spec": {"a": 1}, "status": {"b": 2}}
        strategies.prepare_for_create(QUEUES_WITH_STATUS, new, now=NOW)
        assert new == {"metadata": {"generation": 1}, "spec": {"a": 1}}
        old = copy.deepcopy(new)
        new["spec"], new["status"], new["metadata"]["labels"] = {"a": 2}, {"b": 3}, {"l": "x"}
        strategies.prepare_for_update(QUEUES_WITH_STATUS, new, old, "status", now=NOW)
        assert new == old | {"status": {"b": 3}}


def test_stored_versions_are_recorded():
    def versions(stored):
        return [{"name": name, "served": True, "storage": name == stored} for name in ("v1", "v2")]

    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "queues.example.com"},
        "spec": {"versions": versions("v1")},
    }
    old = created(definition)
    assert old["status"]["storedVersions"] == ["v1"]
    assert updated(old, spec={"versions": versions("v2")})["status"]["storedVersions"] == ["v1", "v2"]


RULE = named(
    "resource.k8s.io/v1beta2", "DeviceTaintRule", spec={"taint": {"key": "k", "effect": "NoSchedule"}}, status={"x": 1}
)
EARLIER = "2025-01-01T00:00:00Z"


def test_the_time_of_a_rules_taint_follows_its_effect():
    rule = created(RULE)
    assert rule["spec"]["taint"]["timeAdded"] == WHEN
    assert (rule["status"], rule["metadata"]["generation"]) == ({}, 1)
    rule["spec"]["taint"]["timeAdded"] = EARLIER
    evicting = {**rule["spec"]["taint"], "effect": "NoExecute"}
    assert updated(rule, spec={"taint": evicting})["spec"]["taint"]["timeAdded"] == WHEN
    assert updated(rule, spec={"taint": evicting})["metadata"]["generation"] == 2
    assert updated(rule, spec={"taint": {**evicting, "timeAdded": "2024-01-01T00:00:00Z"}})["spec"]["taint"][
        "timeAdded"
    ] == ("2024-01-01T00:00:00Z")
    other = {**rule["spec"]["taint"], "value": "v"}
    assert updated(rule, spec={"taint": other})["spec"]["taint"]["timeAdded"] == EARLIER
    assert updated(rule, "status", spec={"taint": evicting}, status={"y": 1})["spec"] == rule["spec"]


def test_the_time_of_a_drivers_taint_is_set():
    of_slice = named("resource.k8s.io/v1", "ResourceSlice", spec={"devices": [{"name": "d"}]})
    old = created(of_slice)
    devices = [{"name": "d", "taints": [{"key": "k", "effect": "NoExecute"}]}]
    assert updated(old, spec={"devices": devices})["spec"]["devices"][0]["taints"][0]["timeAdded"] == WHEN


def test_a_stateful_set_has_no_max_unavailable():
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": 2}}
    old = created(named("apps/v1", "StatefulSet", spec={"updateStrategy": strategy}))
    assert old["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 1}
    again = updated(old, spec={"updateStrategy": strategy})
    assert again["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 1}
