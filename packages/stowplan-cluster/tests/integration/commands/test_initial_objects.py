"""Loading manifests of other projects and dumps of other clusters into a server."""

import copy
import json

import pytest

from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.commands.initial_objects import InitialObjects
from support.api import manifests


def an_object(api_version, kind, name, namespace="", **rest):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def network_policy(name, **spec):
    return an_object("networking.k8s.io/v1", "NetworkPolicy", name, "shop", spec={"podSelector": {}, **spec})


WIDGETS = an_object(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "widgets.example.com",
    spec={
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
)


@pytest.fixture
def server():
    return ApiServer()


def fill(server, *objects):
    """Problems and notes."""
    initial = InitialObjects(server)
    initial.add([(f"file: document {number}", obj) for number, obj in enumerate(objects, start=1)])
    return initial.problems, initial.notes()


def stored(server, storage, namespace, name):
    found = server.store.get(storage, namespace, name)
    return None if found is None else found.to_dict()


def test_stored_only_kinds_are_stored_with_one_note(server):
    problems, notes = fill(
        server,
        an_object("v1", "Namespace", "shop"),
        *(network_policy(f"p{number}", policyTypes=["Ingress"]) for number in range(12)),
        an_object(
            "apiregistration.k8s.io/v1",
            "APIService",
            "v1beta1.metrics.k8s.io",
            spec={"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100},
        ),
    )
    assert not problems
    assert notes == [
        "1 APIService kept, no controller here reads it",
        "12 NetworkPolicies kept, no controller here reads them",
    ]
    assert stored(server, "networkpolicies.networking.k8s.io", "shop", "p7")["spec"]["policyTypes"] == ["Ingress"]


def test_order_does_not_matter(server):
    urgent = an_object("scheduling.k8s.io/v1", "PriorityClass", "urgent", value=7)
    pod = manifests.pod("web", priorityClassName="urgent")
    pod["metadata"]["namespace"] = "shop"
    problems, notes = fill(
        server,
        pod,
        urgent,
        an_object("example.com/v1", "Widget", "w", "shop"),
        WIDGETS,
        an_object("v1", "Namespace", "shop", metadata={"name": "shop", "labels": {"team": "a"}}),
    )
    assert not problems
    assert notes == ["1 Widget kept, no controller here reads it"]
    assert stored(server, "pods", "shop", "web")["spec"]["priority"] == 7
    assert stored(server, "namespaces", "", "shop")["metadata"]["labels"]["team"] == "a"


def test_missing_namespaces_are_created(server):
    problems, notes = fill(
        server, an_object("v1", "ConfigMap", "c", "monitoring"), an_object("v1", "ConfigMap", "d", "monitoring")
    )
    assert not problems
    assert notes == ["made 1 namespace that no file defines: monitoring"]


def test_kinds_without_a_definition_are_skipped(server):
    problems, notes = fill(server, *(an_object("monitoring.coreos.com/v1", "ServiceMonitor", n) for n in "ab"))
    assert not problems
    assert notes == [
        "2 objects of kind ServiceMonitor (monitoring.coreos.com/v1) left out: no CustomResourceDefinition defines it"
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "hint"),
    [
        pytest.param("apps/v1", "Deploymnet", " (did you mean Deployment of apps/v1?)", id="misspelled"),
        pytest.param("apps/v1beta1", "Deployment", " (did you mean Deployment of apps/v1?)", id="an old version"),
        pytest.param("v1", "Deployment", " (did you mean Deployment of apps/v1?)", id="another group"),
        pytest.param("extensions/v1beta1", "Ingress", " (did you mean Ingress of networking.k8s.io/v1?)", id="moved"),
        pytest.param("policy/v1beta1", "PodSecurityPolicy", "", id="removed"),
    ],
)
def test_unknown_kinds_of_served_groups_are_errors(server, api_version, kind, hint):
    problems, _ = fill(server, an_object(api_version, kind, "web"))
    assert problems == [f"file: document 1: kind {kind!r} of apiVersion {api_version!r} is not served here{hint}"]


# --- dumps


def dumped(server):
    """All objects of a server, in the form of `kubectl get -A -o json`."""
    return [
        copy.deepcopy(one.to_dict()) for resource in server.catalogue for one in server.store.list(resource.storage)
    ]


def deployment_with_pods(server):
    owner = {"apiVersion": "apps/v1", "controller": True, "blockOwnerDeletion": True}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": manifests.pod()["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    assert not fill(server, an_object("apps/v1", "Deployment", "web", spec=spec), a_node())[0]
    uid = server.store.get("deployments.apps", "default", "web").uid
    of_deployment = [{**owner, "kind": "Deployment", "name": "web", "uid": uid}]
    replica_set = an_object("apps/v1", "ReplicaSet", "web-1", spec=spec)
    replica_set["metadata"]["ownerReferences"] = of_deployment
    assert not fill(server, replica_set)[0]
    uid = server.store.get("replicasets.apps", "default", "web-1").uid
    for number in range(2):
        pod = manifests.pod(f"web-1-{number}", nodeName="n1")
        pod["metadata"]["ownerReferences"] = [{**owner, "kind": "ReplicaSet", "name": "web-1", "uid": uid}]
        pod["metadata"]["labels"] = {"app": "web"}
        assert not fill(server, pod)[0]


def a_node():
    return an_object("v1", "Node", "n1", status={"capacity": {"cpu": "4", "pods": "10"}})


def test_a_dump_is_loaded_completely(server):
    deployment_with_pods(server)
    dump = dumped(server)
    assert all(obj["metadata"]["resourceVersion"] for obj in dump)
    copied = ApiServer()
    problems, notes = fill(copied, *reversed(dump))
    assert not problems
    assert not notes
    pod = stored(copied, "pods", "default", "web-1-0")
    assert pod["spec"]["nodeName"] == "n1"
    owner = pod["metadata"]["ownerReferences"][0]["uid"]
    assert copied.store.get("replicasets.apps", "default", "web-1").uid == owner, "the pod lost its owner"
    assert json.dumps(dump) == json.dumps(dumped(server)), "the caller's objects were modified"


def test_a_dump_of_pods_alone_loses_their_owners(server):
    deployment_with_pods(server)
    pods = [obj for obj in dumped(server) if obj["kind"] == "Pod"]
    copied = ApiServer()
    problems, notes = fill(copied, *pods)
    assert not problems
    assert notes == ["2 objects lost owners that are not in the files: no controller collects or replaces them"]
    assert "ownerReferences" not in stored(copied, "pods", "default", "web-1-0")["metadata"]


def test_missing_priority_classes_are_created_from_pods(server):
    assert not fill(server, an_object("scheduling.k8s.io/v1", "PriorityClass", "urgent", value=7))[0]
    assert not fill(server, manifests.pod("web", priorityClassName="urgent"))[0]
    copied = ApiServer()
    problems, notes = fill(copied, *(obj for obj in dumped(server) if obj["kind"] == "Pod"))
    assert not problems
    assert notes == ["made priority classes as pods have them, as no file defines them: urgent"]
    assert stored(copied, "pods", "default", "web")["spec"]["priority"] == 7


def test_finished_pods_of_a_dump_stay_finished(server):
    pod = manifests.pod("done", nodeName="n1")
    pod["metadata"] |= {"uid": "a-b-c", "resourceVersion": "17", "managedFields": [{"manager": "kubelet"}]}
    pod["status"] = {"phase": "Succeeded"}
    problems, _ = fill(server, pod)
    assert not problems
    found = stored(server, "pods", "default", "done")
    assert found["status"]["phase"] == "Succeeded"
    assert found["metadata"]["uid"] == "a-b-c"
    assert found["metadata"]["resourceVersion"] != "17"


def test_terminating_pods_of_a_dump_are_deleted_again(server):
    leaves = manifests.pod("leaves", nodeName="n1")
    held = manifests.pod("held")
    for pod, period in ((leaves, 120), (held, 0)):
        deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": period}
        pod["metadata"] |= {"uid": pod["metadata"]["name"], "resourceVersion": "17", **deletion}
    held["metadata"]["finalizers"] = ["example.com/hold"]
    problems, _ = fill(server, leaves, held)
    assert not problems
    for pod, period in ((leaves, 120), (held, 0)):
        found = stored(server, "pods", "default", pod["metadata"]["name"])["metadata"]
        assert found["deletionTimestamp"] > "2026-01-01T00:00:00Z"
        assert found["deletionGracePeriodSeconds"] == period


def test_a_terminating_pod_of_a_dump_without_finalizers_is_gone(server):
    pod = manifests.pod("gone")
    pod["metadata"] |= {"uid": "gone", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    problems, _ = fill(server, pod)
    assert not problems
    assert stored(server, "pods", "default", "gone") is None


def test_unknown_fields_of_newer_servers_are_ignored_in_a_dump(server):
    pod = manifests.pod("web", futureField=1)
    assert fill(server, pod)[0]
    pod["metadata"] |= {"uid": "a-b-c", "resourceVersion": "17"}
    problems, _ = fill(server, pod)
    assert not problems


def test_a_copied_object_with_a_duplicate_uid_gets_a_new_one(server):
    one, other = manifests.pod("one"), manifests.pod("other")
    for pod in (one, other):
        pod["metadata"]["uid"] = "a-b-c"
    assert not fill(server, one, other)[0]
    assert server.store.get("pods", "default", "one").uid != server.store.get("pods", "default", "other").uid
