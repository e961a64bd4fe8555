"""Validation of volumes, claims, storage classes and CSI objects."""

import pytest


def named(api_version, kind, *, namespace="", **fields):
    metadata = {"name": "x"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


VOLUME = named(
    "v1",
    "PersistentVolume",
    spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}},
)
CLAIM = named(
    "v1",
    "PersistentVolumeClaim",
    namespace="default",
    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)
CLASS = named("storage.k8s.io/v1", "StorageClass", provisioner="example.com/disks")
CSI_NODE = named("storage.k8s.io/v1", "CSINode", spec={"drivers": [{"name": "d.example.com", "nodeID": "1"}]})
CAPACITY = named("storage.k8s.io/v1", "CSIStorageCapacity", namespace="default", storageClassName="fast")
FIXED_CLAIM = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims\n"
)
BOUND = ("status.phase", "Bound")


@pytest.mark.parametrize(
    ("obj", "changes", "old", "expected"),
    [
        pytest.param(VOLUME, ("spec.capacity.storage", "2Gi"), (), [], id="volume grows"),
        pytest.param(VOLUME, ("spec.claimRef", {"name": "c"}), (), [], id="volume is bound"),
        pytest.param(
            VOLUME,
            ("spec.hostPath.path", "/other"),
            (),
            [
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"
                '  hostPath.path: -"/data" +"/other"'
            ],
            id="volume elsewhere",
        ),
        pytest.param(CLAIM, ("spec.volumeName", "v"), (), [], id="claim is bound"),
        pytest.param(
            CLAIM,
            ("spec.volumeName", "w"),
            ("spec.volumeName", "v"),
            [FIXED_CLAIM + '  volumeName: -"v" +"w"'],
            id="claim is bound again",
        ),
        pytest.param(
            CLAIM,
            ("spec.resources.requests.storage", "2Gi"),
            (),
            [FIXED_CLAIM + '  resources.requests.storage: -"1Gi" +"2Gi"'],
            id="pending claim grows",
        ),
        pytest.param(CLAIM, ("spec.resources.requests.storage", "2Gi"), BOUND, [], id="bound claim grows"),
        pytest.param(
            CLAIM,
            ("spec.resources.requests.storage", "512Mi"),
            (*BOUND, "status.capacity", {"storage": "1Gi"}),
            ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
            id="bound claim shrinks",
        ),
        pytest.param(
            CLASS,
            ("provisioner", "example.com/tapes"),
            (),
            ['provisioner: Invalid value: "example.com/tapes": field is immutable'],
            id="provisioner",
        ),
        pytest.param(CLASS, ("allowVolumeExpansion", True), (), [], id="expansion is free"),
        pytest.param(CSI_NODE, ("spec.drivers.0.allocatable", {"count": 3}), (), [], id="limits are free"),
    ],
)
def test_changes(server, obj, changes, old, expected):
    assert server.update_refusals(obj, *changes, old=old) == expected


@pytest.mark.parametrize(
    ("obj", "path", "value", "expected"),
    [
        (
            CLASS,
            "volumeBindingMode",
            "Never",
            'volumeBindingMode: Unsupported value: "Never": supported values: "Immediate", "WaitForFirstConsumer"',
        ),
        (CAPACITY, "capacity", "-1", 'capacity: Invalid value: "-1": must be greater than or equal to 0'),
    ],
    ids=["class", "capacity"],
)
def test_updates_are_validated_like_new_objects(server, obj, path, value, expected):
    assert expected in server.update_refusals(obj, path, value)
