"""Why devices cannot be allocated."""

import pytest

from stowplan import Cluster
from stowplan.kube.api.types import ResourceClaim
from stowplan.testing import a_node, a_pod
from support.plugins.devices import DRIVER, a_claim, a_class, a_device, a_slice, allocation, exactly, first_available

MODEL_B = (f'device.attributes["{DRIVER}"].model == "b"',)
TAINTED = {"taints": [{"key": "broken", "value": "yes", "effect": "NoSchedule"}]}
PARTITIONED = {"set": {"slots": "3"}}


@pytest.mark.parametrize(
    ("slices", "claims", "claim", "text"),
    [
        pytest.param([], [], [exactly()], "request r of claim default/c: the node has no devices", id="no devices"),
        pytest.param(
            [a_slice("n", a_device("1", model="a"), a_device("2", model="d"), nodeName="n")],
            [],
            [exactly("r", selectors=MODEL_B)],
            "request r of claim default/c: none of 2 devices matches (model is a and d)",
            id="no device matches",
        ),
        pytest.param(
            [a_slice("p", a_device("g0"), nodeName="n")],
            [a_claim("x", exactly(), status=allocation("g0"))],
            [exactly()],
            "request r of claim default/c: 1 wanted, and of 1 matching device too many are allocated to default/x",
            id="taken",
        ),
        pytest.param(
            [a_slice("n", a_device("1", **TAINTED), nodeName="n")],
            [],
            [exactly()],
            "request r of claim default/c: 1 matching device, all with taints that are not tolerated: "
            "broken=yes:NoSchedule",
            id="tainted",
        ),
        pytest.param(
            [
                a_slice("a", pool="p", count=2, counters={"set": {"slots": "2"}}, nodeName="n"),
                a_slice("b", a_device("1", consumes=PARTITIONED), pool="p", count=2, nodeName="n"),
            ],
            [],
            [exactly()],
            "request r of claim default/c: 1 matching device, and too little is left of counter set/slots "
            "(3 wanted, 2 left)",
            id="counters",
        ),
        pytest.param(
            [a_slice("n", a_device("1", numa=0), a_device("2", numa=1), nodeName="n")],
            [],
            [exactly("r", count=2)],
            "claim default/c: no devices together meet the constraint on gpu.example.com/numa",
            id="constraint",
        ),
        pytest.param(
            [a_slice("n", a_device("1", model="a"), nodeName="n")],
            [],
            [first_available("r", exactly("big", count=2), exactly("b", selectors=MODEL_B))],
            "request r/b of claim default/c: none of 1 device matches (model is a) (the last alternative; before it, "
            "r/big: 2 wanted, 1 matching device)",
            id="prioritized list",
        ),
        pytest.param(
            [a_slice("n", a_device("1"), a_device("2"), nodeName="n")],
            [],
            [exactly("r"), exactly("s", count=2)],
            "request s of claim default/c: 2 wanted beside what other requests would get, and there are 2 matching "
            "devices",
            id="requests together",
        ),
    ],
)
def test_why_a_request_fails(page, slices, claims, claim, text):
    constraints = [{"matchAttribute": "gpu.example.com/numa"}] if "numa" in text else []
    wanted = a_claim("c", *claim, constraints=constraints)
    pod = a_pod("p").claims_devices("c").obj()
    told = page([a_class(), a_node("n").obj(), *slices, *claims, wanted, pod], "p", wide=True)
    assert text in " ".join(told.split())


def test_deleting_pods_that_hold_devices_is_suggested():
    user = {"resource": "pods", "name": "holder", "uid": "holder-uid"}
    here = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
    status = {**allocation("g0", pool="n"), "reservedFor": [user]}
    status["allocation"]["nodeSelector"] = here
    objects = [
        a_node("n").allocatable(cpu=4000, pods=10).obj(),
        a_class(),
        a_slice("n", a_device("g0"), nodeName="n"),
        a_claim("x", exactly(), status=status),
        a_claim("c", exactly()),
        a_pod("holder").uid("holder-uid").on("n").claims_devices("x").obj(),
    ]
    verdict = Cluster(objects).explain(a_pod("p").claims_devices("c").obj())
    texts = [change.text for suggestion in verdict.suggestions() for change in suggestion.changes]
    assert texts == ["move default/holder off n, which gives back the devices of claim default/x"]


def a_cluster(*slices, claim, classes=()):
    return Cluster([a_node("n").allocatable(cpu=4000, pods=10).obj(), a_class(), *classes, *slices, claim])


SHAREABLE = {"allowMultipleAllocations": True}


@pytest.mark.parametrize(
    ("slices", "classes", "claim", "texts"),
    [
        pytest.param(
            [a_slice("n", *[a_device(f"g{i}") for i in range(3)], nodeName="n")],
            [],
            a_claim("c", exactly("r", count=5)),
            ["ask for 3 instead of 5 devices in request r of claim default/c"],
            id="fewer devices",
        ),
        pytest.param(
            [a_slice("n", a_device("1", **TAINTED), nodeName="n")],
            [],
            a_claim("c", exactly()),
            ["tolerate the device taint broken=yes:NoSchedule in request r of claim default/c"],
            id="a toleration",
        ),
        pytest.param(
            [a_slice("n", a_device("1", model="a"), nodeName="n")],
            [a_class("b", *MODEL_B), a_class("a", f'device.attributes["{DRIVER}"].model == "a"')],
            a_claim("c", exactly("r", class_name="b")),
            [
                "ask for device class a in request r of claim default/c",
                "ask for device class gpu in request r of claim default/c",
            ],
            id="another class",
        ),
        pytest.param(
            [a_slice("n", a_device("1", capacity={"memory": "4Gi"}, **SHAREABLE), nodeName="n")],
            [],
            a_claim("c", exactly("r", capacity={"requests": {"memory": "6Gi"}})),
            ["ask for 4Gi of memory in request r of claim default/c"],
            id="less of a capacity",
        ),
        pytest.param(
            [a_slice("n", a_device("1", numa=0), a_device("2", numa=1), nodeName="n")],
            [],
            a_claim("c", exactly("r", count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
            [f"leave out the constraint on {DRIVER}/numa of claim default/c"],
            id="no constraint",
        ),
        pytest.param(
            [a_slice("n", a_device("1", model="a"), nodeName="n")],
            [],
            a_claim("c", exactly("r", selectors=MODEL_B)),
            [],
            id="nothing that helps",
        ),
    ],
)
def test_changed_claims_are_suggested(slices, classes, claim, texts):
    cluster = a_cluster(*slices, claim=claim, classes=classes)
    before = cluster.state.objects.version(ResourceClaim)
    verdict = cluster.explain(a_pod("p").claims_devices("c").obj())
    found = [change for suggestion in verdict.suggestions() for change in suggestion.changes]
    assert sorted(change.text for change in found) == texts
    assert all("recreate it" in change.note and change.data["claim"] == "default/c" for change in found)
    assert cluster.state.objects.version(ResourceClaim) == before


def holding(name, device, *, node="n"):
    """A pod on a node that has a device allocated by its own claim."""
    uid = f"{name}-uid"
    user = {"resource": "pods", "name": name, "uid": uid}
    here = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    status = {**allocation(device, pool=node), "reservedFor": [user]}
    status["allocation"]["nodeSelector"] = here
    holder = a_pod(name).uid(uid).on(node).claims_devices(f"{name}-c").obj()
    return [a_claim(f"{name}-c", exactly(), status=status), holder]


def suggested(pod, *objects):
    cluster = Cluster([a_node("n").allocatable(cpu=4000, pods=10).obj(), a_class(), *objects])
    verdict = cluster.explain(pod)
    return sorted(" and ".join(change.text for change in one.changes) for one in verdict.suggestions())


def test_suggestions_for_any_alternative():
    slices = [a_slice("n", a_device("g0", model="a"), a_device("g1", model="b"), nodeName="n")]
    model_a = (f'device.attributes["{DRIVER}"].model == "a"',)
    wanted = first_available("r", exactly("b", selectors=MODEL_B), exactly("a", count=2, selectors=model_a))
    found = suggested(
        a_pod("p").claims_devices("c").obj(), *slices, *holding("x", "g0"), *holding("y", "g1"), a_claim("c", wanted)
    )
    assert found == ["move default/y off n, which gives back the devices of claim default/y-c"]


def test_a_changed_alternative_is_suggested():
    wanted = first_available("r", exactly("b", selectors=MODEL_B), exactly("many", count=3))
    slices = [a_slice("n", a_device("g0", model="a"), nodeName="n")]
    found = suggested(a_pod("p").claims_devices("c").obj(), *slices, a_claim("c", wanted))
    assert found == ["ask for 1 instead of 3 devices in request r/many of claim default/c"]


def test_suggestions_for_several_failing_claims():
    model_a = (f'device.attributes["{DRIVER}"].model == "a"',)
    slices = [a_slice("n", a_device("g0", model="a"), a_device("g1", model="b"), nodeName="n")]
    claims = [a_claim("c", exactly("r", selectors=MODEL_B)), a_claim("d", exactly("r", count=2, selectors=model_a))]
    found = suggested(a_pod("p").claims_devices("c").claims_devices("d").obj(), *slices, *holding("y", "g1"), *claims)
    assert found == [
        "move default/y off n, which gives back the devices of claim default/y-c and "
        "ask for 1 instead of 2 devices in request r of claim default/d"
    ]


def test_claims_that_fit_separately_but_not_together(page):
    slices = [a_slice("n", a_device("g0"), a_device("g1"), nodeName="n")]
    claims = [a_claim("c", exactly()), a_claim("d", exactly())]
    pod = a_pod("p").claims_devices("c").claims_devices("d").obj()
    objects = [a_node("n").allocatable(cpu=4000, pods=10).obj(), a_class(), *slices, *holding("y", "g1"), *claims, pod]
    told = " ".join(page(objects, "p", wide=True).split())
    assert (
        "request r of claim default/d: 1 wanted beside what claim default/c of the pod would get, and there are 2 "
        "matching devices; others are allocated to default/y-c"
    ) in told
    assert "move default/y off n, which gives back the devices of claim default/y-c" in told


def test_extended_resources_are_named(page):
    slices = [a_slice("n", a_device("g0"), nodeName="n")]
    served = a_class("large", extendedResourceName="example.com/large")
    pod = a_pod("p").requests({"example.com/large": 1}).limits({"example.com/large": 1}).obj()
    objects = [a_node("n").allocatable(cpu=4000, pods=10).obj(), a_class(), served, *slices, *holding("y", "g0"), pod]
    told = " ".join(page(objects, "p", wide=True).split())
    wanted = "extended resource example.com/large: 1 wanted, and of 1 matching device too many are allocated to"
    assert f"{wanted} default/y-c" in told
    assert "move default/y off n, which gives back the devices of claim default/y-c" in told


def test_a_share_of_a_device_that_is_used_up():
    """Requesting less is suggested, or that others release theirs."""
    device = a_device("g0", capacity={"memory": "4Gi"}, **SHAREABLE)
    (held, holder), share = holding("y", "g0"), {"shareID": "00000000-0000-4000-8000-000000000000"}
    held["status"]["allocation"]["devices"]["results"][0] |= share | {"consumedCapacity": {"memory": "3Gi"}}
    wanted = a_claim("c", exactly("r", capacity={"requests": {"memory": "2Gi"}}))
    found = suggested(a_pod("p").claims_devices("c").obj(), a_slice("n", device, nodeName="n"), held, holder, wanted)
    assert found == [
        "ask for 1Gi of memory in request r of claim default/c",
        "move default/y off n, which gives back the devices of claim default/y-c",
    ]


def test_deleting_pods_that_hold_counters_is_suggested():
    parts = [a_device(f"half-{i}", consumes={"set": {"slots": "2"}}) for i in range(2)]
    whole = a_device("whole", consumes={"set": {"slots": "4"}}, whole=True)
    pool = [
        a_slice("n-a", *parts, whole, pool="n", count=2, nodeName="n"),
        a_slice("n-b", pool="n", count=2, counters={"set": {"slots": "4"}}, nodeName="n"),
    ]
    wanted = a_claim("c", exactly("r", selectors=(f'"whole" in device.attributes["{DRIVER}"]',)))
    found = suggested(a_pod("p").claims_devices("c").obj(), *pool, *holding("y", "half-0"), wanted)
    assert "move default/y off n, which gives back the devices of claim default/y-c" in found


@pytest.mark.parametrize("there", [True, False])
def test_adding_nodes_is_suggested(there, page):
    """If all devices of the kind are allocated, and if there are none."""
    status = allocation("g0", "g1", pool="n")
    slices = [a_slice("n", a_device("g0"), a_device("g1"), nodeName="n")] if there else []
    claims = [a_claim("x", exactly(count=2), status=status), a_claim("c", exactly())]
    told = page([a_node("n").obj(), a_class(), *slices, *claims, a_pod("p").claims_devices("c").obj()], "p", wide=True)
    like = "no node has the devices free; one more node like n would have them"
    assert (like if there else "no node has devices of this kind: a driver has to publish some") in told


def test_nodes_with_the_same_failure_are_grouped(page):
    objects, names = [a_class()], [f"n{i}" for i in range(5)]
    for name in names:
        objects += [a_node(name).obj(), a_slice(name, a_device("g0"), nodeName=name)]
        objects.append(a_claim(f"x-{name}", exactly(), status=allocation("g0", pool=name)))
    told = " ".join(page([*objects, a_claim("c", exactly()), a_pod("p").claims_devices("c").obj()], "p").split())
    assert told.count("request r of claim default/c: 1 wanted") == 1
    assert "too many are allocated to default/x-n0, default/x-n1, default/x-n2, default/x-n3, …" in told
