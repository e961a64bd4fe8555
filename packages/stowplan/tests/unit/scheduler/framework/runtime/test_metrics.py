"""Timing of plugins: which series a call or an extension point updates."""

import asyncio
from types import SimpleNamespace

import pytest

from stowplan.scheduler.framework.boundary import call
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import BindPlugin, PostFilterResult
from stowplan.scheduler.framework.runtime.binding import call_plugin
from stowplan.scheduler.framework.runtime.metrics import timed
from stowplan.scheduler.framework.status import SKIP, Code, Status, raised, unschedulable
from support.observing.metrics import framework_metrics, numbers
from support.plugins.recording_plugins import an_attempt, framework_of

PLUGIN = SimpleNamespace(name="P", hang_guard=None)


def called(state, point, does, *args):
    return call(does, *args, check=None, failed=raised, times=state.plugin_times, at=(point, PLUGIN))


async def called_later(state, metrics, does):
    class P(BindPlugin):
        name = "P"

        async def bind(self, state, pod, node_name):
            return await does()

    framework, _, pod, node_name = an_attempt(framework_of(P))
    framework.metrics = metrics
    return await call_plugin(framework, "Bind", "P", state, pod, node_name)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def metrics(clock):
    return framework_metrics(drawn=True, now=clock)


@pytest.fixture
def state(metrics):
    metrics.begin_cycle()
    state = CycleState()
    state.plugin_times = metrics.sample
    return state


def executions(metrics):
    family = metrics.scheduler.plugin_execution_duration_seconds
    return {values: (child.count, child.sum) for values, child in family.series()}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(None, "Success", id="None"),
        pytest.param(SKIP, "Skip", id="Skip"),
        pytest.param(unschedulable("no"), "Unschedulable", id="a status"),
        pytest.param((Status(Code.Wait), 3.0), "Wait", id="Permit waits"),
        pytest.param((None, 0.0), "Success", id="Permit lets go"),
        pytest.param(PostFilterResult(unschedulable("no")), "Unschedulable", id="PostFilter"),
        pytest.param([1, 2], "Success", id="something else"),
    ],
)
def test_status_labels_of_calls(metrics, state, clock, answer, code):
    def permit(seconds, more):
        clock.now += seconds + more
        return answer

    assert called(state, "Permit", permit, 1.0, 0.5) is answer
    assert executions(metrics) == {("P", "Permit", code): (1, 1.5)}


def test_a_call_that_raises_is_an_error(metrics, state):
    def reserve():
        raise RuntimeError("oops")

    assert "oops" in called(state, "Reserve", reserve).message
    assert executions(metrics) == {("P", "Reserve", "Error"): (1, 0.0)}


async def test_a_coroutine_is_timed_to_its_end(metrics, state, clock):
    async def bind():
        await asyncio.sleep(0)
        clock.now += 2.0
        return SKIP

    async def oops():
        raise RuntimeError("oops")

    assert await called_later(state, metrics, bind) is SKIP
    assert "oops" in (await called_later(state, metrics, oops)).message
    assert executions(metrics) == {("P", "Bind", "Skip"): (1, 2.0), ("P", "Bind", "Error"): (1, 0.0)}


async def test_calls_of_other_cycles_are_not_timed(metrics):
    async def bind():
        return SKIP

    assert called(CycleState(), "Filter", str, 7) == "7"
    assert await called_later(CycleState(), metrics, bind) is SKIP
    assert executions(metrics) == {}


def test_clones_are_timed_like_the_original(state):
    assert state.clone().plugin_times is state.plugin_times


@pytest.mark.parametrize(("chance", "drawn"), [(0.0, True), (0.0999, True), (0.1, False), (0.99, False)])
def test_one_cycle_in_ten_is_sampled(metrics, chance, drawn):
    metrics._chance = lambda: chance
    metrics.begin_cycle()
    assert (metrics.sample is not None) is drawn


def test_a_run_is_timed_by_its_code(metrics, clock):
    @timed("Reserve", lambda answer: answer)
    def run(framework, seconds, *, code):
        clock.now += seconds
        return code

    assert numbers(metrics.scheduler.framework_extension_point_duration_seconds) == {}
    framework = framework_of()
    run(framework, 0.5, code=Code.Success)
    framework.metrics = metrics
    run(framework, 0.5, code=Code.Unschedulable)
    family = metrics.scheduler.framework_extension_point_duration_seconds
    found = {values: (child.count, child.sum) for values, child in family.series()}
    assert found == {("Reserve", "Unschedulable", "default-scheduler"): (1, 0.5)}
