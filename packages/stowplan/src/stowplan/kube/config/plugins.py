"""Effective plugins per extension point, in order, with weights.

There are two steps. When a profile is defaulted, its sets are merged with the default ones: only `multiPoint` has
defaults; a plugin that is listed again keeps its default position with the user's weight; disabled ones are removed.
When the profile is built, `multiPoint` is expanded: every plugin in it is added to each point that it implements,
unless the point disables it or names it itself. Plugins named at a point are checked strictly; plugins from multiPoint
are skipped at points that they do not implement.

Upstream: pkg/scheduler/apis/config/v1/default_plugins.go, pkg/scheduler/framework/runtime/framework.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from stowplan.kube.config.config_errors import ConfigError
from stowplan.kube.config.configuration import Plugin, PluginRef, Plugins, PluginSet, attribute_of_point
from stowplan.kube.config.declaration import Declarations, enabled_by_default
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import POINTS, points_at
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import KubernetesVersion

_log = get_logger(__name__)

ALL = "*"
_MAX_NODE_SCORE = 100
_MAX_TOTAL_SCORE = 2**63 - 1

#: Points in the order in which the reference builds them, which determines the first error.
BUILD_ORDER = (
    "preFilter",
    "filter",
    "postFilter",
    "reserve",
    "preScore",
    "score",
    "preBind",
    "bind",
    "postBind",
    "permit",
    "preEnqueue",
    "queueSort",
    "placementGenerate",
    "placementScore",
    "podGroupPostFilter",
)

_WEIGHTED = {"score": "score plugins", "placementScore": "placement score plugins"}


# --- defaults and merging


def default_plugins(plugins: Declarations, features: FeatureGates) -> Plugins:
    enabled = (Plugin(name, weight) for name, weight in enabled_by_default(plugins, features))
    return Plugins(multi_point=PluginSet(tuple(enabled)))


def merge_plugins(default: Plugins, custom: Plugins) -> Plugins:
    return Plugins(**{attribute_of_point(point): _merge(default.at(point), custom.at(point)) for point in POINTS})


def _merge(default: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = tuple(plugin.name for plugin in (*custom.disabled, *default.disabled))
    last = {plugin.name: position for position, plugin in enumerate(custom.enabled)}
    merged: list[Plugin] = []
    taken: set[int] = set()
    for plugin in default.enabled if ALL not in disabled else ():
        if plugin.name in disabled:
            continue
        position = last.get(plugin.name)
        if position is None:
            merged.append(plugin)
            continue
        _log.info("Default plugin is explicitly re-configured; overriding", plugin=plugin.name)
        merged.append(custom.enabled[position])
        taken.add(position)
    merged += (plugin for position, plugin in enumerate(custom.enabled) if position not in taken)
    return PluginSet(tuple(merged), tuple(Plugin(name) for name in disabled))


# --- expansion


def expand(plugins: Plugins, known: Declarations, version: KubernetesVersion) -> dict[str, tuple[PluginRef, ...]]:
    """The plugins of each point in call order; raises ConfigError where the reference refuses to start."""
    points = points_at(version)
    built = [point for point in BUILD_ORDER if point in points]
    for point in built:
        _check_point(point, plugins.at(point), known, version)
    names = {point: _expand_point(point, plugins, known, version) for point in built}
    return {point: tuple(PluginRef(name) for name in names[point]) for point in points if point in names}


def with_weights(
    points: Mapping[str, tuple[PluginRef, ...]], plugins: Plugins, known: Declarations
) -> dict[str, tuple[PluginRef, ...]]:
    """Set the weights of plugins at the scoring points."""
    weighted = dict(points)
    for point in _WEIGHTED:
        weights = _weights(point, plugins, known)
        weighted[point] = tuple(PluginRef(ref.name, weights[ref.name]) for ref in points[point])
    return weighted


def _interface(point: str) -> str:
    return f"{point[0].upper()}{point[1:]}Plugin"


def _already_registered(point: str, name: str) -> ConfigError:
    return ConfigError(f'plugin "{name}" already registered as "{_interface(point)}"')


def _does_not_exist(point: str, name: str) -> ConfigError:
    return ConfigError(f'{_interface(point)} "{name}" does not exist')


def _exists(name: str, known: Declarations, version: KubernetesVersion) -> bool:
    return name in known and known[name].since <= version


def _check_point(point: str, plugin_set: PluginSet, known: Declarations, version: KubernetesVersion) -> None:
    seen = set()
    for plugin in plugin_set.enabled:
        if not _exists(plugin.name, known, version):
            raise _does_not_exist(point, plugin.name)
        if point not in known[plugin.name].points:
            raise ConfigError(f'plugin "{plugin.name}" does not extend {_interface(point)} plugin')
        if plugin.name in seen:
            raise _already_registered(point, plugin.name)
        seen.add(plugin.name)


def _expand_point(point: str, plugins: Plugins, known: Declarations, version: KubernetesVersion) -> list[str]:
    specific = [plugin.name for plugin in plugins.at(point).enabled]
    disabled = {plugin.name for plugin in plugins.at(point).disabled}
    extension = f"framework.{_interface(point)}"
    if ALL in disabled:
        text = "Skipped MultiPoint expansion because all plugins are disabled for extension point"
        _log.v(4).info(text, extension=extension)
        return specific
    from_multi_point: dict[str, None] = {}
    overrides = set()
    for name in _multi_point_at(point, plugins, known, version):
        if name in disabled:
            _log.v(4).info("Skipped disabled plugin for extension point", plugin=name, extension=extension)
            continue
        if name in specific:
            _log.info("MultiPoint plugin is explicitly re-configured; overriding", plugin=name)
            overrides.add(name)
        elif name in from_multi_point:
            raise _already_registered(point, name)
        else:
            from_multi_point[name] = None
    first = [name for name in specific if name in overrides]
    return [*first, *from_multi_point, *(name for name in specific if name not in overrides)]


def _multi_point_at(point: str, plugins: Plugins, known: Declarations, version: KubernetesVersion) -> Iterator[str]:
    for plugin in plugins.multi_point.enabled:
        if not _exists(plugin.name, known, version):
            raise _does_not_exist(point, plugin.name)
        if point in known[plugin.name].points:
            yield plugin.name


def _weights(point: str, plugins: Plugins, known: Declarations) -> dict[str, int]:
    weights: dict[str, int] = {}
    total = 0
    for plugin in (*plugins.at(point).enabled, *plugins.multi_point.enabled):
        declaration = known.get(plugin.name)
        if plugin.name in weights or declaration is None or point not in declaration.points:
            continue
        weight = plugin.weight or 1
        # Parity: the reference subtracts in int64, so a negative total overflows and rejects any further plugin.
        if weight * _MAX_NODE_SCORE > _int64(_MAX_TOTAL_SCORE - total):
            raise ConfigError(f"{_WEIGHTED[point]}: total score of Score plugins could overflow")
        weights[plugin.name] = weight
        total += weight * _MAX_NODE_SCORE
    return weights


def _int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


# Set the weight of a score plugin in a profile whose defaults are written out.
#
# It is set where the profile enables the plugin: at `score` if that names it, else at `multiPoint`, else it is added
# to `score`. kube-scheduler treats a weight of 0 as the default, so 0 disables the plugin at `score`.


def set_score_weight(plugins: dict[str, Any], name: str, weight: int) -> None:
    """`plugins` of a profile, which are changed."""
    score = plugins["score"] = dict(plugins.get("score") or {})
    enabled, disabled = list(score.get("enabled") or ()), list(score.get("disabled") or ())
    every = any(one["name"] == "*" for one in disabled)
    if weight == 0:
        enabled = [one for one in enabled if one["name"] != name]
        if not every and all(one["name"] != name for one in disabled):
            disabled.append({"name": name})
    else:
        everywhere = (plugins.get("multiPoint") or {}).get("enabled") or ()
        of_score = [one for one in enabled if one["name"] == name]
        off = every or any(one["name"] == name for one in disabled)
        of_all = [] if off else [one for one in everywhere if one["name"] == name]
        for entry in of_score or of_all:
            entry["weight"] = weight
        if not of_score and not of_all:
            enabled.append({"name": name, "weight": weight})
    plugins["score"] = {key: found for key, found in (("disabled", disabled), ("enabled", enabled)) if found}
