"""The registry of in-tree plugins."""

from __future__ import annotations

from importlib import import_module

from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan.scheduler.in_tree.discovery import DeclarationError, declarations, folders


def in_tree_registry() -> Registry:
    """All in-tree plugins, regardless of their feature gates, as configurations may name any."""
    registry = Registry()
    for name, declaration in declarations().items():
        plugin: type[Plugin] = getattr(import_module(f"{folders()[name]}.plugin"), name)
        if plugin.declaration is not declaration:
            raise DeclarationError(f"class {name} does not have its folder's declaration")
        registry.register(plugin)
    return registry
