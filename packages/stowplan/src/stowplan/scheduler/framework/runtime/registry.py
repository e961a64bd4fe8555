"""Plugin names, declarations and classes.

In-tree plugins use the declaration of their folder; out-of-tree plugins (from entry points or `module:Class`) declare
themselves by class attributes. Those of installed packages are imported when a configuration first names them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.config.config_errors import ConfigError
from stowplan.kube.config.declaration import Declarations, DeclarationsOnDemand, Kinds, PluginDeclaration
from stowplan.scheduler.framework.declarations import Guard, Plugin
from stowplan.scheduler.framework.entry_points import entry_points
from stowplan.scheduler.framework.interface import extension_points
from stowplan.scheduler.framework.status import RAISED, typed

#: The entry-point group under which installed packages provide plugins.
ENTRY_POINT_GROUP = "stowplan.plugins"


@mypyc_attr(native_class=False)
class PluginLoadError(ConfigError):
    """A requested plugin cannot be loaded; the message says which, and why."""


class Registry:
    """Name -> declaration and plugin class, in order of registration."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        #: User plugin -> what calls it (`boundary.call`).
        self.guards: dict[str, Guard] = {}
        self._plugins: dict[str, type[Plugin]] = {}
        self._declarations = DeclarationsOnDemand()
        for plugin in plugins:
            self.register(plugin)

    def register(self, plugin: type[Plugin], declaration: PluginDeclaration | None = None) -> None:
        """Add a plugin; without a declaration, use that of its class."""
        if plugin.name in self._declarations.offered and self.get(plugin.name) is plugin:
            # It is installed, and named as well.
            return
        if plugin.name in self._plugins:
            raise PluginLoadError(f"a plugin named {plugin.name} already exists")
        if declaration is None:
            declaration = declared_by(plugin)
        _check_declaration(plugin, declaration)
        self._plugins[plugin.name] = plugin
        self._declarations.loaded[plugin.name] = declaration

    def offer(self, name: str, load: Callable[[], object]) -> None:
        """Have a plugin of this name, which `load` registers when it is first asked for."""
        if name in self._declarations:
            raise PluginLoadError(f"a plugin named {name} already exists")
        self._declarations.offered[name] = load

    def unregister(self, name: str) -> None:
        if name not in self._plugins:
            raise PluginLoadError(f"no plugin named {name} exists")
        del self._plugins[name], self._declarations.loaded[name]
        self.guards.pop(name, None)

    def merge(self, other: Registry) -> None:
        for plugin in other:
            self.register(plugin, other.declarations[plugin.name])
        self.guards |= other.guards

    def get(self, name: str) -> type[Plugin] | None:
        self._declarations.get(name)
        return self._plugins.get(name)

    def __iter__(self) -> Iterator[type[Plugin]]:
        return iter(self._plugins.values())

    @property
    def declarations(self) -> Declarations:
        """Name -> declaration, as loading a configuration needs them."""
        return self._declarations


def declared_by(plugin: type[Plugin]) -> PluginDeclaration:
    """The declaration of a class: its own, or one built from its attributes and base classes."""
    base = plugin.declaration
    if base is not None and "declaration" in vars(plugin):
        return base
    try:
        own = PluginDeclaration(
            name=plugin.name,
            points=extension_points(plugin),
            args_type=plugin.args_type,
            needs=_listed(plugin, "needs_kinds", _is_kind, "kinds"),
            reads=_listed(plugin, "reads_kinds", _is_kind, "kinds"),
            annotations=_listed(plugin, "reads_annotations", _is_text, "strings"),
        )
    except TypeError as error:
        raise PluginLoadError(str(error)) from None
    return own if base is None else _derived(own, base)


def _listed(plugin: type[Plugin], attribute: str, is_good: Callable[[object], bool], what: str) -> tuple[Any, ...]:
    """A tuple that the plugin's author wrote."""
    value = getattr(plugin, attribute)
    if not isinstance(value, tuple | list | set | frozenset) or not all(map(is_good, value)):
        raise PluginLoadError(f"{attribute} of plugin {plugin.name}: want a tuple of {what}, got {value!r}")
    return tuple(value)


def _is_kind(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, ApiStruct)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _derived(own: PluginDeclaration, base: PluginDeclaration) -> PluginDeclaration:
    """The declaration of an out-of-tree plugin that derives from an in-tree one."""

    def reads(args: Any) -> Kinds:
        # With arguments of another type, what the in-tree plugin reads cannot be derived from them; use its default.
        of_base = args if base.args_type is None or isinstance(args, base.args_type) else base.args_type()
        return (*base.kinds_read(of_base), *own.kinds_read(args))

    return replace(
        own,
        args_type=own.args_type or base.args_type,
        needs=(*base.needs, *own.needs),
        reads=reads,
        annotations=(*base.annotations, *own.annotations),
    )


def _check_declaration(plugin: type[Plugin], declaration: PluginDeclaration) -> None:
    if declaration.name != plugin.name:
        raise PluginLoadError(f"class {plugin.__name__} is named {plugin.name}, and declared as {declaration.name}")
    points = extension_points(plugin)
    if declaration.points != points:
        listed = ", ".join(sorted(declaration.points ^ points))
        raise PluginLoadError(f"plugin {plugin.name} either declares or implements, but not both: {listed}")


def installed_plugins() -> dict[str, Callable[[], type[Plugin]]]:
    """Name -> imports the plugin, for those of installed packages."""
    return {point.name: partial(_installed, point) for point in entry_points(group=ENTRY_POINT_GROUP)}


def _installed(point: EntryPoint) -> type[Plugin]:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    where = f"entry point {point.name} = {point.value}{package}"
    try:
        found = point.load()
    except RAISED as e:
        # Importing third-party code may raise anything.
        raise PluginLoadError(f'plugin "{where}": cannot load it: {type(e).__name__}: {e}') from e
    plugin = _checked(found, where)
    if plugin.name != point.name:
        raise PluginLoadError(f'plugin "{where}": it is named {plugin.name}, and so must be its entry point')
    return plugin


def load_plugin(path: str) -> type[Plugin]:
    """The plugin class for `module:Class`."""
    module_name, colon, class_name = path.partition(":")
    if not (module_name and colon and class_name):
        raise PluginLoadError(f'plugin "{path}": want module:Class')
    try:
        module = importlib.import_module(module_name)
    except RAISED as e:
        raise PluginLoadError(f'plugin "{path}": cannot import {module_name}: {typed(e)}') from e
    found = getattr(module, class_name, None)
    if found is None:
        raise PluginLoadError(f'plugin "{path}": module {module_name} has no {class_name}')
    return _checked(found, path)


def _checked(found: object, where: str) -> type[Plugin]:
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise PluginLoadError(f'plugin "{where}": {found!r} does not derive from stowplan.plugins.Plugin')
    name = getattr(found, "name", None)
    if not name:
        raise PluginLoadError(f'plugin "{where}": class {found.__name__} has no name')
    if not isinstance(name, str):
        raise PluginLoadError(f'plugin "{where}": the name of class {found.__name__} is {name!r}, not a string')
    if getattr(found, "__abstractmethods__", None):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise PluginLoadError(f'plugin "{where}": class {found.__name__} does not define {missing}')
    return found
