"""NodeVolumeLimits, as far as it is built: who passes, who is refused, and what they wait for."""

import pytest

from stowplan.framework.status import SKIP, Code
from stowplan.in_tree.common.csi_migration import TranslationError
from stowplan.in_tree.common.not_built import PODS_WITH_CLAIMS
from stowplan.in_tree.node_volume_limits.plugin import PODS_WITH_LIMITED_VOLUMES, NodeVolumeLimits
from stowplan.testing import a_node, a_pod
from support.plugins.storage import (
    CLAIMING,
    EPHEMERAL,
    INLINE,
    INLINE_CSI,
    LIMITED,
    csi_node,
    pvc,
    storage,
)


def test_a_pod_that_needs_none_of_it_passes(bench):
    assert bench(NodeVolumeLimits, a_node()).pre_filter(a_pod().volume("v", emptyDir={})) is SKIP


@pytest.mark.parametrize(
    ("pod", "objects", "what"),
    [
        pytest.param(CLAIMING, [], PODS_WITH_CLAIMS, id="limits, claim"),
        pytest.param(EPHEMERAL, [], PODS_WITH_CLAIMS, id="limits, ephemeral"),
        pytest.param(INLINE, [], None, id="limits, inline, nothing limited"),
        pytest.param(INLINE, [csi_node(x=0)], None, id="limits, inline, no count reported"),
        pytest.param(INLINE, [LIMITED], PODS_WITH_LIMITED_VOLUMES, id="limits, inline"),
        pytest.param(INLINE_CSI, [LIMITED], None, id="limits, inline csi never counts"),
    ],
)
def test_who_is_refused(bench, pod, objects, what):
    status = bench(NodeVolumeLimits, a_node(), *objects).pre_filter(pod)
    if what is None:
        assert status is SKIP
        return
    assert status.code is Code.UnschedulableAndUnresolvable
    assert status.message == f"Stowplan does not place {what} yet (NodeVolumeLimits)"


def attachment(attacher):
    return storage("VolumeAttachment", "a", spec={"attacher": attacher, "nodeName": "n", "source": {}})


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(CLAIMING, None, csi_node(), "Queue", id="csi node added"),
        pytest.param(CLAIMING, csi_node(d=1), csi_node(d=2), "Queue", id="limit grew"),
        pytest.param(CLAIMING, csi_node(), csi_node(d=2), "Queue", id="driver came"),
        pytest.param(CLAIMING, csi_node(d=2), csi_node(d=0), "Skip", id="limit dropped"),
        pytest.param(CLAIMING, a_pod("q").on("n"), None, "Skip", id="pod without volumes gone"),
        pytest.param(CLAIMING, a_pod("q").claims_volume("x"), None, "Skip", id="pending pod gone"),
        pytest.param(CLAIMING, a_pod("q").claims_volume("x").on("n"), None, "Queue", id="pod with a claim gone"),
        pytest.param(
            CLAIMING, INLINE.obj() | {"spec": INLINE.obj()["spec"] | {"nodeName": "n"}}, None, "Queue", id="inline gone"
        ),
        pytest.param(CLAIMING, a_pod("q").volume("v", csi={"driver": "x"}).on("n"), None, "Skip", id="inline csi gone"),
        pytest.param(EPHEMERAL, None, pvc("pod-e"), "Queue", id="claim added"),
        pytest.param(CLAIMING, attachment("x"), None, "Queue", id="detached, pod with claim"),
        pytest.param(INLINE, attachment("ebs.csi.aws.com"), None, "Queue", id="detached, same driver"),
        pytest.param(INLINE, attachment("x"), None, "Skip", id="detached, other driver"),
        pytest.param(EPHEMERAL, attachment("x"), None, "Skip", id="detached, ephemeral volume"),
        pytest.param(CLAIMING, None, a_node(), None, id="nodes are not heard of"),
    ],
)
def test_node_volume_limits_hints(bench, pod, old, new, expected):
    assert bench(NodeVolumeLimits).hint(pod, old, new) == expected


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "aws://zone/disk-1"}},
        {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}},
    ],
)
def test_untranslatable_volumes_are_an_error(bench, source):
    with pytest.raises(TranslationError, match=r"^converting volume\(v\) from inline to csi: "):
        bench(NodeVolumeLimits).hint(a_pod().volume("v", **source), attachment("x"), None)
