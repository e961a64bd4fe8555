"""The compiled form: the modules that every decision runs through, compiled ahead of time.

The distribution `stowplan-c` has them, compiled by mypyc from the sources of the same version. Where it is installed,
they are imported instead of the sources; everything else comes from the sources as before. `STOWPLAN_PURE=1` chooses
the sources alone, and so does a `stowplan-c` of another version or for another interpreter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_attributes: bool) -> Callable[[type], type]:
        """How mypyc compiles a class; without effect at run time.

        `native_class=False` is for classes that cannot have a fixed layout, such as most exceptions;
        `native_class=True` for structs of the hot path, of which the build makes classes with one;
        `allow_interpreted_subclasses=True` for those that plugins inherit from.
        """
        return lambda class_: class_


#: "compiled" or "pure": what this process runs.
form = "pure"


def choose(version: str) -> None:
    """Have compiled modules of this version imported from now on, if there are any and nobody asked for the sources."""
    global form
    if os.environ.get("STOWPLAN_PURE", "") not in ("", "0"):
        return
    try:
        import stowplan_c
    except ImportError:
        return
    if stowplan_c.usable(version):
        sys.meta_path.insert(0, stowplan_c.Finder())
        form = "compiled"


def with_form(version: str) -> str:
    """The version as it is shown."""
    return version if form == "pure" else f"{version}, {form}"


def with_sources(version: str) -> str:
    """As `with_form`, after a look whether the modules were compiled from the sources that are here."""
    if form == "pure":
        return version
    import stowplan_c

    folder = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    changed = len(list(stowplan_c.changed(folder)))
    if not changed:
        return with_form(version)
    return f"{with_form(version)} from other sources of {changed} modules, which are ignored"


def plain_struct() -> type | None:
    """The base of structs in the compiled form."""
    if form == "pure":
        return None
    from stowplan_c.structs import PlainStruct

    base: type = PlainStruct
    return base
