"""Decoding JSON-shaped data to structs, and encoding them again."""

import json

import pytest

from golden import compare
from stowplan.kube.api.decode import (
    KINDS,
    DecodeError,
    UnknownKindError,
    decode_json,
    decode_object,
    encode_json,
    namespace_of,
    to_dict,
    validate_object,
    validation_errors,
)
from stowplan.kube.api.types import Lease, Node, NodeAffinity, Pod, PodSpec, Service


def a_pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}, "spec": spec}


@pytest.mark.parametrize(
    ("pod", "field", "message"),
    [
        (a_pod(priority="5"), "spec.priority", "expected an integer, got a string"),
        (a_pod(nodeName=5), "spec.nodeName", "expected a string, got an integer"),
        (a_pod(hostNetwork="yes"), "spec.hostNetwork", "expected true or false, got a string"),
        (a_pod(containers={}), "spec.containers", "expected a list, got an object"),
        (
            a_pod(containers=[{}, {"resources": {"requests": {"memory": "1", "cpu": ["1"]}}}]),
            "spec.containers[1].resources.requests[cpu]",
            "expected a quantity, got a list",
        ),
        (
            {**a_pod(), "metadata": {"labels": {"a": "b", "c": 1}}},
            "metadata.labels[c]",
            "expected a string, got an integer",
        ),
        ({**a_pod(), "spec": []}, "spec", "expected an object, got a list"),
        ({"kind": "Pod"}, "apiVersion", "missing"),
        ({"apiVersion": "v1", "kind": 3}, "kind", "expected a string"),
    ],
)
def test_errors_name_the_field(pod, field, message):
    with pytest.raises(DecodeError) as caught:
        decode_object(pod)
    assert (caught.value.field, caught.value.message) == (field, message)
    assert str(caught.value) == f"{field}: {message}"


def test_nulls_count_as_absent_and_unknown_fields_are_ignored():
    pod = decode_object(
        {**a_pod(nodeName=None, tolerations=None, affinity=None, frobnicate={"a": None}), "status": None}
    )
    assert pod == decode_object(a_pod())


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v1", "Foo"), ("apps/v1", "Pod"), ("resource.k8s.io/v1beta1", "ResourceClaim")]
)
def test_unknown_kinds(api_version, kind):
    with pytest.raises(UnknownKindError) as caught:
        decode_object({"apiVersion": api_version, "kind": kind})
    assert (caught.value.api_version, caught.value.kind) == (api_version, kind)


def test_absent_and_empty_are_distinguished():
    def node_affinity(**fields):
        return decode_object(a_pod(affinity={"nodeAffinity": fields})).spec.affinity.node_affinity

    assert node_affinity() == NodeAffinity()
    assert node_affinity(preferredDuringSchedulingIgnoredDuringExecution=[]) != NodeAffinity()
    assert node_affinity(requiredDuringSchedulingIgnoredDuringExecution={}) != NodeAffinity()
    service = decode_object({"apiVersion": "v1", "kind": "Service", "spec": {"selector": {}}})
    assert isinstance(service, Service)
    assert service.spec.selector == {}


@pytest.mark.parametrize("struct", KINDS.values(), ids=lambda struct: struct.__name__)
def test_every_kind_decodes_from_its_own_dict(struct):
    assert decode_object(to_dict(struct())) == struct()


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        pytest.param(
            {"containers": [{"resources": {"requests": {"cpu": "1x"}}}], "overhead": {"memory": "1K"}},
            {"spec.containers[0].resources.requests[cpu]", "spec.overhead[memory]"},
            id="quantities",
        ),
        pytest.param(
            {
                "tolerations": [{"operator": "Foo"}, {"operator": ""}],
                "topologySpreadConstraints": [
                    {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}
                ],
            },
            {
                "spec.tolerations[0].operator",
                "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator",
            },
            id="operators",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "in"}]}}
                        ]
                    }
                }
            },
            {
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
                ".preference.matchExpressions[0].operator"
            },
            id="inside an optional list",
        ),
    ],
)
def test_validation(spec, errors):
    pod = decode_object(a_pod(**spec))
    assert {error.field for error in validation_errors(pod)} == errors
    with pytest.raises(DecodeError):
        validate_object(pod)


def test_validation_of_a_single_quantity():
    capacity = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "capacity": "1x"}
    (error,) = validation_errors(decode_object(capacity))
    assert str(error).startswith('capacity: "1x" is not a quantity: quantities must match')


def test_json():
    assert decode_json(b'{"metadata": {"name": "a"}, "spec": {"nodeName": null}}', Pod).metadata.name == "a"
    with pytest.raises(DecodeError, match="invalid JSON"):
        decode_json(b"{", Pod)
    with pytest.raises(DecodeError, match=r"spec\.priority"):
        decode_json(b'{"spec": {"priority": "x"}}', Pod)
    assert json.loads(encode_json(Lease())) == {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


def test_defaults_are_omitted_except_the_kind():
    assert to_dict(Node()) == {"apiVersion": "v1", "kind": "Node"}
    assert to_dict(PodSpec(priority=0)) == {"priority": 0}


def test_json_names_that_are_not_plain_camel_case():
    port = {"hostPort": 1, "hostIP": "1.1.1.1"}
    pod = a_pod(containers=[{"ports": [port]}], volumes=[{"awsElasticBlockStore": {"volumeID": "v"}}])
    assert to_dict(decode_object(pod)) == pod


@pytest.mark.parametrize(
    ("obj", "namespace"),
    [({"kind": "Pod"}, "default"), ({"kind": "Pod", "metadata": {"namespace": "a"}}, "a"), ({"kind": "Node"}, "")],
)
def test_namespace(obj, namespace):
    assert namespace_of(decode_object({"apiVersion": "v1", **obj})) == namespace


@pytest.mark.parametrize("category", compare.CLAIMED)
def test_golden_objects_decode_and_validate(category):
    for scenario in compare.scenarios(category):
        for obj in (*scenario["objects"], *scenario["pods"]):
            decoded = decode_object(obj)
            validate_object(decoded)
            assert (decoded.kind, decoded.metadata.name) == (obj["kind"], obj["metadata"]["name"])
            assert decode_object(to_dict(decoded)) == decoded


@pytest.mark.parametrize(
    ("priority", "message"),
    [
        pytest.param(2**31, "spec.priority: expected an integer of at most 2147483647", id="too large"),
        pytest.param(-(2**31) - 1, "spec.priority: expected an integer of at least -2147483648", id="too small"),
        pytest.param(10**30, "spec.priority: expected an integer of at most 2147483647", id="beyond 64 bits"),
    ],
)
def test_integers_have_the_size_that_kubernetes_gives_them(priority, message):
    with pytest.raises(DecodeError, match=message):
        decode_object({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": priority}})
