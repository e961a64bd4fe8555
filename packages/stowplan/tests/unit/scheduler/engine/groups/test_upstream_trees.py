"""Upstream's tables of trees of groups, as data.

After pkg/scheduler/schedule_one_podgroup_test.go at the code freeze of 1.37: TestCPGSchedulingPlacementAlgorithm (6 of
6 cases), …_Scoring (2 of 2), TestCPGHierarchicalScheduling_ScheduleOnePodGroup, …_Internal,
TestCPGMinGroupCount_Internal, TestCPGBasicWithGangChildren_Internal (one each),
TestScorePlacementPodGroupAssignments (4 of 4).
TestPlacementCycleStateLifecycle_MultiLevel cannot be expressed: placements have no state here.
"""

import numpy as np
import pytest

import stowplan
from stowplan.plugins import (
    Code,
    NodeFilterPlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PreEnqueuePlugin,
    Status,
    unschedulable,
)
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.groups.group_trials import GroupTrial, TriedPod
from stowplan.scheduler.engine.groups.tree_trials import successful_leaves
from stowplan.scheduler.framework.interface import PlacementFeasiblePlugin
from stowplan.scheduler.queue.queued_pod import QueuedPod
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_composite, a_group, member, node

GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
SINGLE = {"single": {}}
S, E, U = Code.Success, Code.Error, Code.Unschedulable
ROOT = "compositepodgroup/default/cpg"


def tried(objects, plugins, weights=(), off=()):
    """The trial of `cpg` and its pods in a cluster of these objects; `weights`: of the plugins that score."""
    scoring = (plugin for plugin in plugins if issubclass(plugin, PlacementScorePlugin))
    weight_of = dict(zip((plugin.name for plugin in scoring), weights, strict=False))
    enabled = [{"name": p.name} | ({"weight": weight_of[p.name]} if p.name in weight_of else {}) for p in plugins]
    multi = {"enabled": enabled, "disabled": [{"name": name} for name in off]}
    cluster = stowplan.Cluster(
        objects,
        configuration(
            {"plugins": {"multiPoint": multi, "placementScore": {"disabled": [{"name": "NodeResourcesFit"}]}}}
        ),
        plugins=plugins,
        feature_gates=GATES,
        emulated_version="1.37",
    )
    engine = cluster.engine
    pods = engine.state.group_trees.unscheduled(ROOT)
    queued = [QueuedPod(pod=info, key=info.key, timestamp=0.0) for info in pods]
    trial = run_at_once(engine.groups.trials.run(engine.frameworks["default-scheduler"], ROOT, queued))
    assert engine.state.group_trees.placed(ROOT) == []
    return trial


# -- placements within placements ------------------------------------------------------------------------------------

#: Group -> its placements: their nodes. Those outside of the parent's placement are left out.
GENERATED = {
    "cpg": {"placement1": ("n1", "n2"), "placement2": ("n3", "n4")},
    "pg1": {f"placement{i}": (f"n{i}",) for i in range(1, 5)},
    "pg2": {f"placement{i}": (f"n{i}",) for i in range(1, 5)},
}


def scores(cpg, pg1, pg2):
    """Group -> placement -> its score."""
    given = {"cpg": cpg, "pg1": pg1, "pg2": pg2}
    return {group: {f"placement{i}": score for i, score in enumerate(those, 1)} for group, those in given.items()}


ALL_FIT = {f"n{i}": Status(S) for i in range(1, 5)}
NONE_FITS = {f"n{i}": unschedulable(f"node{i} rejected") for i in range(1, 5)}
INJECTED = Status(E, ("injected error",))
LIKE = scores((1, 2), (5, 5, 1, 2), (5, 5, 2, 1))
#: Name, scores, what Filter says on each node, codes of PlacementFeasible for `cpg` in the first placement, group whose
#: generator fails, whether a node has room for one pod only; status and message of the root, and the pods' nodes ("" if
#: tried in vain, None if their group got the status of the root).
PLACED = [
    ("respects higher score of parent placement", LIKE, ALL_FIT, (), "", False, S, "", ("n4", "n3")),
    (
        "discards infeasible placements",
        LIKE | {"cpg": {"placement1": 2, "placement2": 1}},
        ALL_FIT,
        (U, U, U),
        "",
        False,
        S,
        "",
        ("n4", "n3"),
    ),
    (
        "returns unschedulable if no pods got scheduled",
        scores((2, 1), (5, 1, 1, 1), (5, 1, 1, 1)),
        NONE_FITS,
        (),
        "",
        False,
        U,
        "pod group is unschedulable",
        (None, None),
    ),
    (
        "respects pods already scheduled in sibling pod groups",
        scores((1, 0), (2, 1, 0, 0), (2, 1, 0, 0)),
        ALL_FIT,
        (),
        "",
        True,
        S,
        "",
        ("n1", ""),
    ),
    (
        "when generate plugin fails at CPG, returns error",
        LIKE,
        ALL_FIT,
        (),
        "cpg",
        False,
        E,
        "injected error",
        (None, None),
    ),
    (
        "when generate plugin fails at PG, returns error",
        LIKE,
        ALL_FIT,
        (),
        "pg2",
        False,
        E,
        "composite pod group evaluation failed due to child error: injected error",
        (None, None),
    ),
]


def generator(failing=""):
    class Generates(PlacementGeneratePlugin):
        name = "Generates"

        def generate_placements(self, group_state, group, parent):
            if group.name == failing:
                return INJECTED
            names = [parent.nodes.info(i).name for i in parent.nodes.positions()]
            wanted = {name: nodes for name, nodes in GENERATED[group.name].items() if set(nodes) <= set(names)}
            return [parent.restricted(np.array([n in nodes for n in names]), name) for name, nodes in wanted.items()]

    return Generates


def scorer(of_groups, number=0):
    class Scores(PlacementScorePlugin):
        name = f"Scores{number}"

        def score_placement(self, group_state, group, assignments):
            return of_groups[group.name][assignments.placement.name]

    return Scores


def filtering(verdicts, *, by_pod=False):
    class Filters(NodeFilterPlugin):
        name = "Filters"

        def filter_node(self, state, pod, node):
            return verdicts.get(pod.pod.metadata.name if by_pod else node.name)

    return Filters


def feasibility(*, first=(), group=""):
    """The first times a group is asked about; otherwise Success."""
    left = list(first)

    class Feasible(PreEnqueuePlugin, PlacementFeasiblePlugin):
        name = "Feasible"

        def pre_enqueue(self, pod):
            return None

        def placement_feasible(self, which, scheduled, remaining):
            return Status(left.pop(0), ("told",)) if which == group and left else None

    return Feasible


def two_groups():
    return [
        a_composite("cpg"),
        *(a_group(name, parent="cpg", mode=SINGLE) for name in ("pg1", "pg2")),
        *(member(f"p{i}", f"pg{i}") for i in (1, 2)),
    ]


REPLACED = ("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")


@pytest.mark.parametrize("case", PLACED, ids=[case[0] for case in PLACED])
def test_placements_of_a_tree(case):
    _, of_groups, verdicts, codes, failing, is_small, code, message, hosts = case
    nodes = [node(f"n{i}", 1 if is_small else 9) for i in range(1, 5)]
    # Upstream's plugin is asked again after a refusal, here the first one ends it.
    plugins = [
        filtering(verdicts),
        generator(failing),
        feasibility(first=codes[:1], group=ROOT),
        scorer(of_groups),
    ]
    trial = tried([*nodes, *two_groups()], plugins, (1,), REPLACED)
    assert (trial.status.code, trial.status.message) == (code, message)
    found = [trial.members[f"default/pg{i}"].pods for i in (1, 2)]
    assert tuple(pods[0].host if pods else None for pods in found) == hosts


@pytest.mark.parametrize(
    ("first", "second", "hosts"),
    [((50, 75), (25, 10), ("n1", "n2")), ((75, 50), (10, 25), ("n3", "n4"))],
    ids=["respects higher score of root placement1", "respects higher score of root placement2"],
)
def test_scores_of_placements_of_a_tree(first, second, hosts):
    of_groups = (10, 5, 10, 5), (5, 10, 5, 10)
    plugins = [generator(), scorer(scores(first, *of_groups), 0), scorer(scores(second, *of_groups), 1)]
    nodes = [node(f"n{i}", 9) for i in range(1, 5)]
    off = ("TopologyPlacementGenerator", "PodGroupPodsCount")
    trial = tried([*nodes, *two_groups()], plugins, (1, 2), off)
    assert tuple(trial.members[f"default/pg{i}"].pods[0].host for i in (1, 2)) == hosts


# -- who succeeds -----------------------------------------------------------------------------------------------------


def tree(*groups):
    """Objects: (name, parent, least, pods); a group without pods is one of groups."""
    found = []
    for name, parent, least, pods in groups:
        if pods:
            found.append(a_group(name, gang=least or None, parent=parent, mode=SINGLE))
            found += [member(f"{name}-{i}", name) for i in range(pods)]
        else:
            found.append(a_composite(name, gang=least or None, parent=parent))
    return found


#: Name, groups, those whose pods Filter refuses, those that succeed.
HIERARCHIES = [
    (
        "two of three",
        [("cpg", None, 2, 0), *((f"pg{i}", "cpg", 1, 1) for i in (1, 2, 3))],
        "pg3",
        "pg1 pg2",
    ),
    (
        "several levels",
        [
            ("cpg", None, 2, 0),
            *((f"sub{i}", "cpg", least, 0) for i, least in ((1, 2), (2, 0), (3, 2))),
            *((f"pg{i}", "sub1", 3, 3) for i in (1, 2, 3)),
            ("pg4", "sub2", 0, 3),
            ("pg5", "sub2", 3, 3),
            *((f"pg{i}", "sub3", 3, 3) for i in (6, 7)),
        ],
        "pg3 pg7",
        "pg1 pg2 pg4 pg5",
    ),
    ("minGroupCount", [("cpg", None, 2, 0), *((f"pg{i}", "cpg", 3, 3) for i in (1, 2, 3))], "pg3", "pg1 pg2"),
    ("basic with gangs", [("cpg", None, 0, 0), *((f"pg{i}", "cpg", 3, 3) for i in (1, 2))], "pg2", "pg1"),
]


@pytest.mark.parametrize("case", HIERARCHIES, ids=[case[0] for case in HIERARCHIES])
def test_who_succeeds_in_a_tree(case):
    _, groups, refused, successful = case
    verdicts = {
        f"{name}-{i}": unschedulable("insufficient cpu")
        for name, _, _, pods in groups
        for i in range(pods)
        if name in refused.split()
    }
    trial = tried([node("n1", 100), *tree(*groups)], [filtering(verdicts, by_pod=True)])
    assert trial.status.code == S
    found = {leaf for leaf, its in trial.members.items() if its.status.code == S}
    assert found == {f"default/{name}" for name in successful.split()}


# -- what is scored ---------------------------------------------------------------------------------------------------

#: Name, group -> children, results of each placement: groups that succeed, or fail (-), and their pods' nodes; what is
#: scored of each.
ASSIGNED = [
    (
        "flat composite pod group with all successful leaves",
        {"cpg": ["pg1", "pg2"]},
        [("cpg pg1 pg2", {"pg1": ["n1"], "pg2": ["n2"]}), ("cpg pg1 pg2", {"pg1": ["n3"], "pg2": ["n4"]})],
        [["n1", "n2"], ["n3", "n4"]],
    ),
    (
        "multi-level tree where an intermediate subtree fails",
        {"cpg": ["mid1", "mid2"], "mid1": ["pg1"], "mid2": ["pg2"]},
        [
            ("cpg mid1 pg1 -mid2 pg2", {"pg1": ["n1"], "pg2": ["n2"]}),
            ("cpg mid1 pg1 mid2 pg2", {"pg1": ["n3"], "pg2": ["n4"]}),
        ],
        [["n1"], ["n3", "n4"]],
    ),
    (
        "missing subtree result due to short-circuiting in PlacementFeasible",
        {"cpg": ["mid1", "mid2"], "mid1": ["pg1"], "mid2": ["pg2"]},
        [("cpg mid1 pg1", {"pg1": ["n1"]}), ("cpg mid2 pg2", {"pg2": ["n2"]})],
        [["n1"], ["n2"]],
    ),
    (
        "leaf pod group with some failed or unassigned pods",
        {"cpg": ["pg1", "pg3"]},
        [("cpg pg1 pg3", {"pg1": ["n1"], "pg3": ["n3", ""]}), ("cpg pg1 pg3", {"pg1": ["n2"], "pg3": ["", "n4"]})],
        [["n1", "n3"], ["n2", "n4"]],
    ),
]


@pytest.mark.parametrize("case", ASSIGNED, ids=[case[0] for case in ASSIGNED])
def test_which_pods_are_scored(case):
    _, children, placements, expected = case
    info = stowplan.Cluster([member("p")]).engine.state.pending.get("default/p")

    def trial(status, nodes):
        pods = [
            TriedPod(queued=QueuedPod(pod=info, key="p", timestamp=0.0), decision=Decision(info, one), host=one)
            for one in nodes
        ]
        return GroupTrial(status, pods)

    def key(name):
        return f"compositepodgroup/default/{name}" if name in children else f"default/{name}"

    def below(group):
        return [key(child) for child in children[group.rpartition("/")[2]]] if "composite" in group else []

    for (groups, nodes), assigned in zip(placements, expected, strict=True):
        results = {
            key(name.lstrip("-")): trial(unschedulable() if name[0] == "-" else Status(S), nodes.get(name, ()))
            for name in groups.split()
        }
        leaves = successful_leaves(below, ROOT, results)
        assert [one.node_name for leaf in leaves for one in results[leaf].proposed] == assigned
