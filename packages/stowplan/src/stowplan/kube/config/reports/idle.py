"""Detect settings without effect, which the reference accepts silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.kube.config.plugins import ALL
from stowplan.kube.config.schema import POINTS
from stowplan.kube.config.suggestions import unknown_plugin_hint
from stowplan.kube.config.unused import unknown_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.kube.config.declaration import Declarations
    from stowplan.kube.config.load import Loaded
    from stowplan.kube.config.types import Profile


def idle_settings(loaded: Loaded, plugins: Declarations) -> Iterator[str]:
    if loaded.upgrade is not None and loaded.upgrade.origin:
        # The paths would be those of the converted file, and the conversion has already warned.
        return
    yield from unknown_arguments(loaded.fields, plugins)
    for i, given in enumerate(loaded.fields.get("profiles") or ()):
        profile = loaded.configuration.profiles[i]
        yield from _disabled(f"profiles[{i}].plugins", given.get("plugins", {}), plugins)
        yield from _weights(f"profiles[{i}].plugins", given.get("plugins", {}))
        yield from _arguments(f"profiles[{i}].pluginConfig", given.get("pluginConfig", ()), profile, plugins)
    election = loaded.fields.get("leaderElection", {})
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
