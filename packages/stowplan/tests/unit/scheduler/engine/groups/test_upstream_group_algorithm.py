"""Upstream's tables for the trial of a group and for what becomes of its pods, as data.

After TestPodGroupSchedulingAlgorithm in pkg/scheduler/schedule_one_podgroup_test.go at the code freeze of 1.37: all 12
cases, with and without placements (there also with CompositePodGroup, which does not exist here).
"""

from operator import itemgetter

import pytest

import stowplan
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.framework.interface import NodeFilterPlugin, PlacementFeasiblePlugin, PreEnqueuePlugin
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.testing.live import live_cluster
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
    queued = [QueuedPod(pod=info, timestamp=0.0) for info in engine.state.pod_groups.unscheduled("default/g")]
    framework = engine.frameworks["default-scheduler"]
    trial = run_at_once(engine.groups.trials.run(framework, "default/g", queued))
    assert trial.status.code == status
    # A pod that fits nowhere is Unschedulable, whatever the plugin said.
    found = [U if pod.status.rejected else pod.status.code for pod in trial.pods]
    assert found == list(of_pods)
    assert {pod.host for pod in trial.pods} <= {"n1", ""}


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
