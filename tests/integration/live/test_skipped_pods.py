"""Pods that are popped and skipped, and pods of other schedulers."""

from support.api.manifests import node, pod
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import nothing_in_flight


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
