"""Accept headers, request bodies, and which of them are refused."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import BadRequest, NotAcceptable, UnsupportedMediaType
from stowplan.net.serving.requests.forms import YAML, Form, Target, wants_pretty
from stowplan.net.serving.requests.messages import JSON
from stowplan_cluster.front.negotiation import (
    negotiate,
    patch_kind_of,
    read_body,
    read_object,
    read_patch,
)

KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
KUBECTL_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.mark.parametrize(
    ("accept", "endpoint", "expected"),
    [
        ("", "objects", Form()),
        ("*/*", "objects", Form()),
        ("application/*", "objects", Form()),
        (JSON, "objects", Form()),
        (YAML, "objects", Form(YAML)),
        ("application/vnd.kubernetes.protobuf,application/json", "objects", Form()),
        ("application/json;q=0.5,application/yaml;q=0.9", "objects", Form(YAML)),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "objects", Form()),
        ("application/json;pretty=1", "objects", Form(pretty=True)),
        ("application/json;stream=watch", "objects", Form()),
        (KUBECTL_GET, "objects", Form(target=Target("meta.k8s.io", "v1", "Table"))),
        (KUBECTL_GET, "plain", Form()),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "objects",
            Form(target=Target("meta.k8s.io", "v1", "PartialObjectMetadataList")),
        ),
        (KUBECTL_DISCOVERY, "discovery", Form(target=Target("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"))),
        (KUBECTL_DISCOVERY, "plain", Form()),
        ("*/*;q=0.1,application/yaml", "objects", Form(YAML)),
    ],
)
def test_the_preferred_served_form_is_chosen(accept, endpoint, expected):
    assert negotiate(accept, endpoint) == expected


@pytest.mark.parametrize(
    ("accept", "endpoint"),
    [
        ("application/vnd.kubernetes.protobuf", "objects"),
        ("application/cbor", "objects"),
        ("text/html", "objects"),
        ("application/json;as=Table;v=v7;g=meta.k8s.io", "objects"),
        ("application/json;as=Chair;v=v1;g=meta.k8s.io", "objects"),
        ("application/json;stream=fish", "objects"),
        (JSON, "discovery"),
        ("nonsense", "plain"),
    ],
)
def test_nothing_acceptable(accept, endpoint):
    with pytest.raises(NotAcceptable, match="only the following media types are accepted: application/json"):
        negotiate(accept, endpoint)


@given(st.text(max_size=100))
def test_any_accept_header_is_parsed_or_refused(accept):
    with suppress(NotAcceptable):
        assert negotiate(accept).media_type in (JSON, YAML)


@pytest.mark.parametrize(
    ("query", "agent", "expected"),
    [
        ("", "kubectl/v1.36.0", False),
        ("", "curl/8.0", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("true", "kubectl/v1.36.0", True),
        ("false", "curl/8.0", False),
    ],
)
def test_browsers_get_indented_json(query, agent, expected):
    assert wants_pretty(query, agent) is expected


@pytest.mark.parametrize("content_type", ["", JSON, "application/json; charset=utf-8", "APPLICATION/JSON"])
def test_json_bodies(content_type):
    assert read_body(b'{"a": [1, null, "x"]}', content_type) == {"a": [1, None, "x"]}


def test_yaml_bodies():
    body = b"a: yes\nb: 2020-01-01\nc: &x [1]\nd: *x\n8: eight\n---\nsecond: document\n"
    assert read_body(body, YAML) == {"a": True, "b": "2020-01-01", "c": [1], "d": [1], "8": "eight"}


def test_apply_patches_may_be_json():
    assert read_patch(b'{"a": 1}', "apply") == {"a": 1}


@pytest.mark.parametrize(
    "content_type",
    ["application/cbor", "text/plain", "application/x-www-form-urlencoded", ";"],
)
def test_other_bodies_are_unsupported(content_type):
    if content_type == ";":
        assert read_body(b"{}", content_type) == {}
        return
    with pytest.raises(UnsupportedMediaType, match="in an unknown format - accepted media types include"):
        read_body(b"{}", content_type)


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("application/json-patch+json", "json"),
        ("application/merge-patch+json", "merge"),
        ("application/strategic-merge-patch+json; charset=utf-8", "strategic"),
        ("application/apply-patch+yaml", "apply"),
    ],
)
def test_the_content_type_selects_the_patch_type(content_type, kind):
    assert patch_kind_of(content_type) == kind


@pytest.mark.parametrize("content_type", ["", JSON, "application/apply-patch+cbor", "application/json-patch"])
def test_unknown_patches(content_type):
    with pytest.raises(UnsupportedMediaType) as caught:
        patch_kind_of(content_type)
    assert str(caught.value) == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, "
        "application/apply-patch+yaml"
    )


def test_an_alias_bomb_is_refused():
    levels = [b"a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    levels += [b"a%d: &a%d [%s]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)]
    with pytest.raises(BadRequest, match="excessive aliasing"):
        read_object(b"\n".join(levels), YAML, kind="ConfigMap")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"[" * 200_000, JSON),
        (b'{"a":' * 200_000, JSON),
        (b"[" * 200_000, YAML),
        (b"{" * 200_000, YAML),
        (b"- " * 20_000, YAML),
        (b"a: &a [*a]", YAML),
        (b"\x00", YAML),
        (b"\xff", YAML),
        (b"a: [", YAML),
        (b"a: *nowhere", YAML),
        (b'{"a": "\xff"}', JSON),
        (b"", JSON),
    ],
    ids=lambda value: value[:8].hex() if isinstance(value, bytes) else value,
)
def test_hostile_bodies_are_bad_requests(body, content_type):
    with pytest.raises(BadRequest):
        read_object(body, content_type, kind="ConfigMap")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input ({)"),
        (b"", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (b"[]", "couldn't get version/kind; json parse error: json: cannot unmarshal array into an object (5b5d)"),
        (b"5", "couldn't get version/kind; json parse error: json: cannot unmarshal number into an object (35)"),
        (b"true", "couldn't get version/kind; json parse error: json: cannot unmarshal bool into an object (74727565)"),
        (
            b'{"data": {"a": "0123456789 and more',
            "couldn't get version/kind; json parse error: unexpected end of JSON input "
            '({"data": {"a": "0123456789 and ...)',
        ),
    ],
)
def test_errors_quote_the_beginning_of_the_body(body, told):
    with pytest.raises(BadRequest) as caught:
        read_object(body, JSON, kind="ConfigMap")
    assert str(caught.value) == f"the object provided is unrecognized (must be of type ConfigMap): {told}"


def test_errors_in_patches():
    with pytest.raises(BadRequest, match=r"^error decoding patch: unexpected end of JSON input$"):
        read_patch(b"[", "json")
    with pytest.raises(BadRequest, match=r"^error decoding patch: yaml: line 2: did not find expected node content$"):
        read_patch(b"a: [", "apply")


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(), st.lists, max_leaves=20))
def test_json_bodies_are_also_valid_yaml(value):
    body = json.dumps({"value": value}).encode()
    assert read_body(body, JSON) == read_body(body, YAML) == {"value": value}


@given(st.binary(max_size=200), st.sampled_from([JSON, YAML]))
def test_any_bytes_are_a_value_or_an_error(body, content_type):
    with suppress(BadRequest):
        assert isinstance(read_object(body, content_type, kind="ConfigMap"), dict)
