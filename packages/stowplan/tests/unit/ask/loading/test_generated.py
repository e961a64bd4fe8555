"""Objects that controllers and drivers would make for files: pods of workloads, claims, slices of annotated devices."""

import json

import pytest

from stowplan import Cluster
from stowplan.ask.loading.generated import generated_pods, with_ephemeral_claims
from stowplan.ask.loading.object_files import objects_of_files
from stowplan.kube.api.annotated_devices import DEVICES
from stowplan.kube.api.daemon_pods import node_of
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.types import Pod, ResourceClaim, ResourceSlice
from stowplan.testing import a_node, a_pod
from support.plugins.devices import a_slice, exactly
from support.plugins.storage import of


def daemon_set(**spec):
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "ops"},
        "spec": {"template": template},
    }


def node(name, taints=(), **labels):
    return decode_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": list(taints)},
        }
    )


NODES = [
    node("a", gpu="yes"),
    node("b"),
    node("tainted", [{"key": "team", "value": "ml", "effect": "NoSchedule"}], gpu="yes"),
    node("cordoned", [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}], gpu="yes"),
]


def nodes_of(manifest, nodes=NODES):
    found = generated_pods([manifest], (), nodes)
    pods, notes = found.objects, list(found.notes)
    assert [pod.metadata.name for pod in pods] == [f"agent-{i}" for i in range(len(pods))]
    return [node_of(pod.spec.affinity) for pod in pods], notes


def test_each_node_that_its_template_tolerates_has_one():
    nodes, notes = nodes_of(daemon_set())
    assert nodes == ["a", "b", "cordoned"]
    assert notes == [
        "DaemonSet ops/agent has no pods yet; using its template: 3 pods (ops/agent-0…)",
    ]


def test_those_that_its_selector_and_its_tolerations_name():
    tolerations = [{"key": "team", "operator": "Exists"}]
    assert nodes_of(daemon_set(nodeSelector={"gpu": "yes"}))[0] == ["a", "cordoned"]
    assert nodes_of(daemon_set(tolerations=tolerations))[0] == ["a", "b", "tainted", "cordoned"]


def test_its_preferences_and_its_affinity_to_pods_stay():
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod, *_ = generated_pods([daemon_set(affinity=affinity)], (), NODES).objects
    assert pod.spec.affinity.pod_anti_affinity is not None
    assert pod.metadata.owner_references[0].kind == "DaemonSet"


def test_without_nodes_there_are_none():
    assert nodes_of(daemon_set(), []) == ([], [])
    assert nodes_of(daemon_set(nodeSelector={"no": "node"})) == ([], [])


def test_too_many_replicas_are_refused():
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {**daemon_set(), "kind": "Deployment", "spec": {"replicas": 2**31 - 1, "template": template}}
    with pytest.raises(LoadError, match="Deployment ops/agent: want at most 100,000 pods, got 2,147,483,647"):
        generated_pods([deployment], (), NODES)


SPEC = {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "resources": {"requests": {"storage": "1Gi"}}}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "csi"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def scratching(name="web"):
    return a_pod(name).volume(
        "scratch", ephemeral={"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}}
    )


def test_a_pod_without_a_node_gets_them():
    objects, notes = with_ephemeral_claims([decode_object(scratching().obj())])
    claim = objects[-1]
    assert (claim.metadata.name, claim.metadata.namespace, claim.metadata.labels) == (
        "web-scratch",
        "default",
        {"a": "b"},
    )
    assert claim.metadata.owner_references[0].name == "web"
    assert notes == ["1 PersistentVolumeClaim made for ephemeral volumes, as a controller would"]


def test_a_pod_on_a_node_and_one_whose_claim_is_there_do_not():
    placed = decode_object(scratching().on("a").obj())
    assert with_ephemeral_claims([placed]) == ([placed], [])
    given, _ = with_ephemeral_claims([decode_object(scratching().obj())])
    assert with_ephemeral_claims(given) == (given, [])


def test_such_a_pod_is_placed():
    objects, _ = with_ephemeral_claims([decode_object(scratching().obj())])
    (decision,) = Cluster([a_node("a").obj(), CLASS, *objects]).schedule()
    assert decision.node_name == "a"


GPUS = [{"driver": "gpu.example.com", "name": "a100", "count": 70, "attributes": {"model": "A100"}}]


def a_template(name="t", *requests):
    spec = {"spec": {"devices": {"requests": list(requests or [exactly()])}}}
    return of("ResourceClaimTemplate", name, "resource.k8s.io/v1", metadata={"namespace": "default"}, spec=spec)


def a_user(name="p", template="t", **status):
    pod = a_pod(name).obj()
    pod["metadata"].pop("uid", None)
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    return pod | ({"status": status} if status else {})


def annotated(*groups, name="n"):
    return a_node(name).annotations().obj() | {
        "metadata": {"name": name, "annotations": {DEVICES: json.dumps(list(groups) or GPUS)}}
    }


@pytest.fixture
def load(tmp_path):
    def ask(*objects):
        path = tmp_path / "objects.yaml"
        path.write_text("\n".join(map(json.dumps, objects)))
        return objects_of_files([str(path)])

    return ask


def kinds(filed, kind):
    return [obj for obj in filed.objects if isinstance(obj, kind)]


def test_pods_have_claims_from_templates(load):
    filed = load(a_template("t", exactly("r", count=2)), a_user("p"), a_user("q"))
    claims = kinds(filed, ResourceClaim)
    assert [claim.metadata.name for claim in claims] == ["p-gpu", "q-gpu"]
    assert claims[0].spec.devices.requests[0].exactly.count == 2
    assert claims[0].metadata.owner_references[0].name == "p"
    statuses = [pod.status.resource_claim_statuses for pod in kinds(filed, Pod)]
    assert [(s.name, s.resource_claim_name) for (s,) in statuses] == [("gpu", "p-gpu"), ("gpu", "q-gpu")]
    assert any("2 ResourceClaims made from templates" in note for note in filed.notes)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_user("p", template="other"), id="no such template"),
        pytest.param(a_user("p", resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "x"}]), id="has a claim"),
        pytest.param(a_user("p") | {"spec": {**a_user("p")["spec"], "nodeName": "n"}}, id="runs"),
        pytest.param(a_pod("p").claims_devices("c").obj(), id="names a claim"),
    ],
)
def test_other_pods_are_left_alone(load, pod):
    assert kinds(load(a_template(), pod), ResourceClaim) == []


def test_slices_are_made_from_the_annotation(load):
    filed = load(annotated())
    slices = kinds(filed, ResourceSlice)
    assert [s.metadata.name for s in slices] == ["n-gpu.example.com-0", "n-gpu.example.com-1"]
    assert [len(s.spec.devices) for s in slices] == [64, 6]
    assert {(s.spec.pool.name, s.spec.pool.resource_slice_count, s.spec.node_name) for s in slices} == {("n", 2, "n")}
    assert slices[0].spec.devices[0].attributes["model"].string == "A100"


def test_what_a_driver_has_published_stays(load):
    published = a_slice("n-gpu.example.com-0", nodeName="n")
    assert [s.metadata.name for s in kinds(load(annotated(), published), ResourceSlice)] == ["n-gpu.example.com-0"]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (annotated({"driver": "d", "count": 0}), "Node n: annotation stowplan.io/devices: [0].count: 0 is not from 1"),
        (annotated({"count": 1}), "missing required field `driver`"),
        (annotated({"driver": "d", "device": {"taints": "x"}}), "Node n: "),
    ],
)
def test_an_annotation_that_cannot_be_read_is_refused(load, node, message):
    with pytest.raises(LoadError) as caught:
        load(node)
    assert message in str(caught.value)


def test_a_template_that_cannot_be_read_is_refused(load):
    with pytest.raises(LoadError) as caught:
        load(a_template() | {"spec": {"spec": {"devices": []}}})
    assert "ResourceClaimTemplate default/t" in str(caught.value)
