"""The registry of the plugins that come with the scheduler."""

from __future__ import annotations

from importlib import import_module

from stowplan.framework.registry import Registry
from stowplan.in_tree.discovery import declarations, folders


def in_tree_registry() -> Registry:
    """All in-tree plugins, whatever their feature gates say; configurations may name any."""
    registry = Registry()
    for name, declaration in declarations().items():
        module = import_module(f"{folders()[name]}.plugin")
        registry.register(getattr(module, name), declaration)
    return registry
