"""When a scheduler starts scheduling, and what happens to work in progress when it terminates or loses its lease."""

import asyncio
from contextlib import suppress
from typing import ClassVar

import pytest

from stowplan.drivers.live import scheduler as loop
from stowplan.kube.api.api_errors import Forbidden
from stowplan.kube.config import load_config
from stowplan.net.client.http.lanes import Lanes, RateLimitedLanes
from stowplan.plugins import BindPlugin, Code, PermitPlugin, PreBindPlugin, Status
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.api.tampered_api import Held, Tampered, raising, tampered
from support.live.live_scheduler import live
from support.plugins.answering_plugins import configuration

NODE = a_node("n").obj()


class Limited(Tampered):
    """An API whose binds wait for the rate limit, and then for a response."""

    def __init__(self, api, *, at_once=9):
        super().__init__(api)
        self.turns = RateLimitedLanes(Lanes(qps=1e-6, burst=at_once, now=0.0), clock=lambda: 0.0, sleep=_never)
        self.answering = asyncio.Event()
        self.sent = []

    async def bind(self, *, name, **options):
        async with self.turns.turn("bind"):
            self.sent.append(name)
            await self.answering.wait()
            await self._api.bind(name=name, **options)


async def _never(seconds):
    await asyncio.Event().wait()


def pods(number):
    return [a_pod(f"p{i}").obj() for i in range(number)]


async def turns(number=200):
    for _ in range(number):
        await asyncio.sleep(0)


async def under_way(cluster, *objects):
    """Create pods, and run the scheduler until it needs responses."""
    cluster.server.create_all(objects)
    await turns(2000)


@pytest.fixture
async def halfway():
    """Five scheduled pods: two binds sent, three waiting for the rate limit."""
    async with live(NODE, wrap=lambda api: Limited(api, at_once=2)) as cluster:
        api = cluster.port
        cluster.scheduler._give_up_waiting = lambda: api.turns.give_up("bind")
        await under_way(cluster, *pods(5))
        assert len(api.sent) == 2
        assert api.turns.lanes.waiting["bind"] == 3
        yield cluster, api
        api.answering.set()
        await api.turns.close()


def placed(cluster):
    found = [stored.to_dict() for stored in cluster.server.store.list("pods", "")]
    return {pod["metadata"]["name"] for pod in found if pod["spec"].get("nodeName")}


async def test_sent_binds_are_waited_for_and_queued_ones_are_dropped(halfway):
    cluster, api = halfway
    draining = asyncio.create_task(cluster.scheduler.drain())
    await turns()
    assert not draining.done()
    api.answering.set()
    await draining
    assert placed(cluster) == set(api.sent)
    assert len(api.sent) == 2


async def test_dropped_pods_stay_pending_silently(halfway):
    cluster, api = halfway
    api.answering.set()
    await cluster.scheduler.drain()
    await turns()
    for name in {f"p{i}" for i in range(5)} - set(api.sent):
        assert cluster.condition(name) is None
        assert cluster.events(name) == []


async def test_after_draining_nothing_new_is_started(halfway):
    cluster, api = halfway
    api.answering.set()
    await cluster.scheduler.drain()
    await under_way(cluster, a_pod("p5").obj())
    assert placed(cluster) == set(api.sent)
    # But changes are still observed.
    assert "default/p5" in cluster.scheduler.state.pending


async def test_waiting_for_responses_is_bounded(halfway):
    cluster, _ = halfway
    draining = asyncio.create_task(cluster.scheduler.drain())
    await turns()
    cluster.time.next_alarm(cluster.time.now + loop.SHUTDOWN_TIMEOUT - 0.1)
    await turns()
    assert not draining.done()
    cluster.time.next_alarm(cluster.time.now + loop.SHUTDOWN_TIMEOUT)
    await draining
    assert placed(cluster) == set()


async def test_after_losing_the_lease_nothing_is_sent(halfway):
    cluster, api = halfway
    await cluster.scheduler.halt()
    api.answering.set()
    await under_way(cluster, a_pod("p5").obj())
    assert placed(cluster) == set()
    assert len(api.sent) == 2


async def test_after_losing_the_lease_no_status_is_written():
    async with live(wrap=tampered(patch=Held())) as cluster:
        await under_way(cluster, *pods(40))
        await cluster.scheduler.halt()
        begun = len(cluster.port.names("patch"))
        await turns()
        assert 0 < begun < 40
        assert len(cluster.port.names("patch")) == begun


# -- startup -----------------------------------------------------------------------------------------------------------


async def test_a_standby_is_up_to_date_and_does_nothing():
    async with live(NODE) as cluster:
        lead, registry = asyncio.Event(), in_tree_registry()
        standby = loop.Scheduler(
            cluster.scheduler.informers._api,
            load_config(None, plugins=registry.declarations),
            registry=registry,
            times=cluster.time,
        )
        running = asyncio.create_task(standby.run(lead=lead))
        await asyncio.wait_for(standby.synced.wait(), 10)
        await cluster.scheduler.drain()
        await under_way(cluster, *pods(3))
        assert placed(cluster) == set()
        assert standby.queue.counts()["active"] == 3
        assert not standby.ready.is_set()
        lead.set()
        await turns(2000)
        assert standby.ready.is_set()
        assert placed(cluster) == {"p0", "p1", "p2"}
        await ended(cluster, running)


async def ended(cluster, running):
    running.cancel()
    while not running.done():
        await turns(50)
        cluster.time.next_alarm(cluster.time.now + loop.SHUTDOWN_TIMEOUT)
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("end", ["drain", "halt"])
async def test_it_does_not_start_if_stopped_before_its_first_lists(end):
    async with live(NODE) as cluster:
        await cluster.scheduler.drain()
        lead, registry = asyncio.Event(), in_tree_registry()
        late = loop.Scheduler(
            cluster.scheduler.informers._api,
            load_config(None, plugins=registry.declarations),
            registry=registry,
            times=cluster.time,
        )
        lead.set()
        running = asyncio.create_task(late.run(lead=lead))
        assert not late.synced.is_set()
        await getattr(late, end)()
        await asyncio.wait_for(late.synced.wait(), 10)
        await under_way(cluster, *pods(3))
        assert late.queue.counts()["active"] == 3
        assert not late.ready.is_set()
        assert placed(cluster) == set()
        await ended(cluster, running)


async def test_an_aborted_drain_leaves_no_timer(halfway):
    cluster, _ = halfway
    before = asyncio.all_tasks()
    draining = asyncio.create_task(cluster.scheduler.drain())
    await turns()
    assert not draining.done()
    draining.cancel()
    await turns()
    assert draining.cancelled()
    assert asyncio.all_tasks() <= before


# -- plugins that do not end -------------------------------------------------------------------------------------------


class SwallowsCancellation(BindPlugin):
    """Swallows every cancellation."""

    name = "SwallowsCancellation"
    heard = 0
    may_end: ClassVar = None

    async def bind(self, state, pod, node_name):
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                SwallowsCancellation.heard += 1


@pytest.fixture
async def deaf(monkeypatch):
    monkeypatch.setattr(SwallowsCancellation, "may_end", asyncio.Event())
    monkeypatch.setattr(SwallowsCancellation, "heard", 0)
    points = {"bind": {"enabled": [{"name": "SwallowsCancellation"}], "disabled": [{"name": "*"}]}}
    config = configuration({"plugins": points})
    async with live(NODE, config=config, plugins=[SwallowsCancellation]) as cluster:
        await under_way(cluster, *pods(2))
        tasks = set(cluster.scheduler._effects.tasks)
        assert {task.get_name() for task in tasks} == {
            "Bind of default/p0 by SwallowsCancellation",
            "Bind of default/p1 by SwallowsCancellation",
        }
        yield cluster
        SwallowsCancellation.may_end.set()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_after_losing_the_lease_plugins_that_do_not_end_are_abandoned(deaf, caplog):
    halting = asyncio.create_task(deaf.scheduler.halt())
    await turns()
    assert SwallowsCancellation.heard == 2
    deaf.time.next_alarm(deaf.time.now + loop.CANCELLATION_TIMEOUT - 0.1)
    await turns()
    assert not halting.done()
    deaf.time.next_alarm(deaf.time.now + loop.CANCELLATION_TIMEOUT)
    await halting
    (said,) = (record.message for record in caplog.records if "abandoned" in record.message)
    assert 'tasks=["Bind of default/p0 by SwallowsCancellation","Bind of default/p1 by SwallowsCancellation"]' in said


async def test_shutdown_waits_only_once_for_plugins_that_do_not_end(deaf):
    draining = asyncio.create_task(deaf.scheduler.drain())
    for seconds in (loop.SHUTDOWN_TIMEOUT, loop.CANCELLATION_TIMEOUT):
        await deaf.time.advance(seconds - 0.1, settle=turns)
        assert not draining.done()
        await deaf.time.advance(0.1, settle=turns)
    await draining
    await deaf.scheduler.drain()
    assert not deaf.scheduler.busy


class SwallowsOneCancellation(PreBindPlugin):
    """Swallows the cancellation as if it were its own."""

    name = "SwallowsOneCancellation"

    async def pre_bind(self, state, pod, node_name):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


# -- work that might continue after the end ----------------------------------------------------------------------------


class Later(PermitPlugin):
    """Makes pods wait until the test allows them."""

    name = "Later"

    def permit(self, state, pod, node_name):
        return Status(Code.Wait), 600.0


async def test_a_waiting_pod_allowed_after_draining_is_not_bound():
    config = configuration({"plugins": {"permit": {"enabled": [{"name": "Later"}]}}})
    async with live(NODE, config=config, plugins=[Later], wrap=Limited) as cluster:
        cluster.port.answering.set()
        await under_way(cluster, *pods(2))
        (first, second) = cluster.scheduler.waiting_pods
        first.allow("Later")
        await cluster.scheduler.drain()
        assert cluster.port.sent == [first.pod.name], "it was not waiting"
        second.allow("Later")
        await turns()
        assert cluster.port.sent == [first.pod.name]
        assert not cluster.scheduler.busy


@pytest.mark.parametrize("end", ["drain", "halt"])
async def test_a_plugin_that_swallows_cancellation_causes_no_bind_after_the_end(end):
    config = configuration({"plugins": {"preBind": {"enabled": [{"name": "SwallowsOneCancellation"}]}}})
    async with live(NODE, config=config, plugins=[SwallowsOneCancellation], wrap=Limited) as cluster:
        cluster.port.answering.set()
        await under_way(cluster, *pods(2))
        ending = asyncio.create_task(getattr(cluster.scheduler, end)())
        await cluster.time.advance(loop.SHUTDOWN_TIMEOUT, settle=turns)
        await ending
        await turns()
        assert cluster.port.sent == []
        assert placed(cluster) == set()
        assert not cluster.scheduler._effects.tasks


async def test_suppressed_problems_are_reported_at_the_end(caplog):
    async with live(NODE, wrap=tampered(patch=raising(Forbidden("no status")))) as cluster:
        await under_way(cluster, *(a_pod(f"p{i}").requests(cpu=1000).obj() for i in range(5)))
        assert "more since the last report" not in caplog.text
    assert "A pod's status cannot be written: 4 more since the last report" in caplog.text
