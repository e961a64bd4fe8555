"""Why devices are not to be had, in words."""

import pytest

from stowplan import Cluster
from stowplan.testing import a_node, a_pod
from support.plugins.devices import DRIVER, a_claim, a_class, a_device, a_slice, allocation, exactly

MODEL_B = (f'device.attributes["{DRIVER}"].model == "b"',)
TAINTED = {"taints": [{"key": "broken", "value": "yes", "effect": "NoSchedule"}]}
PARTED = {"set": {"slots": "3"}}


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
                a_slice("b", a_device("1", consumes=PARTED), pool="p", count=2, nodeName="n"),
            ],
            [],
            [exactly()],
            "request r of claim default/c: 1 matching device, and too little is left of counter set/slots",
            id="counters",
        ),
        pytest.param(
            [a_slice("n", a_device("1", numa=0), a_device("2", numa=1), nodeName="n")],
            [],
            [exactly("r", count=2)],
            "claim default/c: no devices together meet the constraint on gpu.example.com/numa",
            id="constraint",
        ),
    ],
)
def test_why_a_request_fails(page, slices, claims, claim, text):
    constraints = [{"matchAttribute": "gpu.example.com/numa"}] if "numa" in text else []
    wanted = a_claim("c", *claim, constraints=constraints)
    pod = a_pod("p").claims_devices("c").obj()
    told = page([a_class(), a_node("n").obj(), *slices, *claims, wanted, pod], "p", wide=True)
    assert text in " ".join(told.split())


def test_who_has_the_devices_may_leave():
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
