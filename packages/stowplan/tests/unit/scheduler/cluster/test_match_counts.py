"""Counts per term are exact, also when there are more terms than the limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.label_selectors import EVERYTHING, Requirement, Selector, selector_of
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.terms import MatchCounts, PodTerm, equality_of
from stowplan.testing import a_node, a_pod
from support.scheduling.worlds import state_of, struct

WEB, DB = Requirement("app", "In", ("web",)), Requirement("app", "In", ("db",))
EITHER = Requirement("app", "In", ("db", "web"))
NOT_WEB, TIERED, UNTIERED = (
    Requirement("app", "NotIn", ("web",)),
    Requirement("tier", "Exists"),
    Requirement("tier", "DoesNotExist"),
)
FIRST = Requirement("tier", "In", ("1",))

selectors = st.lists(st.sampled_from((WEB, DB, EITHER, NOT_WEB, TIERED, UNTIERED, FIRST)), max_size=2).map(selector_of)
clauses = st.tuples(st.sampled_from((None, frozenset(("default",)), frozenset(("a", "b")))), selectors)
terms = st.builds(PodTerm, st.lists(clauses, min_size=1, max_size=2).map(tuple), st.booleans())

LABELS = ({}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "1"}, {"tier": "2"})
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), terms),
        st.tuples(
            st.just("put"),
            st.tuples(st.integers(0, 5), st.sampled_from(LABELS), st.sampled_from(("default", "a")), st.booleans()),
        ),
        st.tuples(st.just("take"), st.integers(0, 5)),
    ),
    max_size=40,
)


def plain_count(state, term, row):
    """The plain rule: pods of the row that match every clause."""
    found = 0
    for info in state.row_pods[row]:
        live = not (term.live_only and info.terminating)
        found += live and all(
            (namespaces is None or info.namespace in namespaces) and selector.matches(info.labels)
            for namespaces, selector in term.clauses
        )
    return found


@given(steps, st.integers(1, 4))
def test_counts_are_exact_after_terms_were_evicted(steps, limit):
    state = ClusterState()
    state.matches = MatchCounts(state.table.capacity, limit=limit)
    state_of([a_node("n0"), a_node("n1")], state=state)
    for what, with_ in steps:
        if what == "ask":
            slot = state.matches.slot(with_, state.pods)
            assert state.matches.counts[slot, :2].tolist() == [plain_count(state, with_, row) for row in (0, 1)]
        elif what == "put":
            i, labels, namespace, terminating = with_
            pod = a_pod(f"p{i}").uid(f"p{i}").namespace(namespace).labels(labels).on(f"n{i % 2}")
            state.add_pod(struct(pod.deleted("2026-01-01T00:00:00Z") if terminating else pod))
        else:
            state.remove_pod(f"p{with_}")
        assert len(dict(state.matches.items())) <= limit
        for term, slot in state.matches.items():
            assert state.matches.counts[slot, :2].tolist() == [plain_count(state, term, row) for row in (0, 1)]


@given(steps)
def test_the_version_changes_with_every_count(steps):
    state = state_of([a_node("n0"), a_node("n1")])
    for what, with_ in steps:
        before = {t: (state.matches.versions[s], state.matches.counts[s].tolist()) for t, s in state.matches.items()}
        if what == "ask":
            state.matches.slot(with_, state.pods)
        elif what == "put":
            i, labels, namespace, _ = with_
            state.add_pod(struct(a_pod(f"p{i}").uid(f"p{i}").namespace(namespace).labels(labels).on(f"n{i % 2}")))
        else:
            state.remove_pod(f"p{with_}")
        for term, slot in state.matches.items():
            if term in before and state.matches.counts[slot].tolist() != before[term][1]:
                assert state.matches.versions[slot] != before[term][0]


def test_the_least_recently_used_term_is_evicted():
    state = ClusterState()
    state.matches = MatchCounts(state.table.capacity, limit=2)
    web, db, tiered = (PodTerm(((None, selector_of((r,))),)) for r in (WEB, DB, TIERED))
    first = state.matches.slot(web, state.pods)
    state.matches.slot(db, state.pods)
    assert state.matches.slot(web, state.pods) == first
    state.matches.slot(tiered, state.pods)
    assert {term for term, _ in state.matches.items()} == {web, tiered}


@pytest.mark.parametrize(
    ("selector", "pair"),
    [
        pytest.param(selector_of((WEB,)), ("app", "web"), id="one value"),
        pytest.param(selector_of((EITHER, FIRST)), ("tier", "1"), id="the first with one value"),
        pytest.param(selector_of((EITHER,)), None, id="two values"),
        pytest.param(selector_of((NOT_WEB,)), None, id="negative"),
        pytest.param(EVERYTHING, None, id="everything"),
        pytest.param(Selector(nothing=True), None, id="nothing"),
    ],
)
def test_the_index_label_of_a_selector(selector, pair):
    assert equality_of(selector) == pair
