"""ResourceSlices published for a node's annotation."""

import json

import pytest

from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.devices.device_driver import DEVICES, FakeDeviceDriver
from support.live.living_cluster import Living, node

SLICE = "resourceslices.resource.k8s.io"
DRIVER = "gpu.example.com"
GPUS = {"driver": DRIVER, "count": 2, "name": "gpu", "attributes": {"model": "A100"}, "capacity": {"memory": "40Gi"}}


@pytest.fixture
def cluster():
    return Living(FakeDeviceDriver, GarbageCollector)


def with_devices(*groups, name="n"):
    return node(name, annotations={DEVICES: json.dumps(groups)})


def annotate(cluster, *groups):
    cluster.change("Node", "n", lambda obj: obj["metadata"].update(annotations={DEVICES: json.dumps(groups)}))
    cluster.settle()


def devices(cluster):
    slices = [cluster.get(SLICE, name) for name in cluster.names(SLICE)]
    return [device["name"] for one in slices for device in one["spec"]["devices"]]


def test_the_devices_of_a_node(cluster):
    cluster.create(with_devices(GPUS))
    cluster.settle()
    spec = cluster.get(SLICE, f"n-{DRIVER}-0")["spec"]
    content = {"attributes": {"model": {"string": "A100"}}, "capacity": {"memory": {"value": "40Gi"}}}
    assert spec == {
        "driver": DRIVER,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", **content}, {"name": "gpu-1", **content}],
    }


def test_all_fields_of_a_device(cluster):
    taint = {"key": "broken", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    attributes = {"cores": 8, "ecc": True, "driver": {"version": "1.2.3"}}
    cluster.create(with_devices({"driver": DRIVER, "attributes": attributes, "device": {"taints": [taint]}}))
    cluster.settle()
    (device,) = cluster.get(SLICE, f"n-{DRIVER}-0")["spec"]["devices"]
    assert device["taints"] == [taint]
    assert device["attributes"] == {"cores": {"int": 8}, "ecc": {"bool": True}, "driver": {"version": "1.2.3"}}


def test_one_pool_per_driver(cluster):
    cluster.create(with_devices(GPUS, GPUS, {"driver": "nic.example.com", "count": 70}))
    cluster.settle()
    assert cluster.names(SLICE) == [f"n-{DRIVER}-0", "n-nic.example.com-0", "n-nic.example.com-1"]
    assert devices(cluster)[:5] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "device-0"]
    assert cluster.get(SLICE, "n-nic.example.com-1")["spec"]["pool"]["resourceSliceCount"] == 2


def test_only_changes_start_a_new_generation(cluster):
    cluster.create(with_devices({"driver": DRIVER, "count": 70}))
    cluster.settle()
    version = cluster.store.version
    cluster.restart()
    cluster.settle()
    assert cluster.store.version == version
    annotate(cluster, GPUS)
    assert devices(cluster) == ["gpu-0", "gpu-1"]
    assert cluster.get(SLICE, f"n-{DRIVER}-0")["spec"]["pool"]["generation"] == 2


def test_changes_by_other_clients_are_reverted(cluster):
    cluster.create(with_devices(GPUS))
    cluster.settle()
    cluster.change(SLICE, f"n-{DRIVER}-0", lambda obj: obj["spec"]["devices"].pop())
    cluster.settle()
    assert devices(cluster) == ["gpu-0", "gpu-1"]
    cluster.delete(SLICE, f"n-{DRIVER}-0")
    cluster.settle()
    assert devices(cluster) == ["gpu-0", "gpu-1"]


def test_slices_of_a_removed_driver_are_deleted(cluster):
    cluster.create(with_devices(GPUS, {"driver": "nic.example.com"}))
    cluster.settle()
    annotate(cluster, GPUS)
    assert cluster.names(SLICE) == [f"n-{DRIVER}-0"]
    cluster.change("Node", "n", lambda obj: obj["metadata"].pop("annotations"))
    cluster.settle()
    assert cluster.names(SLICE) == []


def test_slices_are_deleted_with_their_node(cluster):
    cluster.create(with_devices(GPUS))
    cluster.settle()
    cluster.delete("Node", "n")
    cluster.settle()
    assert cluster.names(SLICE) == []


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        ("gpu", "JSON is malformed: invalid character (byte 0); it is a JSON list of devices"),
        ('[{"count": 2}]', "Object missing required field `driver` - at `$[0]`; it is a JSON list of devices"),
        (
            '[{"driver": "d", "cuont": 2}]',
            "Object contains unknown field `cuont` - at `$[0]`; it is a JSON list of devices",
        ),
        ('[{"driver": "d", "count": 0}]', "[0].count: 0 is not from 1 to 1024"),
        (
            '[{"driver": "d", "capacity": {"a": 2}, "partitions": [{"name": "h", "capacity": {"b": 1}}]}]',
            "[0].partitions[0].capacity: the whole has no 'b'",
        ),
        (
            '[{"driver": "d", "capacity": {"a": 2}, "partitions": [{"name": "h", "capacity": {}}]}]',
            "[0].partitions[0].capacity: a part has some of the capacity of the whole",
        ),
    ],
)
def test_an_invalid_annotation_changes_nothing(cluster, annotation, problem):
    cluster.create(with_devices(GPUS))
    cluster.settle()
    cluster.change("Node", "n", lambda obj: obj["metadata"].update(annotations={DEVICES: annotation}))
    cluster.settle()
    assert devices(cluster) == ["gpu-0", "gpu-1"]
    assert cluster.events("n")[-1] == ("Warning", "InvalidDevices", f"annotation {DEVICES}: {problem}")


def test_refused_slices_are_reported(cluster):
    cluster.create(with_devices({"driver": DRIVER, "name": "GPU"}))
    cluster.settle()
    (_, reason, message) = cluster.events("n")[-1]
    assert reason == "InvalidDevices"
    assert 'spec.devices[0].name: Invalid value: "GPU-0"' in message
    annotate(cluster, GPUS)
    assert devices(cluster) == ["gpu-0", "gpu-1"]


PARTITIONED = {
    "driver": DRIVER,
    "count": 2,
    "name": "gpu",
    "attributes": {"model": "A100"},
    "capacity": {"memory": "40Gi", "computeUnits": 8},
    "partitions": [
        {
            "name": "half",
            "count": 2,
            "attributes": {"profile": "half"},
            "capacity": {"memory": "20Gi", "computeUnits": 4},
        },
        {"name": "tiny", "capacity": {"computeUnits": 1}},
    ],
}


def counters(**amounts):
    return {name.replace("_", "-"): {"value": value} for name, value in amounts.items()}


def test_partitionable_devices(cluster):
    cluster.create(with_devices(PARTITIONED))
    cluster.settle()
    assert cluster.names(SLICE) == [f"n-{DRIVER}-0", f"n-{DRIVER}-counters-0"]
    spec = cluster.get(SLICE, f"n-{DRIVER}-counters-0")["spec"]
    assert spec["pool"] == {"name": "n", "generation": 1, "resourceSliceCount": 2}
    of_whole = counters(memory="40Gi", computeunits="8")
    assert spec["sharedCounters"] == [{"name": "gpu-0", "counters": of_whole}, {"name": "gpu-1", "counters": of_whole}]
    found = cluster.get(SLICE, f"n-{DRIVER}-0")["spec"]["devices"]
    assert [device["name"] for device in found[:4]] == ["gpu-0", "gpu-0-half-0", "gpu-0-half-1", "gpu-0-tiny-0"]
    assert found[0]["consumesCounters"] == [{"counterSet": "gpu-0", "counters": of_whole}]
    assert found[1] == {
        "name": "gpu-0-half-0",
        "attributes": {"model": {"string": "A100"}, "parent": {"string": "gpu-0"}, "profile": {"string": "half"}},
        "capacity": {"memory": {"value": "20Gi"}, "computeUnits": {"value": "4"}},
        "consumesCounters": [{"counterSet": "gpu-0", "counters": counters(memory="20Gi", computeunits="4")}],
    }
    version = cluster.store.version
    cluster.restart()
    cluster.settle()
    assert cluster.store.version == version


def test_a_taint_keeps_its_time_if_the_pool_changes(cluster):
    tainted = {**GPUS, "device": {"taints": [{"key": "broken", "effect": "NoExecute"}]}}
    cluster.create(with_devices(tainted))
    cluster.settle()

    def times():
        (spec,) = [cluster.get(SLICE, name)["spec"] for name in cluster.names(SLICE)]
        return spec["pool"]["generation"], {taint["timeAdded"] for one in spec["devices"] for taint in one["taints"]}

    generation, before = times()
    assert generation == len(before) == 1
    cluster.advance(60)
    assert times() == (1, before)
    annotate(cluster, {**tainted, "count": 3})
    generation, after = times()
    assert generation == 2
    assert len(after) == 2
    assert before < after
