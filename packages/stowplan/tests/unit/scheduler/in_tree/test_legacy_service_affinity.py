"""LegacyServiceAffinity compared with the rule of Kubernetes 1.22, per pod and node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.in_tree.legacy_service_affinity.declaration import LegacyServiceAffinityArgs
from stowplan.scheduler.in_tree.legacy_service_affinity.plugin import LegacyServiceAffinity
from stowplan.testing import a_node, a_pod

REASON = "node(s) didn't match service affinity"
KEYS = ("rack", "room")


def service(name="s", namespace="default", **selector):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
    }


def bench_of(bench, nodes, pods=(), services=(), affinity=KEYS, spread=()):
    """`nodes`: labels of each; `pods`: (row, labels) of each."""
    objects = [a_node(f"n{i}").labels(**labels) for i, labels in enumerate(nodes)]
    placed = [a_pod(f"p{i}").labels(**labels).on(f"n{row}") for i, (row, labels) in enumerate(pods)]
    args = LegacyServiceAffinityArgs(affinity_labels=tuple(affinity), anti_affinity_labels_preference=tuple(spread))
    return bench(LegacyServiceAffinity, *objects, *placed, *services, args=args)


# --- the rule


def has(labels, wanted):
    return all(labels.get(key) == value for key, value in wanted.items())


def is_served(pod_labels, services):
    return any(has(pod_labels, one["spec"]["selector"]) for one in services)


def accepts(row, nodes, matching, served, selector):
    """`matching`: rows of pods with the pod's labels, in the order in which the node has them."""
    wanted = {key: selector[key] for key in KEYS if key in selector}
    if served and matching:
        anchor = nodes[matching[0]]
        wanted = {key: anchor[key] for key in KEYS if key in anchor} | wanted
    return has(nodes[row], wanted)


LABELS = st.fixed_dictionaries({}, optional={"rack": st.sampled_from("ab"), "room": st.sampled_from("xy")})
POD_LABELS = st.fixed_dictionaries({}, optional={"app": st.sampled_from("ws"), "tier": st.just("front")})
NODES = st.lists(LABELS, min_size=1, max_size=5)
SERVICES = st.lists(st.sampled_from([{"app": "w"}, {"app": "s"}, {"tier": "front"}]), max_size=2)


@given(data=st.data(), nodes=NODES, own=POD_LABELS, selectors=SERVICES, selected=LABELS)
def test_filter_agrees_with_the_rule_also_in_hypothetical_clusters(bench, data, nodes, own, selectors, selected):
    rows = st.integers(0, len(nodes) - 1)
    pods = sorted(data.draw(st.lists(st.tuples(rows, POD_LABELS), max_size=6)), key=lambda pod: pod[0])
    services = [service(f"s{i}", **selector) for i, selector in enumerate(selectors)]
    world = bench_of(bench, nodes, pods, services)
    pod = world.pod(a_pod("new").labels(**own).node_selector(**selected))
    cycle = CycleState()
    world.plugin.pre_filter(cycle, pod, world.nodes())

    matching = [(row, i) for i, (row, labels) in enumerate(pods) if has(labels, own)]
    served = is_served(own, services)
    worlds = {row: list(matching) for row in range(len(nodes))}

    def check():
        expected = {
            f"n{row}": REASON
            for row in worlds
            if not accepts(row, nodes, [where for where, _ in worlds[row]], served, selected)
        }
        assert world.refusals_in(cycle, pod, world.nodes()) == expected
        some = data.draw(st.lists(rows, min_size=1, max_size=3, unique=True))
        names = [f"n{row}" for row in some]
        found = world.refusals_in(cycle, pod, world.nodes(*names))
        assert found == {name: REASON for name in names if name in expected}

    check()
    cycle = cycle.clone()
    away = {row: [i for i, (where, _) in enumerate(pods) if where == row] for row in range(len(nodes))}
    back = {row: [] for row in range(len(nodes))}
    for _ in range(data.draw(st.integers(0, 5))):
        # One pod of some nodes leaves or returns.
        sign, source, target = data.draw(st.sampled_from([(-1, away, back), (1, back, away)]))
        moves = {
            row: data.draw(st.sampled_from(some)) for row, some in source.items() if some and data.draw(st.booleans())
        }
        if not moves:
            continue
        for row, i in moves.items():
            source[row].remove(i)
            target[row].append(i)
            if has(pods[i][1], own):
                if sign < 0:
                    worlds[row].remove((row, i))
                else:
                    worlds[row].append((row, i))
        infos = [world.pod(a_pod(f"p{i}").labels(**pods[i][1]).on(f"n{row}")) for row, i in moves.items()]
        shift = PodShift.of_pods(np.array(list(moves), np.intp), infos, sign)
        assert world.plugin.shift_pods(cycle, pod, shift) is None
        check()


@given(nodes=NODES, data=st.data(), selectors=SERVICES, own=POD_LABELS)
def test_scores_spread_the_pods_of_a_service(bench, nodes, data, selectors, own):
    pods = data.draw(st.lists(st.tuples(st.integers(0, len(nodes) - 1), POD_LABELS), max_size=6))
    spread = data.draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    services = [service(f"s{i}", **selector) for i, selector in enumerate(selectors)]
    world = bench_of(bench, nodes, pods, services, spread=spread)
    selector = next((one["spec"]["selector"] for one in services if has(own, one["spec"]["selector"])), None)
    raw = [
        0 if selector is None else sum(where == row and has(labels, selector) for where, labels in pods)
        for row in range(len(nodes))
    ]
    reached = [0.0] * len(nodes)
    for key in spread:
        for row, labels in enumerate(nodes):
            if key in labels:
                shared = sum(raw[i] for i, other in enumerate(nodes) if other.get(key) == labels[key])
                own_score = 100.0 * ((sum(raw) - shared) / sum(raw)) if sum(raw) else 100.0
                reached[row] += own_score / len(spread)
    assert world.scores(a_pod("new").labels(**own), normalized=False) == {f"n{i}": score for i, score in enumerate(raw)}
    assert world.scores(a_pod("new").labels(**own)) == {f"n{i}": int(score) for i, score in enumerate(reached)}


# --- examples


def test_pods_of_other_namespaces_and_without_a_service_do_not_count(bench):
    nodes, pods = [{"rack": "a"}, {"rack": "b"}], [(1, {"app": "w"})]
    assert bench_of(bench, nodes, pods, [service(namespace="other", app="w")]).refusals(a_pod().labels(app="w")) == {}
    served = [service(app="w"), service(namespace="other", app="w")]
    assert bench_of(bench, nodes, pods, served).refusals(a_pod(namespace="other").labels(app="w")) == {}


def test_nodes_are_ordered_alternately_by_zone(bench):
    zones = ("z1", "z1", "z2")
    nodes = [{"topology.kubernetes.io/zone": zone, "rack": str(i)} for i, zone in enumerate(zones)]
    world = bench_of(bench, nodes, [(1, {"app": "w"}), (2, {"app": "w"})], [service(app="w")], ["rack"])
    # n0 of z1, n2 of z2, n1 of z1.
    assert world.refusals(a_pod().labels(app="w")) == {"n0": REASON, "n1": REASON}


def test_terminating_pods_do_not_count_in_scores(bench):
    world = bench_of(bench, [{"rack": "a"}, {"rack": "b"}], (), [service(app="w")], spread=["rack"])
    world.put(a_pod("going").labels(app="w").on("n0").deleted("2030-01-01T00:00:00Z"))
    world.put(a_pod("there").labels(app="w").on("n1"))
    assert world.scores(a_pod().labels(app="w"), normalized=False) == {"n0": 0, "n1": 1}
    assert world.scores(a_pod().labels(app="w")) == {"n0": 100, "n1": 0}


def test_without_labels_it_refuses_no_node(bench):
    world = bench_of(bench, [{"rack": "a"}], [(0, {"app": "w"})], [service(app="w")], affinity=())
    assert world.refusals(a_pod().labels(app="w").node_selector(rack="b")) == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, a_node("x")),
        (service(app="w"), None),
        (a_pod("p").labels(app="w").on("n0"), None),
    ],
)
def test_hints(bench, old, new):
    assert bench_of(bench, [{}]).hint(a_pod().labels(app="w"), old, new) == "Queue"
