"""From bytes to events: lines split anywhere, and objects that cannot be decoded."""

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError, Expired, InternalError
from stowplan.kube.api.decode import KINDS
from stowplan.kube.api.port import BadObject, Unreachable, WatchEvent
from stowplan.kube.api.types import Event, Lease, Node, Pod
from stowplan.net.client.http.decoding import (
    LineSplitter,
    WatchDecoder,
    decode_one,
    decode_page,
    decode_resource_names,
)
from support.api.clients import a_pod, a_pod_list

DEEP = b"[" * 5000 + b"]" * 5000
A_WRONG_ITEM = b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[{"metadata":5,"x":%b}]}'


def line(type_, obj):
    return json.dumps({"type": type_, "object": obj}).encode()


def parsed(type_, obj, kind=Pod):
    return WatchDecoder(kind).event(line(type_, obj))


# --- lines


@given(
    lines=st.lists(st.binary(max_size=30).filter(lambda data: b"\n" not in data and data.strip()), max_size=8),
    tail=st.binary(max_size=10).filter(lambda data: b"\n" not in data),
    cuts=st.lists(st.integers(0, 300), max_size=12),
)
def test_lines_are_complete_wherever_they_are_split(lines, tail, cuts):
    data = b"".join(one + b"\n" for one in lines) + tail
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    splitter = LineSplitter()
    found = [one for start, end in pairwise(edges) for one in splitter.feed(data[start:end])]
    assert found == lines
    assert splitter.end() == tail
    assert splitter.end() == b""


def test_empty_lines_are_skipped():
    assert LineSplitter().feed(b"\n\r\n a \n\n") == [b" a "]


def test_the_length_of_a_line_is_limited():
    splitter = LineSplitter(longest=100)
    assert splitter.feed(b"x" * 100) == []
    assert splitter.feed(b"\n") == [b"x" * 100]
    splitter.feed(b"y" * 60)
    with pytest.raises(Unreachable, match="longer than 100 bytes"):
        splitter.feed(b"y" * 60)


# --- events


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_changes_carry_their_object(type_):
    event = parsed(type_, a_pod(version="7"))
    assert (event.type, event.resource_version, event.object.metadata.name) == (type_, "7", "web-0")
    assert isinstance(event.object, Pod)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_kind_is_watched(kind):
    obj = {"apiVersion": "x/v1", "kind": kind().kind, "metadata": {"name": "n", "resourceVersion": "3"}}
    assert parsed("ADDED", obj, kind).object.metadata.name == "n"
    assert parsed("BOOKMARK", obj, kind) == WatchEvent("BOOKMARK", "3")
    with pytest.raises(Expired):
        parsed("ERROR", {"kind": "Status", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410}, kind)


@pytest.mark.parametrize(
    "bookmark",
    [
        pytest.param({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}, id="plain"),
        pytest.param(
            {
                "kind": "Pod",
                "metadata": {"resourceVersion": "9", "creationTimestamp": None},
                "spec": {"containers": None},
                "status": {},
            },
            id="with nulls, as servers send it",
        ),
    ],
)
def test_bookmarks_carry_a_version_only(bookmark):
    assert parsed("BOOKMARK", bookmark) == WatchEvent("BOOKMARK", "9")


def test_nulls_are_absent():
    pod = a_pod()
    pod["spec"]["nodeSelector"] = None
    pod["metadata"]["labels"] = None
    assert parsed("ADDED", pod).object.spec.node_selector == {}


@pytest.mark.parametrize("kind", [Pod, Event, Lease])
@pytest.mark.parametrize(
    ("status", "error"),
    [
        pytest.param({"reason": "Expired", "code": 410, "message": "too old"}, Expired, id="expired"),
        pytest.param({"code": 410, "message": "too old"}, ApiError, id="410 without a reason"),
        pytest.param({"reason": "InternalError", "code": 500, "message": "x"}, InternalError, id="500"),
        pytest.param({"message": "x"}, ApiError, id="neither reason nor code"),
    ],
)
def test_an_error_event_is_raised(kind, status, error):
    with pytest.raises(error):
        parsed("ERROR", {"kind": "Status", "metadata": {}, "status": "Failure", **status}, kind)


def broken_pod(**metadata):
    pod = a_pod(version="8", **metadata)
    pod["spec"]["priority"] = "high"
    return pod


def test_an_object_that_does_not_decode_is_bad_and_has_its_version():
    bad = BadObject("default", "web-0", "spec.priority: expected an integer, got a string")
    assert parsed("MODIFIED", broken_pod()) == WatchEvent("BAD", "8", bad=bad)


def test_a_deleted_object_is_identified_even_if_it_cannot_be_decoded():
    event = parsed("DELETED", broken_pod())
    assert (event.type, event.resource_version, event.object) == ("DELETED", "8", None)
    assert (event.bad.namespace, event.bad.name) == ("default", "web-0")


@pytest.mark.parametrize("obj", [None, 5, [], "x", {"metadata": 5}, {"metadata": {"name": 5, "labels": []}}], ids=repr)
def test_any_value_in_place_of_an_object_is_a_bad_object(obj):
    event = parsed("ADDED", obj)
    assert event.type == "BAD"
    assert event.bad.name == ""


NOBODY = {"kind": "Pod", "metadata": {"resourceVersion": "8"}, "spec": {}}
ANOTHER = {"kind": "Node", "metadata": {"name": "n", "resourceVersion": "8"}}


@pytest.mark.parametrize(
    ("obj", "bad"),
    [
        pytest.param(NOBODY, BadObject("", "", "metadata.name: missing"), id="no name"),
        pytest.param({}, BadObject("", "", "metadata.name: missing"), id="empty"),
        pytest.param(ANOTHER, BadObject("", "n", 'kind: expected Pod, got "Node"'), id="another kind"),
    ],
)
def test_objects_of_another_kind_or_without_a_name_are_bad(obj, bad):
    event = parsed("ADDED", obj)
    assert (event.type, event.bad) == ("BAD", bad)
    page = page_of(a_pod("a"), obj)
    assert [pod.metadata.name for pod in page.items] == ["a"]
    assert page.bad == [bad]


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"<html>", id="HTML"),
        pytest.param(b'{"type":"ADDED","object":{', id="cut off"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="empty"),
        pytest.param(b'{"type":"SYNCED","object":{}}', id="another type"),
        pytest.param(b'{"type":5,"object":{}}', id="no type"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}', id="no UTF-8"),
        pytest.param(b"\x00\x01", id="binary"),
        pytest.param(b'{"type":"ADDED","object":' + b'{"x":' * 100_000, id="too deep"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":5,"x":' + DEEP + b"}}", id="too deep, and invalid"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":5,"x":"\xff"}}', id="no UTF-8, and invalid"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":5,"x":1e999}}', id="number out of range, and invalid"),
        pytest.param(b'{"type":"BOOKMARK","object":{"metadata":5,"x":"\xff"}}', id="a bookmark that is no UTF-8"),
        pytest.param(b'{"type":"ERROR","object":"gone"}', id="an error without a Status"),
        pytest.param(b'{"type":"ERROR","object":{"code":"410"}}', id="an error with a wrong Status"),
        pytest.param(b'{"type":"ERROR"}', id="an error about nothing"),
    ],
)
def test_garbage_ends_the_stream(garbage):
    with pytest.raises(Unreachable, match="the line is not a watch event"):
        WatchDecoder(Pod).event(garbage)


@given(st.binary(max_size=60))
def test_any_bytes_raise_only_the_expected_errors(data):
    for decode in (WatchDecoder(Pod).event, lambda data: decode_page(data, Pod)):
        with pytest.raises((Unreachable, ApiError)):
            decode(data)


JUNK = (None, 5, -1.5, "x", "", True, [], {}, 10**30, "\ud800", ["x"], {"metadata": 5})


def mutated(data, obj):
    """A copy of a JSON value, with junk in a few places."""
    copy = json.loads(json.dumps(obj))
    for _ in range(data.draw(st.integers(1, 3))):
        where = copy
        while True:
            key = data.draw(st.sampled_from(sorted(where) if isinstance(where, dict) else range(len(where))))
            if not isinstance(where[key], dict | list) or not where[key] or data.draw(st.booleans()):
                where[key] = json.loads(json.dumps(data.draw(st.sampled_from(JUNK))))
                break
            where = where[key]
    return json.dumps(copy).encode()


def garbled(data, text):
    """Changes one byte, half of the time."""
    at = data.draw(st.integers(-len(text), len(text) - 1))
    return text if at < 0 else text[:at] + bytes([data.draw(st.integers(0, 255))]) + text[at + 1 :]


@given(data=st.data(), type_=st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]))
def test_any_event_raises_only_the_expected_errors(data, type_):
    text = garbled(data, mutated(data, {"type": type_, "object": a_pod(labels={"a": "b"})}))
    with suppress(Unreachable, ApiError):
        event = WatchDecoder(Pod).event(text)
        # An event has a pod, an error about it, or is a bookmark.
        assert event.object is None or (isinstance(event.object, Pod) and event.bad is None)
        assert event.bad is None or event.bad.why


@given(data=st.data())
def test_any_page_raises_only_the_expected_errors(data):
    text = garbled(data, mutated(data, a_pod_list(a_pod("a"), a_pod("b", labels={"a": "b"}))))
    with suppress(Unreachable):
        page = decode_page(text, Pod)
        # A page has pods, and an error for each item that is not one.
        assert all(isinstance(pod, Pod) for pod in page.items)
        assert all(bad.why for bad in page.bad)


# -- lists and single objects


def page_of(*pods, **options):
    return decode_page(json.dumps(a_pod_list(*pods, **options)).encode(), Pod)


def test_a_page():
    page = page_of(a_pod("a"), a_pod("b"), version="12", continue_="more")
    assert [pod.metadata.name for pod in page.items] == ["a", "b"]
    assert (page.resource_version, page.continue_, page.bad) == ("12", "more", ())


def test_a_page_with_bad_objects_has_the_others():
    with_nulls = a_pod("n")
    with_nulls["metadata"]["labels"] = None
    page = page_of(a_pod("a"), broken_pod(), with_nulls, continue_="more")
    assert [pod.metadata.name for pod in page.items] == ["a", "n"]
    assert page.bad == [BadObject("default", "web-0", "spec.priority: expected an integer, got a string")]
    assert page.continue_ == "more"


def test_items_may_be_null():
    data = b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":null}'
    assert list(decode_page(data, Pod).items) == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{}", id="empty"),
        pytest.param(b'{"kind":"Status","metadata":{},"status":"Success"}', id="a Status"),
        pytest.param(b'{"kind":"PodList","metadata":{},"items":[]}', id="no version"),
        pytest.param(b'{"kind":"PodList","metadata":null,"items":[]}', id="no metadata"),
        pytest.param(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":{}}', id="items are no list"),
        pytest.param(b"<html>", id="HTML"),
        pytest.param(b"", id="nothing"),
        pytest.param(A_WRONG_ITEM % DEEP, id="an item too deep, and invalid"),
        pytest.param(A_WRONG_ITEM % b'"\xff"', id="an item that is no UTF-8, and invalid"),
        pytest.param(A_WRONG_ITEM % b"1e999", id="an item with a number out of range, and invalid"),
    ],
)
def test_an_invalid_list_is_not_taken_for_an_empty_one(data):
    with pytest.raises(Unreachable, match="the response is not a list of objects"):
        decode_page(data, Pod)


def test_a_single_object_names_the_wrong_field():
    data = json.dumps({"metadata": {"name": "n"}, "spec": {"unschedulable": "yes"}}).encode()
    with pytest.raises(ValueError, match=r"spec\.unschedulable: expected true or false, got a string"):
        decode_one(data, Node)


@pytest.mark.parametrize("data", [b"{}", b'{"resources":[{}]}', b"x", b""])
def test_an_invalid_resource_list(data):
    with pytest.raises(Unreachable, match="not a list of resources"):
        decode_resource_names(data)
