"""Scores by storage capacity, on by default since 1.37, through the whole scheduler.

The rows with three classes of shape are from upstream's TestScore (volumebinding/scorer_test.go, equal in 1.36 and
1.37); "default shape" there is the opposite of the default of configurations.
"""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod
from support.plugins.storage import of, pvc, storage

DRIVER = storage("CSIDriver", "d", spec={"storageCapacity": True})
MOST_USED_FIRST = [(0, 0), (100, 10)]
FROM_HALF_ON = [(50, 0), (80, 3), (100, 5)]


def a_class(name):
    return storage("StorageClass", name, provisioner="d", volumeBindingMode="WaitForFirstConsumer")


def capacity(class_name, node, size):
    return storage(
        "CSIStorageCapacity",
        f"{class_name}-{node}",
        metadata={"namespace": "default"},
        storageClassName=class_name,
        capacity=str(size),
        nodeTopology={"matchLabels": {"kubernetes.io/hostname": node}},
    )


def a_claim(name, class_name, size):
    return pvc(
        name, storageClassName=class_name, accessModes=["ReadWriteOnce"],
        resources={"requests": {"storage": str(size)}},
    )  # fmt: skip


def config_with(shape):
    points = [{"utilization": utilization, "score": score} for utilization, score in shape]
    args = [{"name": "VolumeBinding", "args": {"shape": points}}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": args}],
    }  # fmt: skip


def scores(objects, claims, *, shape=None, version="1.37"):
    pod = a_pod("p")
    for claim in claims:
        pod.claims_volume(claim["metadata"]["name"])
    cluster = stowplan.Cluster(
        [DRIVER, *objects, *claims, pod.obj()],
        config=None if shape is None else config_with(shape),
        emulated_version=version,
    )
    verdict = cluster.explain("default/p").to_dict()
    assert not verdict.get("error"), verdict
    return {node: found.get("VolumeBinding", 0) for node, found in verdict["scores"].items()}


def nodes(*names):
    return [a_node(name).labels({"kubernetes.io/hostname": name}).obj() for name in names]


@pytest.mark.parametrize(
    ("shape", "hdd", "ssd", "score"),
    [
        (MOST_USED_FIRST, 0, None, 0),
        (MOST_USED_FIRST, 30, None, 30),
        (MOST_USED_FIRST, 50, None, 50),
        (MOST_USED_FIRST, 100, None, 100),
        (MOST_USED_FIRST, 0, 0, 0),
        (MOST_USED_FIRST, 0, 30, 15),
        (MOST_USED_FIRST, 30, 30, 30),
        (MOST_USED_FIRST, 30, 60, 45),
        (MOST_USED_FIRST, 50, 50, 50),
        (MOST_USED_FIRST, 50, 100, 75),
        (MOST_USED_FIRST, 100, 100, 100),
        (FROM_HALF_ON, 0, 0, 0),
        (FROM_HALF_ON, 0, 30, 0),
        (FROM_HALF_ON, 30, 30, 0),
        (FROM_HALF_ON, 30, 60, 5),
        (FROM_HALF_ON, 50, 100, 25),
        (FROM_HALF_ON, 90, 90, 40),
        (FROM_HALF_ON, 100, 100, 50),
        (None, 30, None, 70),
        (None, 100, 50, 25),
    ],
)
def test_each_class_counts_once(shape, hdd, ssd, score):
    wanted = {"hdd": hdd} | ({} if ssd is None else {"ssd": ssd})
    objects = [*nodes("a"), *(a_class(name) for name in wanted), *(capacity(name, "a", 100) for name in wanted)]
    claims = [a_claim(f"c-{name}", name, size) for name, size in wanted.items()]
    assert scores(objects, claims, shape=shape) == {"a": score}


def test_claims_of_a_class_are_added():
    objects = [*nodes("a", "b"), a_class("hdd"), capacity("hdd", "a", 100), capacity("hdd", "b", 1000)]
    assert scores(objects, [a_claim("c1", "hdd", 30), a_claim("c2", "hdd", 10)]) == {"a": 60, "b": 96}


def a_volume(name, node, size):
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    return of(
        "PersistentVolume", name, status={"phase": "Available"},
        spec={
            "capacity": {"storage": str(size)}, "accessModes": ["ReadWriteOnce"], "storageClassName": "hdd",
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "csi": {"driver": "d", "volumeHandle": name},
        },
    )  # fmt: skip


def test_a_volume_that_exists_counts_with_its_own_size():
    objects = [*nodes("a", "b"), a_class("hdd"), capacity("hdd", "a", 1000), capacity("hdd", "b", 1000)]
    volume = a_volume("v", "a", 40)
    assert scores([*objects, volume], [a_claim("c1", "hdd", 30)]) == {"a": 25, "b": 97}
    # What is provisioned beside it does not count.
    assert scores([*objects, volume], [a_claim("c1", "hdd", 30), a_claim("c2", "hdd", 300)]) == {"a": 25, "b": 67}


def test_until_1_36_they_do_not_count():
    objects = [*nodes("a", "b"), a_class("hdd"), capacity("hdd", "a", 100), capacity("hdd", "b", 1000)]
    assert scores(objects, [a_claim("c", "hdd", 30)], version="1.36") == {"a": 0, "b": 0}


def test_a_pod_without_claims_is_not_scored():
    assert scores(nodes("a"), []) == {"a": 0}
