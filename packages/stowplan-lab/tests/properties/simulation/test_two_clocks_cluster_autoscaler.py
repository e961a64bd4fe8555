"""The cluster autoscaler on the embedded cluster and in a simulation: the same nodes come and go at the same times."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.examples import times
from support.live.two_clocks_cluster_autoscaler import Found, Group, agree_on_groups, replica_set


def budget(name, spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def test_nodes_come_for_pods_that_do_not_fit_and_go_when_they_are_not_needed(tmp_path):
    groups = {"small": Group(4, most=5, least=1)}
    workloads = {"web": replica_set("web", 2, 1)}
    assert agree_on_groups(groups, workloads, [(27, "web", 14), (257, "web", 5)], tmp_path) == Found(4, 2)


@pytest.mark.parametrize(("protection", "left"), [({"maxUnavailable": 1}, 1), ({"minAvailable": 3}, 2)])
def test_budgets_are_respected(tmp_path, protection, left):
    groups = {"small": Group(4, most=5, least=1)}
    workloads = {"web": replica_set("web", 9, 1)}
    guard = [budget("web", protection)]
    assert agree_on_groups(groups, workloads, [(257, "web", 3)], tmp_path, budgets=guard) == Found(3, left)


def test_a_drain_that_takes_too_long_is_given_up(tmp_path):
    groups = {"small": Group(6, most=5, least=1)}
    workloads = {"web": replica_set("web", 13, 1)}
    guard = [budget("web", {"maxUnavailable": 1})]
    found = agree_on_groups(groups, workloads, [(457, "web", 5)], tmp_path, budgets=guard, startup=200.3)
    assert found == Found(3, 1, failed=True)


@settings(
    max_examples=times(6), derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.builds(Group, st.integers(2, 6), st.integers(0, 4), st.just(0), st.just(0.5)),
    st.builds(Group, st.integers(2, 6), st.integers(1, 4), st.integers(0, 1), st.sampled_from([0.1, 1.0, 10.0])),
    st.tuples(*[st.tuples(st.integers(0, 8), st.integers(1, 4))] * 2),
    st.lists(
        st.tuples(st.sampled_from([17, 61, 97, 243]), st.sampled_from(["a", "b"]), st.sampled_from([0, 0, 1, 3, 5])),
        max_size=5,
    ),
    st.sampled_from([{}, {"maxUnavailable": 1}, {"minAvailable": 2}]),
    st.sampled_from([0, 2.6]),
    st.sampled_from([6.3, 6.3, 200.3]),
)
def test_groups(tmp_path, first, second, sizes, changes, protection, termination, startup):
    workloads = {name: replica_set(name, *size) for name, size in zip("ab", sizes, strict=True)}
    events, at, replicas = [], 0, {name: size for name, (size, _) in zip("ab", sizes, strict=True)}
    for gap, name, more in changes:
        at += gap
        # They grow, or have no pods: which of some equal pods goes first depends on their names, which differ.
        replicas[name] = min(12, replicas[name] + more) if more else 0
        # Not a multiple of ten, when the autoscalers look.
        events.append((at + (at % 10 == 0), name, replicas[name]))
    guard = [budget("a", protection)] if protection else []
    models = {"startup": startup, "termination": termination}
    agree_on_groups({"x": first, "y": second}, workloads, events, tmp_path, budgets=guard, **models)
