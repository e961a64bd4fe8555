"""A StatefulSet that creates its pods one after the other creates none while an earlier one waits."""

import pytest

from stowplan import Cluster
from stowplan.ask.what_if import Remove, Scale, drain, survive, what_if
from support.what_if.objects import node, owned, pod

WAITS = "not created before db-0 runs (OrderedReady)"


def db(number, cpu="1", **spec):
    return owned(pod(f"db-{number}", cpu, **spec), "StatefulSet", "db")


def the_set(policy="OrderedReady"):
    metadata = {"name": "db", "namespace": "default"}
    spec = {"replicas": 2, "podManagementPolicy": policy}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("policy", "pending"), [("OrderedReady", 2), ("Parallel", 1)])
def test_scaled_while_a_pod_waits(policy, pending):
    cluster = Cluster([node("a"), the_set(policy), db(0, nodeName="a"), db(1, "9")])
    found = what_if(cluster, Scale("StatefulSet", "default", "db", 3))
    assert len(found.after.pending) == pending


def test_scaled_to_more_than_fit():
    cluster = Cluster([node("a", "2"), the_set(), db(0, nodeName="a")])
    found = what_if(cluster, Scale("StatefulSet", "default", "db", 4))
    assert found.placed == {"default/db-1": "a"}
    assert found.after.pending == ("default/db-2", "default/db-3")
    assert found.after.reasons["not created before db-2 runs (OrderedReady)"] == 1


def test_one_that_is_lost_while_an_earlier_one_waits():
    objects = [node("a"), node("b"), the_set(), db(0, "9"), db(1, nodeName="a")]
    (loss,) = survive(Cluster(objects), "node", only="a").losses
    assert [(one.pod, one.reason) for one in loss.stranded] == [("default/db-1", WAITS)]
    (stranded,) = drain(Cluster(objects), ["a"]).stranded
    assert stranded.reason == WAITS
    assert what_if(Cluster(objects), Remove("a")).displaced == {"default/db-1": ""}


def test_lost_ones_come_back_in_order():
    objects = [node("a"), node("b", "1"), the_set(), db(0, "2", nodeName="a"), db(1, "1", nodeName="a")]
    (loss,) = survive(Cluster(objects), "node", only="a").losses
    assert sorted(one.pod for one in loss.stranded) == ["default/db-0", "default/db-1"]
    roomy = [node("a"), node("b"), *objects[2:]]
    assert survive(Cluster(roomy), "node", only="a").losses[0].moved == 2
