"""Validation of names, labels, annotations, owners and finalizers of any object."""

import pytest

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}


def config_map(**metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", "uid": "u"} | metadata,
    }


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(
            {"name": "", "generateName": "web-"},
            ["metadata.name: Required value: name or generateName is required"],
            id="nothing generated",
        ),
        pytest.param({"namespace": ""}, ["metadata.namespace: Required value"], id="no namespace"),
        pytest.param(
            {"namespace": "a.b"},
            ['metadata.namespace: Invalid value: "a.b": must not contain dots'],
            id="dots in namespace",
        ),
    ],
)
def test_metadata_of_new_objects(server, metadata, expected):
    assert server.create(config_map(**metadata)) == expected


def test_only_one_controller_is_allowed(server):
    owners = [OWNER | {"controller": True}, OWNER | {"name": "db", "controller": True}]
    (error,) = server.create(config_map(ownerReferences=owners))
    assert error.endswith(
        'Only one reference can have Controller set to true. Found "true" in '
        "references for ReplicaSet/web and ReplicaSet/db"
    )


@pytest.mark.parametrize(
    ("kind", "api_version", "name", "complaint"),
    [
        pytest.param("Namespace", "v1", "a.b", "must not contain dots", id="namespaces are labels"),
        pytest.param("Namespace", "v1", "A", LABEL, id="namespaces in lower case"),
        pytest.param("ServiceAccount", "v1", "a.b", None, id="most are subdomains"),
        pytest.param("ClusterRole", "rbac.authorization.k8s.io/v1", "system:Any Thing", None, id="roles are free"),
        pytest.param("ClusterRole", "rbac.authorization.k8s.io/v1", "a/b", "may not contain '/'", id="but for slashes"),
    ],
)
def test_rules_for_names_by_kind(server, kind, api_version, name, complaint):
    metadata = {"name": name} | ({"namespace": "default"} if kind == "ServiceAccount" else {})
    errors = server.create({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    assert errors == ([f'metadata.name: Invalid value: "{name}": {complaint}'] if complaint else [])


def test_cluster_scoped_objects_have_no_namespace(server):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "default"}}
    assert server.create(node) == ["metadata.namespace: Forbidden: not allowed on this type"]


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("uid", "other", '"other"'),
        ("name", "d", '"d"'),
        ("creationTimestamp", "2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"'),
        ("deletionTimestamp", "2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"'),
        ("deletionGracePeriodSeconds", 3, "3"),
    ],
)
def test_server_set_fields_are_immutable(server, field, value, shown):
    errors = server.update(config_map(**{field: value}), config_map())
    assert errors == [f"metadata.{field}: Invalid value: {shown}: field is immutable"]


def test_a_terminating_object_gets_no_new_finalizers(server):
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
    old = config_map(**going)
    assert server.update(config_map(**going | {"finalizers": []}), old) == []
    errors = server.update(config_map(**going | {"finalizers": ["a.b/c", "a.b/d"]}), old)
    assert errors == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a.b/d"}'
    ]
