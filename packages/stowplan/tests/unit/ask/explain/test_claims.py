"""Pods refused for claims that are unbound or bound elsewhere: the claims' states, and suggestions."""

import pytest

from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration
from support.plugins.claims import AT_ONCE, HOST, SELECTED, ZONE, a_class, a_driver, capacity, claim, held, volume

LOCAL = a_class("s", provisioner="kubernetes.io/no-provisioner")
NODES = [a_node(name).labels({HOST: name, ZONE: zone}) for name, zone in (("n1", "a"), ("n2", "b"))]


def ready(*objects):
    return [obj.obj() if hasattr(obj, "obj") else obj for obj in objects]


def using(*names):
    pod = a_pod("p").uid("p")
    for name in names or ("c",):
        pod.claims_volume(name)
    return pod.obj()


@pytest.mark.parametrize(
    ("objects", "texts"),
    [
        pytest.param(
            [LOCAL, claim(size="5Gi")],
            ["claim c wants a volume of 5Gi of class s: the class has no free volume, and none is made for the class"],
            id="no volume",
        ),
        pytest.param(
            [
                LOCAL,
                claim(size="5Gi", spec={"selector": {"matchLabels": {"x": "y"}}}),
                volume("v1"),
                volume("v2"),
                volume("v3", size="9Gi", modes=["ReadOnlyMany"]),
                volume("v4", size="9Gi", spec={"volumeMode": "Block"}),
                volume("v5", size="9Gi", on={HOST: ["gone"]}, metadata={"labels": {"x": "y"}}),
                volume("v6", size="9Gi"),
                volume("v7", size="9Gi", spec=held("other")),
            ],
            [
                "claim c wants a volume of 5Gi of class s: of 6 free volumes 2 too small, 1 not usable from this node, "
                "1 of mode Block, 1 that the claim's selector leaves out, 1 without ReadWriteOnce, "
                "and none is made for the class"
            ],
            id="why not",
        ),
        pytest.param(
            [a_class(), claim(annotations={SELECTED: "n9"})],
            ["for claim c a volume is being made on node n9"],
            id="provisioned elsewhere",
        ),
        pytest.param(
            [a_class(zones=["c", "d"]), claim()],
            ["volumes are made on nodes with zone in (c,d) only".replace("zone in", f"{ZONE} In").replace("In", "in")],
            id="topology",
        ),
        pytest.param(
            [a_class(), a_driver(), claim(size="10Gi"), capacity("k", labels={}, capacity="4Gi")],
            ["claim c wants a volume of 10Gi of class s, and there is room for 4Gi at most"],
            id="capacity",
        ),
        pytest.param(
            [a_class(), a_driver(), claim(size="10Gi")], ["and no object reports capacity"], id="unknown capacity"
        ),
        pytest.param(
            [claim(volume="v"), volume("v", on={ZONE: ["c"]}, phase="Bound")],
            [
                f"volume v of claim c can be used from {ZONE}=c",
                f"volume v of claim c can be used from {ZONE}=c, and no node is there",
            ],
            id="elsewhere",
        ),
        pytest.param(
            [claim(), a_class(mode=AT_ONCE)],
            [
                "claim c waits to be bound to a volume of 1Gi of class s: the class has no free volume, "
                "and provisioner p has made none"
            ],
            id="at once",
        ),
        pytest.param(
            [claim(class_name=None)],
            [
                "claim c waits to be bound to a volume of 1Gi: no volume without a class is free, and none is made, as "
                "it names no class and none is the default"
            ],
            id="no class",
        ),
        pytest.param([claim()], ["claim c is not bound: there is no storage class s"], id="unknown class"),
        pytest.param(
            [claim(spec={"volumeName": "v"}), a_class()],
            ["claim c names volume v, which does not exist"],
            id="named volume",
        ),
    ],
)
def test_messages(page, objects, texts):
    # VolumeZone would refuse some of them first.
    config = configuration(
        {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"disabled": [{"name": "VolumeZone"}]}}}
    )
    shown = " ".join(page(ready(*NODES, *objects), using(), config=config, wide=True).split())
    for text in texts:
        assert text in shown


@pytest.mark.parametrize(
    ("objects", "pod", "expected"),
    [
        pytest.param(
            [LOCAL, claim(size="5Gi")],
            using(),
            "create a volume of 5Gi of class s, with ReadWriteOnce for claim c to gain 2 nodes (n1, n2)",
            id="anywhere",
        ),
        pytest.param(
            [LOCAL, claim(size="5Gi"), volume("v", on={HOST: ["n9"]})],
            using(),
            f"create a volume of 5Gi of class s, with ReadWriteOnce, usable from {HOST}=n1 for claim c "
            "to gain 1 node (n1)",
            id="as the class's volumes are",
        ),
        pytest.param(
            [LOCAL, claim("c"), claim("d", size="2Gi")],
            using("c", "d"),
            "create a volume of 1Gi of class s, with ReadWriteOnce for claim c and "
            "create a volume of 2Gi of class s, with ReadWriteOnce for claim d to gain 2 nodes (n1, n2)",
            id="two",
        ),
        pytest.param(
            [a_class(mode=AT_ONCE), claim()],
            using(),
            "create a volume of 1Gi of class s, with ReadWriteOnce for claim c to gain 2 nodes (n1, n2)",
            id="bound at once",
        ),
    ],
)
def test_volumes_to_create(texts, objects, pod, expected):
    assert expected in texts(ready(*NODES, *objects), pod)


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([claim(volume="v"), volume("v", on={ZONE: ["c"]}, phase="Bound")], id="a volume elsewhere"),
        pytest.param([a_class(), a_driver(), claim()], id="no capacity"),
        pytest.param([a_class(), claim(annotations={SELECTED: "n9"})], id="being provisioned elsewhere"),
    ],
)
def test_a_new_volume_is_not_suggested_where_it_would_not_help(texts, objects):
    assert not [text for text in texts(ready(*NODES, *objects), using()) if "create a volume" in text]
