"""Which plugins are called through a guard: all that are not in-tree.

Constructors are not guarded: they may be slow, which is visible at startup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from stowplan.scheduler.framework import declarations
from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.interface import extension_points
from stowplan.scheduler.framework.runtime.registry import Registry, installed_plugins
from stowplan.scheduler.in_tree.registry import in_tree_registry


class Guard(declarations.Guard, Protocol):
    """A `HangGuard` in a running scheduler, `InterruptedCalls` in a replay."""

    #: (plugin, extension point) of everything that may be called through it.
    guarded: set[tuple[str, str]]
    #: Whether there is any.
    in_use: bool


def guarded_registry(plugins: Iterable[type[Plugin]], guard: Guard) -> Registry:
    """The in-tree plugins and these, which are called through the guard."""
    registry = in_tree_registry()
    register_guarded(registry, plugins, guard)
    return registry


def registry_with_installed(plugins: Iterable[type[Plugin]], guard: Guard | None) -> Registry:
    """Also the plugins of installed packages, which are imported when a configuration names them."""
    registry = in_tree_registry()

    def register(load: Callable[[], type[Plugin]]) -> None:
        register_guarded(registry, [load()], guard)

    for name, load in installed_plugins().items():
        registry.offer(name, partial(register, load))
    register_guarded(registry, plugins, guard)
    return registry


def register_guarded(registry: Registry, plugins: Iterable[type[Plugin]], guard: Guard | None) -> None:
    """Register each once; None: nobody calls them."""
    for plugin in dict.fromkeys(plugins):
        registry.register(plugin)
        if guard is None:
            continue
        registry.guards[plugin.name] = guard
        guard.in_use = True
        # In metrics from the start: an increase is not visible in a series that starts with it.
        guard.guarded |= {(plugin.name, point[0].upper() + point[1:]) for point in extension_points(plugin)}
