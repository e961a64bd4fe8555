"""Parsing of paths and queries."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import BadRequest
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.front.routes import MAX_PARAMETERS, Route, boolean, route_of, split_target

CATALOGUE = Catalogue(BUILT_IN)


def route(target: str, method: str = "GET") -> Route:
    path, query = split_target(target)
    return route_of(method, path, query)


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/pods", {"verb": "list", "plural": "pods"}),
        ("GET", "/api/v1/pods/", {"verb": "list", "plural": "pods"}),
        ("GET", "/api/v1/pods?watch=1", {"verb": "watch", "plural": "pods"}),
        ("GET", "/api/v1/pods?watch", {"verb": "watch", "plural": "pods"}),
        ("GET", "/api/v1/pods?watch=false", {"verb": "list", "plural": "pods"}),
        ("GET", "/api/v1/namespaces/a/pods", {"verb": "list", "plural": "pods", "namespace": "a"}),
        ("GET", "/api/v1/namespaces/a/pods/p", {"verb": "get", "plural": "pods", "namespace": "a", "name": "p"}),
        ("POST", "/api/v1/namespaces/a/pods", {"verb": "create", "plural": "pods", "namespace": "a"}),
        ("DELETE", "/api/v1/namespaces/a/pods", {"verb": "deletecollection", "plural": "pods", "namespace": "a"}),
        (
            "PATCH",
            "/api/v1/namespaces/a/pods/p/status",
            {"verb": "patch", "plural": "pods", "namespace": "a", "name": "p", "subresource": "status"},
        ),
        ("GET", "/api/v1/nodes/n", {"verb": "get", "plural": "nodes", "name": "n"}),
        ("GET", "/api/v1/namespaces", {"verb": "list", "plural": "namespaces"}),
        ("GET", "/api/v1/namespaces/a", {"verb": "get", "plural": "namespaces", "namespace": "a", "name": "a"}),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            {"verb": "update", "plural": "namespaces", "namespace": "a", "name": "a", "subresource": "finalize"},
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments/d",
            {"verb": "delete", "group": "apps", "plural": "deployments", "namespace": "a", "name": "d"},
        ),
        ("GET", "/api/v1/watch/pods", {"verb": "watch", "plural": "pods"}),
        (
            "GET",
            "/api/v1/watch/namespaces/a/pods/p",
            {"verb": "watch", "plural": "pods", "namespace": "a", "name": "p"},
        ),
        ("POST", "/api/v1/watch/pods", {"verb": "", "plural": "pods"}),
        ("OPTIONS", "/api/v1/pods", {"verb": "", "plural": "pods"}),
        ("HEAD", "/api/v1/pods", {"verb": "", "plural": "pods"}),
        (
            "GET",
            "/api/v1/namespaces/a/pods/p/proxy/x/y",
            {
                "verb": "get",
                "plural": "pods",
                "namespace": "a",
                "name": "p",
                "subresource": "proxy",
                "rest": ("x", "y"),
            },
        ),
        ("GET", "/api/v1/nodes/a%2Db", {"verb": "get", "plural": "nodes", "name": "a-b"}),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            {
                "verb": "get",
                "group": "rbac.authorization.k8s.io",
                "plural": "clusterroles",
                "name": "system:node",
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_resource_paths(method, target, expected):
    found = route(target, method)
    path = target.partition("?")[0]
    assert found == Route(**{"path": path, "is_resource": True, "version": "v1", **expected})


@pytest.mark.parametrize("path", ["/", "/version", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/x/y/z"])
def test_other_paths_are_not_resources(path):
    assert route(path) == Route(path=path, verb="get")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("pods", "must be a path"),
        ("*", "must be a path"),
        ("http://elsewhere/api/v1/pods", "must be a path"),
        ("/api/v1/nodes/..", "may not be '..'"),
        ("/api/v1/nodes/%2e%2e", "may not be '..'"),
        ("/api/v1/nodes/%2E", "may not be '.'"),
        ("/api/v1/namespaces/../pods", "may not be '..'"),
        ("/api/v1/nodes/a%2Fb", "may not contain '/'"),
        ("/api/v1/nodes/a%25b", "may not contain '%'"),
        ("/api/v1/nodes/%00", "control characters"),
        ("/api/v1/nodes/\0", "NUL"),
        ("/api/v1/nodes/%zz", "invalid URL escape"),
        ("/api/v1/nodes/%4", "invalid URL escape"),
        ("/api/v1/nodes/%ff", "not UTF-8"),
        ("/api/v1//pods", "empty"),
        ("/api/v1/namespaces//pods", "empty"),
        ("/api/v1/nodes?labelSelector=%ff", "not UTF-8"),
        ("/api/v1/nodes?" + "a=1&" * (MAX_PARAMETERS + 1), "parameters"),
    ],
)
def test_malformed_targets_are_refused(target, told):
    with pytest.raises(BadRequest, match=told):
        route(target)


@pytest.mark.parametrize(
    ("target", "served"),
    [
        ("/api/v1/pods", True),
        ("/api/v1/namespaces/a/pods", True),
        ("/api/v1/namespaces/a/pods/p", True),
        ("/api/v1/pods/p", False),
        ("/api/v1/nodes", True),
        ("/api/v1/nodes/n", True),
        ("/api/v1/namespaces/a/nodes", False),
        ("/api/v1/namespaces/a/nodes/n", False),
        ("/api/v1/namespaces/a", True),
        ("/api/v1/namespaces/a/namespaces", False),
    ],
)
def test_scope_decides_which_paths_exist(target, served):
    found = route(target)
    resource = CATALOGUE.find(found.group, found.version, found.plural)
    assert found.serves(resource) is served


def test_repeated_and_escaped_query_parameters():
    assert split_target("/x?a=1&a=2&b=c%20d&e")[1] == {"a": ["1", "2"], "b": ["c d"], "e": [""]}


@pytest.mark.parametrize(
    ("value", "expected"), [("", True), ("1", True), ("yes", True), ("FALSE", False), ("0", False)]
)
def test_flags(value, expected):
    assert boolean({"watch": [value]}, "watch") is expected


@given(st.text(max_size=60))
def test_any_path_is_a_route_or_a_bad_request(text):
    for target in (text, f"/{text}", f"/api/v1/{text}", f"/apis/{text}"):
        try:
            found = route(target)
        except BadRequest:
            continue
        assert ".." not in (found.namespace, found.name)
        assert not {"/", "%", "\0"} & set(found.namespace + found.name)


@given(st.text(st.characters(exclude_characters="/%", categories=["L", "N", "P", "S"]), min_size=1, max_size=20))
def test_escaped_names_are_decoded(name):
    if name not in (".", ".."):
        assert route(f"/api/v1/nodes/{quote(name, safe='')}").name == name
