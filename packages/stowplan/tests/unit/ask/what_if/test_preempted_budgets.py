"""Preemption after a loss: budgets allow less once some of their pods are gone."""

import pytest

from stowplan import Cluster
from stowplan.ask.what_if import Remove, drain, survive, what_if
from support.what_if.objects import budget, node, owned, pod


def displaced_by_drain(cluster):
    return drain(cluster, "z").displaced


def displaced_by_loss(cluster):
    return survive(cluster, "node", only="z").losses[0].displaced


def displaced_by_removal(cluster):
    gone = what_if(cluster, Remove("z")).displaced
    return tuple(key for key in gone if key not in ("default/web-1", "default/x"))


@pytest.mark.parametrize("displaced", [displaced_by_drain, displaced_by_loss, displaced_by_removal])
@pytest.mark.parametrize(
    ("healthy", "victim"),
    [
        # It allows one more disruption: the pod of lower priority goes.
        pytest.param(3, "default/web-0", id="enough"),
        pytest.param(2, "default/api-0", id="used up by the loss"),
    ],
)
def test_a_budget_counts_the_pods_that_were_lost_before(displaced, healthy, victim):
    """web-1 finds no node; then x preempts."""
    pods = [
        owned(pod("web-0", nodeName="a")),
        owned(pod("api-0", nodeName="b", priority=5, preemptionPolicy="Never"), name="api-abc"),
        owned(pod("web-1", nodeName="z")),
        owned(pod("x", nodeName="z", priority=1000), name="x-abc"),
    ]
    protecting = budget("web", allowed=healthy - 1)
    cluster = Cluster([node("a", "1"), node("b", "1"), node("z", "2"), *pods, protecting])
    assert displaced(cluster) == (victim,)
