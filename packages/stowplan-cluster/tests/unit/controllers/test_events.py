import pytest

from stowplan_cluster.controllers.client import EventRecorder
from support.live.controller_cluster import LiveCluster, workload


@pytest.fixture
def recorded():
    """A cluster without controllers, an object in it, and a recorder."""
    cluster = LiveCluster(controllers=lambda registry: [])
    obj = cluster.create(workload("ReplicaSet"))
    return cluster, obj, EventRecorder(cluster.registry, "replicaset-controller")


def test_an_event_names_its_object_and_its_source(recorded):
    cluster, obj, recorder = recorded
    recorder.record(obj, "Normal", "SuccessfulCreate", "Created pod: web-1")
    (stored,) = cluster.all("Event")
    events = cluster.server.catalogue.find("", "v1", "events")
    event = cluster.registry.to_dict(events, cluster.store.list("events")[0])
    assert stored["apiVersion"] == "events.k8s.io/v1"
    assert event["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "namespace": "default",
        "name": "web",
        "uid": obj["metadata"]["uid"],
        "resourceVersion": obj["metadata"]["resourceVersion"],
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Normal",
        "SuccessfulCreate",
        "Created pod: web-1",
        1,
    )
    assert event["source"] == {"component": "replicaset-controller"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2023-11-14T22:13:20Z"


def test_repeated_events_are_counted(recorded):
    cluster, obj, recorder = recorded
    for _ in range(3):
        recorder.record(obj, "Warning", "FailedCreate", "no")
        cluster.now += 1
    events = cluster.server.catalogue.find("", "v1", "events")
    (stored,) = cluster.store.list("events")
    event = cluster.registry.to_dict(events, stored)
    assert (event["count"], event["lastTimestamp"]) == (3, "2023-11-14T22:13:22Z")


def test_a_deleted_event_is_recreated(recorded):
    cluster, obj, recorder = recorded
    recorder.record(obj, "Normal", "Said", "so")
    cluster.delete("Event", cluster.all("Event")[0]["metadata"]["name"])
    recorder.record(obj, "Normal", "Said", "so")
    assert len(cluster.all("Event")) == 1


def test_events_per_object_are_rate_limited(recorded):
    cluster, obj, recorder = recorded
    for number in range(30):
        recorder.record(obj, "Normal", "SuccessfulCreate", f"Created pod: web-{number}")
    assert len(cluster.all("Event")) == 25
    recorder.record(obj, "Warning", "FailedCreate", "of another type")
    assert len(cluster.all("Event")) == 26
    cluster.now += 300
    for number in range(30, 35):
        recorder.record(obj, "Normal", "SuccessfulCreate", f"Created pod: web-{number}")
    assert len(cluster.all("Event")) == 27


def test_a_refused_event_is_ignored(recorded, monkeypatch):
    from stowplan.kube.api.api_errors import Forbidden

    cluster, obj, recorder = recorded

    def refuse(*args, **kwargs):
        raise Forbidden("the namespace is going away")

    monkeypatch.setattr(cluster.registry, "create", refuse)
    recorder.record(obj, "Normal", "Said", "so")
    assert cluster.all("Event") == []
