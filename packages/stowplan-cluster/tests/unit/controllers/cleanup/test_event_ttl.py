import pytest

from stowplan_cluster.controllers.cleanup.event_ttl import EventTTLController
from support.live.living_cluster import Living


@pytest.fixture
def cluster():
    return Living(EventTTLController)


def event(name):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": {"namespace": "default"}}


def test_an_event_expires_an_hour_after_its_last_change(cluster):
    cluster.create(event("old"))
    cluster.advance(1_800)
    cluster.create(event("young"))
    cluster.advance(1_799)
    assert cluster.names("Event") == ["old", "young"]
    cluster.advance(1)
    assert cluster.names("Event") == ["young"]
    cluster.change("Event", "young", lambda obj: obj["metadata"].update(labels={"seen": "again"}))
    cluster.advance(3_599)
    assert cluster.names("Event") == ["young"]
    cluster.advance(1)
    assert cluster.names("Event") == []


def test_a_recreated_event_has_its_own_ttl(cluster):
    cluster.create(event("a"))
    cluster.advance(3_000)
    cluster.delete("Event", "a")
    cluster.create(event("a"))
    cluster.advance(3_000)
    assert cluster.names("Event") == ["a"]


def test_many_events_expire_together(cluster):
    for number in range(1_200):
        cluster.create(event(f"event-{number}"))
    cluster.advance(3_600)
    assert cluster.names("Event") == []


def test_events_of_an_earlier_process_expire(cluster):
    cluster.create(event("a"))
    cluster.loop.close()
    cluster.restart()
    cluster.advance(3_600)
    assert cluster.names("Event") == []
