"""Eviction plans of out-of-tree PostFilter plugins are carried out like those of DefaultPreemption, or refused as
invalid."""

import pytest
from msgspec.structs import replace

import stowplan
from stowplan.plugins import Code, EvictionPlan, PostFilterPlugin, PostFilterResult, Status, unschedulable
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.plugins.answering_plugins import configuration
from support.plugins.raised import in_short


class Ousting(PostFilterPlugin):
    """Evicts the pods of the first node."""

    name = "Ousting"
    effect_free = True

    def post_filter(self, state, pod, diagnosis):
        cluster = self.handle.cluster
        plan = EvictionPlan(
            preemptor=self.preemptor(pod),
            node_name=cluster.table.names[0],
            victims=tuple(cluster.row_pods[0]),
            plugin=self.name,
        )
        return PostFilterResult(self.status(), plan.node_name, plan=plan)

    def preemptor(self, pod):
        return pod

    def status(self):
        return Status(Code.Success)


CONFIG = configuration(
    {"plugins": {"postFilter": {"enabled": [{"name": "Ousting"}], "disabled": [{"name": "DefaultPreemption"}]}}}
)


def objects():
    return [a_node("n").allocatable(cpu="1", pods="4").obj(), a_pod("v").requests(cpu="1").on("n").obj()]


def boss():
    return a_pod("boss").requests(cpu="1").obj()


async def test_the_live_scheduler_carries_out_the_plan():
    async with live(*objects(), config=CONFIG, plugins=[Ousting]) as cluster:
        await cluster.create(boss())
        assert "deletionTimestamp" in cluster.pod("v")["metadata"]
        assert cluster.condition("v", "DisruptionTarget")["reason"] == "PreemptionByScheduler"
        assert cluster.pod("boss")["status"]["nominatedNodeName"] == "n"
        assert [event["reason"] for event in cluster.events("v")] == ["Preempted"]
        await cluster.delete("pods", "v")
        await cluster.advance(11.0)
        assert cluster.node_of("boss") == "n"


def test_in_memory_the_plan_is_carried_out_at_once():
    cluster = stowplan.Cluster(objects(), CONFIG, plugins=[Ousting])
    (decision,) = cluster.schedule([boss()])
    assert decision.node_name == "n"
    with pytest.raises(stowplan.ClusterError, match='pod "default/v" not found'):
        cluster.pod("default/v")


class Undecided(Ousting):
    def status(self):
        return unschedulable("no idea")


class Confused(Ousting):
    def preemptor(self, pod):
        return self.handle.cluster.row_pods[0][0]


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (Undecided, "an eviction plan goes with status Success, not Unschedulable"),
        (Confused, "the eviction plan is for pod default/v, not for default/boss"),
    ],
)
async def test_a_wrong_plan_fails_the_attempt(plugin, problem):
    async with live(*objects(), config=CONFIG, plugins=[plugin]) as cluster:
        await cluster.create(boss())
        message = cluster.condition("boss")["message"]
        assert in_short(message).endswith(f'running PostFilter plugin "Ousting": {problem}'), message
        assert "deletionTimestamp" not in cluster.pod("v")["metadata"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"victims": ("shop/web-0",)}, "victims are a tuple of PodInfo", id="victims by name"),
        pytest.param({"victims": None}, "victims are a tuple of PodInfo", id="no victims at all"),
        pytest.param({"node_name": "elsewhere"}, "plan for node elsewhere with nominated node n1", id="another node"),
    ],
)
def test_a_malformed_plan_fails_only_the_attempt(change, told):
    class Malformed(Ousting):
        def post_filter(self, state, pod, diagnosis):
            result = super().post_filter(state, pod, diagnosis)
            return replace(result, plan=replace(result.plan, **change))

    cluster = stowplan.Cluster(
        [a_node("n1").allocatable(cpu="1").obj(), a_pod("there").requests(cpu="1").on("n1").obj()],
        config=CONFIG,
        plugins=[Malformed],
    )
    (decision,) = cluster.schedule([a_pod("web").requests(cpu="1").obj()])
    result = dict(decision.post_filter)["Ousting"]
    assert (result.status.code, result.plan) == (Code.Error, None)
    assert told in result.status.message
