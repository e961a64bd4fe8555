"""Events and pod statuses over HTTP, as API servers store them and kubectl prints them."""

import asyncio

import pytest

from stowplan.kube.api.types import Container, CoreEvent, ObjectMeta, Pod, PodCondition, PodSpec
from stowplan.kube.config import ClientConnection
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.connection import connect_from_flags
from stowplan.net.client.events.event_recorder import EventBroadcaster
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import HttpApi
from support.live.driven_statuses import DrivenStatuses

SECONDS = 20


class WatchedApi(HttpApi):
    """Counts the responses to writes of events."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.answered = asyncio.Semaphore(0)

    async def create(self, obj, **options):
        try:
            return await super().create(obj, **options)
        finally:
            self.answered.release()

    async def patch(self, *args, **options):
        try:
            return await super().patch(*args, **options)
        finally:
            self.answered.release()


class OlderApi(WatchedApi):
    """Finds only the core form of events."""

    async def serves(self, kind):
        return False


async def open_api(api_server, made):
    connection = connect_from_flags(kubeconfig=str(api_server.kubeconfig))
    agent = user_agent(command="stowplan", version="0.1.0", purpose="test")
    return made.open(connection, client_settings=ClientConnection(qps=-1), agent=agent)


async def pod_in(api, namespace):
    return await api.create(
        Pod(
            metadata=ObjectMeta(name="p", namespace=namespace),
            spec=PodSpec(containers=(Container(name="c", image="i"),), scheduler_name="nobody"),
        )
    )


@pytest.mark.parametrize("made", [WatchedApi, OlderApi], ids=["events.k8s.io", "v1"])
async def test_events_are_accepted_and_become_series(api_server, namespace, made):
    said = []
    async with await open_api(api_server, made) as api:
        broadcaster = EventBroadcaster(api, hostname="host-1", times=REAL_TIMES, report=said.append)
        recorder = broadcaster.recorder("default-scheduler")
        running = asyncio.create_task(broadcaster.run())
        pod = await pod_in(api, namespace)
        for reason, times in (("FailedScheduling", 3), ("Scheduled", 1)):
            for _ in range(times):
                recorder.event(
                    pod, type_="Normal", reason=reason, action="Scheduling", note="no room " * 200, related=pod
                )
        async with asyncio.timeout(SECONDS):
            # The pod, two events, and the update of one of them to a series.
            for _ in range(4):
                await api.answered.acquire()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        events = {e.reason: e for e in (await api.list(CoreEvent, namespace=namespace)).items}
    assert said == []
    failed, scheduled = events["FailedScheduling"], events["Scheduled"]
    assert len(failed.message) == 1024
    assert failed.message.endswith(" ...")
    assert (failed.involved_object.uid, failed.involved_object.name) == (pod.metadata.uid, "p")
    assert failed.reporting_component == "default-scheduler"
    shown = api_server.json("get", "events", "-n", namespace)
    by_reason = {item["reason"]: item for item in shown["items"]}
    if made is OlderApi:
        assert (failed.count, scheduled.count) == (3, 1)
        assert failed.source.component == "default-scheduler"
    else:
        assert by_reason["FailedScheduling"]["series"]["count"] == 3
        assert by_reason["FailedScheduling"]["related"]["uid"] == pod.metadata.uid
        assert by_reason["Scheduled"].get("series") is None
        assert failed.reporting_instance == "default-scheduler-host-1"


async def test_statuses_read_back_as_written(api_server, namespace):
    said = []
    async with await open_api(api_server, HttpApi) as api:
        writer = DrivenStatuses(api, times=REAL_TIMES, report=said.append)
        pod = await pod_in(api, namespace)
        for message in ("first", "second", "third"):
            condition = PodCondition(
                type="PodScheduled",
                status="False",
                reason="Unschedulable",
                message=message,
                observed_generation=pod.metadata.generation,
            )
            await writer.patch(pod, condition=condition, nominated_node_name="n1")
        await writer.patch(pod, nominated_node_name="")
        status = api_server.json("get", "pod", "p", "-n", namespace)["status"]
        await writer.close(1.0)
    assert said == []
    (condition,) = status["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "third",
        "observedGeneration": 1,
        "lastProbeTime": None,
    }
    assert "nominatedNodeName" not in status
