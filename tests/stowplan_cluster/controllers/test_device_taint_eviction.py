"""Pods leave devices whose NoExecute taint their claim does not tolerate."""

import pytest

from stowplan_cluster.controllers.device_taint_eviction import DeviceTaintEvictionController
from support.live.living_cluster import Living, condition, node, pod
from support.plugins.devices import a_claim, a_device, a_slice, allocation, exactly

TAINT = {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"}
SLICE, CLAIM = "resourceslices.resource.k8s.io", "resourceclaims.resource.k8s.io"


def tolerating(seconds=None, **rest):
    toleration = {"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute", **rest}
    return [toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}]


@pytest.fixture
def cluster():
    cluster = Living(DeviceTaintEvictionController)
    cluster.create(node(ready="True"))
    cluster.create(a_slice("s", a_device("g0"), a_device("g1"), pool="p", nodeName="node-1"))
    return cluster


def run(cluster, name="web", device="g0", *, tolerations=(), node_name="node-1"):
    """A pod that has a device, as the scheduler and the API server leave it."""
    entries = [{"name": "gpu", "resourceClaimName": f"{name}-claim"}]
    cluster.create(pod(name, resourceClaims=entries, **({"nodeName": node_name} if node_name else {})))
    made = a_claim(f"{name}-claim", exactly())
    made["metadata"].pop("uid")
    cluster.create(made)
    user = {"resource": "pods", "name": name, "uid": cluster.pod(name)["metadata"]["uid"]}
    status = {**allocation(device, tolerations=list(tolerations)), "reservedFor": [user]}
    cluster.edit(CLAIM, f"{name}-claim", lambda obj: obj.update(status=status), subresource="status")
    cluster.settle()


def taint(cluster, device="g0", *taints):
    def edit(obj):
        for one in obj["spec"]["devices"]:
            if one["name"] == device:
                one["taints"] = list(taints)

    cluster.edit(SLICE, "s", edit, namespace="")
    cluster.settle()


def is_marked(cluster, name="web"):
    """Whether the pod is being deleted, and says why."""
    web = cluster.pod(name)
    marked = condition(web, "DisruptionTarget") == ("True", "DeletionByDeviceTaintManager")
    assert ("deletionTimestamp" in web["metadata"]) == marked
    return marked


def test_a_pod_that_does_not_tolerate_the_taint_goes_at_once(cluster):
    run(cluster)
    run(cluster, "other", "g1")
    taint(cluster, "g0", TAINT)
    assert is_marked(cluster)
    assert not is_marked(cluster, "other")
    assert cluster.events("web") == [("Normal", "DeviceTaintManagerEviction", "Marking for deletion")]


@pytest.mark.parametrize(
    ("taints", "tolerations", "seconds"),
    [
        pytest.param([TAINT], tolerating(), None, id="for ever"),
        pytest.param([TAINT], tolerating(60), 60, id="for a time"),
        pytest.param([TAINT], tolerating(0), 0, id="for no time"),
        pytest.param([TAINT], tolerating(-5), 0, id="for less than no time"),
        pytest.param([TAINT], [{"operator": "Exists"}], 0, id="of any effect"),
        pytest.param([TAINT], [*tolerating(60), *tolerating()], None, id="one for ever"),
        pytest.param([{**TAINT, "effect": "NoSchedule"}], [], None, id="does not execute"),
        pytest.param([TAINT, {**TAINT, "key": "other"}], [*tolerating(60), *tolerating(20, key="other")], 20, id="two"),
    ],
)
def test_how_long_a_pod_stays(cluster, taints, tolerations, seconds):
    run(cluster, tolerations=tolerations)
    taint(cluster, "g0", *taints)
    if seconds is None:
        cluster.advance(3600)
        assert not is_marked(cluster)
        return
    if seconds:
        cluster.advance(seconds - 2)
        assert not is_marked(cluster)
        cluster.advance(4)
    assert is_marked(cluster)


def test_a_taint_that_goes_in_time_evicts_nobody(cluster):
    run(cluster, tolerations=tolerating(60))
    taint(cluster, "g0", TAINT)
    cluster.advance(30)
    taint(cluster, "g0")
    cluster.advance(60)
    assert not is_marked(cluster)
    assert cluster.events("web") == [("Normal", "DeviceTaintManagerEviction", "Cancelling deletion")]


def test_a_pod_that_is_bound_to_a_tainted_device_goes(cluster):
    taint(cluster, "g0", TAINT)
    run(cluster)
    assert is_marked(cluster)


def test_a_pod_without_a_node_stays(cluster):
    taint(cluster, "g0", TAINT)
    run(cluster, node_name="")
    assert not is_marked(cluster)
