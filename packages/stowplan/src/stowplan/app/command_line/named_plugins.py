"""Plugin classes named with --plugin."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.runtime.registry import load_plugin


def named_plugins(paths: Sequence[str]) -> list[type[Plugin]]:
    """The classes of `module:Class` paths."""
    if paths:
        allow_current_directory()
    return [load_plugin(path) for path in paths]


def allow_current_directory() -> None:
    """As with `python -m`: allows modules of the current directory."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def plugin_names(paths: Sequence[str]) -> list[str]:
    """Their names in configurations."""
    return [plugin.name for plugin in named_plugins(paths)]
