"""The known plugins: in-tree, from installed packages, and named with --plugin."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.app.command_line.named_plugins import named_plugins
from stowplan.drivers.hang_guard.guarded_plugins import Guard, guarded_registry
from stowplan.scheduler.framework.runtime.registry import Registry, installed_plugins
from stowplan.scheduler.in_tree.registry import in_tree_registry


def registry_with(paths: Sequence[str], *, guard: Guard | None = None) -> Registry:
    """The registry, with user plugins called through the guard if there is one; raises PluginLoadError."""
    # A named plugin may also be installed; it is registered once.
    plugins = dict.fromkeys((*installed_plugins(), *named_plugins(paths)))
    if guard is not None:
        return guarded_registry(plugins, guard)
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    return registry
