"""Changes after which a pod could go, and which wake nobody: those who wait are tried again after five minutes.

Parity: these are the gaps between what the reference's plugins refuse a pod for and the events and hints that they
register.
"""

from stowplan.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod, selector
from support.live.live_scheduler import live
from support.scheduling.worlds import ZONE

#: The first look at sleeping pods at which this one has slept for more than five minutes.
FLUSH = 330.0
WEB = selector(labels={"app": "web"})


def moves(cluster):
    """(place, cause) of each move of the pod, its attempts left out."""
    steps = cluster.scheduler.stories.of("default/web").steps
    return [(step.what, step.cause) for step in steps if step.outcome is None]


def attempts(cluster):
    return sum(step.outcome is not None for step in cluster.scheduler.stories.of("default/web").steps)


async def sleeps_until_the_flush(cluster, *, refused_by, change):
    """The pod `web` after that change: it could go, it stays, and goes when it is tried again."""
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


async def test_a_pod_that_is_nominated_a_node_shrinks():
    """Fit hears of pods that shrink where they run."""
    node = a_node("n1").allocatable(cpu="8", pods="10").obj()
    # It goes when somebody takes it away, and nobody does; the port keeps the other one waiting, however small it is.
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

        assert await sleeps_until_the_flush(cluster, refused_by="NodeResourcesFit", change=shrink()) == "n1"


async def test_a_node_comes_that_others_do_not_keep_it_away_from():
    """InterPodAffinity asks of a new node only whether the waiting pod's own terms may match there."""
    loner = a_pod("loner").on("n1").avoids_pods(ZONE, WEB).obj()
    async with live(a_node("n1").zone("a").allocatable(cpu="8", pods="10").obj(), loner) as cluster:
        await cluster.create(a_pod("web").labels(app="web").requests(cpu="1").obj())
        node = a_node("n2").zone("b").allocatable(cpu="8", pods="10").obj()
        assert await sleeps_until_the_flush(cluster, refused_by="InterPodAffinity", change=cluster.create(node)) == "n2"


async def test_a_namespace_gets_the_label_that_its_term_asks_for():
    """InterPodAffinity does not hear of namespaces."""
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    there = a_pod("db", "other").labels(app="web").on("n1").obj()
    async with live(a_node("n1").zone("a").allocatable(cpu="8", pods="10").obj(), other, there) as cluster:
        near = a_pod("web").requires_pods(ZONE, WEB, namespace_selector=selector(labels={"team": "x"}))
        await cluster.create(near.requests(cpu="1").obj())
        label = cluster.patch("namespaces", "other", {"metadata": {"labels": {"team": "x"}}}, namespace="")
        assert await sleeps_until_the_flush(cluster, refused_by="InterPodAffinity", change=label) == "n1"
