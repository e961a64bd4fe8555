"""Run Reserve, Permit, PreBind, Bind and PostBind plugins.

A pod with a chosen node is not bound yet. Plugins reserve resources for it (Reserve), may make it wait (Permit),
prepare the binding (PreBind) and write it (Bind). If any of these fails, all reservations are released (Unreserve).
Reserve and Permit are part of the scheduling cycle and do not block; the other points may do I/O and are asynchronous.

The functions here run one profile's plugins at one extension point and return the result. The caller owns the order of
the points, the waiting pods and time, so nothing here depends on an event loop. A plugin that raises yields an Error
status; extension points without a status return their problems as a list of texts.

Upstream: pkg/scheduler/framework/runtime/framework.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from math import isnan
from numbers import Real
from typing import Any, NamedTuple

from stowplan.kube.api.types import Pod
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.framework.boundary import Raised, call, call_coroutine
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.extender import Extender, answer_of
from stowplan.scheduler.framework.interface import PreBindPreFlightResult
from stowplan.scheduler.framework.requests import Ask, Bind, Steps
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import ended, timed
from stowplan.scheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unexpected, well_formed, wrapped

_log = get_logger(__name__)

#: Upper limit of a Permit plugin's timeout, in seconds.
MAX_PERMIT_TIMEOUT = 15 * 60.0

PERMIT_WAITS = "one or more plugins asked to wait and no plugin rejected pod"
OTHER_PRE_BIND_FAILED = "some other PreBind operation failed"

#: Names of PreBind plugins: groups run one after the other, the plugins of a group concurrently.
Groups = tuple[tuple[str, ...], ...]


class PreFlight(NamedTuple):
    """The result of PreBindPreFlight: whether the plugin will act, and whether in parallel with others."""

    plugin: str
    acts: bool = True
    allow_parallel: bool = False


# -- Reserve and Unreserve --------------------------------------------------------------------------------------------


def run_assumed(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
    """Let plugins change the pod as it is accounted on its node; a Status is an error."""
    for plugin in framework.assuming:
        check, at = partial(_assumed, framework, pod), ("Assumed", plugin)
        changed = call(plugin.assumed, state, pod, node_name, check=check, required=True, at=at)
        if isinstance(changed, Status):
            return wrapped(f'running Reserve plugin "{plugin.name}"', changed)
        pod.pod, pod.shape = changed
    return None


def _assumed(framework: Framework, pod: PodInfo, changed: object) -> tuple[Pod, PodShape]:
    if changed is pod.pod:
        return pod.pod, pod.shape
    if not isinstance(changed, Pod):
        raise unexpected("a Pod", changed)
    # Compiling it fails if the plugin has made it invalid.
    return changed, framework.handle.cluster.pod_info(changed).shape


@timed("Reserve", ended)
def run_reserve(
    framework: Framework, state: CycleState, pod: PodInfo, node_name: str, *, problems: list[str] | None = None
) -> Status | None:
    """Run Reserve; on the first failure, Unreserve all plugins, including those whose Reserve did not run.

    `problems` collects the failures of Unreserve.
    """
    for plugin in framework.plugins_to_call(state, pod).reserve:
        answer = call(plugin.reserve, state, pod, node_name, times=state.plugin_times, at=("Reserve", plugin))
        failed = _failure("Reserve", plugin.name, answer)
        if answer is not None and failed is not None:
            _log_failure("Reserve", plugin.name, answer, pod, node_name)
            found = run_unreserve(framework, state, pod, node_name)
            if problems is not None:
                problems += found
            return failed
    return None


@timed("Unreserve")
def run_unreserve(framework: Framework, state: CycleState, pod: PodInfo, node_name: str) -> list[str]:
    """Run Unreserve in reverse order; return the failures."""
    problems = []
    for plugin in reversed(framework.reserve):
        times, method = state.plugin_times, plugin.unreserve
        failed = call(method, state, pod, node_name, check=None, failed=Raised, times=times, at=("Unreserve", plugin))
        if isinstance(failed, Raised):
            problems.append(f'running Unreserve plugin "{plugin.name}": {failed}')
    return problems


# -- Permit -----------------------------------------------------------------------------------------------------------


@timed("Permit", lambda answer: Code.Success if answer[0] is None else answer[0].code)
def run_permit(
    framework: Framework, state: CycleState, pod: PodInfo, node_name: str
) -> tuple[Status | None, dict[str, float]]:
    """Run Permit: None if the pod may proceed, a failure, or Wait with the timeout of each plugin in seconds."""
    timeouts: dict[str, float] = {}
    reasons: list[str] = []
    for plugin in framework.permit:
        times, check = state.plugin_times, _permitted
        found = call(
            plugin.permit, state, pod, node_name, check=check, required=True, times=times, at=("Permit", plugin)
        )
        answer, timeout = (found, 0.0) if isinstance(found, Status) else found
        if answer is not None and answer.code == Code.Wait:
            timeouts[plugin.name] = timeout
            reasons += answer.shown_reasons
            continue
        failed = _failure("Permit", plugin.name, answer)
        if answer is not None and failed is not None:
            _log_failure("Permit", plugin.name, answer, pod, node_name)
            return failed, {}
    if timeouts:
        verbose = _log.v(4)
        if verbose.enabled:
            text = "One or more plugins asked to wait and no plugin rejected pod"
            verbose.info(text, logger="Permit", node=node_name, pod=pod)
        return Status(Code.Wait, (*reasons, PERMIT_WAITS)), timeouts
    return None, {}


def _permitted(found: object) -> tuple[Status | None, float]:
    if not isinstance(found, tuple) or len(found) != 2:
        raise unexpected("(a Status or None, seconds)", found)
    answer = well_formed(found[0])
    return answer, _permit_timeout(found[1]) if answer is not None and answer.code == Code.Wait else 0.0


def _permit_timeout(seconds: object) -> float:
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or isnan(seconds):
        raise unexpected("a number of seconds beside Wait", seconds)
    return min(float(seconds), MAX_PERMIT_TIMEOUT)


# -- PreBind ----------------------------------------------------------------------------------------------------------


def announces_node(framework: Framework) -> bool:
    """Whether the chosen node is written to the pod's status if the binding will take a while."""
    return framework.handle.features.enabled("NominatedNodeNameForExpectation")


def pre_flights(
    framework: Framework, state: CycleState, pod: PodInfo, node_name: str
) -> tuple[Status | None, list[PreFlight]]:
    """The PreBind plugins that will act; without the feature gate all of them, one after the other."""
    if not framework.pre_bind:
        return None, []
    if not announces_node(framework):
        return None, [PreFlight(plugin.name) for plugin in framework.plugins_to_call(state, pod).pre_bind]
    acting, flights = run_pre_bind_pre_flights(framework, state, pod, node_name)
    return (None if acting.code in (Code.Success, Code.Skip) else acting), flights


@timed("PreBindPreFlight", lambda answer: answer[0].code)
def run_pre_bind_pre_flights(
    framework: Framework, state: CycleState, pod: PodInfo, node_name: str
) -> tuple[Status, list[PreFlight]]:
    """Run PreBindPreFlight: Success if some plugin will act, Skip if none will, or an Error."""
    results: list[PreFlight] = []
    acting, called = SKIP, framework.plugins_to_call(state, pod).pre_bind
    # In most cases no plugin has anything to prepare.
    for plugin in framework.pre_bind if called else ():
        if plugin not in called:
            results.append(PreFlight(plugin.name, acts=False))
            continue
        method, times = plugin.pre_bind_pre_flight, state.plugin_times
        answer = call(method, state, pod, node_name, check=_pre_flight, times=times, at=("PreBindPreFlight", plugin))
        if answer is SKIP:
            # Most plugins return this very object, so the comparison by identity is the common case.
            results.append(PreFlight(plugin.name, acts=False))
        elif isinstance(answer, Status) and answer.code not in (Code.Success, Code.Skip):
            if answer.code == Code.Error:
                _log_failure("PreBindPreFlight", plugin.name, answer, pod, node_name)
            return _pre_flight_failure(plugin.name, answer), results
        elif isinstance(answer, Status):
            # A bare status does not allow parallel execution: the plugin runs alone.
            acts = answer.code == Code.Success
            results.append(PreFlight(plugin.name, acts=acts))
            acting = SUCCESS if acts else acting
        else:
            results.append(PreFlight(plugin.name, allow_parallel=answer is not None and answer.allow_parallel))
            acting = SUCCESS
    return acting, results


def _pre_flight(answer: object) -> PreBindPreFlightResult | Status:
    if isinstance(answer, PreBindPreFlightResult | Status):
        return answer
    raise unexpected("a PreBindPreFlightResult, a Status or None", answer)


def _pre_flight_failure(plugin: str, status: Status) -> Status:
    if status.code == Code.Error:
        return wrapped(f'running PreBindPreFlight "{plugin}"', status).with_plugin(plugin)
    text = f'PreBindPreFlight {plugin} returned "{status.code.name}", which is unsupported. '
    return error(text + "It is supposed to return Success, Skip, or Error status").with_plugin(plugin)


def pre_bind_groups(results: Sequence[PreFlight]) -> Groups:
    """Group adjacent plugins that may run in parallel.

    A plugin that may not runs alone, and separates its neighbors even if it skips.
    """
    groups: list[list[str]] = []
    joinable = False
    for result in results:
        if result.acts:
            if joinable and result.allow_parallel:
                groups[-1].append(result.plugin)
            else:
                groups.append([result.plugin])
            joinable = result.allow_parallel
        elif not result.allow_parallel:
            joinable = False
    return tuple(tuple(group) for group in groups)


# -- PreBind, Bind and PostBind ---------------------------------------------------------------------------------------


@mypyc_attr(native_class=False)
class PluginCancelledItselfError(Exception):
    """A plugin cancelled its own task; nobody cancelled the call."""

    def __str__(self) -> str:
        return "a plugin gave up: what it waited for was cancelled"


_METHODS = {"PreBind": "pre_bind", "Bind": "bind", "PostBind": "post_bind"}


def method_of(framework: Framework, point: str, name: str) -> Callable[..., Any]:
    """A plugin's method for PreBind, Bind or PostBind."""
    method: Callable[..., Any] = getattr(framework.plugins[name], _METHODS[point])
    return method


async def call_plugin(
    framework: Framework,
    point: str,
    name: str,
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    *,
    cancelled: tuple[type[BaseException], ...] = (),
) -> Status | None:
    """Await a plugin's coroutine for its status. `cancelled`: see `Engine.run_plugin`."""
    method, at = method_of(framework, point, name), (point, framework.plugins[name])
    # PostBind has no result.
    check = _no_result if point == "PostBind" else well_formed
    started = framework.now()
    status = await call_coroutine(method, state, pod, node_name, check=check, cancelled=cancelled, at=at)
    if state.plugin_times is not None:
        state.plugin_times.ended(point, name, started, status)
    return status


def _no_result(answer: object) -> None:
    return None


def bind_request(request: object) -> Bind:
    """Check the request of a Bind plugin that only sends one."""
    if type(request) is not Bind:
        raise unexpected("a Bind", request)
    return request


# -- answers ----------------------------------------------------------------------------------------------------------


def bound_by_extender(extender: Extender, pod: PodInfo, node_name: str) -> Steps:
    """Let an extender bind the pod; SKIP leaves it to the next binder."""
    try:
        question = extender.bind_question(pod, node_name)
        outcome = yield Ask(who=extender.name, verb="bind", question=question)
        extender.read_bound(answer_of(outcome))
    except Exception as e:
        if not extender.ignorable:
            return error(e)
        text = "Skipping extender in bind as it returned error and has ignorable flag set"
        _log.info(text, extender=extender.name, err=str(e))
        return SKIP
    return None


def failure_at(point: str, plugin: str, answer: Status | None, pod: PodInfo, node_name: str) -> Status | None:
    """The consequence of a plugin's status for the attempt; failures are logged."""
    failed = _failure(point, plugin, answer)
    if answer is not None and failed is not None:
        _log_failure(point, plugin, answer, pod, node_name)
    return failed


def _failure(point: str, plugin: str, answer: Status | None) -> Status | None:
    """The consequence of a plugin's status: None, the rejection itself, or an error."""
    if answer is None or answer.code == Code.Success:
        return None
    if answer.rejected:
        return answer.with_plugin(plugin)
    return wrapped(f'running {point} plugin "{plugin}"', answer).with_plugin(plugin)


#: Extension points whose log lines name the point, and always the node.
_NAMED = ("PreBind", "Bind")


def _log_failure(point: str, plugin: str, answer: Status, pod: PodInfo, node_name: str) -> None:
    """Log which plugin ended the attempt, with the plugin's own message; the wrapped one goes into the pod's status."""
    verbose = _log.v(4)
    if answer.rejected:
        text = f"Pod rejected by {point} plugin" if point in _NAMED else "Pod rejected by plugin"
        verbose.info(text, logger=point, pod=pod, node=node_name, plugin=plugin, status=answer.message)
        return
    # Parity: upstream capitalizes one of these messages differently, and some have the node only in a verbose log,
    # whose loggers have names.
    text = "Plugin Failed" if point == "Bind" else "Plugin failed"
    where: dict[str, Any] = {"node": node_name} if verbose.enabled or point not in ("Reserve", "Permit") else {}
    _log.error(answer.message, text, **_log.named(point), plugin=plugin, pod=pod, **where)
