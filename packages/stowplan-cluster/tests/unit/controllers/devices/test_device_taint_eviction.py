"""Pods are evicted from devices with a NoExecute taint that their claim does not tolerate."""

import pytest

from stowplan_cluster.controllers.devices.device_taint_eviction import DeviceTaintEvictionController
from support.live.living_cluster import Living, condition, node, pod
from support.plugins.devices import a_claim, a_device, a_slice, a_taint_rule, allocation, exactly

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
    """A pod with an allocated device, as the scheduler and the API server leave it."""
    entries = [{"name": "gpu", "resourceClaimName": f"{name}-claim"}]
    cluster.create(pod(name, resourceClaims=entries, **({"nodeName": node_name} if node_name else {})))
    made = a_claim(f"{name}-claim", exactly())
    made["metadata"].pop("uid")
    cluster.create(made)
    user = {"resource": "pods", "name": name, "uid": cluster.pod(name)["metadata"]["uid"]}
    status = {**allocation(device, tolerations=list(tolerations)), "reservedFor": [user]}
    cluster.change(CLAIM, f"{name}-claim", lambda obj: obj.update(status=status), subresource="status")
    cluster.settle()


def taint(cluster, device="g0", *taints):
    def edit(obj):
        for one in obj["spec"]["devices"]:
            if one["name"] == device:
                one["taints"] = list(taints)

    cluster.change(SLICE, "s", edit, namespace="")
    cluster.settle()


def is_marked(cluster, name="web"):
    """Whether the pod is being deleted and has the condition."""
    web = cluster.pod(name)
    marked = condition(web, "DisruptionTarget") == ("True", "DeletionByDeviceTaintManager")
    assert ("deletionTimestamp" in web["metadata"]) == marked
    return marked


def test_a_pod_without_toleration_is_evicted_at_once(cluster):
    run(cluster)
    run(cluster, "other", "g1")
    taint(cluster, "g0", TAINT)
    assert is_marked(cluster)
    assert not is_marked(cluster, "other")
    assert cluster.events("web") == [("Normal", "DeviceTaintManagerEviction", "Marking for deletion")]


@pytest.mark.parametrize(
    ("taints", "tolerations", "seconds"),
    [
        pytest.param([TAINT], tolerating(), None, id="forever"),
        pytest.param([TAINT], tolerating(60), 60, id="for some seconds"),
        pytest.param([TAINT], tolerating(0), 0, id="for zero seconds"),
        pytest.param([TAINT], tolerating(-5), 0, id="for negative seconds"),
        pytest.param([TAINT], [{"operator": "Exists"}], 0, id="of any effect"),
        pytest.param([TAINT], [*tolerating(60), *tolerating()], None, id="one for ever"),
        pytest.param([{**TAINT, "effect": "NoSchedule"}], [], None, id="does not execute"),
        pytest.param([TAINT, {**TAINT, "key": "other"}], [*tolerating(60), *tolerating(20, key="other")], 20, id="two"),
    ],
)
def test_toleration_seconds(cluster, taints, tolerations, seconds):
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


def test_a_taint_removed_in_time_evicts_no_pod(cluster):
    run(cluster, tolerations=tolerating(60))
    taint(cluster, "g0", TAINT)
    cluster.advance(30)
    taint(cluster, "g0")
    cluster.advance(60)
    assert not is_marked(cluster)
    assert cluster.events("web") == [("Normal", "DeviceTaintManagerEviction", "Cancelling deletion")]


def test_a_pod_bound_to_a_tainted_device_is_evicted(cluster):
    taint(cluster, "g0", TAINT)
    run(cluster)
    assert is_marked(cluster)


def test_a_pod_without_a_node_is_kept(cluster):
    taint(cluster, "g0", TAINT)
    run(cluster, node_name="")
    assert not is_marked(cluster)


RULE = "devicetaintrules.resource.k8s.io"


def rule(cluster, name="rule", *, effect="NoExecute", **selector):
    cluster.create(a_taint_rule(name, key="example.com/broken", effect=effect, **(selector or {"device": "g0"})))
    cluster.settle()


def report(cluster, name="rule"):
    (condition,) = cluster.get(RULE, name)["status"]["conditions"]
    assert condition["type"] == "EvictionInProgress"
    return condition["status"], condition["reason"], condition["message"]


@pytest.mark.parametrize(
    ("selector", "goes"),
    [
        ({"device": "g0"}, True),
        ({"driver": "gpu.example.com", "pool": "p", "device": "g0"}, True),
        ({"driver": "gpu.example.com"}, True),
        ({"device": "g1"}, False),
        ({"pool": "other", "device": "g0"}, False),
    ],
)
def test_rules_evict_pods_of_matching_devices(cluster, selector, goes):
    run(cluster)
    rule(cluster, **selector)
    assert is_marked(cluster) == goes


def test_a_rule_without_selector_evicts_no_pod(cluster):
    run(cluster)
    cluster.create(a_taint_rule(effect="NoExecute"))
    cluster.settle()
    assert not is_marked(cluster)
    assert report(cluster) == ("False", "NotStarted", "")


def test_a_rule_that_is_tolerated_for_some_seconds(cluster):
    run(cluster, tolerations=tolerating(60))
    rule(cluster)
    assert report(cluster) == ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
    cluster.advance(58)
    assert not is_marked(cluster)
    cluster.advance(4)
    assert is_marked(cluster)


def test_a_rule_deleted_in_time_evicts_no_pod(cluster):
    run(cluster, tolerations=tolerating(60))
    rule(cluster)
    cluster.delete(RULE, "rule")
    cluster.advance(120)
    assert not is_marked(cluster)
    assert cluster.events("web") == [("Normal", "DeviceTaintManagerEviction", "Cancelling deletion")]


def test_a_rules_status_has_its_progress(cluster):
    for name in ("a", "b"):
        run(cluster, name)
    rule(cluster)
    assert report(cluster) == ("True", "PodsPendingEviction", "2 pods need to be evicted in 1 namespace.")
    assert is_marked(cluster, "a")
    assert is_marked(cluster, "b")
    cluster.advance(8)
    assert report(cluster)[1] == "PodsPendingEviction", "updated within ten seconds"
    cluster.advance(4)
    assert report(cluster) == ("False", "Completed", "2 pods evicted since starting the controller.")
    version = cluster.store.version
    cluster.advance(60)
    assert cluster.store.version == version


def test_the_status_of_a_rule_with_effect_none(cluster):
    run(cluster, "a")
    run(cluster, "b", "g1", tolerations=tolerating())
    rule(cluster, effect="None", driver="gpu.example.com")
    assert report(cluster) == (
        "False",
        "NoEffect",
        "2 published devices selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace if the "
        "effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an "
        "update.",
    )
    assert not is_marked(cluster, "a")
    evicting = {"key": "example.com/broken", "effect": "NoExecute"}
    cluster.change(RULE, "rule", lambda obj: obj["spec"].update(taint=evicting), namespace="")
    cluster.settle()
    assert report(cluster)[1] == "PodsPendingEviction", "not updated although the rule changed"
    assert is_marked(cluster, "a")
    assert not is_marked(cluster, "b")


def test_the_status_of_a_rule_with_another_effect(cluster):
    rule(cluster, effect="NoSchedule")
    assert report(cluster) == ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")


def test_pods_of_a_group_are_evicted_with_its_device(cluster):
    run(cluster, tolerations=tolerating(60))
    of_group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": "u"}
    cluster.change(CLAIM, "web-claim", lambda obj: obj["status"].update(reservedFor=[of_group]), subresource="status")
    entries = [{"name": "gpu", "resourceClaimName": "web-claim"}]
    group = {"podGroupName": "train"}
    cluster.create(pod("member", resourceClaims=entries, schedulingGroup=group, nodeName="node-1"))
    rule(cluster)
    cluster.advance(62)
    assert is_marked(cluster, "member")
    assert not is_marked(cluster, "web")
