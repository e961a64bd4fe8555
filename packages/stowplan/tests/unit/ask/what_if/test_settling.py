"""A StatefulSet that creates its pods one after the other creates none while an earlier one waits."""

import pytest

from stowplan import Cluster
from stowplan.ask.what_if import AddNodes, Remove, Scale, drain, survive, what_if
from stowplan.ask.what_if.hypothetical_pods import pods_of
from stowplan.kube.api.decode import decode_object
from support.what_if.objects import node, owned, pod

WAITS = "not created before db-0 runs (OrderedReady)"


def db(number, cpu="1", **spec):
    return owned(pod(f"db-{number}", cpu, **spec), "StatefulSet", "db")


def the_set(policy="OrderedReady", **spec):
    metadata = {"name": "db", "namespace": "default"}
    spec = {"replicas": 2, "podManagementPolicy": policy, **spec}
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


def pods_after(objects, *changes):
    """The set's pods once the changes are made, and the notes."""
    left = []

    def look(cluster):
        left[:] = [info.key for info in pods_of(cluster.state, "StatefulSet", "default", "db")]

    notes = what_if(Cluster(objects), *changes, look=look).notes
    return [key.removeprefix("default/") for key in left], notes


@pytest.mark.parametrize(
    ("policy", "waiting", "replicas", "left", "not_deleted"),
    [
        ("Parallel", {0}, 1, [0], ""),
        ("OrderedReady", set(), 1, [0], ""),
        ("OrderedReady", {0}, 1, [0, 1, 2, 3], "db-3 is not deleted before db-0 runs"),
        ("OrderedReady", {1}, 3, [0, 1, 2, 3], "db-3 is not deleted before db-1 runs"),
        # None that is kept waits.
        ("OrderedReady", {0}, 0, [], ""),
        ("OrderedReady", {2}, 1, [0], ""),
        ("OrderedReady", {2, 3}, 1, [0, 1, 2, 3], "db-3 is not deleted before db-2 runs"),
    ],
)
def test_scaled_down(policy, waiting, replicas, left, not_deleted):
    pods = [db(number, "9") if number in waiting else db(number, nodeName="a") for number in range(4)]
    objects = [node("a"), the_set(policy, replicas=4), *pods]
    names = [f"db-{number}" for number in left]
    notes = (f"pod default/{not_deleted} (OrderedReady)",) if not_deleted else ()
    assert pods_after(objects, Scale("StatefulSet", "default", "db", replicas)) == (names, notes)


def test_deleted_once_the_first_runs():
    """Its node is added; the room of the others is then free."""
    objects = [node("a"), the_set(), db(0, "5"), db(1, "3", nodeName="a"), pod("other", "2")]
    scale, grow = Scale("StatefulSet", "default", "db", 1), AddNodes(1, decode_object(node("b", "5")))
    assert what_if(Cluster(objects), scale).placed == {}
    assert what_if(Cluster(objects), scale, grow).placed == {"default/db-0": "b-like-1", "default/other": "a"}


def test_ordinals_that_start_elsewhere():
    pods = [db(number, nodeName="a") for number in (5, 6, 7)]
    objects = [node("a"), the_set(ordinals={"start": 5}, replicas=3), *pods]
    assert pods_after(objects) == (["db-5", "db-6", "db-7"], ())
    assert pods_after(objects, Scale("StatefulSet", "default", "db", 1)) == (["db-5"], ())
