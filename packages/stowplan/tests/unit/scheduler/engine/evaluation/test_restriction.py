"""An evaluation restricted to some rows gives the same results for them as an unrestricted one, and none for others.

The plain rule: evaluate all nodes, then drop those outside. Scores are computed over the feasible nodes that remain.
The shared evaluation is queried for changing sets of rows, as when a group's placements are tried one after the other.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.plugins import NodeFilterPlugin, ShapeSigned
from stowplan.scheduler.engine.evaluation import columns, sampling
from stowplan.scheduler.engine.evaluation.columns import SharedColumns
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.evaluation.sampling import Sampling
from stowplan.scheduler.framework.diagnosis import histogram_text
from stowplan.scheduler.preemption.dry_run import dry_run
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.profiles import framework
from support.plugins.users_plugins import EvenPods, FewPods, Narrow
from support.scheduling.evaluations import findings
from support.scheduling.worlds import PLACEABLE, clusters, named_like, pods, remove_placed, state_of, struct


@pytest.fixture(autouse=True)
def _many_rows_at_once(monkeypatch):
    monkeypatch.setattr(columns, "MAX_CHANGED_SHARE", 1.0)


def mask_of(rows, n):
    found = np.zeros(n, np.bool_)
    found[rows] = True
    return found


def plain(profile, pod, within):
    """Results of a full evaluation for some rows."""
    table = profile.handle.cluster.table
    evaluation = Evaluation(profile)
    outcome = evaluation.filter(pod)
    if outcome.error is not None:
        return {"error": str(outcome.error)}
    inside = table.valid[: table.n] & (True if within is None else mask_of(within, table.n))
    feasible = outcome.feasible & inside
    found = {"feasible": np.flatnonzero(feasible).tolist(), "seen": int((outcome.examined & inside).sum())}
    if feasible.any():
        scored = evaluation.score(pod, feasible)
        return found | {"scores": scored.ranked[feasible].tolist()}
    diagnosis = outcome.diagnosis or evaluation.diagnosis(outcome.refused)
    statuses = {row: diagnosis.status(row) for row in np.flatnonzero(inside).tolist()}
    counts = Counter(reason for status in statuses.values() for reason in status.shown_reasons)
    if diagnosis.pre_filter_message:
        return found | {"message": diagnosis.pre_filter_message}
    return found | {"message": f"0/{len(statuses)} nodes are available: {histogram_text(counts)}."}


def restricted(profile, evaluation, pod, within):
    outcome = evaluation.filter(pod, within=within)
    if outcome.error is not None:
        return {"error": str(outcome.error)}
    found = {"feasible": np.flatnonzero(outcome.feasible).tolist(), "seen": outcome.seen}
    if outcome.feasible.any():
        return found | {"scores": evaluation.score(pod, outcome.feasible).ranked[outcome.feasible].tolist()}
    message = outcome.diagnosis.message()
    if outcome.diagnosis.pre_filter_message:
        return found | {"message": outcome.diagnosis.pre_filter_message}
    return found | {"message": message if ": " in message else f"{message} ."}


steps = st.lists(
    st.tuples(st.sampled_from(("place", "place", "try", "delete", "nominate", "node")), st.integers(0, 60)),
    min_size=3,
    max_size=15,
)


USERS = [(), *(pytest.param((plugin,), marks=pytest.mark.slow) for plugin in (EvenPods, FewPods, Narrow))]


@pytest.mark.parametrize("plugins", USERS, ids=lambda p: p[0].name if p else "none")
def test_a_restricted_evaluation_agrees_with_an_unrestricted_one(plugins):
    @examples(30)
    @given(
        clusters(least_nodes=3),
        st.lists(pods("shape", special=PLACEABLE), min_size=1, max_size=2),
        st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=3),
        steps,
    )
    def holds(cluster, shapes, placements, steps):
        state = state_of(*cluster)
        profile = framework(state, *plugins)
        sums, shared = SharedColumns(profile), {}
        placements = [None, *(np.array(sorted(r for r in p if r < state.table.n), np.intp) for p in placements)]
        for i, (what, which) in enumerate(steps):
            shape = shapes[which % len(shapes)]
            pod = state.pod_info(named_like(shape, f"p{i}"))
            if what == "delete":
                remove_placed(state, which)
            elif what == "nominate":
                state.nominator.add(pod, f"n{which % 6}")
            elif what == "node":
                state.add_node(struct(a_node(f"n{which % state.table.n}").zone("abc"[which % 3])))
            evaluation = shared.setdefault(profile.signature(pod), Evaluation(profile, sums))
            for within in (placements[which % len(placements)], placements[(which + i) % len(placements)]):
                assert restricted(profile, evaluation, pod, within) == plain(profile, pod, within)
            if what == "place":
                outcome = evaluation.filter(pod)
                if outcome.error is None and outcome.feasible.any():
                    state.assume(pod, state.table.names[int(outcome.feasible.argmax())])

    holds()


# -- by example -------------------------------------------------------------------------------------------------------


def test_per_node_plugins_are_not_called_for_other_nodes():
    asked = []

    class Asked(NodeFilterPlugin, ShapeSigned):
        name = "Asked"

        def filter_node(self, state, pod, node):
            asked.append(node.name)
            if node.name == "n3":
                raise RuntimeError("must not be asked")

    state = state_of(a_node(f"n{i}") for i in range(4))
    evaluation, pod = Evaluation(framework(state, Asked)), state.pod_info(struct(a_pod()))
    for rows in ([0, 2], [1], [0, 1, 2]):
        asked.clear()
        assert evaluation.filter(pod, within=np.array(rows)).seen == len(rows)
        assert asked == [f"n{row}" for row in rows]


def test_a_different_set_of_rows_keeps_the_evaluation():
    state = state_of(a_node(f"n{i}") for i in range(4))
    profile = framework(state)
    evaluation, pod = Evaluation(profile), state.pod_info(struct(a_pod()))
    assert not evaluation.filter(pod, within=np.array([0, 1])).reused
    assert evaluation.filter(pod, within=np.array([2])).reused
    assert evaluation.filter(pod).reused
    assert findings(profile, evaluation, pod) == findings(profile, Evaluation(profile), pod)


def test_results_of_unschedulable_pods_are_cached_for_the_same_rows_only():
    state = state_of([a_node("n0").allocatable(cpu="1"), a_node("n1").allocatable(cpu="1"), a_node("n2")])
    evaluation, pod = Evaluation(framework(state)), state.pod_info(struct(a_pod().requests(cpu="2")))
    both, one = np.array([0, 1]), np.array([1])
    first = evaluation.filter(pod, within=both).diagnosis
    assert first.message() == "0/2 nodes are available: 2 Insufficient cpu."
    assert evaluation.filter(pod, within=both).diagnosis is first
    assert evaluation.filter(pod, within=one).diagnosis.message() == "0/1 nodes are available: 1 Insufficient cpu."


def test_preemption_considers_only_these_rows():
    state = state_of(a_node(f"n{i}").allocatable(cpu="1") for i in range(3))
    for i in range(3):
        state.add_pod(struct(a_pod(f"low{i}").uid(f"low{i}").requests(cpu="1").on(f"n{i}")))
    profile = framework(state)
    evaluation, pod = Evaluation(profile), state.pod_info(struct(a_pod("high").priority(10).requests(cpu="1")))
    for rows in ([1], [0, 2], [1]):
        outcome = evaluation.filter(pod, within=np.array(rows))
        run = dry_run(profile, outcome.state, pod, outcome.diagnosis)
        assert sorted(run.candidates) == [f"n{row}" for row in rows]
        assert run.nodes_total == len(rows)


@pytest.mark.parametrize("share", [0, 30, 60])
def test_a_sampled_search_among_listed_nodes_equals_one_in_a_cluster_of_them(share, monkeypatch):
    """The order of the nodes is the cluster's; the sample size and the next start are the list's own."""
    monkeypatch.setattr(sampling, "LEAST_FEASIBLE", 2)

    @examples(30)
    @given(
        st.integers(4, 12).flatmap(
            lambda n: st.tuples(
                st.just(n),
                st.sets(st.integers(0, n - 1), min_size=1),
                st.sets(st.integers(0, n - 1)),
                st.integers(0, n - 1),
            )
        )
    )
    def holds(drawn):
        n, listed, refused, start = drawn
        zones = {row: "abc"[row % 3] for row in range(n)}
        whole = state_of(a_node(f"n{row}").zone(zones[row]) for row in range(n))
        in_order = [row for row in whole.table.order.rows.tolist() if row in listed]
        alone = state_of(a_node(f"n{row}") for row in in_order)
        searches = []
        for state, rows in ((whole, sorted(listed)), (alone, range(len(in_order)))):
            table, profile, search = state.table, framework(state), Sampling(state.table, share)
            search.start = start % len(listed)
            examined = mask_of(list(rows), table.n)
            fits = np.array([int(name[1:]) not in refused for name in table.names])
            found = search.search(
                profile, examined, examined & fits, ask=lambda rows: np.ones(len(rows), bool), listed=len(listed)
            )
            names = sorted(table.names[row] for row in np.flatnonzero(found.feasible))
            stops = search.stops_early(profile, listed=len(listed))
            searches.append((names, found.feasible_count, found.evaluated, search.start, stops))
        assert searches[0] == searches[1]

    holds()
