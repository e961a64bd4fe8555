"""Bindings that the API refuses or whose outcome is unknown, and what the failure means to other pods."""

import pytest

from stowplan.kube.api.api_errors import Conflict
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.net.client.client_errors import OutcomeUnknown
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered, raising
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.failed_attempts import check, failed, nominated, nothing_in_flight

#: Since 1.37 a conflict is sent again.
ONCE = with_chosen({}, V1_36)
TRIED = 'running Bind plugin "DefaultBinder": '


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Conflict("somebody was faster"), id="409"),
        pytest.param(OutcomeUnknown("the answer was lost"), id="outcome_unknown"),
    ],
)
async def test_a_binding_that_fails_is_tried_again(api_server, namespace, error):
    before = [("nodes", node("n1", unschedulable=True)), ("pods", nominated())]
    config = configuration(profile(without={"filter": ["NodeUnschedulable"]}))

    def wrap(api):
        api = Tampered(api)
        api.instead["bind"] = raising(error, times=1)
        return api

    async with scheduled(api_server, namespace, config=config, features=ONCE, before=before, wrap=wrap) as c:
        await check(c, "web", c.objects.made("pods", "web"), failed(f"{TRIED}{error}"))
        assert nothing_in_flight(c)
        await c.advance(1.0)
        # The pod still backs off during the second in which its backoff expires.
        assert c.place("web") == "ERROR_BACKOFF"
        await c.advance(1.0)
        assert await c.node_of("web") == "n1"
        assert [e["reason"] for e in await c.events("web")] == ["FailedScheduling", "Scheduled"]
        assert (await c.condition("web"))["status"] == "True"


async def test_a_conflict_is_sent_again_since_1_37(api_server, namespace):
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))
        c.api.instead["bind"] = raising(Conflict("somebody was faster"), times=3)
        await c.pods(pod("web"))
        await c.advance(0.5)
        assert await c.node_of("web") == "n1"
        assert [e["reason"] for e in await c.events("web")] == ["Scheduled"]
        assert c.api.verbs("web") == ["bind"] * 4


async def test_a_pod_that_another_client_binds_meanwhile(api_server, namespace):
    async with scheduled(api_server, namespace, features=ONCE, wrap=Tampered) as c:
        await c.nodes(node("n1"), node("n2", unschedulable=True))

        async def late(call, go_on):
            await c.objects.bind("web", "n2")
            await c.until(lambda: not c.scheduler.state.pending, "news of the binding")
            return await go_on()

        c.api.instead["bind"] = late
        await c.pods(pod("web"))
        (placed,) = c.scheduler.state.placed_pods()
        assert (placed.node_name, c.place("web")) == ("n2", "")
        assert nothing_in_flight(c)
        (event,) = await c.events("web")
        text = 'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n2"'
        assert (event["reason"], event["note"]) == ("FailedScheduling", TRIED + text)
        # It is bound, so no failure is reported.
        assert c.api.status_patches("web") == []


async def test_a_pod_that_was_deleted(api_server, namespace):
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))

        async def late(call, go_on):
            await c.objects.delete("pods", "web")
            await c.until(lambda: not c.scheduler.state.pending, "news of the deletion")
            return await go_on()

        c.api.instead["bind"] = late
        await c.pods(pod("web"))
        assert c.place("web") == ""
        assert not c.scheduler.state.placed_pods()
        assert nothing_in_flight(c)
        (event,) = await c.events("web")
        assert (event["reason"], event["note"]) == ("FailedScheduling", f'{TRIED}pods "web" not found')
        assert c.api.status_patches("web") == []


async def test_a_binding_that_succeeded_but_whose_response_was_lost(api_server, namespace):
    async with scheduled(api_server, namespace, wrap=Tampered) as c:
        await c.nodes(node("n1"))

        async def lost(call, go_on):
            await go_on()
            await c.until(lambda: not c.scheduler.state.pending, "news of the binding")
            raise OutcomeUnknown("the answer was lost")

        c.api.instead["bind"] = lost
        await c.pods(pod("web"))
        (placed,) = c.scheduler.state.placed_pods()
        assert (placed.node_name, c.place("web")) == ("n1", "")
        assert nothing_in_flight(c)
        assert [e["reason"] for e in await c.events("web")] == ["FailedScheduling"]
        assert (await c.condition("web"))["status"] == "True"
        await c.advance(30.0)
        assert c.api.verbs("web") == ["bind"]
