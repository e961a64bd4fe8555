"""Gates for devices that are alpha in 1.37: derived attributes, compatibility groups, optional node operations.

The scenarios with an upstream name are from test/integration/dra at the code freeze.
"""

import pytest

from stowplan import Cluster
from stowplan.kube.api.types import ResourceClaim
from stowplan.testing import a_node, a_pod
from support.plugins.devices import a_claim, a_class, a_device, a_slice, allocation, exactly, first_available

DERIVED = {"DRADerivedAttributes": True}
COMPATIBLE = {"DRADeviceCompatibilityGroups": True}
OPTIONAL = {"DRAOptionalNodeOperations": True}
SHARED = "derived/node"


def scheduled(objects, *, gates, claims=("c",), nodes=("a",)):
    """Where the pod goes with its claim's devices; or why not."""
    made = [a_node(node).allocatable({"cpu": 4, "pods": 10}) if isinstance(node, str) else node for node in nodes]
    pods = [a_pod(f"p-{claim}").claims_devices(claim).obj() for claim in claims]
    cluster = Cluster([*(node.obj() for node in made), a_class(), *objects, *pods], feature_gates=gates)
    found = []
    for claim, decision in zip(claims, cluster.schedule(), strict=True):
        if not decision.node_name:
            found.append(decision.message)
            continue
        status = cluster.state.objects.get(ResourceClaim, f"default/{claim}").status
        found.append((decision.node_name, [result.device for result in status.allocation.devices.results]))
    return found


def deriving(name, expression, request=exactly, **more):
    return request(name, derivedAttributes=[{"name": SHARED, "expression": expression}], **more)


ATTRIBUTE = 'device.attributes["gpu.example.com"].'
SLICE = a_slice(
    "s", a_device("a1", numa="n0"), a_device("a2", numa="n1"), a_device("b1", numaNode="n1"),
    a_device("b2", numaNode="n2"), nodeName="a",
)  # fmt: skip
OF_A, OF_B = (f"has({ATTRIBUTE}{name})" for name in ("numa", "numaNode"))


@pytest.mark.parametrize(
    ("first", "second", "constraint", "outcome"),
    [
        pytest.param(
            deriving("a", f"{ATTRIBUTE}numa", selectors=[OF_A]),
            deriving("b", f"{ATTRIBUTE}numaNode", selectors=[OF_B]),
            "matchAttribute", ("a", ["a2", "b1"]), id="upstream: testDerivedAttributes",
        ),
        pytest.param(
            deriving("a", f"{ATTRIBUTE}numa", selectors=[OF_A]),
            deriving("b", f'"x-" + {ATTRIBUTE}numaNode', selectors=[OF_B]),
            "matchAttribute", "cannot allocate all claims", id="no common value",
        ),
        pytest.param(
            deriving("a", "1", selectors=[OF_A]), deriving("b", "1 + 1", selectors=[OF_B]),
            "distinctAttribute", ("a", ["a1", "b1"]), id="distinct numbers",
        ),
        pytest.param(
            deriving("a", f"{ATTRIBUTE}numaNode", selectors=[OF_A]), exactly("b"), "matchAttribute",
            "claim default/c, request a: derived attribute derived/node on device gpu.example.com/s/a1: CEL runtime "
            "error: no such key: numaNode", id="an error ends the attempt",
        ),
        pytest.param(
            deriving("a", "device.attributes", selectors=[OF_A]), exactly("b"), "matchAttribute",
            "on device gpu.example.com/s/a1: CEL runtime error: unsupported result of type map",
            id="not a value of an attribute",
        ),
        pytest.param(
            deriving("a", "[1, 2]", selectors=[OF_A]), exactly("b"), "matchAttribute",
            "unsupported result of type list", id="a list without its gate",
        ),
    ],
)  # fmt: skip
def test_derived_attributes(first, second, constraint, outcome):
    claim = a_claim("c", first, second, constraints=[{"requests": ["a", "b"], constraint: SHARED}])
    (found,) = scheduled([SLICE, claim], gates=DERIVED)
    assert found == outcome if isinstance(outcome, tuple) else outcome in found
    # Without the gate nothing has the attribute.
    assert "cannot allocate all claims" in scheduled([SLICE, claim], gates={})[0]


def test_a_derived_attribute_hides_the_devices_own_and_may_be_a_version_or_a_list():
    devices = [a_device(f"d{i}", attributes={"v": {"version": f"1.0.{i}"}}) for i in range(2)]
    own, version = "gpu.example.com/v", 'semver("1.0.1")'
    derived = [{"name": own, "expression": version}]
    alike = a_claim("c", exactly("a", derivedAttributes=derived), exactly("b"), constraints=[{"matchAttribute": own}])
    assert scheduled([a_slice("s", *devices, nodeName="a"), alike], gates=DERIVED) == [("a", ["d0", "d1"])]
    lists = [{"name": own, "expression": "[1, 2]"}], [{"name": own, "expression": "2"}]
    requests = first_available("a", exactly("x", derivedAttributes=lists[0])), exactly("b", derivedAttributes=lists[1])
    claim = a_claim("c", *requests, constraints=[{"matchAttribute": own}])
    gates = {**DERIVED, "DRAListTypeAttributes": True}
    assert scheduled([a_slice("s", *devices, nodeName="a"), claim], gates=gates) == [("a", ["d0", "d1"])]


def pool(node, *groups):
    """A pool whose devices each take half of a counter set, with these groups."""
    devices = [
        a_device(f"dev-{i}", consumesCounters=[
            {"counterSet": "gpu-0", "counters": {"mem": {"value": "4"}}, "compatibilityGroups": list(of_device)}
        ]) for i, of_device in enumerate(groups)
    ]  # fmt: skip
    where = {"pool": node, "count": 2, "nodeName": node}
    return [
        a_slice(f"{node}-counters", counters={"gpu-0": {"mem": "8"}}, **where),
        a_slice(f"{node}-devices", *devices, **where),
    ]


TWO = exactly("r", count=2)
NONE = "cannot allocate all claims"


@pytest.mark.parametrize(
    ("groups", "devices"),
    [
        pytest.param([["mig"], ["mig"]], ["dev-0", "dev-1"], id="upstream: CompatibleCoAllocation"),
        pytest.param([["mig"], ["vgpu"]], None, id="upstream: IncompatibleDevicesUnschedulable"),
        pytest.param([["mig"], ["vgpu"], ["vgpu", "x"]], ["dev-1", "dev-2"], id="another pair"),
        pytest.param([["mig"], []], None, id="one without groups"),
        pytest.param([[], []], ["dev-0", "dev-1"], id="none has groups"),
    ],
)
def test_compatibility_groups(groups, devices):
    (found,) = scheduled([*pool("a", *groups), a_claim("c", TWO)], gates=COMPATIBLE)
    assert found == ("a", devices) if devices else NONE in found
    # Without the gate, devices with groups are left alone.
    (found,) = scheduled([*pool("a", *groups), a_claim("c", TWO)], gates={})
    assert found == ("a", devices) if not any(groups) else NONE in found


def test_the_compatible_node_is_chosen():
    """Upstream: IncompatibleRejectedCompatibleAdmitted."""
    pools = [*pool("a", ["mig"], ["vgpu"]), *pool("b", ["mig"], ["mig"])]
    claims = [a_claim("c", TWO), a_claim("d", TWO)]
    first, second = scheduled([*pools, *claims], gates=COMPATIBLE, claims=("c", "d"), nodes=("a", "b"))
    assert first == ("b", ["dev-0", "dev-1"])
    assert NONE in second


@pytest.mark.parametrize(("recorded", "device"), [({}, "dev-1"), ({"gpu-0": ["vgpu"]}, "dev-2")])
def test_groups_that_were_recorded_with_an_allocation_count(recorded, device):
    taken = a_claim("t", exactly(), status=allocation("dev-0", pool="a", compatibilityGroups=recorded))
    objects = [*pool("a", ["mig"], ["mig"], ["vgpu"]), taken, a_claim("c", exactly())]
    assert scheduled(objects, gates=COMPATIBLE) == [("a", [device])]


def test_groups_are_recorded():
    objects = [*pool("a", ["mig"]), a_claim("c", exactly())]
    pod = a_pod("p").claims_devices("c").obj()
    node = a_node("a").allocatable({"cpu": 4, "pods": 10}).obj()
    cluster = Cluster([node, a_class(), *objects, pod], feature_gates=COMPATIBLE)
    cluster.schedule()
    (result,) = cluster.state.objects.get(ResourceClaim, "default/c").status.allocation.devices.results
    assert result.compatibility_groups == {"gpu-0": ("mig",)}


@pytest.mark.parametrize("allocated", [False, True])
def test_only_nodes_that_can_leave_out_operations(allocated):
    more = {"skipNodeOperations": ["*"]}
    slices = [a_slice(name, a_device("d"), nodeName=name, **more) for name in ("old", "new")]
    if allocated:
        slices, status = [a_slice("p", a_device("d"), allNodes=True)], allocation("d", **more)
    else:
        status = None
    old, new = (a_node(name).allocatable({"cpu": 4, "pods": 10}) for name in ("old", "new"))
    nodes = old, new.declares("DRAOptionalNodeOperations")
    objects = [*slices, a_claim("c", exactly(), status=status)]
    assert scheduled(objects, gates=OPTIONAL, nodes=nodes) == [("new", ["d"])]
    (told,) = scheduled(objects, gates=OPTIONAL, nodes=[old])
    assert "1 node(s) cannot leave out operations of device drivers" in told
    if not allocated:
        assert NONE in scheduled(objects, gates={}, nodes=nodes)[0]
