"""Both kinds of event are one object, told in two ways; nothing is lost on the way there and back."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.conversion import core_event, from_storage, to_storage
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue, Resource

CATALOGUE = Catalogue(BUILT_IN)
CORE = CATALOGUE.find("", "v1", "events")
NEW = CATALOGUE.find("events.k8s.io", "v1", "events")

REFERENCE = {"kind": "Pod", "namespace": "n", "name": "web", "uid": "u", "apiVersion": "v1"}
CORE_FULL = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "web.1", "namespace": "n"},
    "involvedObject": REFERENCE,
    "reason": "Pulled",
    "message": "image pulled",
    "source": {"component": "kubelet", "host": "n1"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:01:00Z",
    "count": 3,
    "type": "Normal",
    "eventTime": "2026-01-01T00:00:00.000001Z",
    "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000002Z"},
    "action": "Pulling",
    "related": {"kind": "Node", "name": "n1"},
    "reportingComponent": "kubelet",
    "reportingInstance": "kubelet-n1",
}
NEW_FULL = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "web.1", "namespace": "n"},
    "regarding": REFERENCE,
    "reason": "Pulled",
    "note": "image pulled",
    "deprecatedSource": {"component": "kubelet", "host": "n1"},
    "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2026-01-01T00:01:00Z",
    "deprecatedCount": 3,
    "type": "Normal",
    "eventTime": "2026-01-01T00:00:00.000001Z",
    "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000002Z"},
    "action": "Pulling",
    "related": {"kind": "Node", "name": "n1"},
    "reportingController": "kubelet",
    "reportingInstance": "kubelet-n1",
}


def test_one_told_as_the_other():
    assert to_storage(CORE, CORE_FULL) == NEW_FULL
    assert from_storage(CORE, NEW_FULL) == CORE_FULL
    assert to_storage(NEW, NEW_FULL) == NEW_FULL
    assert from_storage(NEW, NEW_FULL) == NEW_FULL


def test_the_form_that_is_kept_is_the_catalogues():
    assert CATALOGUE.of_storage("events") is NEW


def test_what_readers_always_find():
    kept = to_storage(
        CORE, {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "x"}, "eventTime": None, "source": {}}
    )
    assert kept == {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "x"}}
    assert from_storage(CORE, kept) == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "x"},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    assert from_storage(NEW, kept) == {
        **kept,
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }


def test_readers_do_not_share_what_was_filled_in():
    kept = {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    from_storage(CORE, kept)["source"]["component"] = "changed"
    assert from_storage(CORE, kept)["source"] == {}


_FIELDS = [key for key in CORE_FULL if key not in ("apiVersion", "kind")]


@given(st.sets(st.sampled_from(_FIELDS)))
def test_there_and_back_from_any_choice_of_fields(chosen):
    event = {"apiVersion": "v1", "kind": "Event"} | {key: CORE_FULL[key] for key in chosen}
    before = copy.deepcopy(event)
    kept = to_storage(CORE, event)
    read = from_storage(CORE, kept)
    assert event == before
    assert event.items() <= read.items()
    assert to_storage(CORE, read) == kept
    assert to_storage(NEW, from_storage(NEW, kept)) == kept
    assert core_event(kept).items() >= {**event, "apiVersion": "v1"}.items()


def test_custom_resources_change_their_version_only():
    old = Resource(group="example.com", version="v1beta1", plural="things", kind="Thing", custom=True)
    new = Resource(group="example.com", version="v1", plural="things", kind="Thing", custom=True)
    obj = {"apiVersion": "example.com/v1beta1", "kind": "Thing", "spec": {"a": 1}}
    kept = to_storage(old, obj, stored_as=new)
    assert kept == {**obj, "apiVersion": "example.com/v1"}
    assert from_storage(old, kept) == obj
    assert to_storage(old, obj) == obj
