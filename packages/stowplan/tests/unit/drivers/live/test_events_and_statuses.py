"""Events and statuses as the embedded API stores them, field by field."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.types import Pod, PodCondition
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.net.client.events.event_recorder import EventBroadcaster
from stowplan_cluster.apiserver.conversion import core_event
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from support.api.embedded import START, Api
from support.api.embedded import pod as pod_dict
from support.live.driven_statuses import DrivenStatuses

EVENTS = "events"
NAME = f"p.{int(START * 1e9):x}"


class OlderApi(EmbeddedApi):
    """A cluster without events.k8s.io."""

    async def serves(self, kind):
        return False


class Setup:
    def __init__(self, api=EmbeddedApi):
        self.cluster = Api()
        self.cluster.create("pods", pod_dict())
        self.api = api(self.cluster.server)
        self.time = ManualTime()
        self.said = []
        times = self.time
        self.broadcaster = EventBroadcaster(self.api, hostname="host-1", times=times, report=self.said.append)
        self.recorder = self.broadcaster.recorder("default-scheduler")
        self.writer = DrivenStatuses(self.api, times=times, report=self.said.append)

    async def pod(self):
        return await self.api.get(Pod, "p", namespace="default")

    def stored(self, kind, name="p"):
        return self.cluster.get(kind, "default", name)

    async def fail(self, message):
        pod = await self.pod()
        self.recorder.event(pod, type_="Warning", reason="FailedScheduling", action="Scheduling", note=message)
        failed = PodCondition(
            type="PodScheduled", status="False", reason="Unschedulable", message=message, observed_generation=1
        )
        self.writer.write(pod, condition=failed)
        await settle()


@pytest.fixture
async def setup(request):
    made = Setup(getattr(request, "param", EmbeddedApi))
    running = asyncio.create_task(made.broadcaster.run())
    await settle()
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await made.writer.close(0.0)
    assert made.said == []


def without_server_fields(metadata):
    return {name: value for name, value in metadata.items() if name in ("name", "namespace")}


async def test_an_event(setup):
    uid, version = (await setup.pod()).metadata.uid, (await setup.pod()).metadata.resource_version
    await setup.fail("no room")
    event = setup.stored(EVENTS, NAME)
    event["metadata"] = without_server_fields(event["metadata"])
    expected = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": NAME, "namespace": "default"},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host-1",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "p",
            "uid": uid,
            "resourceVersion": version,
        },
        "note": "no room",
        "type": "Warning",
    }
    assert {name: value for name, value in event.items() if name in expected} == expected
    # The other fields are for readers of the core form, and empty.
    assert {name: value for name, value in event.items() if name not in expected and value} == {}


async def test_a_series_forms_while_the_pod_stays_as_it_is(setup):
    await setup.fail("no room")
    # The status has been written, so the pod has another version.
    await setup.time.advance(1.0)
    await setup.fail("no room")
    assert len(setup.cluster.names(EVENTS)) == 2
    await setup.time.advance(1.0)
    await setup.fail("no room")
    await setup.fail("no room")
    first, second = sorted(setup.cluster.names(EVENTS))
    assert "series" not in setup.stored(EVENTS, first)
    assert setup.stored(EVENTS, second)["series"] == {"count": 2, "lastObservedTime": "2027-01-15T08:00:02.000000Z"}
    await setup.time.advance(800.0)
    assert setup.stored(EVENTS, second)["series"]["count"] == 3


@pytest.mark.parametrize("setup", [OlderApi], indirect=True, ids=["v1 only"])
async def test_an_event_of_the_older_form(setup):
    pod = await setup.pod()
    for _ in range(2):
        setup.recorder.event(pod, type_="Warning", reason="FailedScheduling", action="Scheduling", note="no room")
        await setup.time.advance(5.0)
    event = core_event(setup.stored(EVENTS, NAME))
    event["metadata"] = without_server_fields(event["metadata"])
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": NAME, "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "p",
            "uid": pod.metadata.uid,
            "resourceVersion": pod.metadata.resource_version,
        },
        "reason": "FailedScheduling",
        "message": "no room",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:05Z",
        "count": 2,
        "type": "Warning",
        "reportingComponent": "default-scheduler",
    }


async def test_a_status(setup):
    await setup.fail("no room")
    condition = {
        "lastProbeTime": None,
        "lastTransitionTime": "2027-01-15T08:00:00Z",
        "message": "no room",
        "observedGeneration": 1,
        "reason": "Unschedulable",
        "status": "False",
        "type": "PodScheduled",
    }
    assert setup.stored("pods")["status"]["conditions"] == [condition]
    await setup.time.advance(10.0)
    await setup.fail("still no room")
    assert setup.stored("pods")["status"]["conditions"] == [{**condition, "message": "still no room"}]


async def test_a_nomination_is_set_and_cleared(setup):
    await setup.writer.patch(await setup.pod(), nominated_node_name="n1")
    assert setup.stored("pods")["status"]["nominatedNodeName"] == "n1"
    await setup.writer.patch(await setup.pod(), nominated_node_name="")
    assert "nominatedNodeName" not in setup.stored("pods")["status"]


async def test_a_deleted_pod_is_ignored(setup):
    pod = await setup.pod()
    setup.cluster.delete("pods", "default", "p")
    setup.writer.write(pod, nominated_node_name="n1")
    await settle()
    assert setup.writer.idle


# -- in any history ----------------------------------------------------------------------------------------------------


class SlowApi(EmbeddedApi):
    """Responds to one request each time it is released."""

    def __init__(self, server):
        super().__init__(server)
        self.turns = asyncio.Semaphore(0)

    async def patch(self, *args, **options):
        await self.turns.acquire()
        return await super().patch(*args, **options)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("write", "patch")), st.sampled_from("ab")),
        st.tuples(st.just("observe"), st.sampled_from("ab")),
        st.tuples(st.just("let"), st.integers(1, 3)),
        st.tuples(st.just("pause"), st.integers(1, 3)),
    ),
    max_size=25,
)


@given(STEPS)
def test_the_latest_status_is_written_last(steps):
    asyncio.run(_write_at_random(steps))


async def _write_at_random(steps):
    cluster, time, said = Api(), ManualTime(), []
    for name in "ab":
        cluster.create("pods", pod_dict(name))
    api = SlowApi(cluster.server)
    writer = DrivenStatuses(api, times=time, report=said.append)
    informed = {name: await api.get(Pod, name, namespace="default") for name in "ab"}
    wanted, seen, patches = dict.fromkeys("ab", ""), {name: [""] for name in "ab"}, []

    def look():
        for name in "ab":
            conditions = cluster.get("pods", "default", name)["status"].get("conditions", [])
            message = conditions[0]["message"] if conditions else ""
            if message != seen[name][-1]:
                seen[name].append(message)

    for number, (step, what) in enumerate(steps):
        if step in ("write", "patch"):
            wanted[what] = f"{number:03}"
            condition = PodCondition(type="PodScheduled", status="False", message=wanted[what])
            if step == "write":
                writer.write(informed[what], condition=condition)
            else:
                patches.append(writer.patching(informed[what], condition=condition))
        elif step == "observe":
            informed[what] = await api.get(Pod, what, namespace="default")
            writer.observe(informed[what])
        elif step == "let":
            for _ in range(what):
                api.turns.release()
        for _ in range(what if step == "pause" else 1):
            await asyncio.sleep(0)
            look()
    for _ in range(100):
        api.turns.release()
        await asyncio.sleep(0)
        look()
    await asyncio.gather(*patches)
    assert writer.idle
    assert {name: messages[-1] for name, messages in seen.items()} == wanted
    assert seen == {name: sorted(messages) for name, messages in seen.items()}
    for name in "ab":
        writer.observe(await api.get(Pod, name, namespace="default"))
    assert not writer.statuses._known
    assert said == []
    await writer.close(0.0)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from((0.0, 1.0, 200.0, 500.0))), max_size=30))
def test_every_event_is_counted_once(steps):
    asyncio.run(_record_at_random(steps))


async def _record_at_random(steps):
    made = Setup()
    running = asyncio.create_task(made.broadcaster.run())
    pod = await made.pod()
    for reason, pause in steps:
        made.recorder.event(pod, type_="Warning", reason=f"R{reason}", action="A", note="n")
        await made.time.advance(pause)
    await made.time.advance(1000.0)
    counted = [0, 0, 0]
    for name in made.cluster.names(EVENTS):
        event = made.stored(EVENTS, name)
        counted[int(event["reason"][1])] += event.get("series", {"count": 1})["count"]
    assert counted == [sum(reason == wanted for reason, _ in steps) for wanted in range(3)]
    assert made.said == []
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await made.writer.close(0.0)
