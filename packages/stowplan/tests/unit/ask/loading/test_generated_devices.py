"""Files: claims that a controller would make from templates, and slices that a driver would make from an annotation."""

import json

import pytest

from stowplan.ask.loading.files import objects_of_files
from stowplan.kube.api.annotated_devices import DEVICES
from stowplan.kube.api.load import LoadError
from stowplan.kube.api.types import Pod, ResourceClaim, ResourceSlice
from stowplan.testing import a_node, a_pod
from support.plugins.devices import a_slice, exactly
from support.plugins.storage import of

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
