"""Responses of HTTP extenders, decoded as in Go; invalid ones are errors."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.extenders.answers import AnswerError, answer_to

NOTHING = {"nodes": None, "names": None, "failed": {}, "unresolvable": {}, "error": ""}
REASONS = ("failed", "unresolvable")
VERBS = ("filter", "prioritize", "preempt", "bind")


def node(name):
    return {"metadata": {"name": name}, "spec": {"anything": [1]}}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(None, {}, id="null"),
        pytest.param({"NodeNames": ["a", "b"]}, {"names": ["a", "b"]}, id="names"),
        pytest.param({"NodeNames": []}, {"names": []}, id="no names"),
        pytest.param({"NodeNames": None, "Nodes": None}, {}, id="null fields"),
        pytest.param({"NodeNames": ["a", None]}, {"names": ["a", ""]}, id="null in a list"),
        pytest.param({"Nodes": {"items": [node("a"), node("b")]}}, {"nodes": ["a", "b"]}, id="nodes"),
        pytest.param({"Nodes": {}}, {"nodes": []}, id="no items"),
        pytest.param({"Nodes": {"items": [None, {}]}}, {"nodes": ["", ""]}, id="nodes without names"),
        pytest.param({"nodes": {"ITEMS": [{"Metadata": {"NAME": "a"}}]}}, {"nodes": ["a"]}, id="any case, all the way"),
        pytest.param(
            {"nodenames": ["a"], "failednodes": {"b": "no"}}, {"names": ["a"], "failed": {"b": "no"}}, id="lower case"
        ),
        pytest.param(
            {"FailedNodes": {"B": "no", "b": None}}, {"failed": {"B": "no", "b": ""}}, id="names keep their case"
        ),
        pytest.param(
            {"FailedAndUnresolvableNodes": {"c": "never"}}, {"unresolvable": {"c": "never"}}, id="unresolvable"
        ),
        pytest.param({"Error": "no"}, {"error": "no"}, id="error"),
        pytest.param({"Error": "a", "error": "b"}, {"error": "b"}, id="the last counts"),
        pytest.param({"More": 1, "Error": ""}, {}, id="unknown fields"),
    ],
)
def test_filter(answer, found):
    assert answer_to("filter", json.dumps(answer).encode()) == NOTHING | found


@pytest.mark.parametrize(
    ("answer", "points"),
    [
        pytest.param(None, {}, id="null"),
        pytest.param([], {}, id="empty"),
        pytest.param([{"Host": "a", "Score": 3}, {"host": "b", "score": -7}], {"a": 3, "b": -7}, id="in any case"),
        pytest.param([{"Host": "a", "Score": 3}, {"Host": "a", "Score": 4}], {"a": 7}, id="twice"),
        pytest.param([{"Host": "a"}, None], {"a": 0, "": 0}, id="nothing said"),
    ],
)
def test_prioritize(answer, points):
    assert answer_to("prioritize", json.dumps(answer).encode()) == points


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(None, {}, id="null"),
        pytest.param({"NodeNameToMetaVictims": None}, {}, id="null field"),
        pytest.param(
            {"NodeNameToMetaVictims": {"N": {"Pods": [{"UID": "u"}, {"uid": "v"}], "NumPDBViolations": 2}}},
            {"N": (["u", "v"], 2)},
            id="victims",
        ),
        pytest.param({"nodenametometavictims": {"n": {"pods": None}}}, {"n": ([], 0)}, id="no pods"),
        pytest.param({"NodeNameToMetaVictims": {"n": None}}, {"n": ([], 0)}, id="null victims"),
    ],
)
def test_preempt(answer, found):
    assert answer_to("preempt", json.dumps(answer).encode()) == found


@pytest.mark.parametrize(("answer", "error"), [(None, ""), ({}, ""), ({"Error": ""}, ""), ({"error": "no"}, "no")])
def test_bind(answer, error):
    assert answer_to("bind", json.dumps(answer).encode()) == {"error": error}


@pytest.mark.parametrize("body", [b'{"Error":"a"} and more', b' \r\n{"Error":"a"}{"Error":"b"}', b'{"Error":"a"}\x00'])
def test_data_after_the_first_value_is_ignored(body):
    assert answer_to("bind", body) == {"error": "a"}


@pytest.mark.parametrize(
    ("verb", "body", "why"),
    [
        pytest.param("filter", b"", "it is not JSON", id="empty"),
        pytest.param("filter", b"<html>", "it is not JSON", id="a page"),
        pytest.param("filter", b'{"Error": "a"', "it is not JSON", id="truncated"),
        pytest.param("filter", b'{"Error": NaN}', "it is not JSON: NaN is not a JSON number", id="not a number"),
        pytest.param("filter", b"\xff\xfe", "it is not JSON", id="no text"),
        pytest.param("filter", b"[" * 100_000, "it is nested too deeply", id="deep"),
        pytest.param("filter", b"[]", "expected an object, got a list", id="a list"),
        pytest.param("filter", b'{"Error": 1}', "Error: expected a string, got a number", id="error"),
        pytest.param("filter", b'{"NodeNames": {}}', "NodeNames: expected a list, got an object", id="names"),
        pytest.param("filter", b'{"NodeNames": [1]}', "NodeNames[]: expected a string, got a number", id="a name"),
        pytest.param("filter", b'{"Nodes": ["a"]}', "Nodes: expected an object, got a list", id="nodes"),
        pytest.param(
            "filter", b'{"Nodes": {"items": ["a"]}}', "Nodes.items[0]: expected an object, got a string", id="a node"
        ),
        pytest.param(
            "filter",
            b'{"FailedNodes": {"a": true}}',
            "FailedNodes[a]: expected a string, got true or false",
            id="a reason",
        ),
        pytest.param("prioritize", b"{}", "expected a list, got an object", id="points"),
        pytest.param(
            "prioritize",
            b'[{"Score": 1.5}]',
            "[0].Score: expected an integer of 64 bits, got a number",
            id="half a point",
        ),
        pytest.param(
            "prioritize", b'[{"Score": 9223372036854775808}]', "[0].Score: expected an integer", id="too many points"
        ),
        pytest.param("prioritize", b'[{"Score": true}]', "[0].Score: expected an integer", id="true"),
        pytest.param(
            "preempt",
            b'{"NodeNameToMetaVictims": {"n": {"Pods": [1]}}}',
            "NodeNameToMetaVictims[n].Pods[]: expected",
            id="a victim",
        ),
        pytest.param("bind", b'"ok"', "expected an object, got a string", id="bound"),
    ],
)
def test_invalid_responses(verb, body, why):
    with pytest.raises(AnswerError) as caught:
        answer_to(verb, body)
    assert str(caught.value).startswith(why)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Error", "nodes", "NodeNames", "items", "Host", "Score", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def is_an_answer_or_an_error(verb, body):
    """The decoded result has the types that the framework relies on."""
    try:
        found = answer_to(verb, body)
    except AnswerError as error:
        return bool(str(error))
    match verb:
        case "filter":
            lists = [found["nodes"] or [], found["names"] or [], *(found[key].values() for key in REASONS)]
            return found.keys() == NOTHING.keys() and all(isinstance(text, str) for texts in lists for text in texts)
        case "prioritize":
            return all(isinstance(host, str) and type(points) is int for host, points in found.items())
        case "preempt":
            return all(all(isinstance(uid, str) for uid in uids) and type(n) is int for uids, n in found.values())
        case "bind":
            return found == {"error": str(found["error"])}


@given(verb=st.sampled_from(VERBS), value=json_values)
def test_any_json_is_an_answer_or_an_error(verb, value):
    assert is_an_answer_or_an_error(verb, json.dumps(value).encode())


@given(verb=st.sampled_from(VERBS), body=st.binary(max_size=40))
def test_any_bytes_are_an_answer_or_an_error(verb, body):
    assert is_an_answer_or_an_error(verb, body)
