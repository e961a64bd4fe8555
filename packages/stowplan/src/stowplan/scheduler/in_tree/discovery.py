"""Discover the in-tree plugins: every folder with a `declaration.py`.

There is no central list. A declaration imports neither NumPy nor the plugin's rules, so configurations can be loaded
without either. The rules are in the folder's `plugin.py`, in a class with the plugin's name.

Upstream: pkg/scheduler/framework/plugins/registry.go.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType

from stowplan.kube.config.declaration import Declarations, PluginDeclaration
from stowplan.scheduler import in_tree


class DeclarationError(RuntimeError):
    """Inconsistent in-tree plugins, which indicates a bug."""


@cache
def declarations() -> Declarations:
    """The declarations of all in-tree plugins by name, those of the default profile in its order."""
    found = sorted(discovered(in_tree).values(), key=_place)
    return MappingProxyType({declaration.name: declaration for declaration in found})


@cache
def folders() -> MappingProxyType[str, str]:
    """Plugin name -> its package."""
    return MappingProxyType({declaration.name: folder for folder, declaration in discovered(in_tree).items()})


def discovered(package: ModuleType) -> dict[str, PluginDeclaration]:
    """Package of a plugin -> its declaration; raises DeclarationError if two have the same name or position."""
    packages = (module.name for module in iter_modules(package.__path__, f"{package.__name__}.") if module.ispkg)
    found = {folder: own for folder in packages if (own := _declaration(folder)) is not None}
    taken: dict[object, str] = {}
    for folder, declaration in found.items():
        place = declaration.default.order if declaration.default is not None else declaration.name
        for claim in {declaration.name, place}:
            if taken.setdefault(claim, folder) != folder:
                raise DeclarationError(f"{folder} and {taken[claim]} both declare {claim!r}")
    return found


def _declaration(folder: str) -> PluginDeclaration | None:
    """The declaration of a folder; None for shared code."""
    name = f"{folder}.declaration"
    try:
        declaration: PluginDeclaration = import_module(name).DECLARATION
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
    return declaration


def _place(declaration: PluginDeclaration) -> tuple[bool, int, str]:
    default = declaration.default
    return default is None, 0 if default is None else default.order, declaration.name
