"""Removed plugins and their replacements.

- Volume limits of single clouds: NodeVolumeLimits counts those volumes as their CSI drivers'.
- SelectorSpread: PodTopologySpread's system defaults spread the pods of a workload.
- NodeResourcesLeastAllocated, NodeResourcesMostAllocated, RequestedToCapacityRatio: strategies of NodeResourcesFit,
  which has one at a time; several score as they did, as legacy plugins of our own.
- NodeLabel, NodePreferAvoidPods, ServiceAffinity: legacy plugins of our own behave the same.
- NodeResourceLimits: rejected.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from stowplan.kube.api.field_errors import aggregate
from stowplan.kube.config.config_errors import ConfigError, invalid
from stowplan.kube.config.older.draft import (
    Draft,
    Json,
    args_of,
    config_of,
    config_path,
    enabled_at,
    given_args,
    plugin_path,
)
from stowplan.kube.config.older.older_schemas import api_version
from stowplan.kube.config.schema import POINTS
from stowplan.kube.config.suggestions import MAX_HINTS, unknown_plugin_hint

_LIMITS = ("EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits")
_SPREADING = ("SelectorSpread", "DefaultPodTopologySpread")
#: Plugin -> strategy of NodeResourcesFit.
STRATEGIES = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
REFUSED = {
    "NodeResourceLimits": "is not supported: it was an alpha feature that never became more; remove it",
}
_REMOVED_IN_V1BETA2 = frozenset({"NodeLabel", "ServiceAffinity", "NodePreferAvoidPods", *STRATEGIES})


def check_removed(draft: Draft) -> None:
    """Raise ConfigError for plugins that the file's version no longer had, and for those that we lack."""
    found = [removed for path, profile in draft.profiles() for removed in _removed(draft, path, profile)]
    if found:
        names = dict.fromkeys(name for name, _ in found if name not in REFUSED)
        hints = (unknown_plugin_hint(name, draft.plugins) for name in names)
        raise ConfigError(aggregate([problem for _, problem in found]), *islice(hints, MAX_HINTS))


def _removed(draft: Draft, path: str, profile: Json) -> Iterator[tuple[str, str]]:
    """(plugin, problem)."""
    for point in POINTS:
        for i, plugin in enumerate(enabled_at(profile, point)):
            name = plugin.get("name", "")
            where = f"{path}.plugins.{point}.enabled[{i}]"
            if draft.origin in ("v1beta2", "v1beta3") and name in _REMOVED_IN_V1BETA2:
                own = f"KubeSchedulerConfiguration is version {_quoted(draft.origin)}"
                yield name, invalid(where, name, f"was removed in version {_quoted('v1beta2')} ({own})")
            elif name in REFUSED:
                yield name, invalid(where, name, REFUSED[name])


def _quoted(version: str) -> str:
    return f'"{api_version(version)}"'


# --- direct replacements


def rename_plugins(draft: Draft) -> None:
    names = _replacements(draft)
    for path, profile in draft.profiles():
        spreads = any(plugin.get("name") in _SPREADING for plugin in enabled_at(profile, "score"))
        for point in POINTS:
            if point in profile.get("plugins", {}):
                _rename_at(draft, path, point, profile["plugins"][point], names)
        _rename_configs(draft, path, profile, names)
        if spreads:
            _spread_by_system_defaults(draft, path, profile)


def _replacements(draft: Draft) -> dict[str, str]:
    """Plugins that are replaced one to one; strategies of a plugin are set in its arguments."""
    return {
        old: declaration.name
        for declaration in draft.plugins.values()
        for old in declaration.replaces
        if old not in STRATEGIES
    }


def _rename_at(draft: Draft, path: str, point: str, plugin_set: Json, names: dict[str, str]) -> None:
    if "enabled" in plugin_set:
        renamed: dict[str, set[str]] = {}
        kept = []
        for plugin in plugin_set["enabled"]:
            old = plugin.get("name", "")
            new = names.get(old, old)
            if new != old:
                draft.move(plugin_path(path, point, old), plugin_path(path, point, new))
                draft.explain(plugin_path(path, point, new), f"instead of {old}: {draft.plugins[new].replaces[old]}")
            # One plugin may replace several; a plugin that the file itself lists twice is an error, as it was then.
            if new not in renamed or old in renamed[new]:
                kept.append({**plugin, "name": new})
            renamed.setdefault(new, set()).add(old)
        plugin_set["enabled"] = kept
    gone = [plugin["name"] for plugin in plugin_set.get("disabled", ()) if plugin.get("name") in _LIMITS]
    if gone:
        text = f"{', '.join(gone)} can no longer be disabled alone: NodeVolumeLimits counts the volumes of all clouds"
        draft.warn(f"{path}.plugins.{point}", text)
        plugin_set["disabled"] = [plugin for plugin in plugin_set["disabled"] if plugin.get("name") not in gone]


def _rename_configs(draft: Draft, path: str, profile: Json, names: dict[str, str]) -> None:
    kept = []
    for entry in profile.get("pluginConfig", ()):
        name = entry.get("name", "")
        if name in _LIMITS or name in _SPREADING or name in REFUSED:
            draft.warn(f"{path}.pluginConfig", f"arguments of {name} left out: the plugin no longer exists")
        elif name in STRATEGIES:
            draft.warn(f"{path}.pluginConfig", f"arguments of {name} left out: it is not enabled")
        else:
            new = names.get(name, name)
            kept.append({**entry, "name": new})
            draft.move(config_path(path, name), config_path(path, new))
            if new != name:
                draft.explain(config_path(path, new), f"instead of {name}")
    if "pluginConfig" in profile:
        profile["pluginConfig"] = kept


def _spread_by_system_defaults(draft: Draft, path: str, profile: Json) -> None:
    args = given_args(profile, "PodTopologySpread")
    if args.get("defaultConstraints"):
        text = "replaces SelectorSpread, but has constraints of its own, which hold instead of the system's"
        draft.warn(config_path(path, "PodTopologySpread"), text)
        return
    if args.get("defaultingType", "System") != "System":
        args["defaultingType"] = "System"
        draft.explain(config_path(path, "PodTopologySpread"), "instead of SelectorSpread")


# --- scoring by resources


def use_scoring_strategies(draft: Draft) -> None:
    """Convert plugins that are now strategies of NodeResourcesFit, which has one at a time."""
    for path, profile in draft.profiles():
        scorers = [plugin for plugin in enabled_at(profile, "score") if plugin.get("name") in STRATEGIES]
        if not scorers:
            continue
        _check_conflict(draft, path, profile, scorers[0]["name"])
        if len(scorers) > 1:
            _keep_scorers(draft, path, profile, scorers)
        else:
            _use_strategy(draft, path, profile, scorers[0])


def _check_conflict(draft: Draft, path: str, profile: Json, scorer: str) -> None:
    names = [plugin.get("name", "") for plugin in enabled_at(profile, "score")]
    if "NodeResourcesFit" in names:
        version = _quoted(draft.origin)
        reason = f'was conflict with "{scorer}" in version {version} (KubeSchedulerConfiguration is version {version})'
        where = f"{path}.plugins.score.enabled[{names.index('NodeResourcesFit')}]"
        raise ConfigError(invalid(where, "NodeResourcesFit", reason))


def _keep_scorers(draft: Draft, path: str, profile: Json, scorers: list[Json]) -> None:
    """Several plugins keep their weights, as plugins of our own; NodeResourcesFit then does not score."""
    names = dict.fromkeys(plugin["name"] for plugin in scorers)
    for plugin in scorers:
        plugin["name"] = _kept(plugin["name"])
    for name in names:
        place = plugin_path(path, "score", _kept(name))
        draft.move(plugin_path(path, "score", name), place)
        text = f"instead of {name}: NodeResourcesFit has one strategy today; this plugin of Stowplan scores as it did"
        draft.explain(place, text)
        entry = config_of(profile, name)
        if entry is not None:
            entry["name"] = _kept(name)
            draft.move(config_path(path, name), config_path(path, _kept(name)))
            draft.explain(config_path(path, _kept(name)), f"instead of {name}")


def _kept(name: str) -> str:
    return f"Legacy{name}"


def _use_strategy(draft: Draft, path: str, profile: Json, plugin: Json) -> None:
    name = plugin["name"]
    plugin["name"] = "NodeResourcesFit"
    draft.move(plugin_path(path, "score", name), plugin_path(path, "score", "NodeResourcesFit"))
    draft.explain(plugin_path(path, "score", "NodeResourcesFit"), f"instead of {name}, one of its strategies today")
    old = given_args(profile, name)
    place = config_path(path, "NodeResourcesFit")
    has_arguments = config_of(profile, "NodeResourcesFit") is not None
    _take_over_arguments(profile, name)
    draft.move(config_path(path, name), place)
    args_of(profile, "NodeResourcesFit")["scoringStrategy"] = _strategy(name, old)
    draft.explain(f"{place}.args.scoringStrategy" if has_arguments else place, f"scores as {name} did")


def _take_over_arguments(profile: Json, name: str) -> None:
    """Move NodeResourcesFit's entry to the position of the plugin's, so that the others keep theirs."""
    entry = config_of(profile, name)
    if entry is None:
        return
    if config_of(profile, "NodeResourcesFit") is None:
        entry["name"], entry["args"] = "NodeResourcesFit", {}
    else:
        profile["pluginConfig"].remove(entry)


def _strategy(name: str, args: Json) -> Json:
    strategy: dict[str, Any] = {"type": STRATEGIES[name]}
    if args.get("resources"):
        strategy["resources"] = args["resources"]
    if name == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": args.get("shape") or []}
    return strategy
