"""Events and event series."""

from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.meta import ObjectReference
from stowplan.kube.api.types import Event
from stowplan.scheduler.engine.effects import EmitEvent
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import live_cluster
from stowplan.testing.live.cluster import Events


def tell(note="n", name="web", version="1"):
    about = ObjectReference(kind="Pod", namespace="default", name=name, resource_version=version)
    return EmitEvent(profile="p", regarding=about, type_="Normal", reason="R", action="A", note=note)


def events_after(*tells):
    """The Events in a store, as (object name, note, count)."""
    events, store = Events(), ObjectStore()
    for now, one in tells:
        for request in events.record(one, now):
            store.write(request, now)
    found = store.list(Event)
    return sorted((one.regarding.name, one.note, one.series.count if one.series else 1) for one in found)


def test_a_repeated_event_becomes_a_series():
    assert events_after((1.0, tell())) == [("web", "n", 1)]
    assert events_after((1.0, tell()), (2.0, tell())) == [("web", "n", 2)]
    assert events_after((1.0, tell()), (2.0, tell(name="other"))) == [("other", "n", 1), ("web", "n", 1)]


def test_events_of_one_moment_have_unique_names():
    assert len(events_after((1.0, tell()), (1.0, tell(version="2")))) == 2


def test_the_count_is_written_when_the_series_ends():
    often = [(float(i), tell()) for i in range(5)]
    assert events_after(*often) == [("web", "n", 2)]
    assert events_after(*often, (1000.0, tell(name="other"))) == [("other", "n", 1), ("web", "n", 5)]
    assert len(events_after(*often, (1000.0, tell(name="other")), (1001.0, tell()))) == 3, "not a new series"


def test_they_are_objects_of_the_cluster():
    with live_cluster(a_node("n1").obj(), a_pod("a").obj()) as cluster:
        (event,) = cluster.events()
        assert event == cluster.get("events.events.k8s.io", event["metadata"]["name"])
        assert (event["regarding"]["name"], event["note"]) == ("a", "Successfully assigned default/a to n1")
        assert event["reportingController"] == "default-scheduler"
