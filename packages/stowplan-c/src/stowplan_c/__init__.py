"""The compiled form of `stowplan`, which imports this package by itself where it is installed.

`modules` has an extension for each module that was compiled, in the folders of its package, and one shared library with
the code of all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location

from stowplan_c.built import MODULES, VERSION

_FOLDER = os.path.join(os.path.dirname(__file__), "modules")
_LIBRARY = "stowplan_c__mypyc"


def usable(version: str) -> bool:
    """Whether the modules were compiled from the sources of this version, and for this interpreter."""
    return version == VERSION and os.path.exists(_file(_LIBRARY))


def changed(sources: str) -> Iterator[str]:
    """The modules whose sources, below this folder, are not those that were compiled: a clone has gone on since.

    Reading all of them takes some milliseconds, so the form is chosen without.
    """
    from hashlib import sha256

    for module, digest in MODULES.items():
        with open(os.path.join(sources, *module.split(".")) + ".py", "rb") as source:
            if sha256(source.read()).hexdigest() != digest:
                yield module


class Finder:
    """Finds compiled modules before the sources are looked at."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in MODULES and name != _LIBRARY:
            return None
        return spec_from_file_location(name, _file(name), loader=ExtensionFileLoader(name, _file(name)))


def _file(name: str) -> str:
    return os.path.join(_FOLDER, *name.split(".")) + EXTENSION_SUFFIXES[0]
