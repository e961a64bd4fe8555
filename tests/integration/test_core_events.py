"""Events of the core group, for API servers that lack events.k8s.io; live/test_written_events.py has the others."""

import asyncio

from stowplan.kube.api.types import Container, CoreEvent, ObjectMeta, Pod, PodSpec
from stowplan.kube.config import ClientConnection
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.events.event_recorder import EventBroadcaster
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import HttpApi

SECONDS = 20


class OlderApi(HttpApi):
    """Finds only the core form of events, and counts the responses to writes of them."""

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

    async def serves(self, kind):
        return False


async def open_api(api_server):
    connection = ClusterFlags(kubeconfig=str(api_server.kubeconfig)).connect()
    agent = user_agent(command="stowplan", version="0.1.0", purpose="test")
    return OlderApi.open(connection, client_settings=ClientConnection(qps=-1), agent=agent)


async def pod_in(api, namespace):
    return await api.create(
        Pod(
            metadata=ObjectMeta(name="p", namespace=namespace),
            spec=PodSpec(containers=(Container(name="c", image="i"),), scheduler_name="nobody"),
        )
    )


async def test_events_of_the_core_group_are_counted(api_server, namespace):
    said = []
    async with await open_api(api_server) as api:
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
    assert (failed.count, scheduled.count) == (3, 1)
    assert failed.source.component == "default-scheduler"
