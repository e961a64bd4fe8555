"""Upstream's tables for the trial of a group and for what becomes of its pods, as data.

After TestPodGroupSchedulingAlgorithm, TestPodGroupSchedulingPlacementAlgorithm and its _Scoring in
pkg/scheduler/schedule_one_podgroup_test.go at the code freeze of 1.37: all 12, 10 and 2 cases. There they also run with
CompositePodGroup, which does not exist here. "reported placement status" is "first placement status" in the tests,
which are older than the cycle that was read.
"""

from operator import itemgetter

import numpy as np
import pytest

import stowplan
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.framework.interface import (
    NodeFilterPlugin,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PreEnqueuePlugin,
)
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.testing.live import live_cluster
from support.observing.metrics import framework_metrics, numbers
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_group, member, node

S, E, U, UU, W = Code.Success, Code.Error, Code.Unschedulable, Code.UnschedulableAndUnresolvable, Code.Wait
#: Name, what Filter says of the pods, what PlacementFeasible says before and after each (else Success), the group's
#: status, and those of the pods that were tried.
CASES = [
    ("all fit", (S, S, S), (), S, (S, S, S)),
    ("enough from the start", (S, S, S), (S, S, S, S), S, (S, S, S)),
    ("enough with the last", (S, S, S), (W, W, W, S), S, (S, S, S)),
    ("never enough", (S, S, S), (W, W, W, W), U, (S, S, S)),
    ("out of reach after one", (S, S, S), (W, U), U, (S,)),
    ("out of reach after two", (S, S, S), (W, W, U), U, (S, S)),
    ("one does not fit", (U, S, S), (W, W, W, S), S, (U, S, S)),
    ("none fits", (UU, U, U), (W, S, S, S), U, (U, U, U)),
    ("an error of Filter", (S, E, S), (), E, (S, E)),
    ("an error of PlacementFeasible", (S, S, S), (W, S, E), E, (S, S)),
    ("out of reach from the start", (S, S, S), (U,), U, ()),
    ("an error from the start", (S, S, S), (E,), E, ()),
]


def plugins_of(verdicts, feasible):
    class Filters(NodeFilterPlugin):
        name = "Filters"

        def filter_node(self, state, pod, node):
            return Status(verdicts[int(pod.pod.metadata.name[1:])], ("told",))

    class Feasible(PreEnqueuePlugin, PlacementFeasiblePlugin):
        name = "Feasible"

        def pre_enqueue(self, pod):
            return None

        def placement_feasible(self, group, scheduled, remaining):
            tried = len(verdicts) - remaining
            return Status(feasible[tried], ("told",)) if tried < len(feasible) else None

    return [Filters, Feasible]


def options_of(plugins):
    enabled = [{"name": plugin.name} for plugin in plugins]
    point = {"enabled": enabled, "disabled": [{"name": "GangScheduling"}]}
    return {"config": configuration({"plugins": {"multiPoint": point}}), "plugins": plugins}


@pytest.mark.parametrize("placements", [False, True])
@pytest.mark.parametrize("case", CASES, ids=itemgetter(0))
def test_the_trial_of_a_group(case, placements):
    _, verdicts, feasible, status, of_pods = case
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": placements}
    objects = [node("n1", 9), a_group(mode={"single": {}}), *(member(f"p{i}") for i in range(len(verdicts)))]
    plugins = plugins_of(verdicts, feasible)
    cluster = stowplan.Cluster(objects, feature_gates=gates, emulated_version="1.37", **options_of(plugins))
    engine = cluster.engine
    queued = [
        QueuedPod(pod=info, key=info.key, timestamp=0.0) for info in engine.state.pod_groups.unscheduled("default/g")
    ]
    framework = engine.frameworks["default-scheduler"]
    trial = run_at_once(engine.groups.trials.run(framework, "default/g", queued))
    assert trial.status.code == status
    # A pod that fits nowhere is Unschedulable, whatever the plugin said.
    found = [U if pod.status.rejected else pod.status.code for pod in trial.pods]
    assert found == list(of_pods)
    assert {pod.host for pod in trial.pods} <= {"n1", ""}


#: Name, generated placements (a Status: what the plugin says instead), scores of placements by plugin (a Status: it
#: fails), weights of these plugins, what Filter says on each node, what PlacementFeasible says in each placement; the
#: group's status and message, and the node of the pod ("" if it was tried in vain, None if it was not tried).
BOTH = ("n1", "n2")
FAILS = Status(E, ("error for test",))
NEITHER = "pod group is unschedulable, 0/2 placements are available, reported placement status: told"
PLACED = [
    ("the first scores more", BOTH, ((2, 1),), (1,), (S, S), (), S, "", "n1"),
    ("the second scores more", BOTH, ((1, 2),), (1,), (S, S), (), S, "", "n2"),
    ("none is generated", (), (), (), (S, S), (), U, "no feasible placements found", None),
    ("none is feasible", BOTH, ((1, 2),), (1,), (U, U), ((W, U), (W, U)), U, NEITHER, ""),
    ("none is, though the pod fits", BOTH, ((1, 2),), (1,), (S, S), ((W, U), (W, U)), U, NEITHER, "n1"),
    ("the second is not feasible", BOTH, ((1, 0),), (1,), (S, U), ((W, S), (W, U)), S, "", "n1"),
    ("the second is not, though the pod fits", BOTH, ((1, 2),), (1,), (S, S), ((W, S), (W, U)), S, "", "n1"),
    ("the generator fails", FAILS, (), (), (S, S), (), E, "error for test", None),
    (
        "scoring fails",
        BOTH,
        ((1, FAILS),),
        (1,),
        (S, S),
        (),
        E,
        'running PlacementScore plugins: plugin "Scores0" failed with: error for test',
        None,
    ),
    (
        "an error in a placement",
        ("n1",),
        ((1,),),
        (1,),
        (E, S),
        (),
        E,
        'failed to schedule other pod from a pod group: running "Filters" filter plugin: told',
        "",
    ),
    ("weights, for the first", BOTH, ((50, 75), (25, 10)), (1, 2), (S, S), (), S, "", "n1"),
    ("weights, for the second", BOTH, ((75, 50), (10, 25)), (1, 2), (S, S), (), S, "", "n2"),
]

COUNTED = [  # of the same cases: the placements that are generated, feasible and infeasible
    (2, 2, 0),
    (2, 2, 0),
    (0, 0, 0),
    (2, 0, 2),
    (2, 0, 2),
    (2, 1, 1),
    (2, 1, 1),
    (0, 0, 0),
    (2, 2, 0),
    (1, 0, 0),
    (2, 2, 0),
    (2, 2, 0),
]


def placing_plugins(generated, scores, verdicts, feasible):
    class Filters(NodeFilterPlugin):
        name = "Filters"

        def filter_node(self, state, pod, node):
            return Status(verdicts[int(node.name[1:]) - 1], ("told",))

    class Generates(PlacementGeneratePlugin):
        name = "Generates"

        def generate_placements(self, group_state, group, parent):
            if isinstance(generated, Status):
                return generated
            names = [parent.nodes.info(i).name for i in parent.nodes.positions()]
            return [parent.restricted(np.array([name == one for name in names]), one) for one in generated]

    class Feasible(PreEnqueuePlugin, PlacementFeasiblePlugin):
        name = "Feasible"
        placements = -1

        def pre_enqueue(self, pod):
            return None

        def placement_feasible(self, group, scheduled, remaining):
            self.placements += remaining
            codes = feasible[self.placements] if self.placements < len(feasible) else ()
            return Status(codes[1 - remaining], ("told",)) if codes else None

    return [Filters, Generates, Feasible, *(scorer(i, one) for i, one in enumerate(scores))]


def scorer(number, scores):
    class Scores(PlacementScorePlugin):
        name = f"Scores{number}"

        def score_placement(self, group_state, group, assignments):
            return scores[BOTH.index(assignments.placement.name)]

    return Scores


@pytest.mark.parametrize(("case", "counted"), list(zip(PLACED, COUNTED, strict=True)), ids=[case[0] for case in PLACED])
def test_the_placements_of_a_group(case, counted):
    _, generated, scores, weights, verdicts, feasible, code, message, on = case
    plugins = placing_plugins(generated, scores, verdicts, feasible)
    of_scores = {f"Scores{i}": weight for i, weight in enumerate(weights)}
    enabled = [
        {"name": plugin.name} | ({"weight": of_scores[plugin.name]} if plugin.name in of_scores else {})
        for plugin in plugins
    ]
    off = ("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
    multi = {"enabled": enabled, "disabled": [{"name": name} for name in off]}
    unscored = {"disabled": [{"name": "NodeResourcesFit"}]}
    cluster = stowplan.Cluster(
        [node("n1"), node("n2"), a_group(mode={"single": {}}), member("p0")],
        configuration({"plugins": {"multiPoint": multi, "placementScore": unscored}}),
        plugins=plugins,
        feature_gates={"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True},
        emulated_version="1.37",
    )
    engine = cluster.engine
    queued = [
        QueuedPod(pod=info, key=info.key, timestamp=0.0) for info in engine.state.pod_groups.unscheduled("default/g")
    ]
    framework = engine.frameworks["default-scheduler"]
    framework.metrics = framework_metrics()
    framework.metrics.count_calls_of(framework.points)
    trial = run_at_once(engine.groups.trials.run(framework, "default/g", queued))
    assert (trial.status.code, trial.status.message) == (code, message)
    families = framework.metrics.scheduler
    evaluated = numbers(families.placement_evaluations_total)
    assert numbers(families.placement_evaluation_duration_seconds) == evaluated
    generated_count = numbers(families.generated_placements_total).get("default-scheduler", 0)
    by_result = (evaluated.get((result, "default-scheduler"), 0) for result in ("feasible", "infeasible"))
    assert (generated_count, *by_result) == counted
    assert [pod.host for pod in trial.pods] == ([] if on is None else [on])


def test_the_rest_of_a_scheduled_group_is_tried_at_once():
    """From TestSubmitPodGroupAlgorithmResult, "One unschedulable": it is active again, with its timestamp."""
    gates = {"GenericWorkload": True}
    pods = [member(f"p{i}") for i in range(3)]
    with live_cluster(
        node("n1"), a_group(mode={"single": {}}), *pods, feature_gates=gates, emulated_version="1.37"
    ) as cluster:
        assert sorted(bool(cluster.node_of(f"p{i}")) for i in range(3)) == [False, True, True]
        (left,) = cluster.engine.queue.pending()
        assert left.attempts == 2
        cluster.engine.validate()
