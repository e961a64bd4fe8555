"""Log lines about plugins that end an attempt after a node was chosen."""

import pytest

from stowplan.scheduler.framework.runtime import binding
from stowplan.scheduler.framework.status import Code, Status, error, unschedulable
from support.observing.log_lines import logged
from support.plugins.binding_calls import run_bind, run_pre_bind
from support.plugins.recording_plugins import an_attempt, framework_of, recorder

LOGGERS = {"reserve": "Reserve", "permit": "Permit", "pre_bind": "PreBind", "bind": "Bind"}
POINTS = {
    "reserve": (binding.run_reserve, ""),
    "permit": (binding.run_permit, ""),
    "pre_bind": (lambda *call: run_pre_bind(*call, (("A",),)), "PreBind "),
    "bind": (run_bind, "Bind "),
}


async def lines_of(point, answer, verbosity=5):
    framework, state, pod, node = an_attempt(framework_of(recorder("A", [], **{point: answer})))
    with logged(verbosity) as found:
        ran = POINTS[point][0](framework, state, pod, node)
        if hasattr(ran, "__await__"):
            await ran
    keys = {"pod": pod.key, "node": node, "plugin": "A", "logger": LOGGERS[point]}
    return keys, found


@pytest.mark.parametrize("point", POINTS)
async def test_a_plugin_that_rejects(point):
    answer = unschedulable("no")
    keys, found = await lines_of(point, (answer, 0.0) if point == "permit" else answer)
    text = f"Pod rejected by {POINTS[point][1]}plugin"
    assert found.of("binding") == [(4, text, keys | {"status": "no"})]


@pytest.mark.parametrize("point", POINTS)
async def test_a_plugin_that_fails(point):
    answer = error("bad")
    keys, found = await lines_of(point, (answer, 0.0) if point == "permit" else answer)
    text = "Plugin Failed" if point == "bind" else "Plugin failed"
    assert found.of("binding") == [(0, text, keys)]
    assert found.entries[0].severity == "E"
    assert str(found.entries[0].error) == "bad", "the error is wrapped"


@pytest.mark.parametrize("point", POINTS)
async def test_which_lines_have_the_node_where_the_log_is_not_verbose(point):
    answer = error("bad")
    _, found = await lines_of(point, (answer, 0.0) if point == "permit" else answer, verbosity=2)
    assert ("node" in found.entries[0].keys) == (point in ("pre_bind", "bind"))
    assert "logger" not in found.entries[0].keys


async def test_a_failing_pre_flight():
    framework, state, pod, node = an_attempt(framework_of(recorder("A", [], pre_bind_pre_flight=error("bad"))))
    with logged() as found:
        failed, _ = binding.run_pre_bind_pre_flights(framework, state, pod, node)
    assert failed.message == 'running PreBindPreFlight "A": bad'
    keys = {"pod": pod.key, "node": node, "plugin": "A", "logger": "PreBindPreFlight"}
    assert found.of("binding") == [(0, "Plugin failed", keys)]
    assert found.entries[0].error == "bad"


async def test_a_plugin_that_makes_the_pod_wait():
    keys, found = await lines_of("permit", (Status(Code.Wait), 5.0))
    text = "One or more plugins asked to wait and no plugin rejected pod"
    assert found.of("binding") == [(4, text, {name: keys[name] for name in ("pod", "node", "logger")})]
