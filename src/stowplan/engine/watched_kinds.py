"""What a scheduler watches: which kinds, and what becomes of its plugins where a cluster does not serve one.

Pods, nodes and namespaces every scheduler needs. Of the others a kind is watched when an enabled plugin reads it, or
when a plugin, perhaps a user's, registered events of it. A plugin that reads a kind either cannot work without it and
is switched off while the cluster does not serve it, or goes on as in a cluster that has no such objects.

Upstream: pkg/scheduler/eventhandlers.go (addAllEventHandlers) and the plugins' factories; cache-and-events.md §5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stowplan.api import types as t
from stowplan.api.custom_objects import CustomObject, custom_resource
from stowplan.framework.events import ANY, ASSIGNED_POD, EVERYTHING, NODE, POD, RESOURCES, UNSCHEDULABLE_POD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stowplan.api.meta import ApiStruct
    from stowplan.framework.runtime import Framework

#: Finished pods leave as if they were deleted.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"

#: Kinds that every API server has; without them there is nothing to do but wait.
CORE: tuple[type[ApiStruct], ...] = (t.Node, t.Pod, t.Namespace)

#: Kind -> plugins that cannot do their work without it.
_NEEDED_BY: dict[type[ApiStruct], tuple[str, ...]] = {
    t.PersistentVolumeClaim: ("VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"),
    t.PersistentVolume: ("VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"),
    t.StorageClass: ("VolumeBinding", "VolumeZone"),
    t.CSINode: ("NodeVolumeLimits", "VolumeBinding"),
    t.CSIDriver: ("VolumeBinding", "NodeVolumeLimits"),
    t.CSIStorageCapacity: ("VolumeBinding",),
    t.VolumeAttachment: ("NodeVolumeLimits",),
    t.ResourceClaim: ("DynamicResources",),
    t.ResourceSlice: ("DynamicResources",),
    t.DeviceClass: ("DynamicResources",),
}
#: Kind -> plugins for which a cluster without the kind is one without such objects.
_READ_BY: dict[type[ApiStruct], tuple[str, ...]] = {
    t.PodDisruptionBudget: ("DefaultPreemption",),
    t.Service: ("PodTopologySpread",),
    t.ReplicationController: ("PodTopologySpread",),
    t.ReplicaSet: ("PodTopologySpread",),
    t.StatefulSet: ("PodTopologySpread",),
}
_KIND_OF = {resource: kind for kind, resource in RESOURCES.items()}
#: Events of these come from kinds that are watched anyway.
_ALWAYS = frozenset((POD, ASSIGNED_POD, UNSCHEDULABLE_POD, NODE))


@dataclass(frozen=True, slots=True)
class WatchedKind:
    kind: type[ApiStruct]
    #: Enabled plugins that are switched off while the cluster does not serve the kind.
    needed_by: frozenset[str] = frozenset()
    #: Enabled plugins that go on without.
    read_by: frozenset[str] = frozenset()

    @property
    def core(self) -> bool:
        return self.kind in CORE

    @property
    def field_selector(self) -> str:
        return UNFINISHED if self.kind is t.Pod else ""


def watched_kinds(frameworks: Iterable[Framework], *, report: Callable[[str], None]) -> tuple[WatchedKind, ...]:
    """The kinds that these profiles need, the core ones first; `report` hears of events of what is no resource."""
    profiles = tuple(frameworks)
    enabled = frozenset(name for framework in profiles for name in framework.plugins)
    spreading = frozenset(name for framework in profiles for name in _spreading_by_default(framework))
    registered = _registered(profiles, report)
    found = [WatchedKind(kind) for kind in CORE]
    for kind, plugins in _NEEDED_BY.items():
        needed_by = enabled & frozenset(plugins)
        if needed_by or kind in registered:
            found.append(WatchedKind(kind, needed_by))
    for kind, plugins in _READ_BY.items():
        read_by = enabled & frozenset(plugins) if kind is t.PodDisruptionBudget else spreading
        if read_by:
            found.append(WatchedKind(kind, read_by=read_by))
    custom = {kind: names for kind, names in registered.items() if issubclass(kind, CustomObject)}
    return (*found, *(WatchedKind(kind, frozenset(names)) for kind, names in custom.items()))


def _spreading_by_default(framework: Framework) -> Iterator[str]:
    """Plugins that look for the owners of pods, as they have constraints for pods without."""
    plugin = framework.plugins.get("PodTopologySpread")
    if plugin is not None and (plugin.args.defaulting_type == "System" or plugin.args.default_constraints):
        yield plugin.name


def _registered(frameworks: Iterable[Framework], report: Callable[[str], None]) -> dict[type[ApiStruct], set[str]]:
    """Kind -> plugins that registered events of it, beyond those that are watched anyway."""
    found: dict[type[ApiStruct], set[str]] = {}
    wrong: set[tuple[str, str]] = set()
    for framework in frameworks:
        for plugin, events in framework.registered_events(implied=False).items():
            for resource in _spelt_out(registered.event.resource for registered in events):
                kind = _kind_of(resource)
                if kind is not None:
                    found.setdefault(kind, set()).add(plugin)
                else:
                    wrong.add((plugin, resource))
    for plugin, resource in sorted(wrong):
        report(f"Incorrect event registration: plugin {plugin}: {resource!r} is not <plural>.<version>.<group>")
    return found


def _spelt_out(resources: Iterable[str]) -> set[str]:
    """The resources but for those that are always watched; ANY is all that there are events of."""
    found = set(resources)
    if ANY in found:
        found |= {registered.event.resource for registered in EVERYTHING}
    return found - _ALWAYS - {ANY}


def _kind_of(resource: str) -> type[ApiStruct] | None:
    """The kind that is behind an event's resource; None if it names none."""
    try:
        return _KIND_OF.get(resource) or custom_resource(resource)
    except ValueError:
        return None
