"""The admission plugins, each on a small cluster."""

import copy

import pytest

from stowplan.kube.api.api_errors import Forbidden, NotFound
from stowplan.testing import a_node, a_pod
from stowplan_cluster.apiserver.admission import OFF_BY_DEFAULT, PLUGINS, Admission
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.quota_usage import QuotaUsage
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.store import Store

CATALOGUE = Catalogue(BUILT_IN)
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def named(api_version, kind, name="x", *, namespace="", **fields):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | fields.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def priority_class(name, value, **fields):
    return named("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **fields)


def storage_class(name, created, *, default="true", **fields):
    mark = {"storageclass.kubernetes.io/is-default-class": default}
    metadata = {"annotations": mark, "creationTimestamp": created}
    return named("storage.k8s.io/v1", "StorageClass", name, metadata=metadata, provisioner="p", **fields)


class Cluster:
    def __init__(self):
        self.store = Store()
        self.quotas = QuotaUsage(self.store)
        for resource in CATALOGUE:
            self.store.select_fields(resource.storage, resource.selectable_fields)
        self.admission = Admission(self.store.get, self.store.list, self.quotas)
        self.put(named("v1", "Namespace", "default", status={"phase": "Active"}))
        self.put(named("v1", "Namespace", "going", status={"phase": "Terminating"}))

    def put(self, obj):
        obj = copy.deepcopy(obj)
        obj["metadata"].setdefault("uid", f"{obj['kind']}-{obj['metadata']['name']}")
        return self.store.put(self.resource_of(obj).storage, obj)

    @staticmethod
    def resource_of(obj):
        return CATALOGUE.of_kind(obj["apiVersion"], obj["kind"])

    def create(self, obj, **switches):
        obj = copy.deepcopy(obj)
        apply_defaults(self.resource_of(obj), obj)
        admission = Admission(self.store.get, self.store.list, self.quotas, **switches) if switches else self.admission
        admission.create(self.resource_of(obj), obj)
        return obj

    def update(self, obj, old, subresource=""):
        obj = copy.deepcopy(obj)
        self.admission.update(self.resource_of(obj), obj, old, subresource)
        return obj


@pytest.fixture
def cluster():
    return Cluster()


def limit_range(*limits):
    return named("v1", "LimitRange", namespace="default", spec={"limits": list(limits)})


class TestLimitRanger:
    def test_defaults_and_what_says_so(self, cluster):
        made = limit_range({"type": "Container", "max": {"cpu": "2"}, "defaultRequest": {"memory": "1Gi"}})
        apply_defaults(cluster.resource_of(made), made)
        assert made["spec"]["limits"][0] == {
            "type": "Container",
            "max": {"cpu": "2"},
            "default": {"cpu": "2"},
            "defaultRequest": {"memory": "1Gi", "cpu": "2"},
        }
        cluster.put(made)
        pod = cluster.create(a_pod("web").requests(cpu="1").obj())
        [container] = pod["spec"]["containers"]
        assert container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}
        said = f"memory request for container {container['name']}; cpu limit for container {container['name']}"
        assert pod["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": f"LimitRanger plugin set: {said}"}

    @pytest.mark.parametrize(
        ("limits", "why"),
        [
            pytest.param(
                {"type": "Container", "min": {"cpu": "2"}},
                "minimum cpu usage per Container is 2, but request is 1",
                id="too small",
            ),
            pytest.param(
                {"type": "Pod", "max": {"memory": "1Gi"}},
                "maximum memory usage per Pod is 1Gi.  No limit is specified",
                id="no limit",
            ),
            pytest.param(
                {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
                id="ratio",
            ),
        ],
    )
    def test_pods_beyond_it_are_refused(self, cluster, limits, why):
        cluster.put(limit_range(limits))
        pod = a_pod("web").requests(cpu="1").obj()
        pod["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "3"}
        with pytest.raises(Forbidden) as refused:
            cluster.create(pod)
        assert str(refused.value) == f'pods "web" is forbidden: {why}'

    def test_claims(self, cluster):
        cluster.put(limit_range({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}))
        spec = {"resources": {"requests": {"storage": "2Gi"}}}
        with pytest.raises(
            Forbidden, match="maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
        ):
            cluster.create(named("v1", "PersistentVolumeClaim", namespace="default", spec=spec))


class TestRuntimeClass:
    def vm(self):
        overhead, scheduling = {"podFixed": {"cpu": "100m"}}, {"nodeSelector": {"vm": "yes"}}
        return named("node.k8s.io/v1", "RuntimeClass", "vm", handler="vm", overhead=overhead, scheduling=scheduling)

    def pod(self, **fields):
        pod = a_pod("web").obj()
        return {**pod, "spec": {**pod["spec"], "runtimeClassName": "vm", **fields}}

    def test_overhead_and_nodes(self, cluster):
        cluster.put(self.vm())
        spec = cluster.create(self.pod(nodeSelector={"disk": "ssd"}))["spec"]
        assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "100m"}, {"disk": "ssd", "vm": "yes"})

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"overhead": {"cpu": "1"}}, "Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
            ({"nodeSelector": {"vm": "no"}}, "conflict: runtimeClass.scheduling.nodeSelector"),
            ({"runtimeClassName": "other"}, 'RuntimeClass "other" not found'),
            ({"runtimeClassName": "", "overhead": {"cpu": "1"}}, "Pod Overhead set without corresponding RuntimeClass"),
        ],
    )
    def test_refused(self, cluster, fields, why):
        cluster.put(self.vm())
        with pytest.raises(Forbidden, match=why):
            cluster.create(self.pod(**fields))


class TestNamespaceLifecycle:
    def test_no_namespace(self, cluster):
        with pytest.raises(NotFound, match=r'^namespaces "lost" not found$') as caught:
            cluster.create(a_pod("web", "lost").obj())
        assert caught.value.status.details.kind == "namespaces"

    def test_a_terminating_namespace(self, cluster):
        with pytest.raises(Forbidden) as caught:
            cluster.create(a_pod("web", "going").obj())
        assert str(caught.value) == (
            'pods "web" is forbidden: unable to create new content in namespace going because it is being terminated'
        )
        (cause,) = caught.value.status.details.causes
        assert (cause.reason, cause.message, cause.field) == (
            "NamespaceTerminating",
            "namespace going is being terminated",
            "metadata.namespace",
        )

    def test_existing_objects_may_still_change(self, cluster):
        pod = a_pod("web", "going").obj()
        assert cluster.update(pod, pod) == pod

    def test_system_namespaces_cannot_be_deleted(self, cluster):
        stored = cluster.store.get("namespaces", "", "default")
        namespaces = CATALOGUE.find("", "v1", "namespaces")
        with pytest.raises(Forbidden, match=r'^namespaces "default" is forbidden: this namespace may not be deleted$'):
            cluster.admission.delete(namespaces, stored)
        cluster.admission.delete(namespaces, cluster.store.get("namespaces", "", "going"))

    def test_cluster_scoped_objects_need_none(self, cluster):
        assert cluster.create(named("storage.k8s.io/v1", "CSINode"))["metadata"]["name"] == "x"


class TestPriority:
    def test_by_name(self, cluster):
        cluster.put(priority_class("high", 1000, preemptionPolicy="Never"))
        spec = cluster.create(a_pod().spec(priorityClassName="high").obj())["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")

    def test_the_lowest_default(self, cluster):
        cluster.put(priority_class("b", 20, globalDefault=True))
        cluster.put(priority_class("a", 10, globalDefault=True))
        spec = cluster.create(a_pod().obj())["spec"]
        assert (spec["priorityClassName"], spec["priority"]) == ("a", 10)

    def test_one_default_only(self, cluster):
        first, second = (priority_class(name, 1, globalDefault=True) for name in "ab")
        cluster.put(first)
        with pytest.raises(Forbidden, match="PriorityClass a is already marked as default"):
            cluster.create(second)
        assert cluster.update(first, first) == first

    def test_an_update_that_omits_it(self, cluster):
        old = cluster.create(a_pod().obj())
        new = copy.deepcopy(old)
        del new["spec"]["priority"], new["spec"]["preemptionPolicy"]
        assert cluster.update(new, old) == old

    def test_groups_have_priorities_too(self, cluster):
        cluster.put(priority_class("high", 1000))
        spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": "high"}
        group = named("scheduling.k8s.io/v1alpha2", "PodGroup", "g", namespace="default", spec=spec)
        assert cluster.create(group)["spec"]["priority"] == 1000


def test_a_status_adds_no_tolerations(cluster):
    pod = a_pod().obj()
    assert cluster.update(pod | {"status": {"phase": "Running"}}, pod, "status")["spec"] == pod["spec"]


def test_new_nodes_are_not_ready(cluster):
    node = a_node().obj()
    created = cluster.create(node)
    assert created["spec"]["taints"] == [NOT_READY]
    assert cluster.create(created)["spec"]["taints"] == [NOT_READY]
    assert "taints" not in cluster.create(node, disabled=frozenset({"TaintNodesByCondition"}))["spec"]


class TestStorage:
    CLAIM = named(
        "v1", "PersistentVolumeClaim", "c", namespace="default", spec={"resources": {"requests": {"storage": "1Gi"}}}
    )

    def test_the_newest_default_class(self, cluster):
        cluster.put(storage_class("old", "2026-01-01T00:00:00Z"))
        cluster.put(storage_class("b", "2026-01-02T00:00:00Z"))
        cluster.put(storage_class("a", "2026-01-02T00:00:00Z"))
        cluster.put(storage_class("never", "2026-01-03T00:00:00Z", default="false"))
        assert cluster.create(self.CLAIM)["spec"]["storageClassName"] == "a"

    def test_an_empty_class_is_kept(self, cluster):
        cluster.put(storage_class("a", "2026-01-01T00:00:00Z"))
        claim = copy.deepcopy(self.CLAIM)
        claim["spec"]["storageClassName"] = ""
        assert cluster.create(claim)["spec"]["storageClassName"] == ""

    @pytest.mark.parametrize(
        ("phase", "expandable", "message"),
        [
            ("Pending", True, "Only bound persistent volume claims can be expanded"),
            ("Bound", False, "only dynamically provisioned pvc can be resized"),
            ("Bound", True, None),
        ],
    )
    def test_expansion(self, cluster, phase, expandable, message):
        cluster.put(storage_class("a", "2026-01-01T00:00:00Z", allowVolumeExpansion=expandable))
        old = cluster.create(self.CLAIM)
        old["status"]["phase"] = phase
        new = copy.deepcopy(old)
        new["spec"]["resources"]["requests"]["storage"] = "2Gi"
        if message is None:
            assert cluster.update(new, old) == new
        else:
            with pytest.raises(Forbidden, match=message):
                cluster.update(new, old)

    def test_finalizers_require_their_controller(self, cluster):
        assert "finalizers" not in cluster.create(self.CLAIM)["metadata"]
        on = frozenset({"StorageObjectInUseProtection"})
        assert cluster.create(self.CLAIM, enabled=on)["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


class TestPodGroups:
    def group(self, workload="w", template="t"):
        reference = {"workload": {"workloadName": workload, "podGroupTemplateName": template}}
        spec = {"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": reference}
        return named("scheduling.k8s.io/v1alpha2", "PodGroup", "g", namespace="default", spec=spec)

    def test_templates_must_exist(self, cluster):
        templates = {"podGroupTemplates": [{"name": "t"}]}
        workload = named("scheduling.k8s.io/v1alpha2", "Workload", "w", namespace="default", spec=templates)
        cluster.put(workload)
        assert cluster.create(self.group())["spec"]["priority"] == 0
        with pytest.raises(Forbidden, match='PodGroup rejected: PodGroupTemplate "u" not found in Workload "w"'):
            cluster.create(self.group(template="u"))

    def test_workloads_must_exist(self, cluster):
        with pytest.raises(Forbidden, match='PodGroup rejected: Workload "w" not found'):
            cluster.create(self.group())


class TestServiceAddresses:
    def service(self, name="web", **spec):
        ports = [{"port": 80}, {"port": 81, "name": "b"}]
        return named("v1", "Service", name, namespace="default", spec={"ports": ports} | spec)

    def test_addresses_are_stable_and_unique(self, cluster):
        first = cluster.create(self.service())["spec"]
        assert first["clusterIP"].startswith(("10.96.", "10.97.", "10.98.", "10.99.", "10.10", "10.11"))
        assert first["clusterIPs"] == [first["clusterIP"]]
        assert (first["ipFamilies"], first["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
        assert cluster.create(self.service())["spec"] == first
        cluster.put(self.service("other", clusterIP=first["clusterIP"]))
        assert cluster.create(self.service())["spec"]["clusterIP"] != first["clusterIP"]

    def test_requested_addresses_are_allocated(self, cluster):
        assert cluster.create(self.service(clusterIP="None"))["spec"]["clusterIPs"] == ["None"]
        assert "clusterIP" not in cluster.create(self.service(type="ExternalName"))["spec"]

    @pytest.mark.parametrize(
        ("asked", "families", "policy"),
        [
            ({"ipFamilies": ["IPv6"]}, ["IPv6"], "SingleStack"),
            ({"ipFamilies": ["IPv4", "IPv6"]}, ["IPv4", "IPv6"], "RequireDualStack"),
            ({"ipFamilyPolicy": "RequireDualStack"}, ["IPv4", "IPv6"], "RequireDualStack"),
            ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4"], "PreferDualStack"),
        ],
    )
    def test_an_address_of_each_family(self, cluster, asked, families, policy):
        spec = cluster.create(self.service(**asked))["spec"]
        assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (families, policy)
        assert ["IPv6" if ":" in address else "IPv4" for address in spec["clusterIPs"]] == families
        assert spec["clusterIP"] == spec["clusterIPs"][0]

    def test_node_ports_differ(self, cluster):
        ports = [port["nodePort"] for port in cluster.create(self.service(type="NodePort"))["spec"]["ports"]]
        assert len(set(ports)) == 2
        assert all(30000 <= port <= 32767 for port in ports)


def test_plugins_are_called_as_upstream_calls_them():
    assert set(PLUGINS) >= OFF_BY_DEFAULT
    assert {"NamespaceLifecycle", "Priority", "DefaultTolerationSeconds", "DefaultStorageClass"} <= set(PLUGINS)
    with pytest.raises(ValueError, match="no admission plugin is called Prioritie; there are NamespaceLifecycle, "):
        Admission(lambda *_: None, lambda _: [], QuotaUsage(Store()), disabled=frozenset({"Prioritie"}))
