"""Rows as a pandas or polars data frame; neither is required.

The library that the program has already imported takes precedence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol

from stowplan.scheduler.inspection.html_cells import text_cell, text_head

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


def flat(row: _Describable) -> dict[str, Any]:
    """The row with a value `field.key` for each value of a mapping."""
    return dict(_flattened("", row.to_dict()))


def _flattened(head: str, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _flattened(f"{head}{name}.", value)
        else:
            yield head + name, value


class Row:
    """Data that is shown as one row of a table; for more about a decision, use `Cluster.explain`."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON-able data."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """A pandas or polars data frame with one row; `stowplan.to_frame` takes a list of them."""
        return to_frame([self])

    def _repr_html_(self) -> str:
        """An HTML table for notebooks, with a line for each value."""
        cells = {name: ", ".join(value) if isinstance(value, list) else value for name, value in self.to_dict().items()}
        rows = (f"<tr>{text_head(name)}{text_cell(str(value))}</tr>" for name, value in cells.items() if value)
        return f"<table>{''.join(rows)}</table>"
