"""Suggestions shown along with the reference's error messages.

The reference's messages say what is wrong, but seldom how to fix it. A hint names the most similar field, plugin or
extension point, the replacement of a plugin, or how to load one.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from stowplan.kube.config.config_documents import members_of
from stowplan.kube.config.config_errors import nearest
from stowplan.kube.config.configuration import Configuration
from stowplan.kube.config.declaration import Declarations, loaded
from stowplan.kube.config.schema import Pointer, Slice, Struct, Type

# Plugins of other projects that published configurations name.
#
# They are written in Go and compiled into those projects' own schedulers. A user of such a configuration should be
# told so, and what to do, instead of that the plugin does not exist.

_SCHEDULER_PLUGINS = "scheduler-plugins (sigs.k8s.io/scheduler-plugins)"
_KOORDINATOR = "Koordinator"

_PROJECTS = {
    _SCHEDULER_PLUGINS: """
        CapacityScheduling Coscheduling CrossNodePreemption Diktyo LoadVariationRiskBalancing LowRiskOverCommitment
        NetworkOverhead NodeMetadata NodeResourceTopologyMatch NodeResourcesAllocatable Peaks PodState
        PreemptionToleration QOSSort SySched TargetLoadPacking TopologicalSort
    """,
    _KOORDINATOR: """
        Coscheduling DefaultPreBind DeviceShare ElasticQuota LoadAwareScheduling NetworkTopology NodeNUMAResource
        NodeResourcesFitPlus Preemption Reservation ScarceResourceAvoidance SchedulingHint
    """,
    "Apache YuniKorn": "YuniKornPlugin",
    "the Alibaba Cloud GPU sharing extender": "GPUShare Gpushare",
    "HAMi": "HAMi",
    "Crane": "Dynamic NodeResourceTopology",
    "Katalyst": "QoSAwareNodeResourcesBalancedAllocation QoSAwareNodeResourcesFit",
}

#: Of scheduler-plugins, what the distribution stowplan-scheduler-plugins does not have.
_NOT_DISTRIBUTED = frozenset({"CrossNodePreemption", "Diktyo"})

#: Plugin -> projects that have one of that name.
FOREIGN_PLUGINS: dict[str, tuple[str, ...]] = {}
for _project, _names in _PROJECTS.items():
    for _name in _names.split():
        FOREIGN_PLUGINS[_name] = (*FOREIGN_PLUGINS.get(_name, ()), _project)


#: More would hide the message.
MAX_HINTS = 10
_HOW_TO_LOAD = (
    "a plugin of your own is loaded with --plugin MODULE:CLASS (in Python: plugins=[CLASS]), or from an installed "
    "package by an entry point of the group stowplan.plugins (docs/extend/plugins.md)"
)


# --- fields


def field_hints(schema: Type, value: object, path: str = "") -> Iterator[str]:
    """For each unknown field of a struct: the most similar one, or where a field of that name exists."""
    match schema:
        case Pointer(item=item):
            yield from field_hints(item, value, path)
        case Slice(item=item) if isinstance(value, list):
            for i, element in enumerate(value):
                yield from field_hints(item, element, f"{path}[{i}]")
        case Struct() if isinstance(value, dict):
            for key, element in members_of(value):
                inner = f"{path}.{key}" if path else key
                if key in schema.fields:
                    yield from field_hints(schema.fields[key].type, element, inner)
                else:
                    yield _field_hint(schema, key, inner)


def _field_hint(schema: Struct, name: str, path: str) -> str:
    known = [field for field, its in schema.fields.items() if its.via != "TypeMeta"]
    found = nearest(name, known)
    if found is not None:
        return f"{path}: did you mean {found}?"
    if len(known) > MAX_HINTS:
        return f"{path}: there is no such field; stowplan config explain lists all fields"
    return f"{path}: known fields are {', '.join(known)}"


def misplaced_field_hints(root: Struct, value: object) -> Iterator[str]:
    """For unknown top-level fields: where in the configuration a field of that name exists."""
    if not isinstance(value, dict):
        return
    places = dict(_places(root, ""))
    for key, _ in members_of(value):
        if key not in root.fields and key in places:
            yield f"{key}: it belongs to {places[key]}"


def _places(type_: Type, path: str) -> Iterator[tuple[str, str]]:
    """(field, path of its struct); structs near the top last, as later entries win in a dict."""
    match type_:
        case Pointer(item=item):
            yield from _places(item, path)
        case Slice(item=item):
            yield from _places(item, f"{path}[]")
        case Struct(fields=fields):
            for name, field in fields.items():
                yield from _places(field.type, f"{path}.{name}" if path else name)
            yield from ((name, path) for name in fields)


# --- plugins


def plugin_hints(configuration: Configuration, known: Declarations) -> list[str]:
    """For each enabled plugin that does not exist, or cannot run at its point."""
    misused = dict.fromkeys(_misused_plugins(configuration, known))
    return [_plugin_hint(name, point, known) for name, point in islice(misused, MAX_HINTS)]


def _misused_plugins(configuration: Configuration, known: Declarations) -> Iterator[tuple[str, str]]:
    """(plugin, point that it does not implement); "" as the point for a plugin that does not exist."""
    for profile in configuration.profiles:
        for point, plugin_set in profile.plugins.by_point():
            for plugin in plugin_set.enabled:
                if plugin.name not in known:
                    yield plugin.name, ""
                elif point != "multiPoint" and point not in known[plugin.name].points:
                    yield plugin.name, point


def _plugin_hint(name: str, point: str, known: Declarations) -> str:
    if not point:
        return unknown_plugin_hint(name, known)
    return f"{name} does not run at {point}, but at {', '.join(sorted(known[name].points))}"


def unknown_plugin_hint(name: str, known: Declarations) -> str:
    for declaration in loaded(known):
        if name in declaration.replaces:
            return f"{name}: {declaration.name} does its work today: {declaration.replaces[name]}"
    if _SCHEDULER_PLUGINS in FOREIGN_PLUGINS.get(name, ()) and name not in _NOT_DISTRIBUTED:
        return f"{name} is a plugin of {_SCHEDULER_PLUGINS}: the distribution stowplan-scheduler-plugins has it"
    if name in FOREIGN_PLUGINS:
        whose = " and of ".join(FOREIGN_PLUGINS[name])
        return (
            f"{name} is a plugin of {whose}, which is compiled into their scheduler; Stowplan runs plugins written in "
            f"Python: {_HOW_TO_LOAD}"
        )
    found = nearest(name, known)
    return f"{name}: {_HOW_TO_LOAD}" if found is None else f"{name}: did you mean {found}? Else, {_HOW_TO_LOAD}"


# --- headers


def header_hints(value: object, kinds: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The correct apiVersion and kind; `kinds`: kind -> its versions, the newest first."""
    found: Mapping[str, Any] = value if isinstance(value, dict) else {}
    kind, api_version = found.get("kind"), found.get("apiVersion")
    if not isinstance(kind, str) or not kind or not isinstance(api_version, str) or not api_version:
        wanted, versions = next(iter(kinds.items()))
        yield f"a configuration begins with apiVersion: {versions[0]} and kind: {wanted}"
        return
    meant = kind if kind in kinds else nearest(kind, kinds)
    if meant is None:
        return
    if meant != kind:
        yield f"kind: did you mean {meant}?"
    if api_version not in kinds[meant]:
        yield f"apiVersion: {meant} has the versions {', '.join(kinds[meant])}"
