"""TaintToleration: the spec's tables, and arrays compared with the plain rule per node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.in_tree.common.node_selection import untolerated_mask
from stowplan.scheduler.in_tree.taint_toleration.plugin import TaintToleration
from stowplan.testing import a_node, a_pod

REASON = "node(s) had untolerated taint(s)"


def tainted(*taints, name="n"):
    node = a_node(name)
    for taint in taints:
        pair, _, effect = taint.partition(":")
        key, _, value = pair.partition("=")
        node.tainted(key, value, effect=effect)
    return node


BLUE = "team=blue:NoSchedule"


@pytest.mark.parametrize(
    ("node", "pod", "fits"),
    [
        pytest.param(tainted(BLUE), a_pod(), False, id="no toleration"),
        pytest.param(tainted(BLUE), a_pod().tolerates("team", "blue", effect="NoSchedule"), True, id="equal"),
        pytest.param(tainted("team=green:NoSchedule"), a_pod().tolerates("team", "blue"), False, id="other value"),
        pytest.param(tainted("team=blue:NoExecute"), a_pod().tolerates("team"), True, id="exists, any effect"),
        pytest.param(
            tainted(BLUE), a_pod().tolerates("team", "blue", effect="PreferNoSchedule"), False, id="other effect"
        ),
        pytest.param(
            tainted(BLUE), a_pod().spec(tolerations=[{"key": "team", "value": "blue"}]), True, id="no operator is equal"
        ),
        pytest.param(tainted("team=blue:PreferNoSchedule"), a_pod(), True, id="PreferNoSchedule only"),
        pytest.param(tainted(BLUE, "x=y:NoSchedule"), a_pod().tolerates("team"), False, id="one of two tolerated"),
    ],
)
def test_taints_keep_pods_off(bench, node, pod, fits):
    world = bench(TaintToleration, node, a_node("clean"))
    assert world.refusals(pod) == ({} if fits else {"n": REASON})


@pytest.mark.parametrize(
    ("taint", "operator", "gate", "fits"),
    [
        ("40", "Gt", True, False),
        ("60", "Gt", True, True),
        ("50", "Gt", True, False),
        ("60", "Lt", True, False),
        ("40", "Lt", True, True),
        ("60", "Gt", False, False),
        ("gold", "Gt", True, False),
        ("060", "Gt", True, False),
    ],
)
def test_feature_gate_of_comparison_operators(bench, taint, operator, gate, fits):
    world = bench(TaintToleration, tainted(f"tier={taint}:NoSchedule"), TaintTolerationComparisonOperators=gate)
    assert world.refusals(a_pod().tolerates("tier", "50", operator=operator)) == ({} if fits else {"n": REASON})


def test_a_cluster_without_taints_is_skipped(bench):
    world = bench(TaintToleration, a_node())
    assert untolerated_mask(world.state.table, world.pod(a_pod()), False) is None


EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
TAINTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["", "1", "2"]), st.sampled_from(EFFECTS)), max_size=3
)
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["", "a", "b"]),
            "operator": st.sampled_from(["Exists", "Equal", "Gt", "Lt"]),
            "value": st.sampled_from(["", "1", "2"]),
            "effect": st.sampled_from(["", *EFFECTS]),
        },
    ),
    max_size=3,
)


def plain_tolerates(toleration, taint, comparing):
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect) or toleration.get("key") not in (None, "", key):
        return False
    mine = toleration.get("value", "")
    match toleration.get("operator", ""):
        case "" | "Equal":
            return mine == value
        case "Exists":
            return True
        case operator:
            if not comparing or not mine or not value:
                return False
            return int(value) > int(mine) if operator == "Gt" else int(value) < int(mine)


@given(
    before=st.lists(TAINTS, max_size=4),
    after=st.lists(TAINTS, min_size=4, max_size=6),
    tolerations=TOLERATIONS,
    gate=st.booleans(),
)
def test_arrays_agree_with_the_plain_rule(bench, before, after, tolerations, gate):
    world = bench(TaintToleration, TaintTolerationComparisonOperators=gate)
    pod = a_pod().spec(tolerations=tolerations)
    for taints in (before, after):
        for i, of_node in enumerate(taints):
            entries = [{"key": k, "value": v, "effect": e} for k, v, e in of_node]
            world.put(a_node(f"n{i}").spec(taints=entries))
        world.refusals(pod)
    refused, advised = set(), {}
    for i, of_node in enumerate(after):
        hard = [x for x in of_node if x[2] != "PreferNoSchedule"]
        if any(not any(plain_tolerates(t, x, gate) for t in tolerations) for x in hard):
            refused.add(f"n{i}")
        soft = [x for x in of_node if x[2] == "PreferNoSchedule"]
        advised[f"n{i}"] = sum(not any(plain_tolerates(t, x, gate) for t in tolerations) for x in soft)
    assert set(world.refusals(pod)) == refused
    assert world.scores(pod, normalized=False) == advised
    most = max(advised.values())
    assert world.scores(pod) == {n: 100 - 100 * raw // most if most else 100 for n, raw in advised.items()}
