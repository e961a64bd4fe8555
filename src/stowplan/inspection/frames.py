"""Rows as a pandas or polars data frame; neither is required.

One that the program has imported already goes first: it is what its author works with.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIBRARIES = ("pandas", "polars")


class _Describable(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def to_frame(rows: Iterable[Mapping[str, Any] | _Describable]) -> Any:
    """A DataFrame with a row for each decision, verdict, step of a story or dict.

    Of pandas or polars; raise ImportError if neither is there.
    """
    found = [dict(row) if isinstance(row, Mapping) else row.to_dict() for row in rows]
    for name in sorted(_LIBRARIES, key=lambda name: name not in sys.modules):
        try:
            library = import_module(name)
        except ImportError:
            continue
        # polars takes the types of the first hundred rows for those of all.
        return library.DataFrame(found, infer_schema_length=None) if name == "polars" else library.DataFrame(found)
    raise ImportError("a data frame needs pandas or polars: pip install pandas")
