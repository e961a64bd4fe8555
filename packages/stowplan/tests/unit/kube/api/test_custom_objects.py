"""Objects of unknown kinds: how they are decoded and encoded again."""

import json

import pytest

from stowplan.kube.api.custom_objects import CustomObject, custom_resource
from stowplan.kube.api.decode import (
    DecodeError,
    convert,
    decode_json,
    encode_json,
    is_namespaced,
    namespace_of,
    to_dict,
)
from stowplan.kube.api.resources import resource_of
from stowplan.net.client.http.decoding import WatchDecoder, decode_page

TOPOLOGY = "noderesourcetopologies.v1alpha2.topology.node.k8s.io"
Topology = custom_resource(TOPOLOGY, namespaced=False)
QUEUE = {
    "apiVersion": "batch.example.com/v1",
    "kind": "Queue",
    "metadata": {"name": "night", "namespace": "shop", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
    "weights": [1, 2, {"three": None}],
    "spec": {"size": 3},
}
Queue = custom_resource("queues.v1.batch.example.com")


def of(obj):
    return json.dumps(obj).encode()


def page(*items):
    return of({"kind": "QueueList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items})


def test_a_resource_has_one_type():
    assert custom_resource("queues.v1.batch.example.com") is Queue
    assert Queue is not Topology
    assert issubclass(Queue, CustomObject)
    assert (Queue.plural, Queue.version, Queue.group) == ("queues", "v1", "batch.example.com")
    assert Topology.group == "topology.node.k8s.io"
    assert custom_resource("queues.v1.batch.example.com", namespaced=True) is Queue


@pytest.mark.parametrize("name", ["", "queues", "queues.v1", "queues..x.y", ".v1.x", "storage.k8s.io/v1.CSINode"])
def test_invalid_resource_names(name):
    with pytest.raises(ValueError, match=r"names no custom resource: want <plural>\.<version>\.<group>"):
        custom_resource(name)


def test_the_core_group_is_empty():
    assert resource_of(custom_resource("services.v1.")).collection("v1") == "/api/v1/services"


@pytest.mark.parametrize(("kind", "path"), [(Queue, "namespaces/shop/queues/night"), (Topology, None)])
def test_paths_of_custom_resources(kind, path):
    resource = resource_of(kind)
    assert resource.versions == (kind.version,)
    assert str(resource) == f"{kind.plural}.{kind.group}"
    found = resource.item(kind.version, "night", namespace="shop")
    assert found == f"/apis/{kind.group}/{kind.version}/" + (path or f"{kind.plural}/night")


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda obj: convert(obj, Queue), id="convert"),
        pytest.param(lambda obj: decode_json(of(obj), Queue), id="one"),
        pytest.param(lambda obj: decode_page(page(obj), Queue).items[0], id="list"),
        pytest.param(lambda obj: WatchDecoder(Queue).event(of({"type": "ADDED", "object": obj})).object, id="watch"),
    ],
)
def test_all_fields_are_preserved(read):
    obj = json.loads(json.dumps(QUEUE))
    obj["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    found = read(obj)
    assert type(found) is Queue
    assert (found.kind, found.api_version) == ("Queue", "batch.example.com/v1")
    assert (found.metadata.name, found.metadata.labels, found.metadata.resource_version) == ("night", {"a": "b"}, "7")
    assert found.content == QUEUE, "except managedFields"
    assert to_dict(found) == json.loads(encode_json(found)) == QUEUE
    assert is_namespaced(found)
    assert namespace_of(found) == "shop"


def test_cluster_scoped_objects_have_no_namespace():
    assert namespace_of(convert({"metadata": {"name": "n1"}}, Topology)) == ""


def test_nulls_in_metadata_are_absent():
    found = decode_json(b'{"metadata": {"name": "a", "labels": null}, "spec": null}', Queue)
    assert found.metadata.labels == {}
    assert found.content["spec"] is None
    assert decode_json(b'{"metadata": null}', Queue).metadata.name == ""


def test_invalid_metadata_is_reported():
    with pytest.raises(DecodeError, match=r"metadata\.labels\[a\]: expected a string, got an integer"):
        decode_json(of({"metadata": {"name": "x", "labels": {"a": 1}}}), Queue)


@pytest.mark.parametrize(
    "bad", [{"metadata": {"name": "x", "labels": {"a": 1}}}, {"metadata": {"name": "x"} | {"labels": 3}}]
)
def test_a_bad_object_does_not_affect_the_others(bad):
    listing = decode_page(page(bad, QUEUE), Queue)
    assert [one.metadata.name for one in listing.items] == ["night"]
    assert [one.name for one in listing.bad] == ["x"]
    event = WatchDecoder(Queue).event(of({"type": "MODIFIED", "object": bad}))
    assert (event.type, event.bad.name) == ("BAD", "x")
    assert "metadata.labels" in event.bad.why


@pytest.mark.parametrize("what", [b"[]", b"3", b'"x"'])
def test_values_that_are_not_objects_are_refused(what):
    with pytest.raises(DecodeError):
        decode_json(what, Queue)
