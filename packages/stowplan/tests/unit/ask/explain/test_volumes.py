"""Pods refused for their volumes: which volumes, by how much, and suggestions."""

import pytest

from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration
from support.plugins.storage import of, pvc, storage

#: VolumeBinding is disabled.
CONFIG = configuration(
    {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}}}
)
EBS = "ebs.csi.aws.com"


def limits(name, count):
    drivers = [{"name": EBS, "nodeID": name, "allocatable": {"count": count}}]
    return storage("CSINode", name, spec={"drivers": drivers})


def disk(name, *handles):
    pod = a_pod(name).uid(name)
    for handle in handles:
        pod.volume(handle, awsElasticBlockStore={"volumeID": handle})
    return pod


def volume(name, **labels):
    labels = {f"topology.kubernetes.io/{key}": value for key, value in labels.items()}
    spec = {"csi": {"driver": "d", "volumeHandle": name}}
    return of("PersistentVolume", name, metadata={"labels": labels}, spec=spec)


def bound(claim, **labels):
    return [pvc(claim, volumeName=f"pv-{claim}"), volume(f"pv-{claim}", **labels)]


def alone(claim):
    return pvc(claim, volumeName=f"pv-{claim}", accessModes=["ReadWriteOncePod"]), volume(f"pv-{claim}")


def attachment(spec):
    return storage("VolumeAttachment", "attachment", spec=spec)


def ready(*objects):
    return [obj.obj() if hasattr(obj, "obj") else obj for obj in objects]


def test_how_far_a_node_is_over_its_limit(page):
    attached = {"attacher": EBS, "nodeName": "a", "source": {"persistentVolumeName": "loose"}}
    loose = of("PersistentVolume", "loose", spec={"csi": {"driver": EBS, "volumeHandle": "vol-9"}})
    there = [a_node("a"), a_node("b"), limits("a", 2), limits("b", 1), loose]
    objects = ready(*there, disk("x", "1").on("a"), disk("y", "2", "3").on("b"), attachment(attached))
    shown = page(objects, disk("new", "4", "5").obj(), config=CONFIG, wide=True)
    assert f"{EBS}: 2 attached, 1 of them by no pod, 2 more wanted, limit 2" in shown
    assert f"{EBS}: 2 attached, 2 more wanted, limit 1" in shown


def test_the_best_node_represents_its_group(page):
    objects = [a_node("a"), a_node("b"), limits("a", 2), limits("b", 2), disk("x", "1", "2").on("a"),
               disk("y", "3").on("b"), disk("z", "4", "5").on("b")]  # fmt: skip
    shown = page(ready(*objects), disk("new", "6").obj(), config=CONFIG)
    assert f"closest: a, {EBS}: 2 attached, 1 more wanted, limit 2" in shown


def test_moving_pods_is_suggested(texts):
    objects = [
        a_node("a"),
        a_node("b"),
        limits("a", 3),
        limits("b", 1),
        disk("x", "1").on("a"),
        disk("y", "2", "3").on("a"),
        disk("shared", "4").on("b"),
        disk("other", "4").on("b"),
    ]
    assert texts(ready(*objects), disk("new", "8", "9").obj(), config=CONFIG) == [
        "move default/y off a to gain 1 node (a)"
    ]
    assert "move default/x off a to gain 1 node (a)" not in texts(
        ready(*objects), disk("new", "8", "9").obj(), config=CONFIG
    )


def test_limits_too_low_for_the_pod(advice):
    objects = ready(a_node("a"), a_node("b"), limits("a", 1), limits("b", 2))
    found = advice(objects, disk("new", "1", "2", "3").obj(), config=CONFIG)
    assert f"the pod has 3 volumes of {EBS}, and the highest limit of a node (b) is 2" in found.obstacles
    assert not found.suggestions


def test_which_volume_is_elsewhere(page):
    objects = ready(a_node("a").zone("x"), a_node("b").zone("y").unschedulable(), *bound("c", zone="y"))
    shown = page(objects, a_pod().claims_volume("c").obj(), config=CONFIG, wide=True)
    assert "volume pv-c of claim c is in zone y, the node in zone=x" in shown


@pytest.mark.parametrize(
    ("objects", "claims", "obstacle"),
    [
        pytest.param(
            [a_node("a").zone("x"), *bound("c", zone="z")],
            ["c"],
            "volume pv-c of claim c is in zone z, and no node is there",
            id="no node in the zone",
        ),
        pytest.param(
            [a_node("a").zone("x"), a_node("b").zone("y"), *bound("c", zone="x"), *bound("d", zone="y")],
            ["c", "d"],
            "no node is where all of the pod's volumes are: "
            "volume pv-c of claim c in zone x and volume pv-d of claim d in zone y",
            id="volumes apart",
        ),
        pytest.param(
            [a_node("a").zone("x"), a_node("b").zone("y").allocatable(cpu="100m"), *bound("c", zone="y")],
            ["c"],
            "the only node where the pod's volumes are (volume pv-c of claim c in zone y) does not take the pod: "
            "refused by NodeResourcesFit (1)",
            id="zone full",
        ),
        pytest.param(
            [
                a_node("a").zone("x"),
                *(a_node(name).zone("y").allocatable(cpu="100m") for name in "bc"),
                *bound("c", zone="y__z"),
            ],
            ["c"],
            "none of the 2 nodes where the pod's volumes are (volume pv-c of claim c in zone y or z) takes the pod: "
            "refused by NodeResourcesFit (2)",
            id="several nodes full",
        ),
    ],
)
def test_obstacles_in_the_volumes_zone(advice, objects, claims, obstacle):
    pod = a_pod("new").requests(cpu="1")
    for claim in claims:
        pod.claims_volume(claim)
    assert obstacle in advice(ready(*objects), pod.obj(), config=CONFIG).obstacles


def test_freeing_resources_in_the_zone_is_suggested(texts):
    objects = ready(a_node("a").zone("x"), a_node("b").zone("y"), a_pod("big").requests(cpu="3500m").on("b"),
                    *bound("c", zone="y"))  # fmt: skip
    pod = a_pod("new").requests(cpu="1").claims_volume("c")
    assert texts(objects, pod.obj(), config=CONFIG) == ["request 500m cpu instead of 1 to gain 1 node (b)"]


def test_pods_that_mount_a_disk_are_named(page, texts):
    objects = ready(a_node("a"), disk("x", "vol-1").on("a"))
    assert "awsElasticBlockStore vol-1 is mounted by default/x" in page(
        objects, disk("new", "vol-1").obj(), config=CONFIG
    )
    assert texts(objects, disk("new", "vol-1").obj(), config=CONFIG) == ["move default/x off a to gain 1 node (a)"]


def test_users_of_a_read_write_once_pod_claim_are_named(advice):
    objects = ready(a_node("a"), a_node("b"), *alone("c"), a_pod("x").uid("x").claims_volume("c").on("a"))
    found = advice(objects, a_pod("new").claims_volume("c").obj(), config=CONFIG)
    assert found.obstacles == ("claim c is for one pod at a time (ReadWriteOncePod), and default/x on a uses it",)
    assert [suggestion.text for suggestion in found.suggestions] == ["move default/x off a to gain 2 nodes (a, b)"]
