"""Changes after which a pod would fit, but that wake no pod: it is retried after five minutes.

Parity: these are gaps between the reasons of the reference's plugins and the events and hints that they register.
"""

from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod, selector
from support.live.live_scheduler import live
from support.scheduling.worlds import ZONE

#: The first flush at which the pod has been unschedulable for more than five minutes.
FLUSH = 330.0
WEB = selector(labels={"app": "web"})


def moves(cluster):
    """(place, cause) of each move of the pod, without its attempts."""
    steps = cluster.scheduler.stories.of("default/web").steps
    return [(step.what, step.cause) for step in steps if step.outcome is None]


def attempts(cluster):
    return sum(step.outcome is not None for step in cluster.scheduler.stories.of("default/web").steps)


async def check_waits_for_the_flush(cluster, *, refused_by, change):
    """The pod `web` would fit after the change, is not woken, and is scheduled by the flush."""
    queued = cluster.scheduler.queue.get("default/web")
    assert (cluster.place("web"), queued.unschedulable_plugins) == (Place.UNSCHEDULABLE, {refused_by})
    tried, moved = attempts(cluster), moves(cluster)
    await change
    await cluster.advance(FLUSH - 1 - cluster.time.now)
    assert (cluster.place("web"), attempts(cluster), moves(cluster)) == (Place.UNSCHEDULABLE, tried, moved)
    await cluster.advance(2)
    assert attempts(cluster) == tried + 1
    assert ("active", "UnschedulableTimeout") in moves(cluster)[len(moved) :]
    return cluster.node_of("web")


async def test_a_nominated_pod_shrinks():
    """NodeResourcesFit is notified only of bound pods that shrink."""
    node = a_node("n1").allocatable(cpu="8", pods="10").obj()
    # No other pod is deleted meanwhile; the host port makes the other one wait, however small it is.
    going = a_pod("going").on("n1").requests(cpu="4").host_port(80).obj()
    high = a_pod("high").priority(10, class_name="high").requests(cpu="6").host_port(80).obj()
    more = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    async with live(node, more, going) as cluster:
        await cluster.create(high)
        assert cluster.pod("high")["status"]["nominatedNodeName"] == "n1"
        await cluster.create(a_pod("web").requests(cpu="3").obj())

        async def shrink():
            pods = cluster.server.registry.of_storage("pods")
            name = cluster.pod("high")["spec"]["containers"][0]["name"]
            container = {"name": name, "resources": {"requests": {"cpu": "1"}}}
            patch = {"spec": {"containers": [container]}}
            cluster.server.registry.patch(pods, "default", "high", patch, kind="strategic", subresource="resize")
            await cluster.settle()
            assert cluster.pod("high")["status"]["nominatedNodeName"] == "n1"

        assert await check_waits_for_the_flush(cluster, refused_by="NodeResourcesFit", change=shrink()) == "n1"


async def test_a_node_without_conflicting_pods_is_added():
    """For a new node InterPodAffinity checks only the waiting pod's own terms."""
    loner = a_pod("loner").on("n1").avoids_pods(ZONE, WEB).obj()
    async with live(a_node("n1").zone("a").allocatable(cpu="8", pods="10").obj(), loner) as cluster:
        await cluster.create(a_pod("web").labels(app="web").requests(cpu="1").obj())
        node = a_node("n2").zone("b").allocatable(cpu="8", pods="10").obj()
        assert (
            await check_waits_for_the_flush(cluster, refused_by="InterPodAffinity", change=cluster.create(node)) == "n2"
        )


async def test_a_namespace_gets_the_label_that_a_term_selects():
    """InterPodAffinity does not register for namespaces."""
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    there = a_pod("db", "other").labels(app="web").on("n1").obj()
    async with live(a_node("n1").zone("a").allocatable(cpu="8", pods="10").obj(), other, there) as cluster:
        near = a_pod("web").requires_pods(ZONE, WEB, namespace_selector=selector(labels={"team": "x"}))
        await cluster.create(near.requests(cpu="1").obj())
        label = cluster.patch("namespaces", "other", {"metadata": {"labels": {"team": "x"}}}, namespace="")
        assert await check_waits_for_the_flush(cluster, refused_by="InterPodAffinity", change=label) == "n1"
