"""Rows as a pandas or polars data frame; neither is required.

The library that the program has already imported takes precedence.
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

    Uses pandas or polars; raises ImportError without either.

    Examples:
        >>> to_frame(cluster.schedule())[["pod", "node"]]  # doctest: +SKIP
                   pod node
        0  ml/notebook
    """
    found = [dict(row) if isinstance(row, Mapping) else row.to_dict() for row in rows]
    for name in sorted(_LIBRARIES, key=lambda name: name not in sys.modules):
        try:
            library = import_module(name)
        except ImportError:
            continue
        # By default polars infers types from the first hundred rows.
        return library.DataFrame(found, infer_schema_length=None) if name == "polars" else library.DataFrame(found)
    raise ImportError("a data frame needs pandas or polars: pip install pandas, or use to_dict() or rows()")
