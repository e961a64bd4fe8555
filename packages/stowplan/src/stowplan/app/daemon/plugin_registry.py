"""The known plugins: in-tree, from installed packages, and named with --plugin."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.app.command_line.named_plugins import named_plugins
from stowplan.drivers.hang_guard.guarded_plugins import Guard, registry_with_installed
from stowplan.scheduler.framework.runtime.registry import Registry


def registry_with(paths: Sequence[str], *, guard: Guard | None = None) -> Registry:
    """The registry, with user plugins called through the guard if there is one; raises PluginLoadError."""
    return registry_with_installed(named_plugins(paths), guard)
