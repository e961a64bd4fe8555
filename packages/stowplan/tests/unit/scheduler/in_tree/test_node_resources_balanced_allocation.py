"""NodeResourcesBalancedAllocation: the spec's tables, and columns compared with the plain rule per node, bit by bit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.in_tree.common.args import ResourceSpec
from stowplan.scheduler.in_tree.node_resources_balanced_allocation.declaration import (
    NodeResourcesBalancedAllocationArgs,
)
from stowplan.scheduler.in_tree.node_resources_balanced_allocation.plugin import NodeResourcesBalancedAllocation
from stowplan.testing import a_node, a_pod
from support.plugins.per_node_answers import SKIPPED, plugin_on, scored
from support.scheduling.plain_rules import integers, on_node, requests_of
from support.scheduling.worlds import FPGA, GPU, clusters, pods, state_of, struct

GI = 1 << 30


def args_of(*names):
    return NodeResourcesBalancedAllocationArgs(resources=tuple(ResourceSpec(n, 1) for n in names or ("cpu", "memory")))


def score_of(used, pod, allocatable, names=("cpu", "memory")):
    """Amounts in the order cpu (milli), memory, gpu."""

    def resources(figures):
        units = ("{}m", "{}", "{}")
        return {n: u.format(f) for n, u, f in zip(("cpu", "memory", GPU), units, figures, strict=False)}

    node = a_node("n").allocatable(resources(allocatable))
    state = state_of([node], [a_pod("held").requests(resources(used)).on("n")])
    plugin = plugin_on(NodeResourcesBalancedAllocation, state, args_of(*names))
    return scored(plugin, state, state.pod_info(struct(a_pod().requests(resources(pod)))))[1]["n"]


@pytest.mark.parametrize(
    ("used", "pod", "allocatable", "score"),
    [
        pytest.param((600, 1000), (2000, 2000), (4000, 12000), 67, id="less balanced"),
        pytest.param((4000, 0), (0, 8 * GI), (4000, 8 * GI), 100, id="maximum"),
        pytest.param((0, 0), (0, 8 * GI), (4000, 8 * GI), 50, id="minimum"),
        # Balance before is 65, not 66: (1 − 0.34)·100 is 65.99999999999999 in float64. After: 82.
        pytest.param((680, 0), (0, 320), (1000, 1000), 83, id="float64 rounding"),
        pytest.param((0, 0), (500, 0), (1000, 0), 75, id="one resource is always balanced"),
    ],
)
def test_scores(used, pod, allocatable, score):
    assert score_of(used, pod, allocatable) == score


@pytest.mark.parametrize(
    "pod",
    [pytest.param(a_pod(), id="asks nothing"), pytest.param(a_pod().requests({GPU: 1}), id="asks for something else")],
)
def test_skips(pod):
    state = state_of([a_node("n").allocatable({GPU: 4})])
    plugin = plugin_on(NodeResourcesBalancedAllocation, state, args_of())
    info = state.pod_info(struct(pod))
    assert scored(plugin, state, info) == SKIPPED
    # Without PreScore the score is 0.
    assert plugin.score(CycleState(), info, Nodes(state)).tolist() == [0]


def test_requests_for_unknown_resources_count():
    state = state_of([a_node("n").allocatable(cpu="4", memory="8Gi")])
    plugin = plugin_on(NodeResourcesBalancedAllocation, state, args_of("cpu", "memory", "storage"))
    assert scored(plugin, state, state.pod_info(struct(a_pod().requests(storage="1Gi"))))[1] == {"n": 75}
    assert scored(plugin, state, state.pod_info(struct(a_pod()))) == SKIPPED


# -- compared with the plain rule per node -----------------------------------------------------------------------------


def balance(amounts):
    fractions = [min(float(x) / float(capacity), 1.0) for x, capacity in amounts if capacity]
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for f in fractions:
            total += f
        mean = total / len(fractions)
        squares = 0.0
        for f in fractions:
            squares += (f - mean) * (f - mean)
        deviation = math.sqrt(squares / len(fractions))
    else:
        deviation = 0.0
    return int((1 - deviation) * 100.0)


def plain_score(node, on_it, pod, names):
    there, wanted = integers(node["status"]["allocatable"]), requests_of(pod)
    before, after = [], []
    for name in names:
        asked = wanted.get(name, 0)
        if name not in ("cpu", "memory", "ephemeral-storage") and not asked:
            continue
        used = sum(requests_of(other).get(name, 0) for other in on_it)
        before.append((used, there.get(name, 0)))
        after.append((used + asked, there.get(name, 0)))
    return 50 + (50 + balance(after) - balance(before)) // 2


@given(
    clusters(),
    pods(),
    st.lists(
        st.sampled_from(("cpu", "memory", "ephemeral-storage", GPU, FPGA, "hugepages-2Mi")), min_size=1, unique=True
    ),
)
def test_scores_equal_the_rule(cluster, pod, names):
    nodes, placed, objects = cluster
    state = state_of(nodes, placed, objects)
    plugin = plugin_on(NodeResourcesBalancedAllocation, state, args_of(*names))
    got = scored(plugin, state, state.pod_info(struct(pod)))
    if not any(requests_of(pod).get(name, 0) for name in names):
        assert got == SKIPPED
        return
    want = {}
    for node in nodes:
        want[node["metadata"]["name"]] = plain_score(node, on_node(placed, node), pod, names)
    assert got == (want, want)


@st.composite
def figures(draw):
    allocatable = draw(st.tuples(*[st.integers(1, 10**6)] * 3))
    used = tuple(draw(st.integers(0, capacity)) for capacity in allocatable)
    return used, draw(st.tuples(*[st.integers(1, 10**6)] * 3)), allocatable


@given(figures(), st.sampled_from((("cpu", "memory"), ("cpu", "memory", GPU), (GPU, "memory", "cpu"))))
def test_any_amounts(figures, names):
    used, pod, allocatable = figures
    at = {"cpu": 0, "memory": 1, GPU: 2}
    before = balance([(used[at[n]], allocatable[at[n]]) for n in names])
    after = balance([(used[at[n]] + pod[at[n]], allocatable[at[n]]) for n in names])
    assert score_of(used, pod, allocatable, names) == 50 + (50 + after - before) // 2
