"""Plugin names and the classes behind them; users' plugins join from entry points or `module:Class`."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from stowplan.framework.interface import Plugin, extension_points
from stowplan.framework.status import RAISED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.metadata import EntryPoint

#: Entry-point group under which installed packages offer plugins.
ENTRY_POINT_GROUP = "stowplan.plugins"


class PluginLoadError(ValueError):
    """A plugin that was asked for cannot be had; says which, and why."""


class Registry:
    """Name -> plugin class, in order of registration."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        for plugin in plugins:
            self.register(plugin)

    def register(self, plugin: type[Plugin]) -> None:
        if plugin.name in self._plugins:
            raise PluginLoadError(f"a plugin named {plugin.name} already exists")
        self._plugins[plugin.name] = plugin

    def unregister(self, name: str) -> None:
        if name not in self._plugins:
            raise PluginLoadError(f"no plugin named {name} exists")
        del self._plugins[name]

    def merge(self, other: Registry) -> None:
        for plugin in other:
            self.register(plugin)

    def get(self, name: str) -> type[Plugin] | None:
        return self._plugins.get(name)

    def __iter__(self) -> Iterator[type[Plugin]]:
        return iter(self._plugins.values())

    def points(self) -> Mapping[str, frozenset[str]]:
        """Name -> extension points, as the configuration wants to know them."""
        return {name: extension_points(plugin) for name, plugin in self._plugins.items()}


def installed_plugins() -> list[type[Plugin]]:
    """Plugins that installed packages offer."""
    return [_installed(point) for point in entry_points(group=ENTRY_POINT_GROUP)]


def _installed(point: EntryPoint) -> type[Plugin]:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    where = f"entry point {point.name} = {point.value}{package}"
    try:
        found = point.load()
    except RAISED as e:
        # Whatever somebody else's package does when it is imported.
        raise PluginLoadError(f'plugin "{where}": cannot load it: {type(e).__name__}: {e}') from e
    return _checked(found, where)


def load_plugin(path: str) -> type[Plugin]:
    """The plugin class behind `module:Class`."""
    module_name, colon, class_name = path.partition(":")
    if not (module_name and colon and class_name):
        raise PluginLoadError(f'plugin "{path}": want module:Class')
    try:
        module = importlib.import_module(module_name)
    except RAISED as e:
        raise PluginLoadError(f'plugin "{path}": cannot import {module_name}: {type(e).__name__}: {e}') from e
    found = getattr(module, class_name, None)
    if found is None:
        raise PluginLoadError(f'plugin "{path}": module {module_name} has no {class_name}')
    return _checked(found, path)


def _checked(found: object, where: str) -> type[Plugin]:
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise PluginLoadError(f'plugin "{where}": {found!r} does not derive from stowplan.plugins.Plugin')
    if not getattr(found, "name", None):
        raise PluginLoadError(f'plugin "{where}": class {found.__name__} has no name')
    if getattr(found, "__abstractmethods__", None):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise PluginLoadError(f'plugin "{where}": class {found.__name__} does not define {missing}')
    return found
