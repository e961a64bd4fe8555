"""Validation of Services, ConfigMaps, Secrets, Events, roles, and CustomResourceDefinitions."""

import pytest


def named(api_version, kind, *, namespace="default", **fields):
    metadata = {"name": "x"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


SERVICE = named("v1", "Service", spec={"ports": [{"port": 80}], "selector": {"a": "b"}})
CONFIG_MAP = named("v1", "ConfigMap", data={"a": "b"})
SECRET = named("v1", "Secret", data={"a": "Yg=="})
RBAC = "rbac.authorization.k8s.io/v1"
ROLE = named(RBAC, "Role", rules=[{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])
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
CORE_EVENT = named("v1", "Event", involvedObject={"kind": "Pod", "namespace": "default", "name": "p"}, reason="R")
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
ALL = (SERVICE, CONFIG_MAP, SECRET, ROLE, BINDING, EVENT, CORE_EVENT, DEFINITION)


@pytest.mark.parametrize("obj", ALL, ids=lambda obj: f"{obj['apiVersion']} {obj['kind']}")
def test_valid_objects(server, obj):
    assert server.refusals(obj) == []
    assert server.update_refusals(obj, "metadata.annotations", {"a": "b"}) == []


@pytest.mark.parametrize(
    ("obj", "path", "value", "expected"),
    [
        pytest.param(SERVICE, "spec.ports", [], ["spec.ports: Required value"], id="no ports"),
        pytest.param(
            SERVICE,
            "spec.ports",
            [{"port": 1}, {"port": 2}],
            ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
            id="ports without names",
        ),
        pytest.param(
            SERVICE,
            "spec.type",
            "Magic",
            [
                'spec.type: Unsupported value: "Magic": '
                'supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
            ],
            id="type",
        ),
        pytest.param(
            SERVICE,
            "spec",
            {"type": "ExternalName"},
            ["spec.externalName: Required value"],
            id="no external name",
        ),
        pytest.param(
            SERVICE, "metadata.name", "a.b", ['metadata.name: Invalid value: "a.b": must not contain dots'], id="name"
        ),
        pytest.param(
            CONFIG_MAP,
            "binaryData",
            {"a": "Yg=="},
            ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
            id="key in both",
        ),
        pytest.param(CONFIG_MAP, "data", {"..": "x"}, ["data[..]: Invalid value: \"..\": must not be '..'"], id="key"),
        pytest.param(
            CONFIG_MAP, "data", {"a": "x" * 1048577}, [": Too long: may not be more than 1048576 bytes"], id="size"
        ),
        pytest.param(
            SECRET,
            "type",
            "kubernetes.io/tls",
            ["data[tls.crt]: Required value", "data[tls.key]: Required value"],
            id="tls",
        ),
        pytest.param(
            ROLE,
            "rules.0.verbs",
            [],
            ["rules[0].verbs: Required value: verbs must contain at least one value"],
            id="verbs",
        ),
        pytest.param(
            BINDING,
            "roleRef.kind",
            "Pod",
            ['roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"'],
            id="role of a kind",
        ),
        pytest.param(
            BINDING,
            "subjects.0.kind",
            "Cat",
            ['subjects[0].kind: Unsupported value: "Cat": supported values: "ServiceAccount", "User", "Group"'],
            id="subject",
        ),
        pytest.param(EVENT, "eventTime", None, ["eventTime: Required value"], id="event time"),
        pytest.param(EVENT, "reason", "", ["reason: Required value"], id="reason"),
        pytest.param(
            EVENT, "note", "x" * 1025, ['message: Invalid value: "": can have at most 1024 characters'], id="long note"
        ),
        pytest.param(
            CORE_EVENT,
            "involvedObject.namespace",
            "other",
            ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
            id="event elsewhere",
        ),
        pytest.param(
            DEFINITION,
            "metadata.name",
            "other.example.com",
            ['metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group'],
            id="definition by another name",
        ),
        pytest.param(
            DEFINITION,
            "spec.versions.0.schema",
            {},
            ["spec.versions[0].schema.openAPIV3Schema: Required value"],
            id="schema",
        ),
        pytest.param(
            DEFINITION,
            "spec.scope",
            "World",
            ['spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"'],
            id="scope",
        ),
    ],
)
def test_single_errors(server, obj, path, value, expected):
    assert server.refusals(obj, path, value) == expected


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


def test_an_update_without_address_keeps_it(server, absent):
    old = ("spec.clusterIP", "10.96.1.1", "spec.clusterIPs", ["10.96.1.1"])
    assert server.update_refusals(SERVICE, "spec.clusterIP", absent, "spec.clusterIPs", absent, old=old) == []


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


SCALE = "spec.versions.0.subresources.scale"
COLUMNS = "spec.versions.0.additionalPrinterColumns"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            (SCALE, {"specReplicasPath": "spec.n", "statusReplicasPath": ".spec.n"}),
            [
                'spec.versions[0].subresources.scale.specReplicasPath: Invalid value: "spec.n": '
                "must be a simple json path starting with .",
                'spec.versions[0].subresources.scale.statusReplicasPath: Invalid value: ".spec.n": '
                "should be a json path under .status",
            ],
            id="scale",
        ),
        pytest.param(
            (COLUMNS, [{"name": "A", "type": "string", "jsonPath": "a"}]),
            [
                'spec.versions[0].additionalPrinterColumns[0].JSONPath: Invalid value: "a": '
                "must be a simple json path starting with ."
            ],
            id="column",
        ),
    ],
)
def test_views_of_definitions(server, changes, expected):
    assert server.refusals(DEFINITION, *changes) == expected
