"""Upstream's scenarios of preemption by and of trees of groups, as data.

After TestCompositePodGroupPreemption in test/integration/scheduler/preemption/podgrouppreemption_test.go at the code
freeze of 1.37: all of its 22 cases. The groups of the preemptors are created after them in each case.
"""

from operator import attrgetter

import pytest

from support.scheduling.preemption_cases import ALL, APART, LOWER, NEVER, Case, check, lows, on, pods

SINGLE = {"disruptionMode": {"single": {}}}
FIRST = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
PORT = {"containers": [{"name": "c", "ports": [{"containerPort": 8080, "hostPort": 8080}]}]}
HIGH, LOW = "h1 h2 h3", "l1 l2 l3"


def below(parent, **more):
    return {"parentCompositePodGroupName": parent, **more}


def preemptor(count, policy=()):
    """A basic composite with one gang."""
    return [("top", 100, None, dict(policy))], [("pg", 100, count, below("top", **dict(policy)))]


def two_nodes(name, composites, first, second, evicted, spared=""):
    """A pod needs all of n1; the modes of PodGroups 1 (a pod on each node) and 2 (a pod on the second node)."""
    return Case(
        name=name,
        nodes=(2, 2),
        composites=composites,
        groups=[("v1", 10, 2, first), ("v2", 10, 1, second)],
        initial=[on("n1", "l1", group="v1"), on("n2", "l2", group="v1"), on("n2", "l3", group="v2")],
        preemptors=pods("h1", "2", group="", **FIRST),
        bound=f"h1 {spared}",
        evicted=evicted,
    )


def by_policy(name, policy, evicted, count=3, gate=True, of_pods=None, nominated="", big=False):
    of_pods = policy if of_pods is None else of_pods
    composites, groups = preemptor(count, policy)
    high = [*pods("h1", "2", **of_pods), *pods("h2", **of_pods)] if big else pods("h1 h2 h3", **of_pods)
    names = " ".join(pod[0] for pod in high)
    return Case(
        name=name,
        nodes=(3,),
        composites=composites,
        groups=groups,
        initial=lows(LOW),
        preemptors=high,
        bound=names if evicted else LOW,
        left="" if evicted else names,
        evicted=evicted,
        nominated=nominated,
        policy_gate=gate,
    )


def two_children(case, second):
    """A policy's case, whose third pod is in another group below the same one."""
    ((name, priority, _, more),) = case.groups
    case.groups = [(name, priority, 2, more), ("pg2", priority, 1, more)]
    case.preemptors = [*case.preemptors[:2], *pods("h3", group="pg2", **second)]
    return case


def a_gang(name, initial, high, *, nodes=(2, 2), victims=((), ()), count=2, **options):
    composites, groups = preemptor(count)
    return Case(
        name=name,
        nodes=nodes,
        composites=[*composites, *victims[0]],
        groups=[*groups, *victims[1]],
        initial=initial,
        preemptors=high,
        **options,
    )


def a_tree(name, priority=10, count=None, gang=None):
    """A tree of one group, as what is evicted."""
    return [(name, priority, gang, {})], [(f"{name}-child", priority, count, below(name))]


def of_budget(name, composites, of_foo, of_other):
    foo = {"group": "foo", "labels": {"app": "foo"}}
    return Case(
        name=name,
        nodes=(3,),
        composites=composites,
        groups=[("foo", 10, 2, of_foo), ("other", 10, 1, of_other)],
        initial=[on("n1", "foo1", **foo), on("n1", "foo2", **foo), on("n1", "other1", group="other")],
        preemptors=pods("h", group=""),
        bound="h foo1 foo2",
        evicted="other1",
        budget=0,
    )


GRANDPARENT = ("grand", 10, None)
WEAK, STRONG = a_tree("weak", 10, 1), a_tree("strong", 20, 1)
VICTIM = a_tree("victim", 10, 2)
ON_BOTH = [on("n1", "l1", group="victim-child"), on("n2", "l2", group="victim-child")]

CASES = [
    a_gang(
        "in part",
        [on("n1", "l1", "2"), on("n2", "l2")],
        pods(HIGH),
        count=3,
        bound=f"{HIGH} l2",
        evicted="l1",
        prefers_first=True,
        policy_gate=True,
    ),
    two_nodes("a victim as a whole", [("old", 10, None, ALL)], below("old"), below("old"), evicted=LOW),
    two_nodes(
        "a victim's single pods", [("old", 10, None, SINGLE)], below("old"), below("old"), evicted="l1", spared="l2 l3"
    ),
    Case(
        name="not enough room",
        nodes=(2,),
        composites=WEAK[0],
        groups=WEAK[1],
        initial=[on("n1", "l1", group="weak-child")],
        preemptors=pods("h1", "3", group=""),
        bound="l1",
        left="h1",
    ),
    Case(
        name="a PodGroup's pods rather than a composite group",
        nodes=(2,),
        composites=[("old", 10, None, ALL)],
        groups=[("alone", 10, 1, {}), ("child", 10, 1, below("old")), ("pg", 100, 1, {})],
        initial=[on("n1", "of-pg", group="alone"), on("n1", "of-composite", group="child")],
        preemptors=pods("h1"),
        bound="h1 of-composite",
        evicted="of-pg",
    ),
    Case(
        name="the less important tree",
        nodes=(3,),
        composites=[*WEAK[0], *STRONG[0]],
        groups=[*WEAK[1], *STRONG[1]],
        initial=[on("n1", "l1", group="weak-child"), on("n1", "l2", priority=20, group="strong-child")],
        preemptors=pods("h1", "2", group=""),
        bound="h1 l2",
        evicted="l1",
    ),
    of_budget(
        "a budget spares a tree",
        [("of-foo", 10, None, ALL), ("of-other", 10, None, ALL)],
        below("of-foo"),
        below("of-other"),
    ),
    of_budget("a budget spares pods", [("old", 10, None, SINGLE)], below("old"), below("old")),
    two_nodes(
        "as a whole by the grandparent",
        [(*GRANDPARENT, ALL), ("parent", 10, None, below("grand", **SINGLE))],
        below("parent"),
        below("parent"),
        evicted=LOW,
    ),
    two_nodes(
        "as a whole by the parent",
        [(*GRANDPARENT, SINGLE), ("parent", 10, None, below("grand", **ALL))],
        below("parent"),
        below("grand"),
        evicted="l1 l2",
        spared="l3",
    ),
    by_policy("the default policy", {}, LOW),
    two_children(by_policy("Never", NEVER, ""), NEVER),
    two_children(by_policy("PreemptLowerPriority", LOWER, LOW, nominated=HIGH), LOWER),
    by_policy("Never prevents it", NEVER, "", count=2, big=True),
    by_policy("PreemptLowerPriority allows it", LOWER, LOW, count=2, big=True, nominated="h1 h2"),
    by_policy("a policy of pods", {}, "", of_pods=NEVER, gate=False),
    a_gang(
        "pods that repel the victim",
        [on("n1", "l1", "250m", labels={"app": "initial"})],
        pods("h1 h2", "1500m", **APART),
        bound="h1 h2",
        evicted="l1",
        policy_gate=True,
    ),
    a_gang(
        "ports",
        [on("n1", "l1", "", **PORT)],
        pods("h1 h2", "", **PORT),
        bound="h1 h2",
        evicted="l1",
        policy_gate=True,
    ),
    a_gang(
        "plugins reserve in trials, too",
        lows("l1 l2", group="victim-child"),
        pods("h1 h2"),
        nodes=(2,),
        victims=VICTIM,
        bound="l1 l2",
        left="h1 h2",
        reservations=1,
    ),
    *(
        a_gang(
            f"some have room, {name}",
            ON_BOTH,
            pods("h1 h2 h3 h4"),
            victims=a_tree("victim", 10, 4, gang),
            count=4,
            bound="h1 h2 h3 h4",
            evicted="l1 l2",
        )
        for name, gang in (("a gang", 1), ("basic", None))
    ),
    a_gang(
        "a victim without its parent",
        lows("l1 l2", group="victim-child"),
        pods("h1 h2"),
        nodes=(2,),
        victims=VICTIM,
        bound="h1 h2",
        evicted="l1 l2",
        deleted="victim",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_who_runs_in_the_end(case):
    check(case)
