"""VolumeZone, as far as it is built: who passes, who is refused, and what they wait for."""

import pytest

from stowplan.framework.status import SKIP, Code
from stowplan.in_tree.common.not_built import PODS_WITH_CLAIMS
from stowplan.in_tree.volume_zone.plugin import VolumeZone
from stowplan.testing import a_node, a_pod
from support.plugins.storage import (
    CLAIMING,
    EPHEMERAL,
    IMMEDIATE_CLASS,
    TOPOLOGIES,
    VOLUME,
    WAITING_CLASS,
    pvc,
    volume,
)


def test_a_pod_that_needs_none_of_it_passes(bench):
    assert bench(VolumeZone, a_node()).pre_filter(a_pod().volume("v", emptyDir={})) is SKIP


@pytest.mark.parametrize(
    ("pod", "objects", "what"),
    [
        pytest.param(CLAIMING, [], PODS_WITH_CLAIMS, id="zone, claim"),
        pytest.param(EPHEMERAL, [], None, id="zone, ephemeral"),
    ],
)
def test_who_is_refused(bench, pod, objects, what):
    status = bench(VolumeZone, a_node(), *objects).pre_filter(pod)
    if what is None:
        assert status is SKIP
        return
    assert status.code is Code.UnschedulableAndUnresolvable
    assert status.message == f"Stowplan does not place {what} yet (VolumeZone)"


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(CLAIMING, None, WAITING_CLASS, "Queue", id="waiting class added"),
        pytest.param(CLAIMING, None, IMMEDIATE_CLASS, "Skip", id="immediate class added"),
        pytest.param(CLAIMING, WAITING_CLASS, WAITING_CLASS | TOPOLOGIES, None, id="class updates are not heard of"),
        pytest.param(CLAIMING, None, pvc("c"), "Queue", id="claim"),
        pytest.param(EPHEMERAL, None, pvc("pod-e"), "Skip", id="claim of an ephemeral volume"),
        pytest.param(CLAIMING, None, VOLUME, "Queue", id="volume added"),
        pytest.param(CLAIMING, volume(zone="a"), volume(zone="b"), "Queue", id="zone changed"),
        pytest.param(CLAIMING, volume(zone="a__b"), volume(zone="b__a"), "Skip", id="same zones"),
        pytest.param(CLAIMING, VOLUME, volume(zone="a__"), "Skip", id="unreadable zone"),
    ],
)
def test_volume_zone_hints(bench, pod, old, new, expected):
    assert bench(VolumeZone).hint(pod, old, new) == expected
