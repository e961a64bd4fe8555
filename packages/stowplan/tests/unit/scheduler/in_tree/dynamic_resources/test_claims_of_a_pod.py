"""The claims of a pod: which are missing, and what then gates it."""

import pytest

from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.status import SKIP, Code
from stowplan.scheduler.in_tree.dynamic_resources.plugin import DynamicResources
from stowplan.testing import a_node, a_pod
from support.plugins.storage import (
    resource_claim,
)


def test_pods_without_claims_pass(bench):
    assert bench(DynamicResources, a_node()).pre_filter(a_pod().volume("v", emptyDir={})) is SKIP


@pytest.mark.parametrize(
    ("pod", "objects", "message"),
    [
        pytest.param(a_pod(), [], None, id="no claims"),
        pytest.param(a_pod().claims_devices("c"), [resource_claim()], None, id="claim exists"),
        pytest.param(a_pod().claims_devices("c"), [], 'could not find ResourceClaim "default/c"', id="claim missing"),
        pytest.param(
            a_pod().claims_devices("c"),
            [resource_claim(deletionTimestamp="2026-01-01T00:00:00Z")],
            'resourceclaim "c" is being deleted',
            id="claim terminating",
        ),
        pytest.param(
            a_pod().spec(resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}]),
            [],
            'pod "default/pod": ResourceClaim not created yet',
            id="template, no claim yet",
        ),
        pytest.param(
            a_pod()
            .spec(resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])
            .status(resourceClaimStatuses=[{"name": "r", "resourceClaimName": "c"}]),
            [resource_claim()],
            "ResourceClaim default/c was not created for Pod default/pod (Pod is not owner)",
            id="claim of another pod",
        ),
        pytest.param(
            a_pod()
            .spec(resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])
            .status(resourceClaimStatuses=[{"name": "r"}]),
            [],
            None,
            id="no claim necessary",
        ),
        pytest.param(
            a_pod().spec(resourceClaims=[{"name": "r"}]),
            [],
            'pod "default/pod", spec.resourceClaim "r": none of the supported fields are set',
            id="neither claim nor template",
        ),
    ],
)
def test_device_claims_gate_a_pod(bench, pod, objects, message):
    world = bench(DynamicResources, *objects)
    status = world.plugin.pre_enqueue(world.pod(pod))
    assert (status and status.message) == message


def test_post_filter_of_dynamic_resources(bench):
    world = bench(DynamicResources, a_node())
    cycle, info = CycleState(), world.pod(a_pod())
    early = world.plugin.post_filter(cycle, info, None).status
    assert (early.code, early.message) == (Code.Error, "not found")
    world.plugin.pre_filter(cycle, info, world.nodes())
    status = world.plugin.post_filter(cycle, info, None).status
    assert (status.code, status.message) == (Code.Unschedulable, "no new claims to deallocate")


def test_another_claim_wakes_no_pod_whose_own_is_missing(bench):
    old, new = resource_claim("x", {"allocation": {}}), resource_claim("x")
    assert bench(DynamicResources).hint(a_pod().claims_devices("c"), old, new) == "Skip"
