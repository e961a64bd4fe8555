"""Spread and affinity with hypothetical changes per node, where some pods were removed and others added.

The plain rule keeps the tables of PreFilter as dicts, copies them per node, and applies each change: terminating pods
and empty selectors then count although PreFilter ignored them.
"""

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.in_tree.inter_pod_affinity.declaration import InterPodAffinityArgs
from stowplan.scheduler.in_tree.inter_pod_affinity.plugin import InterPodAffinity
from stowplan.scheduler.in_tree.pod_topology_spread.declaration import PodTopologySpreadArgs
from stowplan.scheduler.in_tree.pod_topology_spread.plugin import PodTopologySpread
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.per_node_answers import plugin_on
from support.scheduling.plain_rules import Affinity, Spread, name_of, own_constraints
from support.scheduling.worlds import HOST, MOMENTS, ZONE, bound, namespace, state_of, struct


def draw_moves(data, nodes, placed, newcomers):
    """Rounds of {node index: (pod, sign)}: present pods may be removed, absent ones added."""
    there = [[p for p in placed if p["spec"]["nodeName"] == name_of(node)] for node in nodes]
    away = [list(newcomers) for _ in nodes]
    rounds = []
    for _ in range(data.draw(st.integers(1, 5))):
        moves = {}
        for i in range(len(nodes)):
            source, target = data.draw(st.sampled_from(((there, away), (there, away), (away, there))))
            if source[i] and data.draw(st.integers(0, 3)):
                pod = source[i].pop(data.draw(st.integers(0, len(source[i]) - 1)))
                target[i].append(pod)
                moves[i] = pod, 1 if target is there else -1
        rounds.append(moves)
    return rounds


def assert_worlds(data, plugin, state, pod, nodes, placed, newcomers, rule):
    info, cycle = state.pod_info(struct(pod)), CycleState()
    if plugin.pre_filter(cycle, info, Nodes(state)) is not None:
        event("skipped")
        return
    view = HypotheticalNodes(state, _rows(state, nodes, range(len(nodes))))
    rules, cycle = [rule.copy() for _ in nodes], cycle.clone()
    for moves in draw_moves(data, nodes, placed, newcomers):
        for sign in (-1, 1):
            chosen = [i for i, (_, s) in moves.items() if s == sign]
            if chosen:
                who = [state.pod_info(struct(moves[i][0])) for i in chosen]
                assert plugin.shift_pods(cycle, info, PodShift.of_pods(_rows(state, nodes, chosen), who, sign)) is None
        for i, (other, sign) in moves.items():
            rules[i].move(other, nodes[i], sign)
        rejections = plugin.filter(cycle, info, view)
        for i, node in enumerate(nodes):
            status = rejections.status(i) if rejections is not None and rejections.mask[i] else None
            assert (status and (status.code, list(status.reasons))) == rules[i].verdict(node), name_of(node)


def _rows(state, nodes, chosen):
    return np.array([state.table.row_of[name_of(nodes[i])] for i in chosen], np.intp)


WEB, DB = ({"matchLabels": {"app": app}} for app in ("web", "db"))
SELECTED = st.sampled_from((WEB, WEB, {}, DB, None))
KEY = st.sampled_from((ZONE, ZONE, HOST))


@st.composite
def zoned(draw, name):
    node = a_node(name).zone(draw(st.sampled_from("aabc")))
    odd = draw(st.integers(0, 9))
    if odd == 9:
        node.without_labels(draw(st.sampled_from((ZONE, HOST))))
    elif odd == 8:
        node.tainted("dedicated")
    return node.obj()


@st.composite
def neighbours(draw, name):
    """Pods that the pod in question is likely to count or to be excluded by."""
    pod = a_pod(name).labels(draw(st.sampled_from(({"app": "web"}, {"app": "web"}, {"app": "db"}, {}))))
    wish = draw(st.sampled_from(("none", "away", "terminating", "elsewhere", "away")))
    if wish == "away":
        selects = draw(st.sampled_from((None, None, {}, {"matchLabels": {"team": "red"}})))
        pod.avoids_pods(draw(KEY), draw(SELECTED), namespace_selector=selects)
    elif wish == "terminating":
        pod.deleted(MOMENTS[0])
    elif wish == "elsewhere":
        pod.namespace("blue")
    return pod.obj()


@st.composite
def neighbourhoods(draw):
    """(nodes, pods on them, pods that may be added)."""
    nodes = [draw(zoned(f"n{i}")) for i in range(draw(st.integers(2, 5)))]
    placed = [draw(neighbours(f"e{i}")) for i in range(draw(st.integers(0, 9)))]
    placed = [bound(pod, name_of(draw(st.sampled_from(nodes)))) for pod in placed]
    return nodes, placed, [draw(neighbours(f"new{i}")) for i in range(draw(st.integers(0, 3)))]


@st.composite
def spreading_pods(draw):
    pod = a_pod("me").labels(app=draw(st.sampled_from(("web", "db"))))
    for _ in range(draw(st.integers(1, 3))):
        pod.spreads(
            draw(KEY),
            draw(SELECTED),
            max_skew=draw(st.sampled_from((1, 1, 2))),
            min_domains=draw(st.sampled_from((None, None, 2, 4))),
            node_taints_policy=draw(st.sampled_from(("", "Honor"))),
            match_label_keys=draw(st.sampled_from(((), (), ("app",)))),
        )
    return pod.obj()


@st.composite
def pods_with_affinity(draw):
    pod = a_pod("me").labels(app=draw(st.sampled_from(("web", "db"))))
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        pod.requires_pods(draw(KEY), draw(SELECTED), namespaces=draw(st.sampled_from(((), (), ("blue",)))))
    for _ in range(draw(st.integers(0, 1))):
        pod.avoids_pods(draw(KEY), draw(SELECTED))
    return pod.obj()


@examples(200)
@given(neighbourhoods(), spreading_pods(), st.data())
def test_spread(neighbourhood, pod, data):
    nodes, placed, others = neighbourhood
    state = state_of(nodes, placed)
    plugin = plugin_on(PodTopologySpread, state, PodTopologySpreadArgs(defaulting_type="List"))
    assert_worlds(
        data,
        plugin,
        state,
        pod,
        nodes,
        placed,
        others,
        Spread(pod, nodes, placed, own_constraints(pod, "DoNotSchedule")),
    )


@examples(200)
@given(neighbourhoods(), pods_with_affinity(), st.data())
def test_affinity(neighbourhood, pod, data):
    nodes, placed, others = neighbourhood
    objects = [namespace("default", team="red")]
    state = state_of(nodes, placed, objects)
    plugin = plugin_on(InterPodAffinity, state, InterPodAffinityArgs())
    assert_worlds(data, plugin, state, pod, nodes, placed, others, Affinity(pod, nodes, placed, objects))


def test_an_added_pod_may_exclude_others_by_a_new_key():
    nodes = [a_node("n0").zone("a").obj(), a_node("n1").zone("a").obj()]
    state = state_of(nodes)
    plugin, cycle = plugin_on(InterPodAffinity, state, InterPodAffinityArgs()), CycleState()
    pod = state.pod_info(struct(a_pod("me").labels(app="web").avoids_pods(HOST, DB)))
    assert plugin.pre_filter(cycle, pod, Nodes(state)) is None
    world = cycle.clone()
    row = np.array([0], np.intp)
    added = state.pod_info(struct(a_pod("new").avoids_pods(ZONE, WEB)))
    plugin.shift_pods(world, pod, PodShift.of_pods(row, [added], 1))
    rejections = plugin.filter(world, pod, HypotheticalNodes(state, row))
    assert rejections.status(0).reasons == ("node(s) didn't satisfy existing pods anti-affinity rules",)
    assert plugin.filter(cycle, pod, Nodes(state)) is None
