"""Upstream's tables of what is evicted as a whole, as data.

After pkg/scheduler/framework/preemption/types_test.go at the code freeze of 1.37: TestGetHighestAllAncestor (8 of 9
cases: a pod without a group has no key), TestNewPodGroupPreemptorResolvesPreemptionPolicy (10 of 10),
TestNewDomainForWorkloadPreemption (21 of 21; how many children a group needs makes no difference, and is left out).
"""

import pytest

from stowplan.kube.api import types as t
from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.preemption.eligibility import never_preempts
from stowplan.scheduler.preemption.workloads import units_of
from stowplan.testing import a_node, a_pod
from support.scheduling.groups import a_composite, a_group, member
from support.scheduling.worlds import struct


def group(text, priority=10):
    """`name:mode:parent`; names of composite groups begin with a c."""
    name, mode, parent = f"{text}::".split(":")[:3]
    make = a_composite if name.startswith("c") else a_group
    return make(name, mode={mode or "single": {}}, parent=parent or None, priority=priority)


def cluster_of(*objects, trees=True):
    state = ClusterState(emulated_version=V1_37, has_group_trees=trees)
    for obj in map(struct, objects):
        if isinstance(obj, t.Node):
            state.add_node(obj)
        elif isinstance(obj, t.Pod):
            state.add_pod(obj)
        else:
            state.put_object(obj)
    return state


# -- the highest group that is evicted as a whole ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "trees", "highest"),
    [
        ("", False, ""),
        ("", True, ""),
        ("pg:single", False, ""),
        ("pg:all", False, "default/pg"),
        ("pg:single:c1 c1:all", True, "compositepodgroup/default/c1"),
        ("pg:single:c1 c1:single:c2 c2:all", True, "compositepodgroup/default/c2"),
        ("pg:all:c1 c1:all", True, "compositepodgroup/default/c1"),
        ("pg:all:c1", True, "default/pg"),
    ],
)
def test_the_highest_group(groups, trees, highest):
    assert cluster_of(*map(group, groups.split()), trees=trees).group_trees.disrupted_with("default/pg") == highest


# -- the policy of a group --------------------------------------------------------------------------------------------

NEVER, LOWER = "Never", "PreemptLowerPriority"


@pytest.mark.parametrize(
    ("name", "policy", "pods", "gate", "never"),
    [
        ("pg", NEVER, [LOWER], True, True),
        ("pg", LOWER, [LOWER, None], True, False),
        ("pg", NEVER, [LOWER], False, False),
        ("pg", LOWER, [NEVER, LOWER, None], False, True),
        ("c1", None, [LOWER, None], False, False),
        ("c1", None, [NEVER, LOWER], False, True),
        ("c1", NEVER, [LOWER], True, True),
        ("c1", LOWER, [LOWER, NEVER], True, False),
        ("c1", NEVER, [LOWER, None], False, False),
        ("c1", None, [NEVER], True, False),
    ],
)
def test_policies(name, policy, pods, gate, never):
    state = cluster_of()
    made = group(name)
    made["spec"] |= {"preemptionPolicy": policy} if policy else {}
    infos = [state.pod_info(struct(a_pod("p").spec(**({"preemptionPolicy": p} if p else {})).obj())) for p in pods]
    features = default_features(V1_37).with_gates({"PodGroupPreemptionPolicy": gate})
    assert never_preempts(struct(made), infos, features) is never


# -- units ------------------------------------------------------------------------------------------------------------

TWO, FOUR = "pg1:all:{0} pg2:all:{0}", "pg1:all:{0} pg2:all:{0} pg3:all:{1} pg4:all:{1}"
NESTED = "c1:all c2:all:c1 c3:all:c1"
MIXED, UNMIXED = "pg1:all:c2 pg2:all:c2 pg3:single:c3 pg4:single:c3", "c1:single c2:all:c1 c3:single:c1"

#: Groups, whether there are trees, and the units: groups whose pods are evicted together, "/" after one whose pods are
#: not. Each group has a pod on each of two nodes.
UNITS = [
    ("no pods", "", False, ""),
    ("a group", "pg1:all", False, "pg1"),
    ("single pods", "pg1:single", False, "pg1/"),
    ("no PodGroup", "-pg1", False, "pg1/"),
    *(
        ("a root", f"{TWO.format('c1')} c1:all", trees, units)
        for trees, units in ((True, "pg1+pg2"), (False, "pg1 pg2"))
    ),
    *(("a root of single pods", "pg1:single:c1 pg2:all:c1 c1:single", trees, "pg1/ pg2") for trees in (True, False)),
    ("nested", f"{FOUR.format('c2', 'c3')} {NESTED}", True, "pg1+pg2+pg3+pg4"),
    ("nested", f"{FOUR.format('c2', 'c3')} {NESTED}", False, "pg1 pg2 pg3 pg4"),
    ("one below", f"{MIXED} {UNMIXED}", True, "pg1+pg2 pg3/ pg4/"),
    ("one below", f"{MIXED} {UNMIXED}", False, "pg1 pg2 pg3/ pg4/"),
    *(("single below a root", "pg1:single:c1 pg2:single:c1 c1:single", trees, "pg1/ pg2/") for trees in (True, False)),
    ("a root of different ones", "pg1:single:c1 pg2:all:c1 c1:all", True, "pg1+pg2"),
    ("a root of different ones", "pg1:single:c1 pg2:all:c1 c1:all", False, "pg1/ pg2"),
    ("one is missing", f"{FOUR.format('c9', 'c2')} c1:all c2:all:c1", True, "pg1 pg2 pg3+pg4"),
]


@pytest.mark.parametrize(
    ("groups", "trees", "units"),
    [pytest.param(*rest, id=f"{name}, trees={rest[1]}") for name, *rest in UNITS],
)
def test_units(groups, trees, units):
    names = [text.split(":")[0].lstrip("-") for text in groups.split()]
    leaves = [name for name in names if name.startswith("pg")]
    pods = [
        {
            **member(f"{name}-{node}", name, priority=10),
            "spec": {**member("", name, priority=10)["spec"], "nodeName": node},
        }
        for name in leaves
        for node in ("n1", "n2")
    ]
    made = [group(text) for text in groups.split() if not text.startswith("-")]
    state = cluster_of(a_node("n1"), a_node("n2"), *made, *pods, trees=trees)
    found = sorted(
        sorted(info.pod.metadata.name for info in unit.pods) for unit in units_of(state, but=None, by_group=True)
    )
    expected = []
    for unit in units.split():
        of_unit = [f"{name}-{node}" for name in unit.rstrip("/").split("+") for node in ("n1", "n2")]
        expected += [[name] for name in of_unit] if unit.endswith("/") else [of_unit]
    assert found == sorted(expected)


def test_priorities_of_units():
    """Pods without groups, in a group as a whole, in one of single pods, and both together (4 cases)."""
    where = {"p1": ("n1", "pg1", 10), "p2": ("n2", "pg1", 10), "p3": ("n1", "pg2", 20), "p4": ("n2", "", 30)}
    pods = [
        a_pod(name).on(node).spec(priority=priority, **({"schedulingGroup": {"podGroupName": of}} if of else {})).obj()
        for name, (node, of, priority) in where.items()
    ]
    groups = group("pg1:all", 50), group("pg2:single", 60)
    state = cluster_of(a_node("n1"), a_node("n2"), *groups, *pods, trees=False)
    units = units_of(state, but=None, by_group=True)
    found = {" ".join(sorted(info.pod.metadata.name for info in unit.pods)): unit.priority for unit in units}
    assert found == {"p1 p2": 50, "p3": 60, "p4": 30}
