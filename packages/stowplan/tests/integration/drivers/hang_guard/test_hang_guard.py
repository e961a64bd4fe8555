"""Plugins that hang are interrupted, their pods retried, and every pod is bound exactly once."""

import ast
import asyncio
import re
import signal
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from stowplan.drivers.hang_guard.guarded_plugins import guarded_registry
from stowplan.drivers.hang_guard.hang_guard import HangGuard, InterruptedCalls, PluginTimeoutError
from stowplan.plugins import NodeFilterPlugin, Plugin
from stowplan.scheduler.framework import boundary, declarations, interface
from stowplan.scheduler.framework.boundary import call_coroutine
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.api.tampered_api import tampered
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.plugins import hanging_plugins as hanging
from support.plugins.raised import in_short

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals are for the main thread"
)

LIMIT = 0.05
WITHIN = "within 50ms"

POINTS = ["sign", "preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score", "normalize", "reserve"]
POINTS += ["unreserve", "permit", "preBindPreFlight", "preBind", "preBind, later", "bind", "postBind", "hint"]


class HangingTime:
    """A clock that advances only during hangs: other calls are never late, however busy the machine is."""

    def __init__(self):
        self.spent, self.since = 0.0, None

    def __call__(self):
        since = self.since
        return self.spent + (0.0 if since is None else time.monotonic() - since)

    def during(self, work):
        def timed(*args):
            self.since = time.monotonic()
            try:
                return work(*args)
            finally:
                self.spent, self.since = self(), None

        return timed


CLOCK = HangingTime()
busy = CLOCK.during(hanging.busy)


def a_guard(**options):
    return HangGuard(seconds=LIMIT, clock=CLOCK, **options)


def timed(plugin):
    return type(plugin.__name__, (plugin,), {"way": staticmethod(CLOCK.during(plugin.way))})


@asynccontextmanager
async def cluster_with(plugin, guard, *objects):
    """The run is recorded and replayed at the end: then nothing hangs, and the effects are the same."""
    recorded = Recorded(guard=guard)
    guard.in_use = True
    with guard.watching():
        config = hanging.configuration(plugin)
        options = {"plugins": [timed(plugin)], "guard": guard, "wrap": tampered(), "recorder": recorded.recorder}
        async with live(*objects, config=config, **options) as cluster:
            yield cluster
    recorded.check(plugin.harmless(), interrupted=InterruptedCalls())


def nodes(count=3):
    return [a_node(f"n{i}").allocatable(cpu="8", pods="20").obj() for i in range(count)]


def check_all_bound(cluster, names):
    assert {name: cluster.node_of(name) != "" for name in names} == dict.fromkeys(names, True)
    assert Counter(cluster.port.names("bind")) == Counter(names)
    state, api = cluster.scheduler.state, {name: cluster.pod(name) for name in names}
    placed = {info.uid: info.node_name for info in state.placed_pods()}
    assert placed == {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in api.values()}
    assert not any(state.is_assumed(uid) for uid in placed)
    assert not cluster.scheduler.queue.in_flight()


@pytest.mark.parametrize("point", POINTS)
async def test_a_busy_loop_at_each_point_costs_one_attempt(point):
    guard = a_guard()
    plugin = hanging.Everywhere.at(point)
    async with cluster_with(plugin, guard, *nodes()) as cluster:
        labels = {"hangs": "yes"} | ({"refused": "yes"} if point in ("postFilter", "hint") else {})
        await cluster.create(a_pod("odd").labels(**labels).obj(), *(a_pod(f"good-{i}").obj() for i in range(5)))
        assert all(cluster.node_of(f"good-{i}") for i in range(5))
        await cluster.patch("nodes", "n1", {"metadata": {"labels": {"open": "yes"}}}, namespace="")
        for _ in range(3):
            await cluster.advance(11.0)
        if point == "preEnqueue":
            # A plugin that hangs in PreEnqueue gates the pod until an event that it registered for.
            assert cluster.scheduler.queue.counts()["gated"] == 0
        check_all_bound(cluster, ["odd", *(f"good-{i}" for i in range(5))])
        assert plugin.left == [0]
        assert sum(guard.interrupted.values()) == 1


@pytest.mark.parametrize("way", hanging.WAYS)
@pytest.mark.parametrize("point", ["filter", "reserve", "bind"])
async def test_whatever_it_hangs_in(point, way):
    guard = a_guard()
    plugin = hanging.Everywhere.at(point, way)
    async with cluster_with(plugin, guard, *nodes()) as cluster:
        await cluster.create(a_pod("odd").labels(hangs="yes").obj(), a_pod("good").obj())
        assert cluster.node_of("good")
        point_name = point[0].upper() + point[1:]
        said = cluster.condition("odd")["message"]
        assert re.search(
            rf'plugin "Hanging" did not return from {point_name} {WITHIN} \([\w.]+:\d+ in [\w<>]+\)$', said
        )
        assert cluster.condition("odd")["reason"] == "SchedulerError"
        assert cluster.place("odd").value == "error backoff"
        await cluster.advance(2.0)
        check_all_bound(cluster, ["odd", "good"])


@pytest.mark.parametrize("plugin", [hanging.Columns.at("filter"), hanging.Columns.at("score")], ids=["filter", "score"])
async def test_plugins_that_see_all_nodes_at_once(plugin):
    guard = a_guard()
    async with cluster_with(plugin, guard, *nodes()) as cluster:
        await cluster.create(a_pod("odd").labels(hangs="yes").obj(), a_pod("good").obj())
        await cluster.advance(2.0)
        check_all_bound(cluster, ["odd", "good"])


async def test_a_hanging_queue_sort():
    guard = a_guard()
    async with cluster_with(hanging.Sorting.at("queueSort"), guard, *nodes()) as cluster:
        cluster.server.create_all([a_pod(f"p{i}").labels(hangs="yes").obj() for i in range(20)])
        await cluster.settle()
        await cluster.advance(2.0)
        check_all_bound(cluster, [f"p{i}" for i in range(20)])
        assert guard.interrupted == {("Hanging", "QueueSort"): 1}


async def test_a_plugin_that_always_hangs_leaves_only_its_pod_pending():
    guard = a_guard()
    async with cluster_with(hanging.Everywhere.at("filter", times=10**6), guard, *nodes()) as cluster:
        await cluster.create(a_pod("odd").labels(hangs="yes").obj(), *(a_pod(f"good-{i}").obj() for i in range(10)))
        await cluster.advance(20.0)
        check_all_bound(cluster, [f"good-{i}" for i in range(10)])
        assert cluster.place("odd").value == "error backoff"
        assert "did not return from Filter" in cluster.condition("odd")["message"]


async def test_a_hanging_hint_delays_an_event_once():
    guard = a_guard()
    plugin = hanging.Everywhere.at("hint", times=10**6)
    async with cluster_with(plugin, guard, *nodes()) as cluster:
        names = [f"p{i}" for i in range(50)]
        # All different, so the hint is called for each.
        pods = [a_pod(name).labels(hangs="yes", refused="yes", who=name).obj() for name in names]
        cluster.server.create_all(pods)
        await cluster.settle()
        await cluster.patch("nodes", "n1", {"metadata": {"labels": {"open": "yes"}}}, namespace="")
        assert guard.interrupted == {("Hanging", "QueueingHint"): 16}
        for _ in range(3):
            await cluster.advance(11.0)
        assert sum(cluster.node_of(name) != "" for name in names) == 20
        assert set(Counter(cluster.port.names("bind")).values()) == {1}


async def test_a_replay_needs_the_recorded_interruptions():
    guard, plugin = a_guard(), hanging.Everywhere.at("reserve")
    guard.in_use, recorded = True, Recorded(guard=guard)
    options = {"config": hanging.configuration(plugin), "recorder": recorded.recorder}
    with guard.watching():
        async with live(*nodes(), plugins=[timed(plugin)], guard=guard, **options) as cluster:
            await cluster.create(a_pod("odd").labels(hangs="yes").obj())
    assert recorded.replayed(plugin.harmless()) != recorded.effects


@pytest.mark.parametrize("point", ["preBind", "bind"])
async def test_coroutines_have_their_own_limit(point):
    guard = a_guard(binding_seconds=0.05)
    async with cluster_with(hanging.Waiting.at(point), guard, *nodes()) as cluster:
        cluster.server.create_all([a_pod("odd").labels(hangs="yes").obj(), a_pod("good").obj()])
        await until(lambda: guard.interrupted)
        await cluster.settle()
        assert cluster.node_of("good")
        point_name = "PreBind" if point == "preBind" else "Bind"
        assert cluster.condition("odd")["message"].endswith(f'plugin "Hanging" did not finish {point_name} {WITHIN}')
        await cluster.advance(2.0)
        check_all_bound(cluster, ["odd", "good"])


async def test_a_post_bind_that_never_ends_is_abandoned():
    guard = a_guard(binding_seconds=0.05)
    async with cluster_with(hanging.Waiting.at("postBind"), guard, *nodes()) as cluster:
        cluster.server.create_all([a_pod("odd").labels(hangs="yes").obj()])
        await until(lambda: guard.interrupted)
        await cluster.settle()
        check_all_bound(cluster, ["odd"])


async def until(condition):
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it does not happen")


class NeverCloses(hanging.Waiting):
    def close(self):
        busy()


async def test_shutdown_does_not_wait_for_hanging_plugins(caplog):
    guard = a_guard()
    async with cluster_with(NeverCloses, guard, *nodes()) as cluster:
        await cluster.create(a_pod("p").obj())
    assert f'Hanging failed to close: plugin "Hanging" did not return from Close {WITHIN}' in caplog.text


# -- the guard alone ---------------------------------------------------------------------------------------------------


@pytest.fixture
async def guard():
    found = a_guard()
    found.in_use = True
    with found.watching():
        yield found


async def test_calls_of_a_turn_share_one_limit(guard):
    def given(plugin, point, share):
        """The part of the limit that a call is given; it takes so much of it."""
        return guard.call(plugin, point, take, share)

    def take(share):
        call = guard._current
        CLOCK.spent += share * LIMIT
        return pytest.approx((call.due - call.began) / LIMIT)

    assert given("P", "Filter", 0.3) == 1.0
    assert given("P", "Filter", 0.2) == 0.7
    # Used up except for a moment.
    assert given("P", "Filter", 0.45) == 0.5
    assert given("P", "Filter", 0.0) == 0.02 / LIMIT
    assert given("P", "Score", 0.7) == 1.0
    assert given("Q", "Filter", 0.7) == 1.0
    with pytest.raises(PluginTimeoutError):
        guard.call("P", "Filter", busy)
    await asyncio.sleep(0)
    assert given("P", "Filter", 0.7) == 1.0


async def test_often_interrupted_plugins_are_skipped_until_the_next_turn(guard):
    asked = []

    def hang():
        asked.append(1)
        busy()

    for _ in range(50):
        with pytest.raises(PluginTimeoutError, match='plugin "P" did not return from Filter within 50ms'):
            guard.call("P", "Filter", hang)
    assert len(asked) == 16
    await asyncio.sleep(0)
    assert guard.call("P", "Filter", lambda: "asked") == "asked"


async def test_the_innermost_of_nested_calls_is_interrupted(guard):
    def outer():
        with pytest.raises(PluginTimeoutError):
            guard.call("Inner", "PreEnqueue", busy)
        return "went on"

    assert guard.call("Outer", "Filter", outer) == "went on"
    assert guard.interrupted == {("Inner", "PreEnqueue"): 1}


async def test_calls_within_an_interrupted_one_do_not_count(guard):
    """A replay does not make them."""

    def outer():
        with pytest.raises(PluginTimeoutError):
            guard.call("Inner", "PreEnqueue", busy)
        guard.call("Inner", "Score", divmod, 7, 2)
        busy()

    guard.call("P", "Score", divmod, 7, 2)
    guard.begin_step()
    guard.call("P", "Score", divmod, 7, 2)
    with pytest.raises(PluginTimeoutError):
        guard.call("Outer", "Filter", outer)
    with pytest.raises(PluginTimeoutError):
        guard.call("P", "Score", busy)
    said = ('"Outer" did not return from Filter', '"P" did not return from Score')
    found = [(number, in_short(why)) for number, why in guard.interrupted_in_step]
    assert found == [(i, f"plugin {text} {WITHIN}") for i, text in enumerate(said, 2)]
    guard.begin_step()
    assert guard.interrupted_in_step == []


async def test_the_schedulers_own_code_is_never_interrupted(guard):
    done = []

    def state_change():
        end = time.monotonic() + 3 * LIMIT
        while time.monotonic() < end:
            pass
        done.append("whole")

    ours = type(state_change)(
        state_change.__code__,
        {**globals(), "__name__": "stowplan.scheduler.cluster.state"},
        closure=state_change.__closure__,
    )

    def plugin():
        ours()
        hanging.busy()

    with pytest.raises(PluginTimeoutError):
        guard.call("P", "Filter", CLOCK.during(plugin))
    assert done == ["whole"]


async def test_uninterruptible_calls_are_reported_once(guard, caplog):
    def complained():
        return [record for record in caplog.records if "cannot be interrupted" in record.message]

    def deaf():
        # Not even its wrapper can be interrupted.
        CLOCK.since = time.monotonic()
        end = time.monotonic() + 20
        while not complained() and time.monotonic() < end:
            pass
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            pass
        CLOCK.spent, CLOCK.since = CLOCK(), None

    ours = type(deaf)(
        deaf.__code__, {**globals(), "__name__": "stowplan.scheduler.queue.active"}, closure=deaf.__closure__
    )
    guard.call("P", "Filter", ours)
    (said,) = complained()
    assert 'plugin="P" extensionPoint="Filter"' in said.message
    assert f"{__file__}:" in said.message


async def test_the_error_has_the_location(guard):
    with pytest.raises(PluginTimeoutError) as caught:
        guard.call("P", "Filter", busy)
    frame = caught.value.__cause__.__traceback__
    while frame.tb_next is not None and frame.tb_frame.f_code is not hanging.busy.__code__:
        frame = frame.tb_next
    assert frame.tb_frame.f_code is hanging.busy.__code__


async def test_threads_of_plugins_are_not_guarded(guard):
    found = []
    thread = threading.Thread(target=lambda: found.append(guard.call("P", "Filter", time.sleep, 2 * LIMIT)))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert found == [None]


async def test_a_late_signal_is_ignored(guard):
    for _ in range(100):
        signal.raise_signal(signal.SIGURG)
    assert guard.call("P", "Filter", lambda: signal.raise_signal(signal.SIGURG) or 1) == 1


def awaited(guard, method):
    plugin = SimpleNamespace(name="P", hang_guard=guard)
    return call_coroutine(method, check=lambda answer: answer, cancelled=(asyncio.CancelledError,), at=("Bind", plugin))


async def test_cancellation_reaches_the_plugin(guard):
    seen = []

    async def waiting():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as e:
            seen.append(e.args)
            raise

    task = asyncio.create_task(awaited(guard, waiting))
    await asyncio.sleep(0)
    task.cancel("preempted")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [("preempted",)]


async def test_a_plugins_own_timeout_is_not_an_interruption(guard):
    async def impatient():
        raise TimeoutError("mine")

    assert "TimeoutError: mine" in (await awaited(guard, impatient)).message
    assert not guard.interrupted


async def test_values_and_exceptions_pass_between_the_loop_and_the_plugin(guard):
    async def working(a, *, b):
        future = asyncio.get_running_loop().create_future()
        future.get_loop().call_soon(future.set_exception, KeyError("x"))
        try:
            await future
        except KeyError:
            return a + await asyncio.gather(asyncio.sleep(0, b))

    assert await awaited(guard, partial(working, [1], b=2)) == [1, 2]


# -- which plugins are guarded ----------------------------------------------------------------------------------------


class Mine(NodeFilterPlugin):
    name = "Mine"

    def filter_node(self, state, pod, node):
        return None


def test_only_plugins_that_are_not_in_tree_are_guarded():
    guard = HangGuard()
    assert guarded_registry((), guard).guards == {}
    assert not guard.in_use
    registry = guarded_registry((Mine,), guard)
    assert registry.guards == {"Mine": guard}
    assert guard.in_use
    assert guard.guarded == {("Mine", "Filter")}
    assert [plugin.name for plugin in registry] == [*(plugin.name for plugin in in_tree_registry()), "Mine"]


def test_every_call_of_a_plugin_says_whose_it_is():
    """Otherwise it would hang unguarded."""
    root, methods, found = Path(boundary.__file__).parents[2], hooks(), set()
    for folder in ("scheduler", "ask"):
        for path in (root / folder).rglob("*.py"):
            if "in_tree" in path.parts or path == Path(interface.__file__):
                continue
            for called in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
                first = called.args[0] if called.args else None
                if isinstance(first, ast.Attribute) and first.attr in methods and ast.unparse(called.func) in CALLS:
                    assert "at" in {keyword.arg for keyword in called.keywords}, ast.unparse(called)
                    found.add(first.attr)
                direct = ast.unparse(called.func)
                assert not re.search(rf"(plugin|counter|binder|signer)\w*\.({'|'.join(methods)})$", direct), direct
    assert len(found) > 25


CALLS = {"call", "declares", "call_steps", "call_coroutine"}


def hooks():
    """The methods that plugins define."""
    kinds = [
        kind
        for module in (declarations, interface)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]
    bases = [kind for kind in kinds if issubclass(kind, Plugin) or getattr(kind, "__abstractmethods__", None)]
    return {
        name for kind in bases for name, value in vars(kind).items() if callable(value) and not name.startswith("_")
    }


@pytest.mark.parametrize("seconds", [0.0, 5.0])
async def test_without_a_limit_or_plugins_there_is_no_guard(seconds):
    guard = HangGuard(seconds=seconds)
    guard.in_use = not seconds
    before, handler = threading.active_count(), signal.getsignal(signal.SIGURG)
    with guard.watching():
        assert (threading.active_count(), signal.getsignal(signal.SIGURG)) == (before, handler)
        assert guard.call("P", "Filter", divmod, 7, 2) == (3, 1)


async def test_the_signal_handler_is_restored():
    guard = HangGuard(seconds=LIMIT)
    guard.in_use = True
    before = signal.getsignal(signal.SIGURG)
    with guard.watching():
        assert signal.getsignal(signal.SIGURG) != before
    assert signal.getsignal(signal.SIGURG) == before
    assert "plugin watchdog" not in [thread.name for thread in threading.enumerate()]
