"""Detect pluginConfig without a plugin, and loaded plugins that no profile enables.

The reference silently ignores both.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.suggestions import unknown_plugin_hint
from stowplan.kube.config.types import Configuration


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
