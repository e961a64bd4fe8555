"""The binding cycle beyond calling its plugins: what is written and when, and that it cleans up after itself."""

import asyncio
from functools import partial
from random import Random

import pytest

from stowplan.kube.api.api_errors import Conflict, Forbidden
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.scheduler.framework.events import ASSIGNED_POD, Action, Hint, on
from stowplan.scheduler.framework.status import SKIP, Code, Status, error, unschedulable
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.api.tampered_api import raising, tampered
from support.live.live_scheduler import live
from support.plugins.answering_plugins import answering, configuration, profile
from support.plugins.raised import in_short

WAIT = (Status(Code.Wait, ()), 10.0)


def scheduler_with(*plugins, **options):
    """Plugins at the points that they have answers for; Bind plugins replace the default one."""
    methods = {"pre_bind": "preBind", "permit": "permit", "reserve": "reserve", "bind": "bind", "filter": "filter"}
    methods["pre_filter"] = "preFilter"
    points = {}
    for plugin in plugins:
        for method, point in methods.items():
            if method in plugin.answers:
                points.setdefault(point, []).append(plugin)
    without = {"bind": ["DefaultBinder"]} if "bind" in points else None
    config = configuration(profile(without=without, **points))
    return live(a_node("n").obj(), config=config, plugins=plugins, **options)


def uid(cluster, name="p"):
    return cluster.pod(name)["metadata"]["uid"]


def check_nothing_is_left(cluster):
    scheduler = cluster.scheduler
    assert len(scheduler.waiting_pods) == 0
    assert scheduler.engine.context.pods_in_pre_bind._pods == {}
    assert scheduler.queue.in_flight() == []
    assert not scheduler._effects.tasks


class Parked:
    """A pod that plugin A keeps waiting, so that it hears of events: what happens on which node, and where `p` is."""

    def __init__(self, **answers):
        """`answers`: those of A for `p`."""
        self.heard, self.cluster = [], None
        wakes = [on(ASSIGNED_POD, action, partial(self._hears, action)) for action in (Action.Add, Action.Delete)]
        self.plugin = answering("A", pre_filter=self._pre_filter, wakes=wakes, **answers)

    def _pre_filter(self, state, pod, nodes):
        return unschedulable("waits") if pod.key == "default/parked" else None

    def _hears(self, action, pod, old, new):
        self.heard.append((pod.key, action, (new or old).spec.node_name, self.cluster.place("p")))
        return Hint.SKIP

    async def listens(self, cluster):
        self.cluster = cluster
        await cluster.create(a_pod("parked").obj())
        assert not self.heard


# -- nomination --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        pytest.param({"permit": WAIT}, True, id="waits on Permit"),
        pytest.param({"pre_bind": None}, True, id="something is to be prepared"),
        pytest.param({"pre_bind": None, "pre_bind_pre_flight": SKIP}, False, id="nothing is"),
        pytest.param({"permit": (None, 0.0)}, False, id="goes on at once"),
    ],
)
@pytest.mark.parametrize("gate", [True, False], ids=["gate on", "gate off"])
async def test_the_nomination_is_written_if_binding_takes_time(answers, told, gate):
    plugin = answering("A", **answers)
    features = DEFAULT_FEATURES.with_gates({"NominatedNodeNameForExpectation": gate})
    async with scheduler_with(plugin, wrap=tampered(), features=features) as cluster:
        await cluster.create(a_pod("p").obj())
        written = [call.body for call in cluster.port.calls if call.verb == "patch"]
        assert written == ([{"status": {"nominatedNodeName": "n"}}] if told and gate else [])


@pytest.mark.parametrize("failure", [Forbidden("no"), OutcomeUnknown("no")], ids=["refused", "unreachable"])
async def test_a_failed_nomination_patch_is_ignored(failure, caplog):
    async with scheduler_with(answering("A", pre_bind=None), wrap=tampered(patch=raising(failure))) as cluster:
        await cluster.create(a_pod("p").obj())
        assert cluster.node_of("p") == "n"
        assert "Failed to update the nominated node name in the binding cycle" in caplog.text


async def test_a_failed_pre_flight_ends_the_wait():
    plugin = answering("A", permit=WAIT, pre_bind=None, pre_bind_pre_flight=error("no"))
    async with scheduler_with(plugin) as cluster:
        await cluster.create(a_pod("p").obj())
        assert cluster.place("p") is Place.ERROR_BACKOFF
        check_nothing_is_left(cluster)


async def test_without_the_gate_there_is_no_pre_flight():
    plugin = answering("A", pre_bind=None, pre_bind_pre_flight=SKIP)
    features = DEFAULT_FEATURES.with_gates({"NominatedNodeNameForExpectation": False})
    async with scheduler_with(plugin, features=features) as cluster:
        await cluster.create(a_pod("p").obj())
        assert [call for call in plugin.log if "bind" in call] == ["A.pre_bind"]


# -- waiting on Permit ------------------------------------------------------------------------------------------------


async def test_pods_are_activated_at_the_end_of_the_scheduling_cycle_despite_waits():
    def stash(state, pod, node_name):
        if pod.pod.metadata.name == "p":
            state.pods_to_activate.add(cluster.scheduler.queue.get("default/other").pod)

    def wait(state, pod, node_name):
        return WAIT if pod.pod.metadata.name == "p" else (None, 0.0)

    open_ = []

    def refuse(state, pod, nodes):
        return None if pod.pod.metadata.name == "p" or open_ else unschedulable("no")

    plugin = answering("A", reserve=stash, permit=wait, pre_filter=None)
    gate = answering("G", filter=None, pre_filter=refuse)
    config = configuration(profile(reserve=[plugin], permit=[plugin], preFilter=[gate]))
    async with live(a_node("n").obj(), config=config, plugins=[plugin, gate]) as cluster:
        await cluster.create(a_pod("other").obj())
        assert cluster.place("other") is Place.UNSCHEDULABLE
        open_.append(True)
        await cluster.create(a_pod("p").obj())
        assert (cluster.node_of("p"), cluster.node_of("other")) == ("", "n")


async def test_pods_are_activated_at_the_end_of_the_binding_cycle_too():
    """Pods to activate from PreBind, Bind and PostBind."""

    async def stash(state, pod, node_name):
        sleeping = cluster.scheduler.queue.get("default/other")
        if sleeping is not None:
            state.pods_to_activate.add(sleeping.pod)
            moody.answers["pre_filter"] = None

    def refuse(state, pod, nodes):
        return unschedulable("no") if pod.pod.metadata.name == "other" else None

    moody = answering("G", pre_filter=refuse)
    late = answering("A", post_bind=stash)
    config = configuration(profile(preFilter=[moody], postBind=[late]))
    async with live(a_node("n").obj(), config=config, plugins=[moody, late]) as cluster:
        await cluster.create(a_pod("other").obj())
        assert cluster.place("other") is Place.UNSCHEDULABLE
        await cluster.create(a_pod("p").obj())
        assert (cluster.node_of("p"), cluster.node_of("other")) == ("n", "n")


# -- PreBind and Bind -------------------------------------------------------------------------------------------------


async def test_events_from_pre_bind_on_are_not_kept_for_the_pod():
    seen = []

    async def look(state, pod, node_name):
        seen.append(cluster.scheduler.queue.is_in_flight(pod.uid))
        seen.append(cluster.scheduler.engine.context.pods_in_pre_bind.get(pod.uid) is not None)

    async def after(state, pod, node_name):
        seen.append(cluster.scheduler.engine.context.pods_in_pre_bind.get(pod.uid) is not None)
        return SKIP

    async with scheduler_with(answering("A", pre_bind=look, bind=after)) as cluster:
        await cluster.create(a_pod("p").obj())
        assert seen == [False, True, False]
        check_nothing_is_left(cluster)


# -- events ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        pytest.param(unschedulable("no"), Place.ERROR_BACKOFF, id="rejected: after it is back"),
        pytest.param(error("no"), None, id="error: before it is back"),
    ],
)
async def test_events_for_released_resources(answer, place):
    """Of the pod on its node."""
    parked = Parked(bind=answer)
    async with scheduler_with(parked.plugin) as cluster:
        await parked.listens(cluster)
        await cluster.create(a_pod("p").obj())
        assert parked.heard == [("default/parked", Action.Delete, "n", place)]


async def test_a_pod_does_not_hear_of_its_own_removal():
    parked = Parked(permit=WAIT)
    async with scheduler_with(parked.plugin) as cluster:
        await parked.listens(cluster)
        await cluster.create(a_pod("p").obj())
        await cluster.advance(11.0)
        # Both hear that its nomination is gone, which has no node.
        of_removal = [what for what in parked.heard if what[2]]
        assert of_removal == [("default/parked", Action.Delete, "n", Place.UNSCHEDULABLE)]
        assert ("default/p", Action.Delete, "", Place.UNSCHEDULABLE) in parked.heard


async def test_a_pod_that_was_bound_despite_an_error_releases_nothing(caplog):
    async def bound_but(state, pod, node_name):
        meta = pod.pod.metadata
        await cluster.scheduler.frameworks["default-scheduler"].handle.api.bind(
            namespace=pod.namespace, name=meta.name, uid=meta.uid, node=node_name
        )
        for _ in range(1_000):
            await asyncio.sleep(0)
            if not cluster.scheduler.state.is_assumed(pod.uid):
                raise Conflict("bound already")
        raise AssertionError("nobody hears of the binding")

    parked = Parked(bind=bound_but)
    async with scheduler_with(parked.plugin) as cluster:
        await parked.listens(cluster)
        await cluster.create(a_pod("p").obj())
        assert [action for _, action, *_ in parked.heard] == [Action.Add]
        assert "ForgetPod failed" in caplog.text
        assert cluster.scheduler.state.placed(uid(cluster)).node_name == "n"
        check_nothing_is_left(cluster)


# -- the scheduling cycle ---------------------------------------------------------------------------------------------


class BrokenAtFirst(Random):
    """It is drawn from when equal nodes are found."""

    broken = True

    def randrange(self, *bounds):
        if self.broken:
            self.broken = False
            raise RuntimeError("a bug")
        return super().randrange(*bounds)


async def test_an_unexpected_exception_fails_only_the_attempt(caplog):
    async with live(a_node("n").obj(), a_node("m").obj(), random=BrokenAtFirst(1)) as cluster:
        await cluster.create(a_pod("p").obj())
        assert cluster.place("p") is Place.ERROR_BACKOFF
        assert in_short(cluster.condition("p")["message"]) == "a bug"
        await cluster.advance(3.0)
        assert cluster.node_of("p") in ("n", "m")


async def test_equal_pods_have_separate_cycle_states():
    found = []

    def write(state, pod, node_name):
        found.append(state.get("mine"))
        state.write("mine", pod.key)

    async with scheduler_with(answering("A", reserve=write)) as cluster:
        await cluster.create(a_pod("p").obj(), a_pod("q").obj())
        assert found == [None, None]
