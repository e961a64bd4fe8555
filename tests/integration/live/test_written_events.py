"""Events written by a live scheduler: their fields, long notes, series."""

import re

from stowplan.drivers.live.scheduler import SchedulerSettings
from stowplan.scheduler.framework.status import unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import is_now

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def refusing(api_server, namespace, text="no", **options):
    a = answering("A", permit=(unschedulable(text), 0.0))
    before = [("nodes", node("n1"))]
    config = configuration(profile(permit=[a]))
    return scheduled(api_server, namespace, config=config, plugins=[a], before=before, wrap=Tampered, **options)


async def retry(c, seconds=0.0):
    await c.advance(seconds)
    c.scheduler.queue.activate([c.queued("web").pod])
    await c.settle()


async def test_scheduled(api_server, namespace):
    settings = SchedulerSettings(hostname="node-7.example.com")
    async with scheduled(api_server, namespace, settings=settings) as c:
        await c.nodes(node("n1"))
        await c.pods(pod("web"))
        (event,) = await c.events("web")
        made = c.objects.made("pods", "web")
        assert re.fullmatch("web[.][0-9a-f]{16}", event["metadata"]["name"])
        assert event["metadata"]["namespace"] == namespace
        assert is_now(c, event["eventTime"])
        assert event["regarding"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web",
            "namespace": namespace,
            "uid": made["metadata"]["uid"],
            "resourceVersion": made["metadata"]["resourceVersion"],
        }
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
        assert event["note"] == f"Successfully assigned {namespace}/web to n1"
        assert event["reportingController"] == "default-scheduler"
        assert event["reportingInstance"] == "default-scheduler-node-7.example.com"
        assert not event.get("related")
        assert not event.get("series")
        # Deprecated fields stay empty.
        assert not event.get("deprecatedCount")
        assert not event.get("deprecatedSource")


async def test_repetitions_become_a_series(api_server, namespace):
    settings = SchedulerSettings(hostname="host", max_in_unschedulable=10_000.0)
    async with refusing(api_server, namespace, settings=settings) as c:
        await c.pods(pod("web"))
        # The condition changed the pod, so the second failure regards another version of it.
        await retry(c, 10.0)
        assert [e.get("series") for e in await c.events("web")] == [None, None]
        first, second = (int(e["regarding"]["resourceVersion"]) for e in await c.events("web"))
        assert first < second
        await retry(c, 10.0)
        series = [e["series"] for e in await c.events("web") if e.get("series")]
        assert [one["count"] for one in series] == [2]
        assert is_now(c, series[0]["lastObservedTime"])
        # Further repetitions are only counted until the next heartbeat.
        await retry(c, 10.0)
        assert [e["series"]["count"] for e in await c.events("web") if e.get("series")] == [2]
        (patch,) = [call for call in c.api.calls if call.verb == "patch" and call.kind == "Event"]
        assert (patch.options["type_"], patch.options["lane"]) == ("strategic", "event")
        assert patch.body.keys() == {"series"}
        await c.advance(1000.0)
        assert [e["series"]["count"] for e in await c.events("web") if e.get("series")] == [3]


async def test_a_name_that_would_be_too_long_is_a_uuid(api_server, namespace):
    name = "a" * 250
    async with refusing(api_server, namespace) as c:
        await c.pods(pod(name, labels={"app": "web"}))
        (event,) = await c.events(name)
        assert re.fullmatch(UUID, event["metadata"]["name"])


async def test_events_are_reported_by_the_pods_profile(api_server, namespace):
    config = configuration(profile(), profile("second"))
    async with scheduled(api_server, namespace, config=config) as c:
        await c.nodes(node("n1"))
        await c.pods(pod("web"), pod("other", schedulerName="second"))
        told = {e["regarding"]["name"]: (e["reportingController"], e["reportingInstance"]) for e in await c.events()}
        assert told == {"web": ("default-scheduler", "default-scheduler-host"), "other": ("second", "second-host")}
