"""Pods that are popped and skipped, and pods of other schedulers."""

from stowplan.kube.api.types import Pod
from stowplan.scheduler.framework.status import Code, Status, unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import nothing_in_flight

WAIT = Status(Code.Wait)


async def test_a_pod_that_is_being_deleted(api_server, namespace):
    """An error requeued the pod; when popped again it is skipped with an event, and dropped."""
    a = answering("A", permit=RuntimeError("oops"))
    config = configuration(profile(permit=[a]))
    before = [("nodes", node("n1"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=before, wrap=Tampered) as c:
        kept = pod("web")
        kept["metadata"]["finalizers"] = ["example.com/kept"]
        await c.pods(kept)
        a.answers.clear()
        await c.objects.delete("pods", "web")
        await c.settle()
        assert c.place("web") == "ERROR_BACKOFF"
        asked = len(a.log)
        await c.advance(2.0)
        assert c.place("web") == ""
        assert nothing_in_flight(c)
        assert len(a.log) == asked
        event = (await c.events("web"))[-1]
        assert event["note"] == f"skip schedule deleting pod: {namespace}/web"
        assert (event["type"], event["reason"], event["action"]) == ("Warning", "FailedScheduling", "Scheduling")
        assert event["regarding"]["uid"] == c.objects.made("pods", "web")["metadata"]["uid"]
        # The condition of its last attempt stays.
        assert len(c.api.status_patches("web")) == 1
        assert "bind" not in c.api.verbs("web")
        await c.objects.patch("pods", "web", {"metadata": {"finalizers": None}})


async def test_a_pod_that_is_assumed(api_server, namespace):
    """Popping an assumed pod once more has no effect."""
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        held = c.api.instead["bind"] = Held()
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        cycle = c.scheduler.queue.scheduling_cycle
        (placed,) = c.scheduler.state.placed_pods()
        c.scheduler.queue.add(c.scheduler.state.pod_info(placed.pod))
        await c.until(lambda: c.scheduler.queue.scheduling_cycle == cycle + 1)
        assert c.place("web") == ""
        assert not c.scheduler.queue.in_flight()
        held.let_go()
        await c.settle()
        assert c.api.verbs("web") == ["bind"]
        assert [e["reason"] for e in await c.events("web")] == ["Scheduled"]


async def test_a_pod_in_flight_is_not_scheduled_twice(api_server, namespace):
    a = answering("A", permit=(WAIT, 60.0))
    config = configuration(profile(permit=[a]))
    before = [("nodes", node("n1"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=before, wrap=Tampered) as c:
        await c.pods(pod("web"))
        (waiting,) = c.scheduler.waiting_pods
        c.scheduler.queue.add(c.scheduler.state.pod_info(waiting.pod.pod))
        await c.settle()
        assert c.place("web") == ""
        assert a.log == ["A.permit"]
        assert len(c.scheduler.queue.in_flight()) == 1
        waiting.allow("A")
        await c.settle()
        assert c.api.verbs("web") == ["patch", "bind"]


async def test_a_pod_of_an_unknown_profile(api_server, namespace, caplog):
    """Should such a pod get into the queue, it is dropped without a request to the API."""
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        await c.pods(pod("web", schedulerName="nobody"))
        found = await c.scheduler.frameworks["default-scheduler"].handle.api.get(Pod, "web", namespace=namespace)
        c.scheduler.queue.add(c.scheduler.state.pod_info(found))
        await c.settle()
        assert nothing_in_flight(c)
        assert c.place("web") == ""
        assert c.api.calls == []
        assert "profile not found for scheduler name" in caplog.text
        # The loop continues.
        await c.pods(pod("other"))
        assert await c.node_of("other") == "n1"


async def test_pods_of_other_schedulers(api_server, namespace):
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        theirs = pod("theirs", schedulerName="other-scheduler")
        theirs["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
        await c.pods(theirs)
        assert c.place("theirs") == ""
        assert c.api.calls == []
        ours = pod("ours")
        ours["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
        # Pending, it uses no resources; bound, it does.
        await c.objects.bind("theirs", "n1")
        await c.settle()
        await c.pods(ours)
        assert c.place("ours") == "UNSCHEDULABLE"
        await c.objects.delete("pods", "theirs")
        await c.settle()
        assert await c.node_of("ours") == "n1"
        assert c.api.verbs("theirs") == []


async def test_profiles_have_their_own_plugins(api_server, namespace):
    a = answering("A", permit=(unschedulable("not by this one"), 0.0))
    config = configuration(profile(), profile("strict", permit=[a]))
    before = [("nodes", node("n1"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=before) as c:
        await c.pods(pod("web"), pod("other", schedulerName="strict"))
        assert await c.node_of("web") == "n1"
        assert (c.place("other"), c.queued("other").unschedulable_plugins) == ("UNSCHEDULABLE", {"A"})
        assert (await c.condition("other"))["message"] == "0/1 nodes are available: 1 not by this one."
        assert a.log == ["A.permit"]


async def test_profiles_share_the_cluster(api_server, namespace):
    """Pods assumed by one profile count for the other; one queue orders the pods of both."""
    a = answering("A", permit=(WAIT, 60.0))
    config = configuration(profile("slow", permit=[a]), profile("quick"))
    async with scheduled(api_server, namespace, config=config, plugins=[a]) as c:
        first, second = pod("first", schedulerName="slow"), pod("second", schedulerName="quick")
        for one in (first, second):
            one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
        await c.nodes(node("n1"))
        await c.pods(first, second)
        assert c.queued("second").unschedulable_plugins == {"NodeResourcesFit"}
        (waiting,) = c.scheduler.waiting_pods
        waiting.reject("A", "no")
        await c.settle()
        assert await c.node_of("second") == "n1"


async def test_a_scheduler_of_another_name_leaves_the_default_pods_alone(api_server, namespace):
    async with scheduled(api_server, namespace, config=configuration(profile("mine"))) as c:
        await c.nodes(node("n1"))
        await c.pods(pod("web"), pod("other", schedulerName="mine"))
        assert await c.node_of("other") == "n1"
        assert not await c.node_of("web")
        assert c.place("web") == ""
