"""Disruption budgets: how many pods may go, as kube-controller-manager writes it into their status."""

import pytest

from stowplan.kube.api.policy import PodDisruptionBudgetSpec, budget_status


@pytest.mark.parametrize(
    ("spec", "expected", "healthy", "desired", "allowed"),
    [
        pytest.param({"min_available": 2}, 5, 4, 2, 2, id="a number"),
        pytest.param({"min_available": 2}, 0, 0, 2, 0, id="no pods"),
        pytest.param({"min_available": "30%"}, 5, 5, 2, 3, id="a percentage is rounded up"),
        pytest.param({"max_unavailable": "30%"}, 5, 5, 3, 2, id="so is that of unavailable pods"),
        pytest.param({"max_unavailable": 1}, 3, 1, 2, 0, id="too many are unavailable"),
        pytest.param({"max_unavailable": 9}, 3, 3, 0, 3, id="more than there are"),
        pytest.param({}, 3, 3, 0, 0, id="neither"),
    ],
)
def test_budget_status(spec, expected, healthy, desired, allowed):
    status = budget_status(PodDisruptionBudgetSpec(**spec), expected=expected, healthy=healthy)
    assert (status.desired_healthy, status.disruptions_allowed, status.current_healthy) == (desired, allowed, healthy)
    assert status.expected_pods == (expected if spec else 0)
