"""NodePorts: host port conflicts, from the spec's tables and compared with a plain rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.status import SKIP
from stowplan.scheduler.in_tree.node_ports.plugin import NodePorts
from stowplan.testing import a_node, a_pod

REASON = "node(s) didn't have free ports for the requested pod ports"


def with_ports(name, *ports):
    pod = a_pod(name)
    for port in ports:
        protocol, _, rest = port.partition(" ")
        ip, _, number = rest.rpartition(":")
        pod.host_port(int(number), protocol="" if protocol == "-" else protocol, host_ip=ip)
    return pod


@pytest.mark.parametrize(
    ("wanted", "used", "conflict"),
    [
        pytest.param(["TCP 10.1.1.1:5000"], ["TCP 10.1.1.1:5001"], False, id="other port"),
        pytest.param(["TCP 10.1.1.1:5000"], ["TCP 10.1.1.1:5000"], True, id="same tcp"),
        pytest.param(["UDP 10.1.1.1:5000"], ["TCP 10.1.1.1:5000"], False, id="other protocol"),
        pytest.param(["TCP :5000"], ["TCP 10.1.1.1:5000"], True, id="wildcard wanted"),
        pytest.param(["TCP 10.1.1.1:5000"], ["TCP 0.0.0.0:5000"], True, id="wildcard used"),
        pytest.param(["- 10.1.1.1:5000"], ["TCP 10.1.1.1:5000"], True, id="no protocol is tcp"),
        pytest.param(["TCP :::5000"], ["TCP 10.1.1.1:5000"], False, id=":: is an ordinary ip"),
    ],
)
def test_conflicts(bench, wanted, used, conflict):
    world = bench(NodePorts, a_node("n"), a_node("free"), with_ports("holder", *used).on("n"))
    assert world.refusals(with_ports("new", *wanted)) == ({"n": REASON} if conflict else {})


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(), id="no ports"),
        pytest.param(
            a_pod().spec(initContainers=[{"name": "i", "ports": [{"containerPort": 1, "hostPort": 5000}]}]),
            id="ordinary init container",
        ),
    ],
)
def test_pods_without_host_ports_skip(bench, pod):
    assert bench(NodePorts, a_node()).pre_filter(pod) is SKIP


def test_sidecars_take_ports(bench):
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 5000, "hostPort": 5000}]}
    world = bench(NodePorts, a_node("n"), with_ports("holder", "TCP 0.0.0.0:5000").on("n"))
    assert world.refusals(a_pod("new").spec(initContainers=[sidecar])) == {"n": REASON}


IPS = st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"])
PORTS = st.lists(st.tuples(IPS, st.sampled_from(["", "TCP", "UDP"]), st.integers(1, 3)), max_size=3)


def asking(name, ports):
    pod = a_pod(name)
    for ip, protocol, port in ports:
        pod.host_port(port, protocol=protocol, host_ip=ip)
    return pod


def plain_conflict(wanted, used):
    """Compare each pair, as in the spec's table."""
    for ip, protocol, port in wanted:
        for other_ip, other_protocol, other_port in used:
            a, b = ip or "0.0.0.0", other_ip or "0.0.0.0"
            same = (protocol or "TCP", port) == (other_protocol or "TCP", other_port)
            if same and (a == b or "0.0.0.0" in (a, b)):
                return True
    return False


@given(wanted=PORTS, held=st.lists(st.tuples(st.integers(0, 2), PORTS), max_size=6), gone=st.sets(st.integers(0, 5)))
def test_the_index_agrees_with_the_plain_rule(bench, wanted, held, gone):
    world = bench(NodePorts, *(a_node(f"n{i}") for i in range(3)))
    for i, (node, ports) in enumerate(held):
        world.put(asking(f"p{i}", ports).on(f"n{node}"))
    for i in gone:
        world.state.remove_pod(f"default-p{i}-uid")
    used = {
        n: [p for i, (node, ports) in enumerate(held) if node == n and i not in gone for p in ports] for n in range(3)
    }
    expected = {f"n{n}" for n, ports in used.items() if plain_conflict(wanted, ports)}
    assert set(world.refusals(asking("new", wanted))) == expected
