"""Pods with claims from decision to bind: writes, waits, and failures."""

import pytest

from stowplan.kube.api.api_errors import Conflict
from stowplan.testing import a_node, a_pod
from support.api.tampered_api import tampered
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.live.volumes import StorageControllers, claim_of, claimed_volumes
from support.plugins.claims import COMPLETED, HOST, SELECTED, ZONE, a_class, claim, volume

LOCAL = "kubernetes.io/no-provisioner"
TIMEOUT = 600.0


def nodes(*names, **resources):
    return [
        a_node(name)
        .labels({HOST: name, ZONE: name})
        .allocatable(**{"cpu": 4000, "memory": "64Gi", "pods": 5000} | resources)
        .obj()
        for name in names
    ]


def free(name, **fields):
    """A volume as an administrator creates it."""
    source = {"csi": {"driver": "d", "volumeHandle": name}}
    return volume(name, spec=source | fields.pop("spec", {}), **fields)


def wanting(name, *, size="1Gi", class_name="s"):
    return claim(name, size=size, class_name=class_name)


def using(name, *claims):
    pod = a_pod(name)
    for one in claims or (name,):
        pod.claims_volume(one)
    return pod.obj()


def message_of(cluster, name):
    return [event["note"] for event in cluster.events(name, "FailedScheduling")]


def selected(cluster, name):
    return cluster.get("persistentvolumeclaims", name)["metadata"].get("annotations", {}).get(SELECTED)


async def test_a_volume_is_provisioned_on_the_pods_node():
    async with live(*nodes("a", "b", "c"), a_class(provisioner="p")) as cluster:
        controllers = StorageControllers(cluster)
        await cluster.create(*(wanting(f"p{i}") for i in range(3)), *(using(f"p{i}") for i in range(3)))
        assert all(selected(cluster, f"p{i}") for i in range(3))
        assert [cluster.node_of(f"p{i}") for i in range(3)] == ["", "", ""]
        await controllers.settle()
        for i in range(3):
            phase, name = claim_of(cluster, f"p{i}")
            assert phase == "Bound"
            of_volume = cluster.get("persistentvolumes", name)
            (term,) = of_volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            assert term["matchExpressions"][0]["values"] == [cluster.node_of(f"p{i}")]
        assert len(cluster.scheduler.state.assumed) == 0


async def test_each_free_volume_goes_to_one_claim():
    made = [free("v", on={HOST: ["a"]}, size="5Gi"), free("w", on={HOST: ["b"]}, size="10Gi")]
    async with live(*nodes("a", "b"), a_class(provisioner=LOCAL), *made) as cluster:
        controllers = StorageControllers(cluster)
        await controllers.settle()
        claims = [wanting("p0", size="6Gi"), wanting("p1"), wanting("p2")]
        await cluster.create(*claims, *(using(f"p{i}") for i in range(3)))
        await controllers.settle()
        # Which of the two small claims gets the small volume depends on timing.
        assert cluster.node_of("p0") == "b"
        assert claim_of(cluster, "p0") == ("Bound", "w")
        placed = [name for name in ("p1", "p2") if cluster.node_of(name)]
        assert len(placed) == 1
        assert claim_of(cluster, placed[0]) == ("Bound", "v")
        (left,) = {"p1", "p2"} - set(placed)
        assert "2 node(s) didn't find available persistent volumes to bind" in cluster.why_pending(left)
        await cluster.create(free("x", on={HOST: ["a"]}))
        await controllers.settle()
        await cluster.advance(10.0)
        await controllers.settle()
        assert claim_of(cluster, left) == ("Bound", "x")
        assert claimed_volumes(cluster) == {"w": "p0", "v": placed[0], "x": left}


async def test_other_fields_of_a_volume_are_kept():
    made = free("v", spec={"mountOptions": ["ro"]}, metadata={"annotations": {"mine": "yes"}})
    async with live(*nodes("a"), a_class(provisioner=LOCAL), made) as cluster:
        controllers = StorageControllers(cluster)
        await controllers.settle()
        await cluster.create(wanting("p"), using("p"))
        written = cluster.get("persistentvolumes", "v")
        assert written["spec"]["mountOptions"] == ["ro"]
        assert written["metadata"]["annotations"] == {"mine": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
        assert written["spec"]["claimRef"]["name"] == "p"
        await controllers.settle()
        assert cluster.node_of("p") == "a"


async def waiting_for_a_provisioner(cluster, name="p"):
    await cluster.create(wanting(name), using(name))
    assert cluster.node_of(name) == ""
    assert selected(cluster, name)
    return selected(cluster, name)


def rolled_back(cluster, name, text):
    assert message_of(cluster, name)[-1] == text
    assert cluster.node_of(name) == ""
    assert len(cluster.scheduler.state.assumed) == 0
    cluster.scheduler.engine.validate()


PREFIX = 'running PreBind plugin "VolumeBinding": binding volumes: '


async def test_a_provisioner_that_never_responds():
    async with live(*nodes("a"), a_class(provisioner="p")) as cluster:
        await waiting_for_a_provisioner(cluster)
        await cluster.advance(TIMEOUT - 1)
        assert message_of(cluster, "p") == []
        await cluster.advance(1)
        rolled_back(cluster, "p", f"{PREFIX}context deadline exceeded")


async def test_unrelated_changes_do_not_extend_the_deadline():
    async with live(*nodes("a"), a_class(provisioner="p")) as cluster:
        await waiting_for_a_provisioner(cluster)
        for i in range(3):
            await cluster.advance(150.0)
            await cluster.patch("persistentvolumeclaims", "p", {"metadata": {"labels": {"turn": str(i)}}})
        await cluster.advance(149.0)
        assert message_of(cluster, "p") == []
        await cluster.advance(1.5)
        rolled_back(cluster, "p", f"{PREFIX}context deadline exceeded")


async def test_a_provisioner_that_responds_after_the_timeout():
    async with live(*nodes("a", "b"), a_class(provisioner="p")) as cluster:
        node = await waiting_for_a_provisioner(cluster)
        await cluster.advance(TIMEOUT)
        await cluster.advance(TIMEOUT)
        controllers = StorageControllers(cluster)
        await controllers.settle()
        await cluster.advance(60.0)
        await controllers.settle()
        assert claim_of(cluster, "p")[0] == "Bound"
        assert cluster.node_of("p") == node


@pytest.mark.parametrize("others", [True, False])
async def test_a_provisioner_that_refuses_the_node(others):
    async with live(*nodes("a", "b"), a_class(provisioner="p")) as cluster:
        await waiting_for_a_provisioner(cluster)
        if others:
            await cluster.patch("persistentvolumeclaims", "p", {"metadata": {"annotations": {"other": "x"}}})
        await cluster.patch("persistentvolumeclaims", "p", {"metadata": {"annotations": {SELECTED: None}}})
        why = 'provisioning failed for PVC "p"' if others else 'selectedNode annotation reset for PVC "p"'
        assert message_of(cluster, "p")[-1] == f"{PREFIX}{why}"
        controllers = StorageControllers(cluster)
        await cluster.advance(60.0)
        await controllers.settle()
        await cluster.advance(60.0)
        await controllers.settle()
        assert cluster.node_of("p")
        assert claim_of(cluster, "p")[0] == "Bound"


async def test_a_claim_deleted_meanwhile():
    async with live(*nodes("a"), a_class(provisioner="p")) as cluster:
        await waiting_for_a_provisioner(cluster)
        await cluster.delete("persistentvolumeclaims", "p")
        missing = 'failed to check provisioning pvc: persistentvolumeclaims "default/p" not found'
        rolled_back(cluster, "p", f"{PREFIX}{missing}")
        await cluster.advance(60.0)
        assert 'persistentvolumeclaim "p" not found' in cluster.why_pending("p")


async def test_a_node_deleted_meanwhile():
    async with live(*nodes("a"), a_class(provisioner="p")) as cluster:
        await waiting_for_a_provisioner(cluster)
        await cluster.delete("nodes", "a")
        rolled_back(cluster, "p", f'{PREFIX}failed to get node "a": node "a" not found')


async def test_a_pod_deleted_meanwhile():
    async with live(*nodes("a"), a_class(provisioner="p")) as cluster:
        await waiting_for_a_provisioner(cluster)
        await cluster.delete("pods", "p")
        assert cluster.scheduler.engine.under_way == 0
        assert len(cluster.scheduler.state.assumed) == 0
        cluster.scheduler.engine.validate()


async def written_to_a_volume(cluster):
    controllers = StorageControllers(cluster)
    await controllers.settle()
    await cluster.create(wanting("p"), using("p"))
    assert claimed_volumes(cluster) == {"v": "p"}
    return controllers


@pytest.mark.parametrize("how", ["gone", "reset", "moved"])
async def test_a_volume_changed_meanwhile(how):
    async with live(*nodes("a"), a_class(provisioner=LOCAL), free("v")) as cluster:
        await written_to_a_volume(cluster)
        if how == "gone":
            await cluster.delete("persistentvolumes", "v")
            why = 'failed to check binding: persistentvolumes "v" not found'
        elif how == "reset":
            await cluster.patch("persistentvolumes", "v", {"spec": {"claimRef": None}})
            why = 'ClaimRef got reset for pv "v"'
        else:
            await cluster.patch("nodes", "a", {"metadata": {"labels": {HOST: "b"}}})
            affinity = {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["a"]}]}]
                }
            }
            await cluster.patch("persistentvolumes", "v", {"spec": {"nodeAffinity": affinity}})
            why = 'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'
        rolled_back(cluster, "p", f"{PREFIX}{why}")


async def test_a_volume_written_by_another_client_meanwhile():
    async def refuse(call, go_on):
        if call.kind == "PersistentVolume":
            raise Conflict("the object has been modified")
        return await go_on()

    async with live(*nodes("a"), a_class(provisioner=LOCAL), free("v"), wrap=tampered(patch=refuse)) as cluster:
        controllers = StorageControllers(cluster)
        await controllers.settle()
        await cluster.create(wanting("p"), using("p"))
        # It waits to observe the write, which may equal its own.
        assert message_of(cluster, "p") == []
        await cluster.patch("persistentvolumes", "v", {"metadata": {"labels": {"by": "somebody"}}})
        rolled_back(cluster, "p", 'running PreBind plugin "VolumeBinding": the object has been modified')
        cluster.port.instead.clear()
        await cluster.advance(60.0)
        await controllers.settle()
        assert claim_of(cluster, "p") == ("Bound", "v")
        assert cluster.node_of("p") == "a"


async def test_two_pods_with_one_claim_are_scheduled_to_one_node():
    async with live(*nodes("a", "b"), a_class(provisioner="p")) as cluster:
        controllers = StorageControllers(cluster)
        await cluster.create(wanting("c"), using("p", "c"), using("q", "c"))
        await controllers.settle()
        # Of two writes of the same version the second is refused; it would have written the same.
        assert cluster.node_of("p") == cluster.node_of("q") != ""
        assert message_of(cluster, "p") == message_of(cluster, "q") == []


async def test_bound_claims_are_not_waited_for():
    bound = claim("p", volume="v", metadata={"annotations": {COMPLETED: "yes"}})
    objects = [*nodes("a", "b"), a_class(), bound, free("v", on={HOST: ["b"]}, phase="Bound")]
    async with live(*objects) as cluster:
        await cluster.create(using("p"))
        assert cluster.node_of("p") == "b"


GOOD, WAITING = 2000, 256


async def test_pods_waiting_for_a_provisioner_delay_no_others():
    async with live(*nodes("a", "b"), a_class(provisioner="p"), validate=False) as cluster:
        waiting = [f"w{i}" for i in range(WAITING)]
        await cluster.create(*(wanting(name) for name in waiting), *(using(name) for name in waiting))
        assert len(cluster.scheduler.engine.bindings.under_way) == WAITING
        began = cluster.scheduler.clock()
        await cluster.create(*(a_pod(f"p{i}").obj() for i in range(GOOD)))
        assert all(cluster.node_of(f"p{i}") for i in range(GOOD))
        assert cluster.scheduler.clock() == began, "time had to pass"
        assert cluster.scheduler.engine.bindings.writes == 0
        cluster.scheduler.engine.validate()
        await cluster.advance(TIMEOUT)
        assert len(message_of(cluster, "w0")) == 1


async def test_a_scheduler_that_starts_during_a_bind():
    """The scheduler continues what its predecessor wrote."""
    async with live(*nodes("a", "b"), a_class(provisioner="p"), free("v", class_name="t", on={HOST: ["b"]})) as cluster:
        await waiting_for_a_provisioner(cluster)
        node = selected(cluster, "p")
        kept = [
            cluster.get("persistentvolumeclaims", "p"),
            cluster.get("persistentvolumes", "v"),
            a_class(provisioner="p"),
        ]
    async with live(*nodes("a", "b"), *map(_recreated, kept)) as cluster:
        controllers = StorageControllers(cluster)
        await cluster.create(using("p"))
        await controllers.settle()
        assert cluster.node_of("p") == node
        assert claim_of(cluster, "p")[0] == "Bound"


async def test_a_run_with_volumes_is_replayed():
    recorded = Recorded()
    made = [free(f"v{i}", class_name="local", on={HOST: ["ab"[i % 2]]}) for i in range(3)]
    classes = [a_class(provisioner="p"), a_class("local", provisioner=LOCAL)]
    async with live(*nodes("a", "b"), *classes, *made, recorder=recorded.recorder) as cluster:
        controllers = StorageControllers(cluster)
        await controllers.settle()
        names = [f"p{i}" for i in range(8)]
        await cluster.create(*(wanting(name, class_name="s" if i % 2 else "local") for i, name in enumerate(names)))
        await cluster.create(*map(using, names))
        await cluster.patch("persistentvolumeclaims", "p1", {"metadata": {"annotations": {SELECTED: None}}})
        await cluster.advance(30.0)
        await cluster.delete("persistentvolumeclaims", "p3")
        await controllers.settle()
        await cluster.advance(TIMEOUT + 60.0)
        await controllers.settle()
        assert sum(bool(cluster.node_of(name)) for name in names) >= 5
    recorded.check()


def _recreated(obj):
    for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        obj["metadata"].pop(name, None)
    return obj


async def test_many_almost_matching_volumes():
    made = [free(f"v{i}", on={HOST: [f"gone{i}"]}, size=f"{i + 1}Gi") for i in range(2000)]
    async with live(*nodes("a"), a_class(provisioner=LOCAL), *made, validate=False) as cluster:
        controllers = StorageControllers(cluster)
        await controllers.settle()
        await cluster.create(wanting("p"), using("p"))
        assert "1 node(s) didn't find available persistent volumes to bind" in cluster.why_pending("p")
        await cluster.create(free("right", on={HOST: ["a"]}, size="3000Gi"))
        await cluster.advance(10.0)
        await controllers.settle()
        await cluster.advance(10.0)
        await controllers.settle()
        assert claim_of(cluster, "p") == ("Bound", "right")
