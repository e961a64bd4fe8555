"""Pods that are updated, deleted, recreated or bound by another client while they are being scheduled."""

import logging

from stowplan.scheduler.framework.status import Code, Status
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import nothing_in_flight

WAIT = Status(Code.Wait)


def with_plugin(api_server, namespace, a, *points, before=("n1",), **options):
    config = configuration(profile(**{point: [a] for point in points or ["permit"]}))
    nodes = [("nodes", node(name)) for name in before]
    return scheduled(api_server, namespace, config=config, plugins=[a], before=nodes, wrap=Tampered, **options)


async def test_a_deletion_while_it_is_bound(api_server, namespace):
    """Its resources are free immediately; the binding continues, and fails."""
    a = answering("A")
    async with with_plugin(api_server, namespace, a, "reserve") as c:
        held = c.api.instead["bind"] = Held()
        await c.objects.create("pods", large("web"))
        await c.until(held.waiting.is_set)
        await c.objects.create("pods", large("other"))
        await c.until(lambda: c.place("other") == "UNSCHEDULABLE")
        del c.api.instead["bind"]
        await c.objects.delete("pods", "web")
        await c.until(lambda: f"{namespace}/web" not in c.scheduler.state.pending)
        # The binding of the first pod has not ended yet.
        await c.until(lambda: c.node_of("other"))
        assert a.log.count("A.unreserve") == 0
        held.let_go()
        await c.settle()
        assert a.log.count("A.unreserve") == 1
        assert nothing_in_flight(c)
        assert [info.pod.metadata.name for info in c.scheduler.state.placed_pods()] == ["other"]
        (event,) = await c.events("web")
        assert event["note"] == 'running Bind plugin "DefaultBinder": pods "web" not found'


async def test_a_deletion_with_finalizers_while_it_is_bound(api_server, namespace):
    """With a finalizer the deletion shows only in deletionTimestamp."""
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        held = c.api.instead["bind"] = Held()
        kept = large("web")
        kept["metadata"]["finalizers"] = ["example.com/kept"]
        await c.objects.create("pods", kept)
        await c.until(held.waiting.is_set)
        await c.objects.delete("pods", "web")
        await c.until(lambda: not c.scheduler.state.placed_pods())
        assert c.place("web") == ""
        held.let_go()
        await c.settle()
        assert nothing_in_flight(c)
        # The API server refuses to bind a terminating pod; when popped again, it is skipped.
        assert c.place("web") == "ERROR_BACKOFF"
        await c.advance(2.0)
        assert c.place("web") == ""
        assert (await c.events("web"))[-1]["note"] == f"skip schedule deleting pod: {namespace}/web"
        await c.objects.patch("pods", "web", {"metadata": {"finalizers": None}})


async def test_another_client_binds_it_to_another_node_while_it_waits(api_server, namespace, caplog):
    """The API's node counts. The wait ends by itself, and the resources are not released twice."""
    caplog.set_level(logging.INFO, logger="stowplan")
    a = answering("A", permit=(WAIT, 5.0))
    async with with_plugin(api_server, namespace, a, "permit", "reserve") as c:
        await c.pods(large("web"))
        await c.nodes(node("n2"))
        await c.objects.bind("web", "n2")
        await c.settle()
        (placed,) = c.scheduler.state.placed_pods()
        assert placed.node_name == "n2"
        assert "Pod was added to a different node than it was assumed" in caplog.text
        a.answers.clear()
        await c.pods(large("other"))
        assert await c.node_of("other") == "n1"
        await c.advance(5.0)
        assert nothing_in_flight(c)
        assert len(c.scheduler.state.placed_pods()) == 2
        assert c.place("web") == ""
        assert a.log.count("A.unreserve") == 1
        assert [e["reason"] for e in await c.events("web")] == ["FailedScheduling"]


async def test_recreated_with_the_same_name_while_it_is_bound(api_server, namespace):
    """The failure of the first pod has no effect on the second, which is scheduled independently."""
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        held = c.api.instead["bind"] = Held()
        first = await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        del c.api.instead["bind"]
        await c.objects.delete("pods", "web")
        second = await c.objects.create("pods", pod("web"))
        await c.until(lambda: c.node_of("web"))
        held.let_go()
        await c.settle()
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        assert (await c.pod("web"))["metadata"]["uid"] == second["metadata"]["uid"]
        assert nothing_in_flight(c)
        uids = [call.options["uid"] for call in c.api.calls if call.verb == "bind"]
        assert uids == [first["metadata"]["uid"], second["metadata"]["uid"]]
        (event,) = [e for e in await c.events("web") if e["regarding"]["uid"] == second["metadata"]["uid"]]
        assert event["reason"] == "Scheduled"


async def test_its_node_is_deleted_while_it_is_bound(api_server, namespace):
    """The binding is not checked again: the API server may accept it, and the pod stays on that node."""
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        held = c.api.instead["bind"] = Held()
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        await c.objects.delete("nodes", "n1")
        await c.until(lambda: not c.scheduler.state.table.count)
        held.let_go()
        await c.settle()
        assert await c.node_of("web") == "n1"
        assert nothing_in_flight(c)
        (placed,) = c.scheduler.state.placed_pods()
        assert placed.node_name == "n1"
        # The pod counts when the node returns.
        await c.nodes(node("n1"))
        await c.pods(large("other", "3950m"))
        assert c.place("other") == "UNSCHEDULABLE"


def large(name, cpu="3"):
    made = pod(name)
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return made
