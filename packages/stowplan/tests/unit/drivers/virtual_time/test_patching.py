"""Patches in simulated time: merged as an API server does, or refused with a message."""

import pytest

from stowplan.drivers.virtual_time.patching import patched
from stowplan.kube.api.api_errors import ApiError, BadRequest, NotFound, UnsupportedMediaType
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.framework.requests import Patch
from stowplan.testing import a_node, a_pod

POD = convert(a_pod("web").labels(app="web").obj(), Pod)


def patch(body, type_="merge", subresource="", obj=POD):
    return patched(
        obj, Patch(kind=type(obj), namespace="default", name="web", body=body, type_=type_, subresource=subresource)
    )


def test_a_subresource_changes_its_own_part_only():
    body = {"metadata": {"labels": {"new": "x"}}, "status": {"phase": "Running"}}
    assert patch(body, "merge", "status").metadata is POD.metadata
    assert patch(body, "merge", "status").status.phase == "Running"
    assert patch(body, "merge").status is POD.status
    assert patch(body, "merge").metadata.labels == {"app": "web", "new": "x"}
    assert patch(body, "merge").spec is POD.spec


def test_nodes_are_patched_in_the_same_way():
    node = convert(a_node("n1").obj(), Node)
    found = patch({"spec": {"unschedulable": True}, "kind": "Node"}, "strategic", obj=node)
    assert found.spec.unschedulable
    assert patch({"apiVersion": "v1", "unknown": 1}, obj=node) is node


@pytest.mark.parametrize(
    ("body", "type_", "subresource", "error", "why"),
    [
        pytest.param([{"op": "add"}], "json", "", UnsupportedMediaType, "no JSON patches", id="JSON patch"),
        pytest.param(
            {"metadata": {"finalizers": ["a"]}},
            "strategic",
            "",
            BadRequest,
            r"cannot merge the list metadata\.finalizers strategically: use a merge patch",
            id="list without a known key",
        ),
        pytest.param({"spec": {"$patch": "delete"}}, "strategic", "", BadRequest, r"\$patch", id="directive"),
        pytest.param(
            {"metadata": {"$setElementOrder/finalizers": []}}, "strategic", "", BadRequest, "Order", id="another order"
        ),
        pytest.param(
            {"status": {"conditions": [{"status": "True"}]}}, "strategic", "status", BadRequest, "type", id="no key"
        ),
        pytest.param({"spec": {}}, "merge", "scale", NotFound, "no subresource 'scale'", id="another subresource"),
        pytest.param({"metadata": {"labels": {"a": 1}}}, "merge", "", BadRequest, r"metadata\.labels", id="wrong type"),
    ],
)
def test_unsupported_patches_are_refused(body, type_, subresource, error, why):
    with pytest.raises(error, match=why):
        patch(body, type_, subresource)


def test_custom_objects_take_merge_patches():
    kind = custom_resource("queues.v1.batch.example.com")
    queue = convert({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"n": 1, "list": [1, 2]}}, kind)
    found = patch({"spec": {"n": None, "list": [3]}, "status": {"ok": True}}, obj=queue)
    assert found.content["spec"] == {"list": [3]}
    assert queue.content["spec"] == {"n": 1, "list": [1, 2]}
    with pytest.raises(ApiError, match="no strategic merge patches"):
        patch({"spec": {}}, "strategic", obj=queue)
