"""Objects whole, for those who get them passed on."""

import json

from stowplan.api.decode import convert
from stowplan.api.documents import Documents
from stowplan.api.types import Node, Pod

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


def passed_on(documents, obj):
    return json.loads(documents.json(obj))


def test_an_object_is_passed_on_with_all_its_fields():
    assert passed_on(kept(RAW), pod()) == {
        "metadata": {"name": "p", "namespace": "ns", "uid": "1"},
        "spec": {"more": 1, "containers": [{"name": "main", "image": "x"}]},
    }


def test_nodes_keep_their_managed_fields():
    raw = {"kind": "Node", "metadata": {"name": "n", "uid": "1", "managedFields": [{"manager": "kubelet"}]}}
    documents = Documents([Node])
    node = convert(raw, Node)
    documents.keep(node, json.dumps(raw).encode())
    assert passed_on(documents, node) == {"metadata": raw["metadata"]}


def test_only_what_is_wanted_is_kept():
    assert len(kept(RAW, kinds=[Node])) == 0
    assert passed_on(kept(RAW, kinds=[Node]), pod())["spec"] == {"containers": [{"name": "main", "image": "x"}]}


def test_the_newest_counts():
    newer = RAW | {"spec": {"more": 2}}
    documents = kept(RAW)
    documents.json(pod())
    documents.keep(pod(newer), json.dumps(newer).encode())
    assert passed_on(documents, pod())["spec"] == {"more": 2}


def test_another_pod_of_the_name_is_another_pod():
    documents = kept(RAW)
    assert "more" not in passed_on(documents, pod(uid="2"))["spec"]
    documents.forget(pod(uid="2"))
    assert len(documents) == 1
    documents.forget(pod())
    assert len(documents) == 0
    documents.forget(pod())


def test_a_pod_that_is_only_assumed_says_its_node():
    on_node = convert(RAW | {"spec": RAW["spec"] | {"nodeName": "n"}}, Pod)
    documents = kept(RAW)
    assert passed_on(documents, on_node)["spec"] == RAW["spec"] | {"nodeName": "n"}
    assert "nodeName" not in passed_on(documents, pod())["spec"]
