"""Detect settings and plugins without effect, which the reference accepts silently."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stowplan.kube.config.configuration import Configuration, Profile
from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.plugins import ALL
from stowplan.kube.config.schema import POINTS
from stowplan.kube.config.suggestions import unknown_plugin_hint


def unknown_arguments(fields: Mapping[str, Any], plugins: Declarations) -> Iterator[str]:
    """A message for each entry of pluginConfig in the file without such a plugin."""
    for i, profile in enumerate(fields.get("profiles") or ()):
        for j, entry in enumerate(profile.get("pluginConfig") or ()):
            name = entry.get("name", "")
            if name not in plugins:
                path = f"profiles[{i}].pluginConfig[{j}]"
                yield f"{path}: there is no such plugin, its args have no effect; {unknown_plugin_hint(name, plugins)}"


def unused_plugins(configuration: Configuration, loaded: Collection[str]) -> Iterator[str]:
    """A message for each loaded plugin that no profile enables."""
    running = {ref.name for profile in configuration.profiles for refs in profile.points.values() for ref in refs}
    for name in loaded:
        if name not in running:
            yield (
                f"plugin {name} is loaded, but no profile enables it: "
                "add it to plugins.multiPoint.enabled of a profile in the configuration"
            )


def unused_settings(fields: Mapping[str, Any], configuration: Configuration, plugins: Declarations) -> Iterator[str]:
    """A message for each setting of the file that has no effect."""
    yield from unknown_arguments(fields, plugins)
    for i, given in enumerate(fields.get("profiles") or ()):
        profile = configuration.profiles[i]
        yield from _disabled(f"profiles[{i}].plugins", given.get("plugins", {}), plugins)
        yield from _weights(f"profiles[{i}].plugins", given.get("plugins", {}))
        yield from _arguments(f"profiles[{i}].pluginConfig", given.get("pluginConfig", ()), profile, plugins)
    election = fields.get("leaderElection", {})
    if election.get("leaderElect") is False and len(election) > 1:
        others = ", ".join(name for name in election if name != "leaderElect")
        yield f"leaderElection: {others}: without effect, as leaderElect is false"


def _disabled(path: str, given: dict[str, Any], plugins: Declarations) -> Iterator[str]:
    for point in POINTS:
        for i, plugin in enumerate(given.get(point, {}).get("disabled", ())):
            name = plugin.get("name", "")
            if name not in plugins and name != ALL:
                hint = unknown_plugin_hint(name, plugins)
                yield f"{path}.{point}.disabled[{i}]: there is no such plugin, nothing is disabled; {hint}"


def _weights(path: str, given: dict[str, Any]) -> Iterator[str]:
    for point in POINTS:
        for i, plugin in enumerate(given.get(point, {}).get("enabled", ())):
            if plugin.get("weight") and point not in ("score", "placementScore", "multiPoint"):
                yield f"{path}.{point}.enabled[{i}].weight: without effect, weights count at score"


def _arguments(path: str, given: tuple[dict[str, Any], ...], profile: Profile, plugins: Declarations) -> Iterator[str]:
    running = {ref.name for refs in profile.points.values() for ref in refs}
    for i, entry in enumerate(given):
        name = entry.get("name", "")
        if name in plugins and name not in running:
            yield f"{path}[{i}]: without effect, {name} does not run in this profile"
