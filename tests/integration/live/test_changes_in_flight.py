"""Pods that are updated, deleted, recreated or bound by another client while they are being scheduled."""

import logging

import pytest

from stowplan.kube.api.api_errors import Forbidden, InternalError
from stowplan.scheduler.framework.status import Code, Status, unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered, raising
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import nothing_in_flight

WAIT = Status(Code.Wait)


def with_plugin(api_server, namespace, a, *points, before=("n1",), **options):
    config = configuration(profile(**{point: [a] for point in points or ["permit"]}))
    nodes = [("nodes", node(name)) for name in before]
    return scheduled(api_server, namespace, config=config, plugins=[a], before=nodes, wrap=Tampered, **options)


def queued_pod(c):
    (found,) = c.scheduler.waiting_pods
    return found


async def test_an_update_while_it_waits(api_server, namespace):
    """The attempt continues with the pod as it was popped; the queue gets the newest version back."""
    a = answering("A", permit=(WAIT, 60.0))
    async with with_plugin(api_server, namespace, a) as c:
        await c.pods(pod("web"))
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"new": "yes"}}})
        await c.settle()
        assert c.place("web") == ""
        assert queued_pod(c).pod.pod.metadata.labels == {"app": "web"}
        assert a.log == ["A.permit"]
        # Exclude a later update by the status patch.
        c.api.instead["patch"] = raising(Forbidden("you may not"))
        queued_pod(c).reject("A", "no")
        await c.settle()
        assert c.place("web") == "UNSCHEDULABLE"
        assert c.queued("web").pod.pod.metadata.labels == {"app": "web", "new": "yes"}
        event = (await c.events("web"))[0]
        made = int(c.objects.made("pods", "web")["metadata"]["resourceVersion"])
        assert int(event["regarding"]["resourceVersion"]) > made


async def test_an_update_while_it_is_bound(api_server, namespace):
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        held = c.api.instead["bind"] = Held()
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        patched = await c.objects.patch("pods", "web", {"metadata": {"labels": {"new": "yes"}}})
        version = patched["metadata"]["resourceVersion"]
        await c.until(
            lambda: c.scheduler.state.pending.get(f"{namespace}/web").pod.metadata.resource_version == version
        )
        assert c.place("web") == ""
        held.let_go()
        await c.settle()
        assert await c.node_of("web") == "n1"
        assert nothing_in_flight(c)
        (placed,) = c.scheduler.state.placed_pods()
        assert placed.pod.metadata.labels["new"] == "yes"


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


@pytest.mark.parametrize("place", ["ACTIVE", "ERROR_BACKOFF", "UNSCHEDULABLE"])
async def test_a_deletion_while_it_is_in_the_queue(api_server, namespace, place):
    answer = {"ERROR_BACKOFF": RuntimeError("oops"), "UNSCHEDULABLE": (unschedulable("no"), 0.0)}
    a = answering("A", permit=answer.get(place))
    async with with_plugin(api_server, namespace, a) as c:
        if place == "ACTIVE":
            # Nothing is popped while the test does not yield to the event loop.
            made = await c.objects.create("pods", pod("web"))
        else:
            await c.pods(pod("web"))
            made = c.objects.made("pods", "web")
            assert c.place("web") == place
        await c.objects.delete("pods", "web")
        await c.settle()
        assert c.place("web") == ""
        assert c.queued("web") is None
        assert made["metadata"]["uid"] not in {q.pod.uid for q in c.scheduler.queue.pending()}
        await c.advance(30.0)
        assert nothing_in_flight(c)


@pytest.mark.parametrize("answer", [(unschedulable("no"), 0.0), RuntimeError("oops")], ids=["sleeping", "backing-off"])
async def test_another_client_binds_it_while_it_is_queued(api_server, namespace, answer):
    async with with_plugin(api_server, namespace, answering("A", permit=answer), before=("n1", "n2")) as c:
        await c.pods(pod("web"))
        before = len(c.api.calls)
        await c.objects.bind("web", "n2")
        await c.settle()
        assert c.queued("web") is None
        (placed,) = c.scheduler.state.placed_pods()
        assert placed.node_name == "n2"
        await c.advance(30.0)
        assert len(c.api.calls) == before
        assert (await c.condition("web"))["status"] == "True"


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


async def test_recreated_with_the_same_name_before_its_attempt_fails(api_server, namespace):
    """When the attempt fails, the name belongs to a pod with another UID: no event, no condition, no requeue."""
    a = answering("A")
    async with with_plugin(api_server, namespace, a) as c:
        held = c.api.instead["bind"] = Held()
        first = await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        a.answers["permit"] = unschedulable("no"), 0.0
        await c.objects.delete("pods", "web")
        second = await c.objects.create("pods", pod("web"))
        await c.until(lambda: c.place("web") == "UNSCHEDULABLE")
        held.let_go()
        await c.settle()
        assert c.queued("web").pod.uid == second["metadata"]["uid"]
        assert c.queued("web").attempts == 1
        assert nothing_in_flight(c)
        notes = {e["regarding"]["uid"]: e["note"] for e in await c.events("web")}
        assert notes == {second["metadata"]["uid"]: "0/1 nodes are available: 1 no."}
        assert first["metadata"]["uid"] not in notes


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


async def test_its_node_is_deleted_and_the_binding_fails(api_server, namespace):
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        held = _Fails()
        c.api.instead["bind"] = held
        await c.objects.create("pods", pod("web"))
        await c.until(held.waiting.is_set)
        await c.objects.delete("nodes", "n1")
        await c.until(lambda: not c.scheduler.state.table.count)
        del c.api.instead["bind"]
        held.let_go()
        await c.settle()
        assert c.place("web") == "ERROR_BACKOFF"
        assert nothing_in_flight(c)
        await c.nodes(node("n2"))
        await c.advance(2.0)
        assert await c.node_of("web") == "n2"


class _Fails(Held):
    async def __call__(self, call, go_on):
        self.waiting.set()
        await self._go.wait()
        raise InternalError("etcd is tired")


def large(name, cpu="3"):
    made = pod(name)
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return made
