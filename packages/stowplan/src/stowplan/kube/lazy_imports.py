"""Public names of a package that are imported on first access: most programs need few of them, and start faster.

The names are written once, as imports for type checkers, which read nothing else:

    if TYPE_CHECKING:
        from package.module import Name as Name
    else:
        __getattr__, __dir__ = lazy_imports(__name__, __file__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_imports(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package with this `__init__.py`; `__all__` are its names."""
    homes = cache(lambda: _imports(Path(file).read_text(encoding="utf-8")))

    def imported(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes()[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return imported, lambda: sorted({*vars(sys.modules[package]), *homes(), "__all__"})


def _imports(source: str) -> dict[str, str]:
    """Name -> module, of `from module import Name as Name`."""
    return {
        alias.name: node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname == alias.name
    }
