"""Whole objects, for those who get them passed on unchanged."""

import json

from stowplan.kube.api.decode import convert
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.types import Node, Pod

RAW = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "namespace": "ns", "uid": "1", "managedFields": [{}]},
    "spec": {"more": 1, "containers": [{"name": "main", "image": "x"}]},
}


def pod(raw=RAW, **metadata):
    return convert(raw | {"metadata": raw["metadata"] | metadata}, Pod)


def kept(*raws, kinds=(Pod, Node)):
    documents = Documents(kinds)
    for raw in raws:
        documents.keep(convert(raw, Pod), json.dumps(raw).encode())
    return documents


def whole(documents, obj):
    return json.loads(documents.json(obj))


def test_an_object_keeps_all_its_fields():
    assert whole(kept(RAW), pod()) == {
        "metadata": {"name": "p", "namespace": "ns", "uid": "1"},
        "spec": {"more": 1, "containers": [{"name": "main", "image": "x"}]},
    }


def test_nodes_keep_their_managed_fields():
    raw = {"kind": "Node", "metadata": {"name": "n", "uid": "1", "managedFields": [{"manager": "kubelet"}]}}
    documents = Documents([Node])
    node = convert(raw, Node)
    documents.keep(node, json.dumps(raw).encode())
    assert whole(documents, node) == {"metadata": raw["metadata"]}


def test_only_requested_kinds_are_kept():
    assert len(kept(RAW, kinds=[Node])) == 0
    assert whole(kept(RAW, kinds=[Node]), pod())["spec"] == {"containers": [{"name": "main", "image": "x"}]}


def test_the_newest_version_is_used():
    newer = RAW | {"spec": {"more": 2}}
    documents = kept(RAW)
    documents.json(pod())
    documents.keep(pod(newer), json.dumps(newer).encode())
    assert whole(documents, pod())["spec"] == {"more": 2}


def test_a_new_pod_of_the_same_name_is_another_pod():
    documents = kept(RAW)
    assert "more" not in whole(documents, pod(uid="2"))["spec"]
    documents.forget(pod(uid="2"))
    assert len(documents) == 1
    documents.forget(pod())
    assert len(documents) == 0
    documents.forget(pod())


def test_an_assumed_pod_has_its_node():
    on_node = convert(RAW | {"spec": RAW["spec"] | {"nodeName": "n"}}, Pod)
    documents = kept(RAW)
    assert whole(documents, on_node)["spec"] == RAW["spec"] | {"nodeName": "n"}
    assert "nodeName" not in whole(documents, pod())["spec"]
