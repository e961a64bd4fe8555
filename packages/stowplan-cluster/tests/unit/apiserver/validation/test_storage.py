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
DRIVER = named("storage.k8s.io/v1", "CSIDriver", spec={})
CSI_NODE = named("storage.k8s.io/v1", "CSINode", spec={"drivers": [{"name": "d.example.com", "nodeID": "1"}]})
CAPACITY = named("storage.k8s.io/v1", "CSIStorageCapacity", namespace="default", storageClassName="fast")
ATTACHMENT = named(
    "storage.k8s.io/v1",
    "VolumeAttachment",
    spec={"attacher": "d.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "v"}},
)
FIXED_CLAIM = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims\n"
)
BOUND = ("status.phase", "Bound")


@pytest.mark.parametrize(
    "obj", [VOLUME, CLAIM, CLASS, DRIVER, CSI_NODE, CAPACITY, ATTACHMENT], ids=lambda obj: obj["kind"]
)
def test_valid_objects(server, obj):
    assert server.refusals(obj) == []


@pytest.mark.parametrize(
    ("obj", "path", "value", "expected"),
    [
        pytest.param(VOLUME, "spec.accessModes", [], ["spec.accessModes: Required value"], id="volume without modes"),
        pytest.param(
            VOLUME,
            "spec.capacity",
            {"storage": "0"},
            ['spec.capacity[storage]: Invalid value: "0": must be greater than zero'],
            id="empty volume",
        ),
        pytest.param(
            VOLUME,
            "spec.nfs",
            {"server": "s", "path": "/"},
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"],
            id="two sources",
        ),
        pytest.param(
            VOLUME, "spec.hostPath", None, ["spec: Required value: must specify a volume type"], id="no source"
        ),
        pytest.param(
            VOLUME,
            "spec.persistentVolumeReclaimPolicy",
            "Burn",
            [
                'spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": '
                'supported values: "Delete", "Recycle", "Retain"'
            ],
            id="reclaim policy",
        ),
        pytest.param(
            VOLUME,
            "spec.nodeAffinity",
            {},
            ["spec.nodeAffinity.required: Required value: must specify required node constraints"],
            id="affinity to nothing",
        ),
        pytest.param(
            CLAIM,
            "spec.accessModes",
            [],
            ["spec.accessModes: Required value: at least 1 access mode is required"],
            id="claim without modes",
        ),
        pytest.param(
            CLAIM,
            "spec.accessModes",
            ["ReadWriteOncePod", "ReadWriteOnce"],
            ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
            id="one pod and more",
        ),
        pytest.param(CLAIM, "spec.resources", {}, ["spec.resources[storage]: Required value"], id="no size"),
        pytest.param(
            CLAIM,
            "spec.volumeMode",
            "Tape",
            ['spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"'],
            id="volume mode",
        ),
        pytest.param(CLASS, "provisioner", "", ["provisioner: Required value"], id="no provisioner"),
        pytest.param(
            CLASS,
            "volumeBindingMode",
            "Later",
            ['volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"'],
            id="binding mode",
        ),
        pytest.param(
            CLASS,
            "allowedTopologies",
            [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]}],
            ['allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"'],
            id="topology twice",
        ),
        pytest.param(
            DRIVER,
            "spec.fsGroupPolicy",
            "X",
            ['spec.fsGroupPolicy: Unsupported value: "X": supported values: "File", "None", "ReadWriteOnceWithFSType"'],
            id="group policy",
        ),
        pytest.param(
            CSI_NODE, "spec.drivers.0.nodeID", "", ["spec.drivers[0].nodeID: Required value"], id="no node id"
        ),
        pytest.param(
            CSI_NODE,
            "spec.drivers.0.allocatable",
            {"count": -1},
            ["spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0"],
            id="negative limit",
        ),
        pytest.param(
            CAPACITY,
            "capacity",
            "-1Gi",
            ['capacity: Invalid value: "-1Gi": must be greater than or equal to 0'],
            id="negative capacity",
        ),
        pytest.param(
            ATTACHMENT,
            "spec.source",
            {},
            ["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"],
            id="nothing attached",
        ),
    ],
)
def test_single_errors(server, obj, path, value, expected):
    assert server.refusals(obj, path, value) == expected


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
