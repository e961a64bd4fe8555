"""Selectors in requests, and watch events for a reader with selectors, compared with the plain rule."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import BadRequest
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.selection import (
    kept_fields,
    label_selector_of,
    parse_field_selector,
    selection_of,
    visible,
)
from stowplan_cluster.apiserver.store import Store

CATALOGUE = Catalogue(BUILT_IN)
PODS = CATALOGUE.find("", "v1", "pods")
EVENTS = CATALOGUE.find("", "v1", "events")


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        pytest.param("app=web", {"app": "web"}, {"app": "api"}, id="="),
        pytest.param("app==web", {"app": "web"}, {}, id="=="),
        pytest.param(" app = web , tier!=db", {"app": "web"}, {"app": "web", "tier": "db"}, id="two, with blanks"),
        pytest.param("app", {"app": ""}, {"b": "app"}, id="exists"),
        pytest.param("!app", {"b": ""}, {"app": "web"}, id="does not exist"),
        pytest.param("app in (web, api)", {"app": "api"}, {"app": "db"}, id="in"),
        pytest.param("app notin (web,api)", {}, {"app": "web"}, id="notin"),
        pytest.param("app in ()", {"app": ""}, {"app": "x"}, id="in the empty value"),
        pytest.param("app in (,web)", {"app": ""}, {}, id="in with an empty value"),
        pytest.param("app=", {"app": ""}, {"app": "x"}, id="equal to nothing"),
        pytest.param("size>4", {"size": "5"}, {"size": "4"}, id="greater"),
        pytest.param("size<4", {"size": "3"}, {"size": "x"}, id="less"),
        pytest.param("in in (in)", {"in": "in"}, {"in": "x"}, id="words as keys"),
        pytest.param("example.com/app=web", {"example.com/app": "web"}, {}, id="qualified"),
    ],
)
def test_label_selectors(text, matching, other):
    selector = label_selector_of(text)
    assert selector.matches(matching)
    assert not selector.matches(other)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("=web", "expected: identifier", id="no key"),
        pytest.param("app in web", r"expected: '\('", id="no bracket"),
        pytest.param("app in (web", r"expected: ',' or '\)'", id="bracket open"),
        pytest.param("app=web,", "expected: identifier after ','", id="comma at the end"),
        pytest.param("app web", "expected: in, notin, =, ==, !=, gt, lt", id="two words"),
        pytest.param("-app=web", "name part must consist of", id="key"),
        pytest.param("app=-web", "a valid label must be", id="value"),
        pytest.param("size>big", "the value must be an integer", id="no number"),
    ],
)
def test_label_selectors_that_do_not_parse(text, complaint):
    with pytest.raises(BadRequest, match=complaint) as raised:
        label_selector_of(text)
    assert str(raised.value).startswith("unable to parse requirement: ")


@given(st.text(alphabet="ab=!<>,() /.-\\'\"", max_size=20))
def test_any_text_is_a_selector_or_refused(text):
    with suppress(BadRequest):
        selector, padded = label_selector_of(text), label_selector_of(f" {text} ")
        # Surrounding blanks are ignored.
        for labels in ({}, {"a": "b"}, {"b": "a", "a": ""}):
            assert selector.matches(labels) is padded.matches(labels)
    with suppress(BadRequest):
        # No field of a pod can be spelled with these letters, so only an empty selector is valid.
        terms = parse_field_selector(text, PODS)
        assert terms == parse_field_selector("", PODS) or not text.strip(" ,").isalpha()


def stored_pod(**spec):
    store = Store()
    store.select_fields("pods", kept_fields(PODS))
    return store.put(
        "pods", {"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": {"phase": "Running"}}
    )


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName==n1,status.phase!=Running", False),
        ("spec.nodeName!=n1", False),
        ("metadata.name=p,metadata.namespace=n", True),
        ("metadata.name=q", False),
        ("status.nominatedNodeName=", True),
        ("spec.hostNetwork=false", True),
        ("", True),
    ],
)
def test_field_selectors(text, matches):
    assert selection_of(PODS, "", "", text).matches(stored_pod(nodeName="n1")) is matches


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("spec.color=red", "field label not supported: spec.color"),
        ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        (r"metadata.name=a\b", "invalid field selector"),
    ],
)
def test_field_selectors_that_do_not_parse(text, complaint):
    with pytest.raises(BadRequest, match=complaint):
        parse_field_selector(text, PODS)


def test_escaped_values():
    (term,) = parse_field_selector(r"metadata.name=a\,b\=c\\", PODS)
    assert term.value == "a,b=c\\"


def test_core_events_are_selected_by_converted_fields():
    store = Store()
    storage = CATALOGUE.of_storage("events")
    store.select_fields("events", kept_fields(storage))
    event = store.put(
        "events",
        {"metadata": {"name": "e"}, "regarding": {"name": "p"}, "deprecatedSource": {"component": "kubelet"}},
    )
    assert selection_of(EVENTS, "", "", "involvedObject.name=p,source=kubelet").matches(event)
    assert not selection_of(EVENTS, "", "", "involvedObject.name=q").matches(event)
    assert set(kept_fields(EVENTS)) <= set(kept_fields(storage))


CONFIG_MAPS = Catalogue(BUILT_IN).find("", "v1", "configmaps")

steps = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, "red", "blue", "red"])), max_size=20)


@given(steps)
def test_following_visible_changes_gives_what_a_list_shows(steps):
    store, view = Store(), {}
    selection = selection_of(CONFIG_MAPS, "n", "color=red")
    cursor = store.watch("configmaps", since=0)
    for name, color in steps:
        live = store.get("configmaps", "n", name)
        if color is not None:
            labels = {"color": color}
            store.put("configmaps", {"metadata": {"name": name, "namespace": "n", "labels": labels}})
        elif live is not None:
            store.remove(live)
        for event in cursor.take():
            seen = visible(event, selection)
            if seen is None:
                continue
            type_, stored = seen
            assert (type_ == "ADDED") == (stored.name not in view)
            assert stored.version == event.stored.version
            assert stored.labels == {"color": "red"}, "a DELETED event has the object as it last matched"
            if type_ == "DELETED":
                del view[stored.name]
            else:
                view[stored.name] = stored.data
        listed = {one.name: one.data for one in store.list("configmaps") if selection.matches(one)}
        assert view == listed
