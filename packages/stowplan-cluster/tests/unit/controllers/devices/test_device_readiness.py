"""Binding conditions that a simulated driver reports for allocated devices."""

import json

import pytest

from stowplan_cluster.controllers.devices.device_driver import DEVICES, READY, FakeDeviceDriver, FakeDeviceReadiness
from support.live.living_cluster import Living, node
from support.plugins.devices import a_claim, a_device, a_slice, allocation, exactly

CLAIM = "resourceclaims.resource.k8s.io"
DRIVER = "gpu.example.com"
CONDITIONS = {"bindingConditions": ["attached", "warm"], "bindingFailureConditions": ["broken"]}


@pytest.fixture
def cluster():
    return Living(FakeDeviceDriver, FakeDeviceReadiness)


def publish(cluster, *, ready=None, **device):
    group = {"driver": DRIVER, "name": "g", "device": {**CONDITIONS, **device}}
    if ready is not None:
        group["attributes"] = {READY: ready}
    cluster.create(node("n", annotations={DEVICES: json.dumps([group])}))
    cluster.settle()


def allocate(cluster, device="g-0", pool="n", **conditions):
    made = a_claim("c", exactly())
    made["metadata"].pop("uid")
    cluster.create(made)
    status = allocation(device, pool=pool, **(conditions or CONDITIONS))
    cluster.change(CLAIM, "c", lambda obj: obj.update(status=status), subresource="status")
    cluster.settle()
    said = cluster.get(CLAIM, "c")["status"].get("devices", [])
    return [(one["device"], [(c["type"], c["status"]) for c in one["conditions"]]) for one in said]


@pytest.mark.parametrize("ready", [None, True])
def test_a_device_becomes_ready(cluster, ready):
    publish(cluster, ready=ready)
    assert allocate(cluster) == [("g-0", [("attached", "True"), ("warm", "True")])]


def test_a_device_that_is_not_ready_fails(cluster):
    publish(cluster, ready=False)
    assert allocate(cluster) == [("g-0", [("broken", "True")])]


def test_a_hanging_driver_reports_nothing(cluster):
    publish(cluster, ready="never")
    assert allocate(cluster) == []


def test_devices_of_other_drivers_are_ignored(cluster):
    publish(cluster)
    cluster.create(a_slice("s", a_device("x", **CONDITIONS), pool="p", nodeName="n"))
    assert allocate(cluster, "x", pool="p") == []


def test_conditions_are_written_once(cluster):
    publish(cluster)
    allocate(cluster)
    before = cluster.get(CLAIM, "c")
    cluster.change(CLAIM, "c", lambda obj: obj["metadata"].update(labels={"a": "b"}))
    cluster.settle()
    assert cluster.get(CLAIM, "c")["status"] == before["status"]


def test_a_taint_without_a_time_is_published_once(cluster):
    """The API server sets the time of the taint."""
    publish(cluster, taints=[{"key": "broken", "effect": "NoExecute"}])
    (name,) = cluster.names("resourceslices.resource.k8s.io")
    assert cluster.get("resourceslices.resource.k8s.io", name)["spec"]["pool"]["generation"] == 1
