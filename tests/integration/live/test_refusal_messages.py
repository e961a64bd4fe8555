"""Messages of the default profile, character by character."""

import numpy as np

from stowplan.scheduler.framework.interface import PostFilterResult, PreFilterResult
from stowplan.scheduler.framework.rejections import Rejections
from stowplan.scheduler.framework.status import Reason, unschedulable
from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
CLAIMS = "no new claims to deallocate"


def asking(name="web", cpu="3", **spec):
    made = pod(name, **spec)
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return made


async def messages(c, name="web"):
    """The condition's message and the events' notes, which are the same."""
    message = (await c.condition(name))["message"]
    assert {e["note"] for e in await c.events(name)} == {message}
    return message


async def test_nothing_helps(api_server, namespace):
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1", taints=[TAINT]), node("n2"), node("n3"))
        await c.pods(asking(cpu="100"))
        assert await messages(c) == (
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
            f"{CLAIMS}, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        )


async def test_no_pod_can_be_preempted(api_server, namespace):
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1", taints=[TAINT]), node("n2"))
        await c.pods(asking("first"))
        await c.pods(asking())
        assert await messages(c) == (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
            f"{CLAIMS}, preemption: 0/2 nodes are available: "
            "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
        )


async def test_a_pod_that_may_not_preempt(api_server, namespace):
    async with scheduled(api_server, namespace) as c:
        never = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"polite-{namespace}"[:60].strip("-")},
            "value": 100,
            "preemptionPolicy": "Never",
        }
        await c.create("priorityclasses", never)
        await c.nodes(node("n1"))
        await c.pods(asking("first"))
        await c.pods(asking(priorityClassName=never["metadata"]["name"]))
        assert await messages(c) == (
            "0/1 nodes are available: 1 Insufficient cpu. "
            f"{CLAIMS}, preemption: not eligible due to preemptionPolicy=Never."
        )


async def test_preemption_helps(api_server, namespace):
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1", taints=[TAINT]), node("n2"))
        await c.pods(asking("first"))
        await c.pods(asking(priorityClassName="system-cluster-critical"))
        assert [e["note"] for e in await c.events("web", reason="FailedScheduling")] == [
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
        ]


async def test_pre_filter_excludes_most_nodes(api_server, namespace):
    """Nodes that PreFilter excludes count as refused by the plugin that excluded them."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    async with scheduled(api_server, namespace) as c:
        await c.nodes(*(node(f"n{i}") for i in range(1, 5)))
        await c.pods(asking("first"), asking(cpu="100", affinity={"nodeAffinity": required}))
        assert await messages(c) == (
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
            f"{CLAIMS}, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
        )


async def test_entries_are_sorted_as_text(api_server, namespace):
    """As text, so 10 sorts before 2."""
    async with scheduled(api_server, namespace) as c:
        await c.nodes(*(node(f"n{i}", taints=[TAINT] * (i < 2)) for i in range(12)))
        await c.pods(asking(cpu="100"))
        begin = "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint(s). "
        assert (await messages(c)).startswith(begin)


async def test_a_node_with_two_reasons_counts_for_both(api_server, namespace):
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1"), node("n2"))
        large = asking(cpu="100")
        large["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Ti"
        await c.pods(large)
        begin = "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory. "
        assert (await messages(c)).startswith(begin)


async def test_pre_filters_whose_nodes_are_disjoint(api_server, namespace):
    a = answering("A", pre_filter=PreFilterResult(frozenset(["n1"])))
    b = answering("B", pre_filter=PreFilterResult(frozenset(["n2"])))
    config = configuration(profile(preFilter=[b, a], without={"postFilter": ["*"]}))
    before = [("nodes", node("n1")), ("nodes", node("n2"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a, b], before=before) as c:
        await c.pods(pod("web"))
        assert await messages(c) == "0/2 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously."
        assert c.queued("web").unschedulable_plugins == {"A", "B"}


async def test_the_last_of_several_refusing_pre_filters_counts(api_server, namespace):
    a, b = (answering(name, pre_filter=unschedulable(f"not {name}")) for name in "AB")
    config = configuration(profile(preFilter=[a, b], without={"postFilter": ["*"]}))
    before = [("nodes", node("n1"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a, b], before=before) as c:
        await c.pods(pod("web"))
        assert await messages(c) == "0/1 nodes are available: not B."
        assert c.queued("web").unschedulable_plugins == {"B"}


async def test_plugins_that_refuse_different_nodes(api_server, namespace):
    """Each node counts for the first plugin that refused it; the pod waits for all these plugins."""

    def refusing(name):
        def filter_(state, pod, nodes):
            return Rejections.where(np.array(nodes.names()) == name, Reason("No", f"not on {name}"))

        return filter_

    a, b = answering("A", filter=refusing("n1")), answering("B", filter=refusing("n2"))
    config = configuration(profile(filter=[a, b], without={"postFilter": ["*"]}))
    before = [("nodes", node("n1")), ("nodes", node("n2"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a, b], before=before) as c:
        await c.pods(pod("web"))
        assert await messages(c) == "0/2 nodes are available: 1 not on n1, 1 not on n2."
        assert c.queued("web").unschedulable_plugins == {"A", "B"}


async def test_messages_of_post_filters_are_joined(api_server, namespace):
    a, b = (answering(name, post_filter=PostFilterResult(unschedulable(f"{name} cannot help"))) for name in "AB")
    config = configuration(profile(postFilter=[a, b], without={"postFilter": ["*"]}))
    before = [("nodes", node("n1"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a, b], before=before) as c:
        await c.pods(pod("web", nodeSelector={"no": "where"}))
        assert await messages(c) == (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. A cannot help, B cannot help"
        )


async def test_a_claim_that_is_missing(api_server, namespace):
    """The last two words come from a plugin whose PreFilter was not reached."""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    async with scheduled(api_server, namespace) as c:
        await c.nodes(node("n1"), node("n2"), node("n3"))
        await c.pods(pod("web", volumes=[claim]))
        assert await messages(c) == '0/3 nodes are available: persistentvolumeclaim "missing" not found. not found'
