"""Upstream's tables of GangScheduling, as data.

After gangscheduling_test.go at the code freeze of 1.37: Test_isSchedulableAfterPodAdded (7 of 7 cases),
…PodGroupAdded (6 of 6), …CompositePodGroupAdded (5 of 5), TestPreEnqueue (14 of 14), TestPlacementFeasible (13 of 13),
and what an earlier text has of Permit (8 of 8 that reach it, each without trees and with them).
"""

import pytest

from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.in_tree.gang_scheduling.plugin import GangScheduling
from stowplan.testing import a_node, a_pod
from support.scheduling.groups import a_composite, a_group

ON, OFF, BOTH = (True,), (False,), (True, False)
SINGLE = {"single": {}}


def member(name, group, namespace="default"):
    return a_pod(name, namespace).spec(schedulingGroup={"podGroupName": group})


def gang(name, count=None, parent=None, namespace="default"):
    made = a_group(name, gang=count, parent=parent, mode=SINGLE)
    made["metadata"] |= {"namespace": namespace, "uid": f"group-{namespace}-{name}"}
    return made


def world_of(bench, *objects, trees):
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": trees, "CompositePodGroup": trees}
    return bench(GangScheduling, *objects, version=V1_37, **gates)


def pending(world, pod):
    info = world.pod(pod)
    world.state.pending.put(info)
    return info


# -- hints ------------------------------------------------------------------------------------------------------------

POD, OF_1, OF_2 = member("p", "pg"), member("p1", "pg1"), member("p2", "pg2")
BELOW = [gang("pg1", parent="root"), gang("pg2", parent="root")]
APART = [gang("pg1", parent="root1"), gang("pg2", parent="root2")]
ROOT, ROOTS = a_composite("root"), [a_composite("root1"), a_composite("root2")]

HINTS = [
    # A pod is added.
    ("its group's", POD, member("q", "pg"), [], BOTH, True),
    ("its group's, on a node", POD, member("q", "pg").on("n"), [], BOTH, True),
    (
        "another namespace's",
        POD,
        member("q", "pg", "foo"),
        [gang("pg"), gang("pg", namespace="foo")],
        BOTH,
        False,
    ),
    ("another group's", OF_1, OF_2, [gang("pg1"), gang("pg2")], BOTH, False),
    ("its tree's", OF_1, OF_2, [*BELOW, ROOT], ON, True),
    ("a tree's that does not count", OF_1, OF_2, [*BELOW, ROOT], OFF, False),
    ("another tree's", OF_1, OF_2, [*APART, *ROOTS], BOTH, False),
    # A PodGroup is added.
    ("its group", POD, gang("pg", 1), [], BOTH, True),
    ("another group", OF_1, gang("pg2", 1), [gang("pg1")], BOTH, False),
    (
        "a group of another namespace",
        member("p", "pg", "ns1"),
        gang("pg", 1, namespace="ns2"),
        [gang("pg", namespace="ns1")],
        BOTH,
        False,
    ),
    ("a group of its tree", OF_1, gang("pg2", 1, "root"), [BELOW[0], ROOT], ON, True),
    ("a group of a tree that does not count", OF_1, gang("pg2", 1, "root"), [BELOW[0], ROOT], OFF, False),
    ("a group of another tree", OF_1, gang("pg2", 1, "root2"), [APART[0], *ROOTS], BOTH, False),
    # A composite group is added.
    ("its root", POD, ROOT, [gang("pg", parent="root")], ON, True),
    ("its root, which does not count", POD, ROOT, [gang("pg", parent="root")], OFF, False),
    ("one between", POD, a_composite("sub", parent="root"), [gang("pg", parent="sub"), ROOT], ON, True),
    ("one between that does not count", POD, a_composite("sub", parent="root"), [gang("pg", parent="sub")], OFF, False),
    ("another root", POD, ROOTS[1], [gang("pg", parent="root1"), *ROOTS], BOTH, False),
]


@pytest.mark.parametrize(
    ("pod", "added", "others", "trees", "wakes"),
    [
        pytest.param(pod, added, others, trees, wakes, id=f"{name}, trees={trees}")
        for name, pod, added, others, both, wakes in HINTS
        for trees in both
    ],
)
def test_hints(bench, pod, added, others, trees, wakes):
    world = world_of(bench, *others, trees=trees)
    if isinstance(added, dict) and (trees or added["kind"] == "PodGroup"):
        world.put(added)
    assert (world.hint(pod, None, added) == "Queue") is wakes


# -- PreEnqueue -------------------------------------------------------------------------------------------------------

GANGS = [gang("pg1", 3), gang("pg2", 4), gang("pg3")]
TREE = [
    a_composite("root", gang=2),
    a_composite("sub1", gang=2, parent="root"),
    a_composite("sub2", parent="root"),
    a_composite("sub3", gang=2, parent="root"),
    *(gang(f"pg{i}", 1, "sub1") for i in (1, 2, 3)),
    gang("pg4", None, "sub2"),
    gang("pg5", 1, "sub2"),
    *(gang(f"pg{i}", 1, "sub3") for i in (6, 7)),
]
BASIC = [a_composite("root"), gang("pg1", 2, "root"), gang("pg2", 2, "root")]
NO_GROUP = 'waiting for pods\'s pod group "pg1" to appear in scheduling queue'
NO_OBJECT = "failed to build hierarchy snapshot: pod group object not found in state for podgroup/default/pg1"
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
NO_QUORUM = 'waiting for composite pod group "root" tree to meet quorum'

#: Group of the pod ("": none), groups of those that are there, objects, with trees or without, and the message.
PRE_ENQUEUE = [
    ("no group", "", "", GANGS, BOTH, ""),
    ("a basic group", "pg3", "", GANGS, BOTH, ""),
    ("no PodGroup", "pg1", "pg1 pg1 pg2 pg2", [], OFF, NO_GROUP),
    ("no PodGroup of a tree", "pg1", "pg1 pg1 pg2 pg2", [], ON, NO_OBJECT),
    ("too few", "pg1", "pg1 pg2 pg2", GANGS, BOTH, TOO_FEW),
    ("enough", "pg1", "pg1 pg1 pg2 pg2", GANGS, BOTH, ""),
    ("a tree without pods", "pg1", "", TREE, ON, NO_QUORUM),
    ("a gang alone", "pg1", "", TREE, OFF, ""),
    ("the root is not ready", "pg6", "pg1 pg2", TREE, ON, NO_QUORUM),
    ("the gang is", "pg6", "pg1 pg2", TREE, OFF, ""),
    ("the root is ready", "pg4", "pg1 pg2 pg6", TREE, BOTH, ""),
    ("a basic root", "pg2", "pg1 pg1", BASIC, ON, ""),
    ("its gang is not ready", "pg2", "pg1 pg1", BASIC, OFF, TOO_FEW),
]


@pytest.mark.parametrize(
    ("group", "there", "objects", "trees", "message"),
    [
        pytest.param(group, there, objects, trees, message, id=f"{name}, trees={trees}")
        for name, group, there, objects, both, message in PRE_ENQUEUE
        for trees in both
    ],
)
def test_pre_enqueue(bench, group, there, objects, trees, message):
    world = world_of(bench, *objects, trees=trees)
    for i, other in enumerate(there.split()):
        pending(world, member(f"q{i}", other))
    answer = world.plugin.pre_enqueue(pending(world, member("p", group) if group else a_pod("p")))
    expected = (Code.UnschedulableAndUnresolvable, message) if message else None
    assert (answer and (answer.code, answer.message)) == expected


# -- Permit -----------------------------------------------------------------------------------------------------------

WAITS = "waiting for minCount pods from a gang to be scheduled"
TREE_WAITS = NO_QUORUM

#: The same, with the groups of the pods that wait on Permit.
PERMIT = [
    ("no group", "", "", "", GANGS, BOTH, ""),
    ("a basic group", "pg3", "", "", GANGS, BOTH, ""),
    ("too few", "pg1", "pg1", "pg1 pg2 pg2", GANGS, BOTH, WAITS),
    ("the last one", "pg1", "", "pg1 pg1 pg2 pg2", GANGS, BOTH, ""),
    ("a gang alone", "pg1", "", "", TREE, OFF, ""),
    ("a tree that is complete", "pg4", "", "pg1 pg2 pg6", TREE, ON, ""),
    ("a basic root whose gangs are not", "pg2", "pg1 pg1", "", BASIC, ON, TREE_WAITS),
    ("a tree that is not", "pg4", "pg1 pg2 pg6", "", TREE, ON, TREE_WAITS),
]


@pytest.mark.parametrize(
    ("group", "there", "waiting", "objects", "trees", "message"),
    [
        pytest.param(group, there, waiting, objects, trees, message, id=f"{name}, trees={trees}")
        for name, group, there, waiting, objects, both, message in PERMIT
        for trees in both
    ],
)
def test_permit(bench, group, there, waiting, objects, trees, message):
    world = world_of(bench, a_node("n"), *objects, trees=trees)
    for i, other in enumerate(there.split()):
        pending(world, member(f"q{i}", other))
    for i, other in enumerate(waiting.split()):
        world.state.assume(pending(world, member(f"w{i}", other)), "n")
    info = pending(world, member("p", group) if group else a_pod("p"))
    world.state.assume(info, "n")
    answer, timeout = world.plugin.permit(None, info, "n")
    assert (answer and (answer.code, answer.message)) == ((Code.Wait, message) if message else None)
    assert timeout == (300.0 if message else 0.0)


# -- PlacementFeasible ------------------------------------------------------------------------------------------------

#: minCount (None: basic), children, those that were scheduled before, and for each child whether it succeeds (+) and
#: the answer then: Success, Wait, or Unschedulable.
FEASIBLE = [
    (2, 2, 0, "+W +S"),
    (3, 3, 0, "-U"),
    (2, 2, 0, "+W -U"),
    (None, 1, 0, "-U"),
    (None, 1, 0, "+S"),
    (None, 1, 1, "-S"),
    (2, 3, 0, "+W +S +S"),
    (2, 3, 0, "-W +W +S"),
    (2, 3, 0, "-W -U"),
    (3, 2, 1, "+W +S"),
    (2, 1, 2, "-S"),
    (3, 2, 1, "-U"),
    (4, 2, 1, "+U"),
]


@pytest.mark.parametrize(("least", "children", "scheduled", "steps"), FEASIBLE)
@pytest.mark.parametrize(("composite", "trees"), [(True, True), (False, True), (False, False)])
def test_placement_feasible(bench, least, children, scheduled, steps, composite, trees):
    group = a_composite("g", gang=least) if composite else gang("g", least, "root")
    world = world_of(bench, group, trees=trees)
    key = "compositepodgroup/default/g" if composite else "default/g"
    codes = {None: "S", Code.Wait: "W", Code.Unschedulable: "U"}
    for i, (outcome, expected) in enumerate(steps.split(), 1):
        scheduled += outcome == "+"
        answer = world.plugin.placement_feasible(key, scheduled, children - i)
        assert codes[answer and answer.code] == expected
