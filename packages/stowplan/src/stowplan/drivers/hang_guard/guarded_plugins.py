"""Wrap plugin classes so that every extension point is guarded: against hanging, and with checked results.

Only user plugins are wrapped; a subclass replaces each in the registry, so that the framework is unaffected.
Constructors are not guarded: they may be slow, which is visible at startup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import isgeneratorfunction
from types import new_class
from typing import Any, Protocol, cast

from msgspec.structs import replace

from stowplan.drivers.hang_guard.hang_guard import stepwise
from stowplan.scheduler.framework.declarations import ABOUT, CountsPods, Plugin
from stowplan.scheduler.framework.events import ClusterEventWithHint
from stowplan.scheduler.framework.interface import NodeFilterPlugin, NodeScorePlugin, awaited
from stowplan.scheduler.framework.runtime.answers import checked_method
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan.scheduler.in_tree.registry import in_tree_registry

#: Method -> its name in messages.
_POINTS = {
    "pre_enqueue": "PreEnqueue",
    "less": "QueueSort",
    "sign_pod": "SignPod",
    "sign_version": "SignPod",
    "aggregate_key": "AggregateKey",
    "reads_objects": "ReadsObjects",
    "ignores": "Ignores",
    "pre_filter": "PreFilter",
    "shift_pods": "AddPod and RemovePod",
    "add_pod": "AddPod",
    "remove_pod": "RemovePod",
    "filter": "Filter",
    "filter_holds": "FilterHolds",
    "post_filter": "PostFilter",
    "repeats": "Repeats",
    "repeated": "Repeated",
    "pod_group_post_filter": "PodGroupPostFilter",
    "preemption": "Explanation",
    "pre_score": "PreScore",
    "score": "Score",
    "score_holds": "ScoreHolds",
    "batch_state": "BatchState",
    "normalize": "NormalizeScore",
    "assumed": "Assumed",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "quorum": "Quorum",
    "pre_bind_pre_flight": "PreBindPreFlight",
    "generate_placements": "PlacementGenerate",
    "score_placement": "PlacementScore",
    "normalize_placements": "NormalizePlacements",
    "bind_request": "Bind",
    "bind_answer": "Bind",
    "close": "Close",
}
#: Not called: its results cannot be checked, so that only in-tree plugins can give them.
_IN_TREE_ONLY = "guaranteed_feasible_sets"
_ASYNCHRONOUS = {"pre_bind": "PreBind", "bind": "Bind", "post_bind": "PostBind"}
_REGISTERING = "events_to_register"
_EVENTS = "EventsToRegister"
_HINT = "QueueingHint"
_EXPLAINING = "explanation"
_EXPLANATION = "Explanation"
#: Methods of an explanation that `explain` calls; the results of the latter may be lazy.
_TEXTS = ("of_node", "of_group", "reason_text")
_LISTS = ("obstacles", "ways_for_pod")

#: The framework's own default methods do not call plugin code, except for the loops over nodes.
_LOOPS = (NodeFilterPlugin.filter, NodeScorePlugin.score)
_INTERFACE = (Plugin.__module__, NodeFilterPlugin.__module__)


class Guard(Protocol):
    """Calls plugins: a `HangGuard` in a running scheduler, `InterruptedCalls` in a replay."""

    #: (plugin, point) of everything that is called through it.
    guarded: set[tuple[str, str]]
    #: Whether there is any.
    in_use: bool

    def call(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any], /
    ) -> Any:
        """Call a plugin; raises PluginTimeoutError if the call is interrupted."""

    async def wait(
        self, plugin: str, point: str, function: Callable[..., Any], args: tuple[Any, ...], keys: Mapping[str, Any], /
    ) -> Any:
        """`call` for asynchronous methods."""


def guarded_registry(plugins: Iterable[type[Plugin]], guard: Guard) -> Registry:
    """The in-tree plugins and these, which are called through the guard."""
    in_tree = in_tree_registry()
    return guarded(Registry((*in_tree, *plugins)), in_tree, guard)


def guarded(registry: Registry, in_tree: Registry, guard: Guard) -> Registry:
    """The registry with every plugin guarded that is not in-tree."""
    ours = set(in_tree)
    found = Registry()
    for plugin in registry:
        if plugin in ours:
            found.register(plugin, registry.declarations[plugin.name])
        else:
            guard.in_use = True
            found.register(guarded_plugin(plugin, guard), registry.declarations[plugin.name])
    return found


def guarded_plugin(plugin: type[Plugin], guard: Guard) -> type[Plugin]:
    """A subclass with the same name and behavior."""
    members: dict[str, Any] = {name: getattr(plugin, name) for name in ("__module__", "__qualname__", "__doc__")}
    for name, point in _POINTS.items():
        if _is_own(plugin, name):
            method = checked_method(name, getattr(plugin, name))
            # Each step is guarded, not the waits between them.
            guarding = _stepwise if isgeneratorfunction(method) else _guarded
            members[name] = guarding(guard, plugin.name, point, method)
    if _is_own(plugin, _IN_TREE_ONLY):
        members[_IN_TREE_ONLY] = CountsPods.guaranteed_feasible_sets
    # Explicitly, as they would be reset because of the new methods.
    kept = (name for name in ABOUT if name not in members and hasattr(plugin, name))
    members |= {name: getattr(plugin, name) for name in kept}
    for name, point in _ASYNCHRONOUS.items():
        if _is_own(plugin, name):
            method = getattr(plugin, name)
            guarding = _stepwise if isgeneratorfunction(method) else _waited_for
            members[name] = guarding(guard, plugin.name, point, method)
    if _is_own(plugin, _REGISTERING):
        members[_REGISTERING] = _registering(guard, plugin.name, getattr(plugin, _REGISTERING))
    if _is_own(plugin, _EXPLAINING):
        members[_EXPLAINING] = _explaining(guard, plugin.name, getattr(plugin, _EXPLAINING))
    keys = {"metaclass": _standing_in_for(plugin)}
    return cast("type[Plugin]", new_class(plugin.__name__, (plugin,), keys, lambda body: body.update(members)))


def _standing_in_for(plugin: type[Plugin]) -> type:
    """A metaclass whose classes have no attributes of their own: assignments go to the plugin class."""

    def __setattr__(cls: type, name: str, value: object) -> None:
        # Python's own: `_abc_impl`, `__abstractmethods__`.
        type.__setattr__(cls if name.startswith(("_abc_", "__")) else plugin, name, value)

    return type("StandIn", (type(plugin),), {"__setattr__": __setattr__})


def _is_own(plugin: type[Plugin], name: str) -> bool:
    method = getattr(plugin, name, None)
    return callable(method) and (getattr(method, "__module__", "") not in _INTERFACE or method in _LOOPS)


def _guarded(guard: Guard, plugin: str, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
    call = guard.call
    guard.guarded.add((plugin, point))

    @wraps(method)
    def calling(*args: Any, **keys: Any) -> Any:
        return call(plugin, point, method, args, keys)

    return calling


def _waited_for(guard: Guard, plugin: str, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
    guard.guarded.add((plugin, point))

    @wraps(method)
    async def waiting(*args: Any, **keys: Any) -> Any:
        return await guard.wait(plugin, point, awaited, (method, *args), keys)

    return waiting


def _stepwise(guard: Guard, plugin: str, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
    guard.guarded.add((plugin, point))

    @wraps(method)
    def stepping(*args: Any, **keys: Any) -> Any:
        return (yield from stepwise(guard.call, plugin, point, method(*args, **keys)))

    return stepping


def _explaining(guard: Guard, plugin: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Guard the methods of the explanation, which a running scheduler's pages call on the event loop."""
    guard.guarded.add((plugin, _EXPLANATION))

    def guarding(call: Callable[..., Any]) -> Callable[..., Any]:
        return _guarded(guard, plugin, _EXPLANATION, call)

    def listing(call: Callable[..., Any]) -> Callable[..., Any]:
        # A generator would run outside the guard.
        return guarding(lambda *args: list(call(*args)))

    def remedying(call: Callable[..., Any]) -> Callable[..., Any]:
        asked = guarding(call)

        def remedy(*args: Any) -> Any:
            found = asked(*args)
            if found is not None:
                found.ways = listing(found.ways)
            return found

        return remedy

    @wraps(method)
    def explaining(*args: Any, **keys: Any) -> Any:
        found = guard.call(plugin, _EXPLANATION, method, args, keys)
        if found is not None:
            for name in _TEXTS:
                setattr(found, name, guarding(getattr(found, name)))
            for name in _LISTS:
                setattr(found, name, listing(getattr(found, name)))
            found.remedy = remedying(found.remedy)
        return found

    return explaining


def _registering(guard: Guard, plugin: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Guard the hints as well."""
    guard.guarded.add((plugin, _EVENTS))

    @wraps(method)
    def registering(*args: Any, **keys: Any) -> Any:
        return tuple(map(hinting, guard.call(plugin, _EVENTS, method, args, keys)))

    def hinting(registered: Any) -> Any:
        if not isinstance(registered, ClusterEventWithHint) or registered.hint is None:
            return registered
        return replace(registered, hint=_guarded(guard, plugin, _HINT, registered.hint))

    return registering
