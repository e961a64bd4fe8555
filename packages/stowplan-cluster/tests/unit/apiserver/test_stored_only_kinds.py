"""Kinds that no controller acts on: every verb works, and most are stored as they are."""

from copy import deepcopy

import pytest

from stowplan.kube.api.api_errors import Invalid
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.apiserver.resources import BUILT_IN
from stowplan_cluster.apiserver.tables import table_of

STORED_ONLY = [one for one in BUILT_IN if one.stored_only]


def made(server, resource, *, spec=None, **rest):
    namespace = "default" if resource.namespaced else ""
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}, **rest}
    if spec is not None:
        # The registry takes ownership of its arguments.
        obj["spec"] = deepcopy(spec)
    return server.registry.create(resource, namespace, obj, options=Options(field_validation="Strict"))


def of(kind):
    return next(one for one in STORED_ONLY if one.kind == kind)


@pytest.fixture
def server():
    return ApiServer()


def row(server, resource):
    objects = [server.registry.to_dict(resource, one) for one in server.store.list(resource.storage)]
    table = table_of(resource, objects, now=server.clock())
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize("resource", STORED_ONLY, ids=lambda one: f"{one.api_version} {one.kind}")
def test_every_verb_works(server, resource):
    namespace = "default" if resource.namespaced else ""
    stored = made(server, resource)
    name = stored.name
    assert server.registry.get(resource, namespace, name).uid == stored.uid
    assert row(server, resource)
    patch = {"metadata": {"labels": {"a": "b"}}}
    for kind in ("merge", "strategic"):
        server.registry.patch(resource, namespace, name, patch, kind=kind)
    applied = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"labels": {"c": "d"}}}
    server.registry.patch(resource, namespace, name, applied, kind="apply", options=Options(field_manager="me"))
    found = server.registry.to_dict(resource, server.registry.get(resource, namespace, name))
    assert found["metadata"]["labels"] == {"a": "b", "c": "d"}
    if resource.has_status:
        changed = {**found, "status": {}, "metadata": {**found["metadata"], "labels": None}}
        server.registry.update(resource, namespace, name, changed, subresource="status")
    server.registry.delete(resource, namespace, name)
    assert not server.registry.has(resource, namespace, name)


def test_names_and_labels_are_validated(server):
    with pytest.raises(Invalid, match=r"metadata\.labels"):
        made(server, of("NetworkPolicy"), metadata={"name": "x", "labels": {"a b": "c"}})


def test_they_are_stored_as_they_are(server):
    rules = [{"from": "a", "zero": 0, "none": None, "sometime": [[]]}]
    stored = made(server, of("NetworkPolicy"), spec={"ingress": rules, "unheard": {}}, beside=1).to_dict()
    assert (stored["spec"], stored["beside"]) == ({"ingress": rules, "unheard": {}}, 1)
    assert list(row(server, of("NetworkPolicy"))) == ["Name", "Age"]


def test_patches_of_kubectl_apply(server):
    """kubectl knows the types: it merges some lists by key, and replaces others."""
    webhooks, policies = of("ValidatingWebhookConfiguration"), of("NetworkPolicy")
    made(server, webhooks, webhooks=[{"name": "a", "sideEffects": "None", "timeoutSeconds": 3}, {"name": "b"}])
    patch = {
        "$setElementOrder/webhooks": [{"name": "a"}, {"name": "c"}],
        "webhooks": [{"name": "a", "timeoutSeconds": 5}, {"name": "b", "$patch": "delete"}, {"name": "c"}],
    }
    patched = server.registry.patch(webhooks, "", "x", patch, kind="strategic")[0].to_dict()
    assert patched["webhooks"] == [{"name": "a", "sideEffects": "None", "timeoutSeconds": 5}, {"name": "c"}]
    made(server, policies, spec={"ingress": [{"from": []}, {}], "podSelector": {"matchLabels": {"a": "b"}}})
    patch = {"spec": {"ingress": [{"ports": []}], "podSelector": {"matchLabels": {"a": None, "c": "d"}}, "egress": []}}
    patched = server.registry.patch(policies, "default", "x", patch, kind="strategic")[0].to_dict()
    assert patched["spec"] == {"ingress": [{"ports": []}], "podSelector": {"matchLabels": {"c": "d"}}, "egress": []}
