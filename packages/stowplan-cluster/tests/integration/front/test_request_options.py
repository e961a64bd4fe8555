"""Query parameters: how they are parsed, and the messages for invalid ones."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError, BadRequest, Invalid
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.front import request_options
from stowplan_cluster.front.routes import route_of, split_target


def of_list(query: str, path: str = "/api/v1/pods"):
    path, parsed = split_target(f"{path}?{query}")
    return request_options.list_options(parsed, route_of("GET", path, parsed))


def of_watch(query: str, path: str = "/api/v1/pods"):
    path, parsed = split_target(f"{path}?watch=1&{query}")
    return request_options.watch_options(parsed, route_of("GET", path, parsed))


def of_write(query: str, agent: str = "kubectl/v1.36.0 (linux/amd64)"):
    return request_options.write_options(split_target(f"/?{query}")[1], agent, "CreateOptions")


def of_delete(query: str, body: object = None) -> DeleteOptions:
    return request_options.delete_options(split_target(f"/?{query}")[1], body)[1]


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.36.0 (linux/amd64) kubernetes/abc", "kubectl"),
        ("stowplan", "stowplan"),
        ("", ""),
        ("a\tb\x07c/1", "abc"),
        ("x" * 300, "x" * 128),
        ("é" * 300, "é" * 64),
    ],
)
def test_the_field_manager_defaults_to_the_user_agent(agent, manager):
    assert of_write("", agent).field_manager == manager


def test_parameters_of_a_write():
    asked = of_write("fieldManager=me&fieldValidation=Strict&dryRun=All&dryRun=All&pretty=true")
    assert (asked.field_manager, asked.field_validation, asked.dry_run, asked.force) == ("me", "Strict", True, False)
    assert of_write("").field_validation == "Warn"
    assert not of_write("").dry_run


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("dryRun=yes", 'dryRun: Unsupported value: ["yes"]: supported values: "All"'),
        (
            "fieldValidation=maybe",
            'fieldValidation: Unsupported value: "maybe": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ("fieldManager=" + "x" * 129, "fieldManager: Too long: may not be more than 128 bytes"),
        ("fieldManager=a%07", 'fieldManager: Invalid value: "a\\a": invalid character U+0007 (at position 1)'),
    ],
)
def test_wrong_values_of_a_write(query, message):
    with pytest.raises(Invalid) as caught:
        of_write(query)
    assert str(caught.value) == f'CreateOptions.meta.k8s.io "" is invalid: {message}'


def test_an_apply_patch_requires_a_field_manager():
    with pytest.raises(Invalid, match="fieldManager: Required value: is required for apply patch"):
        request_options.patch_options({}, "kubectl/1", "apply")
    assert request_options.patch_options({"fieldManager": ["me"], "force": ["true"]}, "kubectl/1", "apply").force


@pytest.mark.parametrize("kind", ["json", "merge", "strategic"])
def test_only_an_apply_patch_can_be_forced(kind):
    with pytest.raises(Invalid, match="force: Forbidden: may not be specified for non-apply patch"):
        request_options.patch_options({"force": ["true"]}, "kubectl/1", kind)


def test_parameters_of_a_list():
    asked = of_list("labelSelector=a%3Db&fieldSelector=spec.nodeName%3Dn&limit=5&continue=abc&resourceVersion=7")
    assert (asked.label_selector, asked.field_selector, asked.limit) == ("a=b", "spec.nodeName=n", 5)
    assert (asked.continue_, asked.resource_version) == ("abc", "7")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("limit=many", 'strconv.ParseInt: parsing "many": invalid syntax'),
        ("limit=99999999999999999999", 'strconv.ParseInt: parsing "99999999999999999999": value out of range'),
    ],
)
def test_numbers_must_be_numbers(query, told):
    with pytest.raises(BadRequest) as caught:
        of_list(query)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Exact&resourceVersion=0", 'is forbidden for resourceVersion "0"'),
        ("resourceVersionMatch=Exact&resourceVersion=1&continue=x", "is forbidden when continue is provided"),
        ("resourceVersionMatch=Near&resourceVersion=1", 'Unsupported value: "Near"'),
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
    ],
)
def test_invalid_versions_of_a_list(query, told):
    with pytest.raises(Invalid, match=r"ListOptions\.meta\.k8s\.io") as caught:
        of_list(query)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("query", "initial", "marked"),
    [
        ("", True, False),
        ("resourceVersion=0", True, False),
        ("resourceVersion=5", False, False),
        ("allowWatchBookmarks=true", True, False),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", True, False),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", True, True),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=5", True, False),
        ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", False, False),
    ],
)
def test_initial_events_of_a_watch(query, initial, marked):
    asked = of_watch(query)
    assert (asked.initial_events, asked.initial_events_end) == (initial, marked)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ("resourceVersionMatch=NotOlderThan", "is forbidden for watch unless sendInitialEvents is provided"),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", 'Unsupported value: "Exact"'),
    ],
)
def test_wrong_parameters_of_a_watch(query, told):
    with pytest.raises(Invalid) as caught:
        of_watch(query)
    assert told in str(caught.value)


def test_watching_one_object_selects_its_name():
    path = "/api/v1/watch/namespaces/a/pods/p"
    assert of_watch("", path).field_selector == "metadata.name=p"
    assert of_watch("fieldSelector=metadata.name%3Dp", path).field_selector == "metadata.name=p"
    with pytest.raises(BadRequest, match="doesn't match requested name"):
        of_watch("fieldSelector=metadata.name%3Dq", path)


def test_delete_options_come_from_the_query_or_the_body():
    query = "gracePeriodSeconds=5&propagationPolicy=Foreground&dryRun=All"
    expected = DeleteOptions(grace_period_seconds=5, propagation="Foreground", dry_run=True)
    assert of_delete(query) == expected
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "3"},
    }
    assert of_delete(query, body) == DeleteOptions(grace_period_seconds=0, uid="u", resource_version="3")


@pytest.mark.parametrize(("asked", "meant"), [("true", "Orphan"), ("false", "Background")])
def test_orphan_dependents(asked, meant):
    assert of_delete(f"orphanDependents={asked}").propagation == meant


@pytest.mark.parametrize(
    ("query", "body", "told"),
    [
        ("dryRun=some", None, "dryRun: Unsupported value"),
        ("orphanDependents=true&propagationPolicy=Orphan", None, "cannot be both set"),
        ("propagationPolicy=Sideways", None, 'supported values: "Foreground", "Background", "Orphan", "nil"'),
        ("", {"kind": "Pod"}, "cannot be converted to DeleteOptions"),
        ("", [], "expected an object"),
        ("", {"dryRun": "All"}, "dryRun"),
        ("", {"gracePeriodSeconds": "soon"}, "gracePeriodSeconds"),
        ("", {"preconditions": 5}, "preconditions"),
        ("gracePeriodSeconds=soon", None, "invalid syntax"),
    ],
)
def test_wrong_delete_options(query, body, told):
    with pytest.raises(ApiError, match=told) as caught:
        of_delete(query, body)
    assert caught.value.status.code in (400, 422)


@given(
    st.dictionaries(
        st.sampled_from(
            ["gracePeriodSeconds", "propagationPolicy", "dryRun", "orphanDependents", "preconditions", "kind"]
        ),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()) | st.just({}),
    )
)
def test_any_delete_options_are_parsed_or_refused(body):
    with suppress(BadRequest, Invalid):
        assert isinstance(of_delete("", body), DeleteOptions)
