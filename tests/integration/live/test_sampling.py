"""percentageOfNodesToScore: how many nodes are candidates for a pod, and which."""

import asyncio
from contextlib import asynccontextmanager

import numpy as np

from support.api.manifests import node, pod
from support.live.http_scheduler import Objects, scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.attempts import asking

NODES = 150


@asynccontextmanager
async def many_nodes(server, namespace, *nodes):
    objects = Objects(server.kubeconfig, namespace)
    try:
        for at in range(0, len(nodes), 25):
            await asyncio.gather(*(objects.create("nodes", one) for one in nodes[at : at + 25]))
        yield
    finally:
        await asyncio.gather(*(objects.delete("nodes", one["metadata"]["name"]) for one in nodes))
        await objects.close()


class Chooser:
    """The only Score plugin: prefers every fiftieth node, the first one most, and records the number of feasible
    nodes."""

    def __init__(self):
        self.asked = []
        self.plugin = answering("A", score=self._score)
        self.plugin.normalize = lambda plugin, state, pod, scores, feasible: self._count(scores, feasible)

    def _score(self, state, pod, nodes):
        numbers = np.array([int(name[1:]) for name in nodes.names()])
        return np.where(numbers % 50 == 0, 100 - numbers // 5, 0)

    def _count(self, scores, feasible):
        self.asked.append(int(feasible.sum()))
        return scores

    def profile(self, name="default-scheduler", **fields):
        return {**profile(name, without={"preScore": ["*"], "score": ["*"]}, score=[self.plugin]), **fields}


async def test_a_share_of_the_nodes(api_server, namespace):
    """10 % of 150 is raised to the minimum of 100; each search starts where the previous one ended."""
    chooser = Chooser()
    config = configuration(
        chooser.profile(), chooser.profile("thorough", percentageOfNodesToScore=100), percentageOfNodesToScore=10
    )
    made = {"config": config, "plugins": [chooser.plugin]}
    every = [node(f"n{i:03}") for i in range(NODES)]
    async with many_nodes(api_server, namespace, *every), scheduled(api_server, namespace, **made) as c:
        found = []
        for name in ("a", "b", "c"):
            await c.pods(pod(name))
            found.append(await c.node_of(name))
        # Of nodes 0 to 99; of 100 to 149 and 0 to 49; of 50 to 149.
        assert found[:2] == ["n000", "n000"]
        assert found[2] == "n050"
        await c.pods(pod("d", schedulerName="thorough"))
        assert await c.node_of("d") == "n000"
        assert chooser.asked == [100, 100, 100, 150]
        # The message of a pod that fits nowhere covers all nodes.
        await c.pods(asking(pod("large"), cpu="64"))
        assert (await c.condition("large"))["message"].startswith("0/150 nodes are available: 150 Insufficient cpu.")
