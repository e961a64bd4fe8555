"""The kinds to watch, and the plugins to disable if a kind is not served.

Every scheduler needs pods, nodes and namespaces. Another kind is watched if an enabled plugin declares that it needs or
reads it, or registered events of it. A plugin that needs a kind is disabled while the cluster does not serve it; one
that reads it works as in a cluster without such objects.

Upstream: pkg/scheduler/eventhandlers.go (addAllEventHandlers) and the plugins' factories;
docs/reference/behaviour.md, Informers and kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeGuard

from stowplan.kube.api import types as t
from stowplan.kube.api.custom_objects import CustomObject, custom_resource
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.klog import get_logger
from stowplan.scheduler.engine.watched_kind import CORE, WatchedKind
from stowplan.scheduler.framework.boundary import call
from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.events import (
    ANY,
    ASSIGNED_POD,
    EVERYTHING,
    NODE,
    POD,
    RESOURCES,
    TARGET_POD,
    UNSCHEDULABLE_POD,
    UNSCHEDULED_POD,
)
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.sources import Source
from stowplan.scheduler.framework.status import typed

_log = get_logger(__name__)

#: Kind -> names of plugins.
_Plugins = dict[type[ApiStruct], set[str]]

_KIND_OF = {resource: kind for kind, resource in RESOURCES.items()}
#: Events of kinds that are always watched.
_ALWAYS = frozenset((POD, ASSIGNED_POD, UNSCHEDULABLE_POD, UNSCHEDULED_POD, TARGET_POD, NODE))


def watched_kinds(frameworks: Iterable[Framework], *, report: Callable[[str], None]) -> tuple[WatchedKind, ...]:
    """The kinds that these profiles need, the core ones first; `report` gets registrations for unknown resources."""
    profiles = tuple(frameworks)
    needed, read = _declared(profiles)
    sources: dict[type[ApiStruct], tuple[Source, ...]] = {}
    for source in measured_sources(profiles):
        sources[source.kind] = (*sources.get(source.kind, ()), source)
    registered = _registered(profiles, report, {kind.resource: kind for kind in (*needed, *read) if _is_custom(kind)})
    for kind, names in registered.items():
        # A plugin that registers for a custom resource depends on it; events of a built-in kind only requeue pods.
        waiting = names - read.get(kind, set()) if _is_custom(kind) else set()
        needed.setdefault(kind, set()).update(waiting)
    unread: set[type[ApiStruct]] = set(CORE)
    if any(framework.handle.cluster.declared_groups.alone for framework in profiles):
        unread.add(t.PodGroup)
    found = (
        WatchedKind(kind, frozenset(needed.get(kind, ())), frozenset(read.get(kind, ())), sources=sources.get(kind, ()))
        for kind in dict.fromkeys((*needed, *read))
        if kind not in unread
    )
    return (*(WatchedKind(kind) for kind in CORE), *found)


def measured_sources(frameworks: Iterable[Framework]) -> list[Source]:
    """What is measured for the plugins of these profiles."""
    found: dict[Source, None] = {}
    everyone = (plugin for framework in frameworks for plugin in framework.plugins.values())
    # Nearly none has any.
    for plugin in (plugin for plugin in everyone if type(plugin).sources is not Plugin.sources):
        failed, at = partial(_unmeasured, plugin.name), ("Sources", plugin)
        found |= dict.fromkeys(call(plugin.sources, check=tuple, required=True, failed=failed, at=at))
    return list(found)


def _unmeasured(plugin: str, why: BaseException, by: Callable[..., Any]) -> tuple[Source, ...]:
    problem = "A plugin failed to say what is measured for it, and goes without"
    _log.error(None, problem, plugin=plugin, cause=typed(why))
    return ()


def _declared(frameworks: Iterable[Framework]) -> tuple[_Plugins, _Plugins]:
    """Kind -> enabled plugins that need it, and kind -> those that read it."""
    needed: _Plugins = {}
    read: _Plugins = {}
    for framework in frameworks:
        if framework.handle.features.enabled("GenericWorkload"):
            # Read by the scheduler itself.
            read.setdefault(t.PodGroup, set())
            if framework.handle.cluster.group_trees.exist:
                read.setdefault(t.CompositePodGroup, set())
        for name, declaration in framework.declarations.items():
            for kind in declaration.needs:
                needed.setdefault(kind, set()).add(name)
            for kind in declaration.kinds_read(framework.plugins[name].args):
                read.setdefault(kind, set()).add(name)
    return needed, read


def _registered(
    frameworks: Iterable[Framework], report: Callable[[str], None], declared: Mapping[str, type[ApiStruct]]
) -> _Plugins:
    """Kind -> plugins that registered events of it, except for kinds that are always watched.

    `declared` are the types that plugins have declared for custom resources: they say whether these have namespaces.
    """
    found: _Plugins = {}
    wrong: set[tuple[str, str]] = set()
    for framework in frameworks:
        for plugin, events in framework.registered_events(implied=False).items():
            for resource in sorted(_spelt_out(registered.event.resource for registered in events)):
                kind = declared.get(resource) or _kind_of(resource)
                if kind is not None:
                    found.setdefault(kind, set()).add(plugin)
                else:
                    wrong.add((plugin, resource))
    for plugin, resource in sorted(wrong):
        report(f"Incorrect event registration: plugin {plugin}: {resource!r} is not <plural>.<version>.<group>")
    return found


def _is_custom(kind: type[ApiStruct]) -> TypeGuard[type[CustomObject]]:
    return issubclass(kind, CustomObject)


def _spelt_out(resources: Iterable[str]) -> set[str]:
    """The resources except for those that are always watched; ANY is expanded to all."""
    found = set(resources)
    if ANY in found:
        found |= {registered.event.resource for registered in EVERYTHING}
    return found - _ALWAYS - {ANY}


def _kind_of(resource: str) -> type[ApiStruct] | None:
    """The kind of an event's resource; None if it names none."""
    try:
        return _KIND_OF.get(resource) or custom_resource(resource)
    except ValueError:
        return None
