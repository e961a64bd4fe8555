"""The events that wake pods refused by VolumeBinding."""

import pytest

from stowplan.scheduler.in_tree.volume_binding.plugin import VolumeBinding
from stowplan.testing import a_node
from support.plugins.storage import (
    CLAIMING,
    EPHEMERAL,
    IMMEDIATE_CLASS,
    INLINE_CSI,
    TOPOLOGIES,
    VOLUME,
    WAITING_CLASS,
    csi_node,
    pvc,
    storage,
    volume,
)

MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}


def driver(name, tracks):
    return storage("CSIDriver", name, spec={"storageCapacity": tracks})


def capacity(**limits):
    return storage("CSIStorageCapacity", "k", metadata={"namespace": "default"}, storageClassName="s", **limits)


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(CLAIMING, None, IMMEDIATE_CLASS, "Queue", id="class added"),
        pytest.param(CLAIMING, WAITING_CLASS, WAITING_CLASS | TOPOLOGIES, "Queue", id="topologies changed"),
        pytest.param(
            CLAIMING, WAITING_CLASS, WAITING_CLASS | {"reclaimPolicy": "Retain"}, "Skip", id="class changed otherwise"
        ),
        pytest.param(CLAIMING, None, pvc("c"), "Queue", id="claim"),
        pytest.param(CLAIMING, None, pvc("c", "other"), "Skip", id="claim of another namespace"),
        pytest.param(EPHEMERAL, None, pvc("pod-e"), "Queue", id="claim of an ephemeral volume"),
        pytest.param(EPHEMERAL, None, pvc("e"), "Skip", id="other claim"),
        pytest.param(CLAIMING, VOLUME, volume(zone="a"), "Queue", id="volume"),
        pytest.param(CLAIMING, None, a_node(), "Queue", id="node"),
        pytest.param(CLAIMING, None, csi_node(), "Queue", id="csi node added"),
        pytest.param(CLAIMING, csi_node(), csi_node(annotations=MIGRATED), "Queue", id="migration changed"),
        pytest.param(CLAIMING, csi_node(), csi_node(d=3), "Skip", id="limits changed"),
        pytest.param(
            INLINE_CSI, driver("secrets", True), driver("secrets", False), "Queue", id="capacity no longer tracked"
        ),
        pytest.param(INLINE_CSI, driver("secrets", False), driver("secrets", True), "Skip", id="capacity tracked now"),
        pytest.param(INLINE_CSI, driver("x", True), driver("x", False), "Skip", id="other driver"),
        pytest.param(CLAIMING, None, capacity(), "Queue", id="capacity added"),
        pytest.param(CLAIMING, capacity(capacity="1Gi"), capacity(capacity="2Gi"), "Queue", id="capacity grew"),
        pytest.param(CLAIMING, capacity(), capacity(capacity="1Gi"), "Queue", id="capacity set"),
        pytest.param(
            CLAIMING,
            capacity(capacity="1Gi", maximumVolumeSize="1Gi"),
            capacity(capacity="2Gi", maximumVolumeSize="1Gi"),
            "Skip",
            id="largest volume unchanged",
        ),
    ],
)
def test_volume_binding_hints(bench, pod, old, new, expected):
    assert bench(VolumeBinding).hint(pod, old, new) == expected
