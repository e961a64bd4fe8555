"""Both kinds of events, and groups of both versions, are one stored object in two forms; conversion loses nothing."""

import copy

import pytest
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


def test_conversion_of_complete_events():
    assert to_storage(CORE, CORE_FULL) == NEW_FULL
    assert from_storage(CORE, NEW_FULL) == CORE_FULL
    assert to_storage(NEW, NEW_FULL) == NEW_FULL
    assert from_storage(NEW, NEW_FULL) == NEW_FULL


def test_the_stored_form_is_the_catalogues():
    assert CATALOGUE.of_storage("events") is NEW


def test_fields_that_are_always_present():
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


def test_filled_in_fields_are_not_shared():
    kept = {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    from_storage(CORE, kept)["source"]["component"] = "changed"
    assert from_storage(CORE, kept)["source"] == {}


_FIELDS = [key for key in CORE_FULL if key not in ("apiVersion", "kind")]


@given(st.sets(st.sampled_from(_FIELDS)))
def test_round_trip_of_any_fields(chosen):
    event = {"apiVersion": "v1", "kind": "Event"} | {key: CORE_FULL[key] for key in chosen}
    before = copy.deepcopy(event)
    kept = to_storage(CORE, event)
    read = from_storage(CORE, kept)
    assert event == before
    assert event.items() <= read.items()
    assert to_storage(CORE, read) == kept
    assert to_storage(NEW, from_storage(NEW, kept)) == kept
    assert core_event(kept).items() >= {**event, "apiVersion": "v1"}.items()


def test_conversion_of_custom_resources_changes_only_the_version():
    old = Resource(group="example.com", version="v1beta1", plural="things", kind="Thing", custom=True)
    new = Resource(group="example.com", version="v1", plural="things", kind="Thing", custom=True)
    obj = {"apiVersion": "example.com/v1beta1", "kind": "Thing", "spec": {"a": 1}}
    kept = to_storage(old, obj, stored_as=new)
    assert kept == {**obj, "apiVersion": "example.com/v1"}
    assert from_storage(old, kept) == obj
    assert to_storage(old, obj) == obj


# -- PodGroups and Workloads


def scheduling(plural, version):
    return CATALOGUE.find("scheduling.k8s.io", version, plural)


SHARED = {
    "schedulingPolicy": {"gang": {"minCount": 2}},
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "priority": 7,
}
MODES = ((None, None), ("Pod", {"single": {}}), ("PodGroup", {"all": {}}))


def group_as(version, spec, kind="PodGroup"):
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "metadata": {"name": "g"}, "spec": spec}


@pytest.mark.parametrize(("name", "mode"), MODES)
@pytest.mark.parametrize("refers", [False, True])
def test_groups_of_both_versions(name, mode, refers):
    old, new = dict(SHARED), dict(SHARED)
    if refers:
        old["podGroupTemplateRef"] = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
        new["workloadRef"] = {"workloadName": "w", "templateName": "t"}
    if name is not None:
        old["disruptionMode"], new["disruptionMode"] = name, mode
    alpha, beta = scheduling("podgroups", "v1alpha2"), scheduling("podgroups", "v1beta1")
    before = copy.deepcopy(old)
    assert to_storage(alpha, group_as("v1alpha2", old), stored_as=beta) == group_as("v1beta1", new)
    assert from_storage(alpha, group_as("v1beta1", new)) == group_as("v1alpha2", before)
    assert old == before


@pytest.mark.parametrize(("name", "mode"), MODES[1:])
def test_templates_of_both_versions(name, mode):
    alpha, beta = scheduling("workloads", "v1alpha2"), scheduling("workloads", "v1beta1")
    old = group_as("v1alpha2", {"podGroupTemplates": [{"name": "t", **SHARED, "disruptionMode": name}]}, "Workload")
    new = group_as("v1beta1", {"podGroupTemplates": [{"name": "t", **SHARED, "disruptionMode": mode}]}, "Workload")
    assert to_storage(alpha, old, stored_as=beta) == new
    assert from_storage(alpha, new) == old
