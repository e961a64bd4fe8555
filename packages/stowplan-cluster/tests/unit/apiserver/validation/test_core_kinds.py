"""Validation of Services, ConfigMaps, Secrets, Events, roles, and CustomResourceDefinitions."""

import pytest

from support.api.manifest_changes import GONE


def named(api_version, kind, *, namespace="default", **fields):
    metadata = {"name": "x"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


SERVICE = named("v1", "Service", spec={"ports": [{"port": 80}], "selector": {"a": "b"}})
CONFIG_MAP = named("v1", "ConfigMap", data={"a": "b"})
SECRET = named("v1", "Secret", data={"a": "Yg=="})
RBAC = "rbac.authorization.k8s.io/v1"
BINDING = named(RBAC, "RoleBinding", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "jane"}])
EVENT = named(
    "events.k8s.io/v1",
    "Event",
    regarding={"kind": "Pod", "namespace": "default", "name": "p"},
    eventTime="2026-01-01T00:00:00.000000Z",
    reportingController="example.com/me",
    reportingInstance="me-1",
    action="Binding",
    reason="Scheduled",
    type="Normal",
)
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "queues.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "queues", "kind": "Queue"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


@pytest.mark.parametrize("obj", [CONFIG_MAP, SECRET], ids=lambda obj: obj["kind"])
def test_immutable_data(server, obj):
    sealed, message = ("immutable", True), "Forbidden: field is immutable when `immutable` is set"
    assert server.update_refusals(obj, "data.c", "ZA==", old=sealed) == [f"data: {message}"]
    assert server.update_refusals(obj, "immutable", False, old=sealed) == [f"immutable: {message}"]
    assert server.update_refusals(obj, "metadata.labels", {"a": "b"}, old=sealed) == []


def test_addresses_are_immutable(server):
    old = ("spec.clusterIP", "10.96.1.1", "spec.clusterIPs", ["10.96.1.1"])
    changes = ("spec.clusterIP", "10.96.1.2", "spec.clusterIPs", ["10.96.1.2"])
    assert server.update_refusals(SERVICE, *changes, old=old) == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.1.2"]: may not change once set'
    ]


def test_an_update_without_address_keeps_it(server):
    old = ("spec.clusterIP", "10.96.1.1", "spec.clusterIPs", ["10.96.1.1"])
    assert server.update_refusals(SERVICE, "spec.clusterIP", GONE, "spec.clusterIPs", GONE, old=old) == []


def test_the_role_of_a_binding_is_immutable(server):
    errors = server.update_refusals(BINDING, "roleRef.name", "other")
    assert errors == [
        'roleRef: Invalid value: {"kind":"Role","name":"other","apiGroup":"rbac.authorization.k8s.io"}: '
        "cannot change roleRef"
    ]


def test_events_are_immutable(server):
    assert server.update_refusals(EVENT, "reason", "Other") == ['reason: Invalid value: "Other": field is immutable']
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    assert server.update_refusals(EVENT, "series", series) == []


def test_stored_versions_must_be_declared(server):
    other = [{"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]
    (error,) = server.update_refusals(DEFINITION, "spec.versions", other)
    assert error.startswith('status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was')
