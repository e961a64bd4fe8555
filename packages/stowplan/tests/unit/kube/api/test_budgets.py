"""Disruption budgets: how many pods may go, as kube-controller-manager writes it into their status, and which."""

import pytest

from stowplan.kube.api.budgets import (
    BudgetPod,
    BudgetPods,
    SeveralBudgetsError,
    budget_status,
    budget_to_charge,
    expected_pods,
)
from stowplan.kube.api.meta import OwnerReference
from stowplan.kube.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus


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


SCALES = {"web-1": ("web", 5), "web-2": ("web", 5), "db": ("db", 3)}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"min_available": 2}, 4, id="a number: the pods that exist"),
        pytest.param({"min_available": "50%"}, 8, id="a percentage: what the controllers want"),
        pytest.param({"max_unavailable": 1}, 8, id="unavailable: what the controllers want"),
    ],
)
def test_expected_pods(spec, expected):
    """Two ReplicaSets of one Deployment count once, a pod without a controller does not."""
    pods = BudgetPods()
    for name, owner in (("a", "web-1"), ("b", "web-2"), ("c", "db"), ("d", None)):
        controller = OwnerReference(name=owner) if owner else None
        assert pods.put(name, BudgetPod(ready=name != "b", terminating=name == "c", controller=controller))
    assert (pods.healthy, pods.unmanaged) == (2, 1)
    found = expected_pods(PodDisruptionBudgetSpec(**spec), pods, lambda owner: SCALES[owner.name])
    assert found == expected


def guard(policy=None, healthy=1, desired=2):
    return PodDisruptionBudget(
        spec=PodDisruptionBudgetSpec(unhealthy_pod_eviction_policy=policy),
        status=PodDisruptionBudgetStatus(current_healthy=healthy, desired_healthy=desired),
    )


@pytest.mark.parametrize(
    ("pod", "policy", "healthy", "charged"),
    [
        pytest.param({}, "AlwaysAllow", 2, True, id="ready"),
        pytest.param({"phase": "Pending", "ready": False}, None, 1, False, id="pending"),
        pytest.param({"phase": "Failed", "ready": False}, None, 1, False, id="finished"),
        pytest.param({"terminating": True}, None, 1, False, id="being deleted"),
        pytest.param({"ready": False}, None, 1, True, id="not ready, and the budget is not met"),
        pytest.param({"ready": False}, "IfHealthyBudget", 2, False, id="not ready, and the budget is met"),
        pytest.param({"ready": False}, "AlwaysAllow", 1, False, id="not ready, always allowed"),
    ],
)
def test_the_budget_of_an_eviction(pod, policy, healthy, charged):
    pod = {"phase": "Running", "ready": True, "terminating": False, **pod}
    one = guard(policy, healthy)
    assert budget_to_charge(**pod, guards=[one]) is (one if charged else None)
    assert budget_to_charge(**pod, guards=[]) is None
    if pod["phase"] == "Running" and not pod["terminating"]:
        with pytest.raises(SeveralBudgetsError):
            budget_to_charge(**pod, guards=[one, one])
