"""Controllers on the embedded API server, under a manual clock."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from stowplan.controllers import DONE, NORMAL, Controller, Event, Reconciled, Runner, key_of, status_patch
from stowplan.kube.api.types import Pod
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.plugins import custom_resource
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from support.api.embedded import Api, pod

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
DEFINITION = {
    "metadata": {"name": "queues.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "queues", "singular": "queue", "kind": "Queue", "listKind": "QueueList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}
Queue = custom_resource("queues.v1.example.com")
QUEUES = "queues.example.com"


class Depth(Controller):
    """Writes the number of pods in a queue's namespace, and remembers what it was called with."""

    name = "depth"
    reads_kinds = (Queue, Pod)

    def __init__(self):
        self.calls = []
        #: Raised at the next calls with the key of the queue named q.
        self.raises = []
        self.after = None

    def keys_of(self, change):
        obj = change.new or change.old
        return [f"{obj.metadata.namespace}/q"] if isinstance(obj, Pod) else [key_of(obj.metadata)]

    def reconcile(self, key, objects, now):
        self.calls.append(key)
        if self.raises and key == "default/q":
            raise self.raises.pop(0)
        queue = objects.get(Queue, key)
        if queue is None:
            return DONE
        depth = len(objects.in_namespace(Pod, queue.metadata.namespace))
        if queue.content.get("status") == {"depth": depth}:
            return Reconciled(after=self.after)
        event = Event(NORMAL, "Counted", f"{depth} pods")
        return Reconciled([status_patch(queue, {"depth": depth})], [event], about=queue)


@pytest.fixture
def api():
    found = Api()
    found.create(DEFINITIONS, DEFINITION)
    return found


@asynccontextmanager
async def running(api, *controllers, times=None, port=None, **options):
    times = times or ManualTime()
    runner = Runner(port or EmbeddedApi(api.server), controllers, times=times, **options)
    task = asyncio.create_task(runner.run())
    try:
        await settle(200)
        yield runner, times
        assert not task.done() or task.result() is None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def depth(api, name="q"):
    return api.get(QUEUES, "default", name).get("status")


async def test_a_status_follows_the_objects_that_it_counts(api):
    api.create(QUEUES, {"metadata": {"name": "q", "namespace": "default"}})
    api.create("pods", pod("a"))
    async with running(api, Depth()):
        assert depth(api) == {"depth": 1}
        api.create("pods", pod("b"))
        await settle(200)
        assert depth(api) == {"depth": 2}
        api.delete("pods", "default", "a")
        await settle(200)
        assert depth(api) == {"depth": 1}


async def test_finished_pods_are_read_too(api):
    api.create(QUEUES, {"metadata": {"name": "q", "namespace": "default"}})
    api.create("pods", pod("a"))
    api.patch("pods", "default", "a", {"status": {"phase": "Succeeded"}}, subresource="status")
    async with running(api, Depth()):
        assert depth(api) == {"depth": 1}


async def test_events_are_recorded_about_the_object(api):
    api.create(QUEUES, {"metadata": {"name": "q", "namespace": "default"}})
    async with running(api, Depth()):
        await settle(200)
    (event,) = [one.to_dict() for one in api.store.list("events")]
    regarding = event.get("regarding") or event["involvedObject"]
    assert (regarding["kind"], regarding["name"]) == ("Queue", "q")
    assert (event["reason"], event.get("note") or event["message"]) == ("Counted", "0 pods")


async def test_a_key_that_raises_is_tried_again_later_and_others_go_on(api, caplog):
    controller = Depth()
    controller.raises = [ZeroDivisionError("no"), ZeroDivisionError("no")]
    for name in ("q", "r"):
        api.create(QUEUES, {"metadata": {"name": name, "namespace": "default"}})
    async with running(api, controller) as (_, times):
        assert (depth(api, "q"), depth(api, "r")) == (None, {"depth": 0})
        assert controller.calls.count("default/q") == 1
        await times.advance(0.005)
        assert controller.calls.count("default/q") == 2
        await times.advance(0.01)
        assert depth(api, "q") == {"depth": 0}
    assert len([record for record in caplog.records if "Reconciler error" in record.getMessage()]) == 1


async def test_a_reconcile_asks_to_be_called_again(api):
    controller = Depth()
    controller.after = 30.0
    api.create(QUEUES, {"metadata": {"name": "q", "namespace": "default"}})
    async with running(api, controller) as (_, times):
        before = len(controller.calls)
        await times.advance(29.9)
        assert len(controller.calls) == before
        await times.advance(0.2)
        assert len(controller.calls) == before + 1


async def test_kinds_that_are_defined_later_are_found(api):
    reports, controller = [], Depth()
    api.delete(DEFINITIONS, "", "queues.example.com")
    async with running(api, controller, report=reports.append) as (_, times):
        assert reports == [
            "queues.example.com is not served by the cluster, depth is switched off; looked for again every 60 s"
        ]
        api.create(DEFINITIONS, DEFINITION)
        api.create(QUEUES, {"metadata": {"name": "q", "namespace": "default"}})
        await times.advance(60)
        assert depth(api) == {"depth": 0}


async def test_nothing_is_reconciled_before_it_leads(api):
    controller, lead = Depth(), asyncio.Event()
    api.create(QUEUES, {"metadata": {"name": "q", "namespace": "default"}})
    runner = Runner(EmbeddedApi(api.server), [controller], times=ManualTime())
    task = asyncio.create_task(runner.run(lead=lead))
    await settle(200)
    assert runner.synced.is_set()
    assert not controller.calls
    lead.set()
    await settle(200)
    assert controller.calls
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Gated(EmbeddedApi):
    """Holds back patches until `gate` is set, and counts those under way."""

    def __init__(self, server):
        super().__init__(server)
        self.gate = asyncio.Event()
        self.under_way = []

    async def patch(self, kind, name, patch, **options):
        if kind is Queue:
            self.under_way.append(name)
            await self.gate.wait()
        return await super().patch(kind, name, patch, **options)


@pytest.mark.parametrize("workers", [1, 3])
async def test_workers_have_different_keys(api, workers):
    for name in ("q", "r", "s", "t"):
        api.create(QUEUES, {"metadata": {"name": name, "namespace": "default"}})
    controller, port = Depth(), Gated(api.server)
    async with running(api, controller, port=port, workers=workers):
        api.create("pods", pod("a"))
        await settle(200)
        assert len(port.under_way) == len(set(port.under_way)) == workers
        port.gate.set()
        await settle(300)
        assert depth(api) == {"depth": 1}


async def test_an_outdated_object_is_not_written_and_reconciled_again(api):
    api.create(QUEUES, {"metadata": {"name": "q", "namespace": "default"}})
    controller, port = Depth(), Gated(api.server)
    async with running(api, controller, port=port) as (_, times):
        api.patch(QUEUES, "default", "q", {"status": {"depth": 7}}, subresource="status")
        port.gate.set()
        await settle(200)
        await times.advance(0.1)
        await settle(200)
        assert depth(api) == {"depth": 0}
        assert len(controller.calls) >= 2
