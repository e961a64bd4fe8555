"""Pod statuses on their way to the API, against a script of answers; time is moved by hand."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from stowplan.api.api_errors import Conflict, Forbidden, InternalError, NotFound, ServiceUnavailable
from stowplan.api.decode import DecodeError, convert
from stowplan.api.port import Unreachable
from stowplan.api.types import ObjectMeta, Pod, PodCondition, PodSpec, PodStatus
from stowplan.client.errors import OutcomeUnknown
from stowplan.live.status_writer import PodStatusWriter
from stowplan.timing.manual_time import ManualTime, settle
from support.api.scripted_writes import WritingApi

AWAY = Unreachable("https://s: connection refused")
START, NEXT = "2027-01-15T08:00:00Z", "2027-01-15T08:00:10Z"


def a_pod(name="web-0", *, version=7, node="", nominated="", uid="", **condition):
    conditions = (failed(**condition),) if condition else ()
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=uid or f"{name}-uid", resource_version=str(version), generation=1
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(conditions=conditions, nominated_node_name=nominated),
    )


def failed(message="no room", *, since=None, type_="PodScheduled", status="False"):
    return PodCondition(
        type=type_,
        status=status,
        reason="Unschedulable",
        message=message,
        observed_generation=1,
        last_transition_time=since,
    )


class Setup:
    def __init__(self):
        self.api = WritingApi()
        self.time = ManualTime()
        self.said = []
        self.writer = PodStatusWriter(self.api, times=self.time, report=self.said.append)

    async def write(self, pod, message="no room", **more):
        self.writer.write(pod, condition=failed(message), **more)
        await settle()

    @property
    def remembered(self):
        return len(self.writer._known)

    @property
    def messages(self):
        """Of each request."""
        return [
            condition.get("message") for body in self.api.bodies for condition in body["status"].get("conditions", ())
        ]


@asynccontextmanager
async def writing():
    setup = Setup()
    try:
        yield setup
    finally:
        setup.api.open.set()
        await setup.writer.close(0.0)


# -- what is sent ------------------------------------------------------------------------------------------------------


async def test_a_failure_is_written_to_the_status():
    async with writing() as setup:
        setup.writer.write(a_pod(), condition=failed(), nominated_node_name="n1")
        assert not setup.writer.idle
        assert setup.api.calls == []
        await settle()
        assert setup.writer.idle
        ((verb, kind, key, body, lane),) = setup.api.calls
    assert (verb, kind, key, lane) == ("patch strategic status", Pod, "default/web-0", "status")
    assert body == {
        "status": {
            "conditions": [
                {
                    "lastProbeTime": None,
                    "lastTransitionTime": START,
                    "message": "no room",
                    "observedGeneration": 1,
                    "reason": "Unschedulable",
                    "status": "False",
                    "type": "PodScheduled",
                }
            ],
            "nominatedNodeName": "n1",
        }
    }


async def test_nothing_is_sent_when_nothing_changes():
    async with writing() as setup:
        await setup.write(a_pod(message="no room", since=START), nominated_node_name="")
        setup.writer.write(a_pod())
        assert setup.writer.idle
        assert setup.api.calls == []
        assert setup.remembered == 0


async def test_the_time_of_the_failure_counts_not_that_of_the_request():
    async with writing() as setup:
        setup.api.open.clear()
        for number in range(20):
            setup.writer.write(a_pod(f"p{number}"), condition=failed())
        await setup.time.advance(10.0)
        setup.api.open.set()
        await settle(100)
        times = {body["status"]["conditions"][0]["lastTransitionTime"] for body in setup.api.bodies}
        assert times == {START}
        assert len(setup.api.bodies) == 20


# -- the newest wins ---------------------------------------------------------------------------------------------------


async def test_of_what_waits_only_the_newest_is_sent():
    async with writing() as setup:
        setup.writer.write(a_pod(), condition=failed("first"), nominated_node_name="n1")
        setup.writer.write(a_pod(), condition=failed("second"))
        await settle()
        (body,) = setup.api.bodies
        assert setup.messages == ["second"]
        assert body["status"]["nominatedNodeName"] == "n1"


async def test_a_condition_that_was_never_sent_still_tells_since_when():
    async with writing() as setup:
        setup.api.open.clear()
        for number in range(16):
            setup.writer.write(a_pod(f"p{number}"), condition=failed())
        await settle(50)
        setup.writer.write(a_pod(), condition=failed("first"))
        await setup.time.advance(10.0)
        setup.writer.write(a_pod(), condition=failed("second"))
        setup.api.open.set()
        await settle(100)
        last = setup.api.bodies[-1]["status"]["conditions"][0]
        assert (last["message"], last["lastTransitionTime"]) == ("second", START)


async def test_while_one_is_under_way_the_others_become_one():
    async with writing() as setup:
        setup.api.answers.append(a_pod(version=8, message="first", since=START))
        setup.api.open.clear()
        await setup.write(a_pod(), "first")
        await setup.write(a_pod(), "second")
        await setup.write(a_pod(), "third", nominated_node_name="")
        assert setup.messages == ["first"]
        assert setup.api.in_flight == 1
        setup.api.open.set()
        await settle()
        # The second patch is the difference to what the first was answered.
        assert setup.api.bodies[1:] == [
            {
                "status": {
                    "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                    "conditions": [{"message": "third", "type": "PodScheduled"}],
                }
            }
        ]


async def test_what_the_informer_says_meanwhile_does_not_let_a_second_one_go():
    async with writing() as setup:
        setup.api.open.clear()
        await setup.write(a_pod(), "first")
        setup.writer.observe(a_pod(version=8))
        await setup.write(a_pod(version=8), "second")
        assert setup.api.in_flight == 1


async def test_a_patch_builds_on_the_answer_until_the_informer_has_come_up_to_it():
    async with writing() as setup:
        setup.api.answers.append(a_pod(version=9, message="first", since=START))
        await setup.write(a_pod(version=7), "first")
        setup.writer.observe(a_pod(version=8))
        await setup.write(a_pod(version=8), "first")
        assert len(setup.api.calls) == 1
        assert setup.remembered == 1
        setup.writer.observe(a_pod(version=9, message="first", since=START))
        assert setup.remembered == 0


async def test_an_answer_that_the_informer_was_faster_than_is_not_kept():
    async with writing() as setup:
        answer = a_pod(version=9, message="first", since=START)
        setup.api.answers.append(answer)
        setup.api.open.clear()
        await setup.write(a_pod(), "first")
        setup.writer.observe(answer)
        setup.api.open.set()
        await settle()
        assert setup.remembered == 0


async def test_a_patch_is_worked_out_against_what_the_informer_says_when_it_is_sent():
    async with writing() as setup:
        setup.writer.write(a_pod(version=7), condition=failed("same"))
        setup.writer.observe(a_pod(version=8, message="same", since=START))
        setup.writer.observe(a_pod(version=6))
        await settle()
        assert setup.api.calls == []
        assert setup.remembered == 0


async def test_an_answer_about_another_pod_of_the_name_is_no_base():
    async with writing() as setup:
        setup.api.answers.append(a_pod(version=9, uid="another", message="no room", since=START))
        await setup.write(a_pod())
        await setup.write(a_pod(), "second")
        assert "$setElementOrder/conditions" not in setup.api.bodies[1]["status"]


# -- pods that go their way --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(lambda writer: writer.forget("web-0-uid"), id="gone"),
        pytest.param(lambda writer: writer.observe(a_pod(version=8, node="n1")), id="bound"),
    ],
)
async def test_nothing_is_written_of_a_pod_that_is_gone_or_bound(leave):
    async with writing() as setup:
        setup.writer.write(a_pod(), condition=failed())
        leave(setup.writer)
        await settle()
        assert setup.api.calls == []
        assert setup.remembered == 0


async def test_a_pod_about_to_be_bound_waits_for_what_is_under_way_only():
    async with writing() as setup:
        await setup.writer.withdraw("web-0-uid")
        setup.api.open.clear()
        await setup.write(a_pod(), "first")
        await setup.write(a_pod(), "second")
        withdrawing = asyncio.create_task(setup.writer.withdraw("web-0-uid"))
        await settle()
        assert not withdrawing.done()
        setup.api.open.set()
        await withdrawing
        await settle()
        assert setup.messages == ["first"]
        assert setup.remembered == 0


async def test_a_victim_can_be_written_to_though_it_is_bound():
    async with writing() as setup:
        victim = a_pod(node="n1")
        setup.api.answers.append(replace(victim, metadata=replace(victim.metadata, resource_version="8")))
        await setup.writer.patch(victim, condition=failed("preempted", type_="DisruptionTarget", status="True"))
        assert setup.messages == ["preempted"]
        assert setup.remembered == 0


# -- awaited -----------------------------------------------------------------------------------------------------------


async def test_an_awaited_patch_takes_along_what_waits_and_passes_other_pods():
    async with writing() as setup:
        for number in range(50):
            setup.writer.write(a_pod(f"p{number}"), condition=failed())
        setup.writer.write(a_pod(), condition=failed("waits"), nominated_node_name="n1")
        await setup.writer.patch(a_pod(), nominated_node_name="n2")
        (_, _, key, body, lane) = setup.api.calls[0]
        assert (key, lane, body["status"]["nominatedNodeName"]) == ("default/web-0", "default", "n2")
        assert setup.messages == ["waits"]
        await settle(100)
        assert len(setup.api.calls) == 51
        assert setup.writer.idle


async def test_an_awaited_patch_waits_for_an_earlier_one_of_the_pod():
    async with writing() as setup:
        setup.api.open.clear()
        await setup.write(a_pod(), "first")
        patching = asyncio.create_task(setup.writer.patch(a_pod(), nominated_node_name="n1"))
        await settle()
        assert len(setup.api.calls) == 1
        assert not setup.writer.idle
        setup.api.open.set()
        await patching
        assert setup.api.bodies[1]["status"]["nominatedNodeName"] == "n1"


async def test_an_awaited_patch_that_changes_nothing_returns():
    async with writing() as setup:
        await setup.writer.patch(a_pod(nominated="n1"), nominated_node_name="n1")
        assert setup.api.calls == []
        assert setup.remembered == 0


@pytest.mark.parametrize("error", [Forbidden("no"), NotFound("gone"), OutcomeUnknown("cut")])
async def test_an_awaited_patch_raises_and_the_rest_goes_on(error):
    async with writing() as setup:
        setup.api.answers.append(error)
        with pytest.raises(type(error)):
            await setup.writer.patch(a_pod(), nominated_node_name="n1")
        assert setup.said == []
        assert setup.remembered == 0
        await setup.write(a_pod())
        assert len(setup.api.calls) == 2


async def test_who_waits_for_a_pod_that_is_forgotten_is_let_go():
    async with writing() as setup:
        setup.api.open.clear()
        await setup.write(a_pod())
        patching = asyncio.create_task(setup.writer.patch(a_pod(), nominated_node_name="n1"))
        await settle()
        setup.writer.forget("web-0-uid")
        setup.api.open.set()
        await patching
        assert len(setup.api.calls) == 1


@pytest.mark.parametrize("under_way", [True, False], ids=["under way", "waiting"])
async def test_what_a_cancelled_patch_took_along_is_written_all_the_same(under_way):
    async with writing() as setup:
        setup.api.open.clear()
        if under_way:
            setup.writer.write(a_pod(), condition=failed("waits"))
        else:
            await setup.write(a_pod(), "first")
        patching = asyncio.create_task(setup.writer.patch(a_pod(), nominated_node_name="n1"))
        await settle()
        if not under_way:
            await setup.write(a_pod(), "waits")
        patching.cancel()
        await asyncio.gather(patching, return_exceptions=True)
        setup.api.open.set()
        await settle()
        assert setup.messages[-1] == "waits"
        assert setup.writer.idle


async def test_a_cancelled_patch_leaves_what_it_wanted_to_the_next():
    async with writing() as setup:
        setup.api.open.clear()
        first = asyncio.create_task(setup.writer.patch(a_pod(), condition=failed("first"), nominated_node_name="n1"))
        await settle()
        second = asyncio.create_task(setup.writer.patch(a_pod(), nominated_node_name="n2"))
        await settle()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        setup.api.open.set()
        await settle()
        assert second.done()
        assert setup.messages == ["first", "first"]
        assert [body["status"]["nominatedNodeName"] for body in setup.api.bodies] == ["n1", "n2"]


async def test_a_cancelled_patch_leaves_nothing_of_a_pod_that_is_forgotten():
    async with writing() as setup:
        setup.api.open.clear()
        patches = []
        for node in ("n1", "n2"):
            patches.append(asyncio.create_task(setup.writer.patch(a_pod(), nominated_node_name=node)))
            await settle()
        setup.writer.forget("web-0-uid")
        patches[0].cancel()
        setup.api.open.set()
        await asyncio.gather(*patches, return_exceptions=True)
        assert len(setup.api.calls) == 1


async def test_nobody_hears_of_a_cancelled_patch_so_its_failure_is_reported():
    async with writing() as setup:
        setup.api.open.clear()
        await setup.write(a_pod(), "first")
        patching = asyncio.create_task(setup.writer.patch(a_pod(), nominated_node_name="n1"))
        await settle()
        patching.cancel()
        await asyncio.gather(patching, return_exceptions=True)
        setup.api.answers.extend([None, Forbidden("no")])
        setup.api.open.set()
        await settle()
        assert len(setup.api.calls) == 2
        assert len(setup.said) == 1


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [AWAY, InternalError("i"), ServiceUnavailable("s"), Conflict("c")], ids=lambda error: type(error).__name__
)
async def test_four_tries_with_growing_pauses(error):
    async with writing() as setup:
        setup.api.answers.extend([error] * 4)
        await setup.write(a_pod())
        pauses = []
        while setup.time.naps:
            pauses += setup.time.naps
            await setup.time.advance(setup.time.naps[0])
        assert pauses == pytest.approx([0.0105, 0.0525, 0.2625])
        assert len(setup.api.calls) == 4
        assert setup.said == [f"A pod's status cannot be written: default/web-0: {error}"]
        # The next failure writes it.
        await setup.write(a_pod())
        assert len(setup.api.calls) == 5


async def test_a_try_may_succeed():
    async with writing() as setup:
        setup.api.answers.extend([AWAY, AWAY])
        await setup.write(a_pod())
        assert setup.writer.idle
        await setup.time.advance(1.0)
        assert len(setup.api.calls) == 3
        assert setup.said == []


@pytest.mark.parametrize(
    ("error", "said"), [(Forbidden("not you"), 1), (OutcomeUnknown("cut"), 1), (NotFound("no such pod"), 0)]
)
async def test_other_problems_end_it_at_once(error, said):
    async with writing() as setup:
        setup.api.answers.append(error)
        await setup.write(a_pod())
        assert setup.time.naps == []
        assert len(setup.api.calls) == 1
        assert len(setup.said) == said
        assert setup.remembered == 0


async def test_an_answer_that_cannot_be_read_is_a_success_nonetheless():
    async with writing() as setup:
        setup.api.answers.append(DecodeError(field="spec", message="odd"))
        await setup.writer.patch(a_pod(), nominated_node_name="n1")
        assert len(setup.api.calls) == 1
        assert setup.said == ["A pod comes back that cannot be read: default/web-0: spec: odd"]


async def test_a_bug_costs_one_pods_status_and_is_told():
    async with writing() as setup:
        setup.api.answers.append(TypeError("bug"))
        setup.writer.write(a_pod("odd"), condition=failed())
        await setup.write(a_pod())
        assert setup.said == ["Writing a pod's status fails: default/odd: TypeError('bug')"]
        assert [call[2] for call in setup.api.calls] == ["default/odd", "default/web-0"]
        assert setup.writer.idle


async def test_who_awaits_a_patch_hears_of_a_bug():
    async with writing() as setup:
        setup.api.answers.append(TypeError("bug"))
        with pytest.raises(TypeError, match="bug"):
            await setup.writer.patch(a_pod(), nominated_node_name="n1")
        assert setup.said == []
        assert setup.writer.idle


async def test_whoever_awaits_the_same_patch_hears_of_a_bug():
    async with writing() as setup:
        setup.api.open.clear()
        first, *more = [
            asyncio.create_task(setup.writer.patch(a_pod(), nominated_node_name=f"n{number}")) for number in range(3)
        ]
        await settle()
        setup.api.answers.extend([None, TypeError("bug")])
        setup.api.open.set()
        await first
        for patching in more:
            with pytest.raises(TypeError, match="bug"):
                await patching
        assert len(setup.api.calls) == 2
        assert setup.writer.idle


async def test_an_awaited_patch_between_two_tries_is_idle_but_nobody_else_is():
    async with writing() as setup:
        setup.api.answers.append(AWAY)
        setup.api.open.clear()
        patching = asyncio.create_task(setup.writer.patch(a_pod(), nominated_node_name="n1"))
        await settle()
        assert not setup.writer.idle
        setup.api.open.set()
        await settle()
        assert setup.time.naps
        assert setup.writer.idle
        setup.api.open.clear()
        await setup.write(a_pod("other"))
        assert not setup.writer.idle
        setup.api.open.set()
        await settle()
        assert setup.writer.idle
        assert not patching.done()
        await setup.time.advance(1.0)
        await patching
        assert setup.writer.idle


async def test_a_dead_server_does_not_fill_the_log_or_the_memory():
    async with writing() as setup:
        setup.api.answers.extend([AWAY] * 10_000)
        for number in range(500):
            setup.writer.write(a_pod(f"p{number}"), condition=failed())
        await setup.time.advance(60.0)
        assert len(setup.api.calls) == 2000
        assert len(setup.said) < 10
        assert setup.remembered == 0


# -- many --------------------------------------------------------------------------------------------------------------


async def test_a_flood_is_sent_a_few_at_once_and_leaves_room_for_others():
    async with writing() as setup:
        setup.api.open.clear()
        for _ in range(3):
            for number in range(1000):
                setup.writer.write(a_pod(f"p{number}"), condition=failed())
        await settle(50)
        assert setup.api.in_flight == 16
        setup.api.open.set()
        turns = 0
        while not setup.writer.idle:
            await asyncio.sleep(0)
            turns += 1
        assert len(setup.api.calls) == 1000
        assert turns >= 1000 / 16


async def test_closing_sends_what_waits_once_and_gives_up():
    setup = Setup()
    setup.api.answers.extend([AWAY] * 10 + [None] * 10)
    for number in range(20):
        setup.writer.write(a_pod(f"p{number}"), condition=failed())
    await setup.writer.close(5.0)
    assert len(setup.api.calls) == 20
    assert setup.time.now == 0.0
    assert setup.said == [
        "A pod's status cannot be written: default/p0: https://s: connection refused",
        "A pod's status cannot be written: 9 more since the last report",
    ]


async def test_closing_takes_no_longer_than_it_may():
    setup = Setup()
    setup.api.open.clear()
    await setup.write(a_pod())
    closing = asyncio.create_task(setup.writer.close(5.0))
    await setup.time.advance(4.9)
    assert not closing.done()
    await setup.time.advance(0.2)
    await closing


def test_pods_without_uid_or_version_are_told_apart_by_name():
    pod = convert({"metadata": {"name": "a"}}, Pod)

    async def both():
        async with writing() as setup:
            await setup.write(pod)
            await setup.write(convert({"metadata": {"name": "b"}}, Pod))
            return [call[2] for call in setup.api.calls]

    assert asyncio.run(both()) == ["default/a", "default/b"]
