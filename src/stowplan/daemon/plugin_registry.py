"""The plugins that a command knows: the in-tree ones, those of installed packages, those named with --plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.command_line.named_plugins import named_plugins
from stowplan.daemon.guarded_plugins import guarded
from stowplan.framework.registry import installed_plugins
from stowplan.in_tree.registry import in_tree_registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.daemon.guarded_plugins import Guard
    from stowplan.framework.registry import Registry


def registry_with(paths: Sequence[str], *, guard: Guard | None = None) -> Registry:
    """With users' plugins called through a guard, if there is one; raise PluginLoadError for one that cannot be had."""
    registry = in_tree_registry()
    # A plugin that is named may be installed, too; it joins once.
    for plugin in dict.fromkeys((*installed_plugins(), *named_plugins(paths))):
        registry.register(plugin)
    return registry if guard is None else guarded(registry, in_tree_registry(), guard)
