"""NodeResourcesFit: the spec's tables, and columns compared with the plain rule per node."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.in_tree.common.args import ResourceSpec, UtilizationShapePoint
from stowplan.scheduler.in_tree.legacy_node_resources_least_allocated.declaration import (
    LegacyNodeResourcesLeastAllocatedArgs,
)
from stowplan.scheduler.in_tree.legacy_node_resources_least_allocated.plugin import LegacyNodeResourcesLeastAllocated
from stowplan.scheduler.in_tree.legacy_node_resources_most_allocated.declaration import (
    LegacyNodeResourcesMostAllocatedArgs,
)
from stowplan.scheduler.in_tree.legacy_node_resources_most_allocated.plugin import LegacyNodeResourcesMostAllocated
from stowplan.scheduler.in_tree.legacy_requested_to_capacity_ratio.declaration import LegacyRequestedToCapacityRatioArgs
from stowplan.scheduler.in_tree.legacy_requested_to_capacity_ratio.plugin import LegacyRequestedToCapacityRatio
from stowplan.scheduler.in_tree.node_resources_fit.declaration import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ScoringStrategy,
)
from stowplan.scheduler.in_tree.node_resources_fit.plugin import NodeResourcesFit
from stowplan.testing import a_node, a_pod
from support.plugins.per_node_answers import filtered, plugin_on, scored
from support.scheduling.plain_rules import integers, on_node, requests_of
from support.scheduling.worlds import FPGA, GPU, clusters, pods, state_of, struct

FITS, NO, NEVER = None, Code.Unschedulable, Code.UnschedulableAndUnresolvable


def strategy(kind="LeastAllocated", shape=(), **resources):
    named = tuple(ResourceSpec(name, weight) for name, weight in (resources or {"cpu": 1, "memory": 1}).items())
    points = RequestedToCapacityRatioParam(tuple(UtilizationShapePoint(*point) for point in shape)) if shape else None
    return ScoringStrategy(kind, named, points)


def args_of(kind="LeastAllocated", shape=(), ignored=(), groups=(), **resources):
    return NodeResourcesFitArgs(
        ignored_resources=ignored, ignored_resource_groups=groups, scoring_strategy=strategy(kind, shape, **resources)
    )


# -- examples ----------------------------------------------------------------------------------------------------------

HUGE = "hugepages-2Mi"
BOX = {"ephemeral-storage": "10Gi", GPU: 4, HUGE: "512Mi"}


def asks(**resources):
    return a_pod().requests(resources)


@pytest.mark.parametrize(
    ("in_use", "pod", "args", "expected"),
    [
        pytest.param({"cpu": "2", "memory": "4Gi"}, a_pod(), {}, FITS, id="full, but nothing requested"),
        pytest.param(
            {"cpu": "2", "memory": "4Gi"}, asks(cpu="100m", memory="1Mi"), {}, (NO, "cpu", "memory"), id="full"
        ),
        pytest.param({"cpu": "1500m"}, asks(cpu="500m"), {}, FITS, id="exact fill"),
        pytest.param(
            {"cpu": "1500m"}, asks(cpu="200m").init_container("i", cpu="700m"), {}, (NO, "cpu"), id="init container"
        ),
        pytest.param(
            {"cpu": "1500m"},
            asks(cpu="200m").init_container("i", cpu="400m").init_container("j", cpu="500m"),
            {},
            FITS,
            id="init containers run one by one",
        ),
        pytest.param({"cpu": "1500m"}, asks(cpu="200m").sidecar("s", cpu="400m"), {}, (NO, "cpu"), id="sidecar"),
        pytest.param({}, asks(**{GPU: 5}), {}, (NEVER, GPU), id="more than the node has"),
        pytest.param({GPU: 2}, asks(**{GPU: 3}), {}, (NO, GPU), id="more than is left"),
        pytest.param({}, asks(**{GPU: 3}).container("c", {GPU: 3}), {}, (NEVER, GPU), id="containers add up"),
        pytest.param(
            {}, a_pod().init_container("i", {GPU: 3}).init_container("j", {GPU: 3}), {}, FITS, id="inits do not"
        ),
        pytest.param({}, asks(**{FPGA: 1}), {}, (NEVER, FPGA), id="not on the node"),
        pytest.param({}, asks(**{FPGA: 1}), {"ignored": (FPGA,)}, FITS, id="ignored by name"),
        pytest.param({}, asks(**{FPGA: 1}), {"groups": ("example.com",)}, FITS, id="ignored by group"),
        pytest.param(
            {},
            asks(**{"foo.kubernetes.io/x": 1}),
            {"groups": ("foo.kubernetes.io",)},
            (NEVER, "foo.kubernetes.io/x"),
            id="only extended resources are ignored",
        ),
        pytest.param({}, asks(**{FPGA: 0}), {}, FITS, id="zero of a missing resource"),
        pytest.param({"cpu": "1"}, asks(cpu="400m").overhead(cpu="700m"), {}, (NO, "cpu"), id="overhead"),
        pytest.param({"cpu": "1"}, asks(cpu="100m").pod_requests(cpu="1200m"), {}, (NO, "cpu"), id="pod-level"),
        pytest.param({}, a_pod().pod_requests({HUGE: "1Gi"}), {}, (NEVER, HUGE), id="pod-level hugepages"),
        pytest.param(
            {"cpu": "2"}, asks(cpu="100m", **{GPU: 5}), {}, (NEVER, "cpu", GPU), id="a resource that never fits decides"
        ),
    ],
)
def test_filter(in_use, pod, args, expected):
    node = a_node("n").allocatable(BOX, cpu="2", memory="4Gi", pods=10)
    state = state_of([node], [a_pod("other").requests(in_use).on("n")])
    found = filtered(plugin_on(NodeResourcesFit, state, args_of(**args)), state, state.pod_info(struct(pod)))["n"]
    if expected is None:
        assert found is None
    else:
        code, *short = expected
        assert found == (code, [f"Insufficient {name}" for name in short])


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(asks(cpu="100m"), (NO, ["Too many pods"]), id="only too many"),
        pytest.param(asks(cpu="2500m"), (NEVER, ["Too many pods", "Insufficient cpu"]), id="and too big"),
    ],
)
def test_too_many_pods(pod, expected):
    state = state_of([a_node("n").allocatable(cpu="2", pods=1)], [a_pod("other").on("n")])
    assert filtered(plugin_on(NodeResourcesFit, state, args_of()), state, state.pod_info(struct(pod)))["n"] == expected


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(a_node("n"), FITS, id="the node has none: left to DynamicResources"),
        pytest.param(a_node("n").allocatable({FPGA: 0}), FITS, id="zero is none"),
        pytest.param(a_node("n").allocatable({FPGA: 1}), (NEVER, [f"Insufficient {FPGA}"]), id="the node has some"),
    ],
)
def test_resources_of_a_device_class(node, expected):
    fpgas = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "fpga"},
        "spec": {"extendedResourceName": FPGA},
    }
    state = state_of([node], objects=[fpgas])
    plugin = plugin_on(NodeResourcesFit, state, args_of())
    assert filtered(plugin, state, state.pod_info(struct(asks(**{FPGA: 2}))))["n"] == expected


def test_the_resize_status_of_a_sidecar_counts():
    """Two pods that differ only in the status of their sidecar have different requests."""
    plain, resized = (a_pod(name).sidecar("s", cpu="1").on("n").obj() for name in ("plain", "resized"))
    resized["status"] = {"initContainerStatuses": [{"name": "s", "resources": {"requests": {"cpu": "3"}}}]}
    state = state_of([a_node("n").allocatable(cpu="8")], [plain, resized])
    plugin = plugin_on(NodeResourcesFit, state, args_of())
    assert filtered(plugin, state, state.pod_info(struct(asks(cpu="4"))))["n"] is FITS
    assert filtered(plugin, state, state.pod_info(struct(asks(cpu="4001m"))))["n"] == (NO, ["Insufficient cpu"])


UP, DOWN, PEAK = ((0, 0), (100, 10)), ((0, 10), (100, 0)), ((0, 0), (50, 10), (100, 2))
RATIO = "RequestedToCapacityRatio"


@pytest.mark.parametrize(
    ("pod", "kind", "shape", "score"),
    [
        pytest.param(asks(cpu="1", memory="2Gi"), "LeastAllocated", (), 60, id="least"),
        pytest.param(a_pod(), "LeastAllocated", (), 82, id="least, nothing requested"),
        pytest.param(asks(cpu="1", memory="2Gi"), "MostAllocated", (), 39, id="most"),
        pytest.param(asks(cpu="1", memory="2Gi"), RATIO, UP, 40, id="ratio up, half away from zero"),
        pytest.param(asks(cpu="1", memory="2Gi"), RATIO, DOWN, 61, id="ratio down"),
        pytest.param(
            asks(cpu="1", memory="2Gi").pod_requests(cpu="3"), "LeastAllocated", (), 60, id="pod-level is not seen"
        ),
    ],
)
def test_scores_of_pods(pod, kind, shape, score):
    node = a_node("n").allocatable(cpu="4", memory="8Gi")
    state = state_of([node], [a_pod("a").on("n"), a_pod("b").requests(cpu="500m", memory="1Gi").on("n")])
    plugin = plugin_on(NodeResourcesFit, state, args_of(kind, shape))
    assert scored(plugin, state, state.pod_info(struct(pod)))[1] == {"n": score}


@pytest.mark.parametrize(
    ("points", "scores"),
    [
        pytest.param(((0, 10), (70, 0)), {33: 53}, id="quotients are cut towards zero"),
        pytest.param(((20, 0), (80, 10)), {0: 0, 21: 1, 33: 21, 50: 50, 79: 98, 100: 100}, id="flat ends"),
        pytest.param(((0, 3), (50, 10), (100, 0)), {1: 31, 25: 65, 33: 76, 51: 98, 67: 66, 99: 2}, id="a peak"),
    ],
)
def test_the_shape_function(points, scores):
    for utilization, score in scores.items():
        state = state_of([a_node("n").allocatable(cpu="100m")], [])
        pod = a_pod().requests(cpu=f"{utilization}m")
        plugin = plugin_on(NodeResourcesFit, state, args_of(RATIO, points, cpu=1))
        assert scored(plugin, state, state.pod_info(struct(pod)))[1] == {"n": score}


def test_an_overflowing_percentage():
    """2^58 bytes times 100 overflow int64 to a negative number, where the function is flat."""
    state = state_of([a_node("n").allocatable(memory=1 << 58)], [])
    plugin = plugin_on(NodeResourcesFit, state, args_of(RATIO, DOWN, memory=1))
    pod = a_pod().requests(memory=1 << 57)
    assert scored(plugin, state, state.pod_info(struct(pod)))[1] == {"n": 100}


# -- compared with the plain rule per node -----------------------------------------------------------------------------

BASE = ("cpu", "memory", "ephemeral-storage")


def plain_filter(node, on_it, pod, ignored, groups):
    """The rule of the spec for one node; None, or (code, reasons)."""
    there = integers(node["status"]["allocatable"])
    taken = {}
    for other in on_it:
        for name, value in requests_of(other).items():
            taken[name] = taken.get(name, 0) + value
    reasons, never = [], False
    if len(on_it) + 1 > there.get("pods", 0):
        reasons.append("Too many pods")
    asked = requests_of(pod)
    for name in (*BASE, *sorted(n for n in asked if n not in BASE)):
        value = asked.get(name, 0)
        extended = "/" in name and "kubernetes.io/" not in name
        if not value or (extended and (name in ignored or name.split("/")[0] in groups)):
            continue
        if value > there.get(name, 0) - taken.get(name, 0):
            reasons.append(f"Insufficient {name}")
            never = never or value > there.get(name, 0)
    if not reasons:
        return None
    return (NEVER if never else NO), reasons


@given(clusters(), pods(), st.sampled_from(((), (FPGA,))), st.sampled_from(((), ("example.com",))))
def test_filter_equals_the_rule(cluster, pod, ignored, groups):
    nodes, placed, objects = cluster
    state = state_of(nodes, placed, objects)
    plugin = plugin_on(NodeResourcesFit, state, args_of(ignored=ignored, groups=groups))
    got = filtered(plugin, state, state.pod_info(struct(pod)))
    assert got == {n["metadata"]["name"]: plain_filter(n, on_node(placed, n), pod, ignored, groups) for n in nodes}


def interpolate(points, p):
    points = [(u, s * 10) for u, s in points]
    for i, (u, s) in enumerate(points):
        if p <= u:
            if i == 0:
                return s
            u0, s0 = points[i - 1]
            return s0 + int(Fraction((s - s0) * (p - u0), u - u0))
    return points[-1][1]


DEFAULTS = {"cpu": "100m", "memory": "200Mi"}


def plain_score(node, on_it, pod, kind, shape, resources):
    there = integers(node["status"]["allocatable"])
    wanted = requests_of(pod, DEFAULTS)
    total = weights = 0
    for name, weight in resources.items():
        scalar = name not in BASE
        if scalar and not wanted.get(name, 0):
            continue
        defaults = {name: DEFAULTS[name]} if name in DEFAULTS else {}
        requested = sum(requests_of(other, defaults).get(name, 0) for other in on_it) + wanted.get(name, 0)
        capacity = there.get(name, 0)
        if capacity == 0:
            continue
        if kind == "LeastAllocated":
            score = 0 if requested > capacity else (capacity - requested) * 100 // capacity
        elif kind == "MostAllocated":
            score = min(requested, capacity) * 100 // capacity
        else:
            score = interpolate(shape, 100 if requested > capacity else requested * 100 // capacity)
            if score <= 0:
                continue
        total, weights = total + score * weight, weights + weight
    if not weights:
        return 0
    if kind == RATIO:
        return (2 * total + weights) // (2 * weights)
    return total // weights


strategies = st.sampled_from(
    (
        ("LeastAllocated", ()),
        ("MostAllocated", ()),
        (RATIO, UP),
        (RATIO, DOWN),
        (RATIO, PEAK),
        (RATIO, ((0, 10), (70, 0), (90, 3))),
    )
)
weighted = st.dictionaries(
    st.sampled_from(("cpu", "memory", "ephemeral-storage", GPU, FPGA, HUGE)),
    st.sampled_from((1, 2, 7, 100)),
    min_size=1,
)


@given(clusters(), pods(), strategies, weighted)
def test_scores_equal_the_rule(cluster, pod, strategy, resources):
    nodes, placed, objects = cluster
    state = state_of(nodes, placed, objects)
    plugin = plugin_on(NodeResourcesFit, state, args_of(*strategy, **resources))
    raw, normal = scored(plugin, state, state.pod_info(struct(pod)))
    want = {n["metadata"]["name"]: plain_score(n, on_node(placed, n), pod, *strategy, resources) for n in nodes}
    assert raw == want
    assert normal == want


def plain_score_of_1_18(node, on_it, pod, kind, shape, resources):
    """Every resource counts, and one that is not there or not enough counts as full."""
    there = integers(node["status"]["allocatable"])
    total = weights = 0
    for name, weight in resources.items():
        defaults = {name: DEFAULTS[name]} if name in DEFAULTS else {}
        requested = sum(requests_of(other, defaults).get(name, 0) for other in (*on_it, pod))
        capacity = there.get(name, 0)
        full = capacity == 0 or requested > capacity
        free = 0 if full else (capacity - requested) * 100 // capacity
        if kind == "LeastAllocated":
            score = free
        elif kind == "MostAllocated":
            score = 0 if full else requested * 100 // capacity
        else:
            score = interpolate(shape, 100 - free)
            if score <= 0:
                continue
        total, weights = total + score * weight, weights + weight
    if not weights:
        return 0
    return (2 * total + weights) // (2 * weights) if kind == RATIO else total // weights


LEGACY = {
    "LeastAllocated": (LegacyNodeResourcesLeastAllocated, LegacyNodeResourcesLeastAllocatedArgs),
    "MostAllocated": (LegacyNodeResourcesMostAllocated, LegacyNodeResourcesMostAllocatedArgs),
    RATIO: (LegacyRequestedToCapacityRatio, LegacyRequestedToCapacityRatioArgs),
}


@given(clusters(), pods(), strategies, weighted)
def test_scores_of_separate_plugins_equal_the_rule_of_then(cluster, pod, strategy, resources):
    (nodes, placed, objects), (kind, shape) = cluster, strategy
    state = state_of(nodes, placed, objects)
    plugin, args = LEGACY[kind]
    points = {"shape": tuple(UtilizationShapePoint(*point) for point in shape)} if shape else {}
    named = tuple(ResourceSpec(name, weight) for name, weight in resources.items())
    raw, normal = scored(plugin_on(plugin, state, args(resources=named, **points)), state, state.pod_info(struct(pod)))
    want = {
        n["metadata"]["name"]: plain_score_of_1_18(n, on_node(placed, n), pod, kind, shape, resources) for n in nodes
    }
    assert raw == normal == want


@given(
    st.integers(1, 1 << 62),
    st.integers(0, 1 << 56),
    st.integers(0, 1 << 56),
    st.sampled_from(("LeastAllocated", "MostAllocated")),
)
def test_division_is_exact_however_large_the_numbers(capacity, used, asked, kind):
    """Floats replace integers only where the result is the same; up to 2^56, as products with 100 must fit int64."""
    capacity >>= 6
    node = a_node("n").allocatable(memory=capacity).obj()
    held = a_pod("held").requests(memory=used, cpu=0).on("n").obj()
    pod = a_pod().requests(memory=asked, cpu=0).obj()
    state = state_of([node], [held])
    plugin = plugin_on(NodeResourcesFit, state, args_of(kind, memory=1))
    want = plain_score(node, [held], pod, kind, (), {"memory": 1})
    assert scored(plugin, state, state.pod_info(struct(pod)))[0] == {"n": want}
