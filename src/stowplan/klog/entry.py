"""One thing that was logged, before it is text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Upstream's letters, which begin the lines.
Severity = Literal["I", "W", "E"]


class Entry(NamedTuple):
    severity: Severity
    #: Of `v(level)`; 0 for warnings and errors.
    level: int
    #: The source file, as the interpreter names it, and the line.
    file: str
    line: int
    module: str
    message: str
    #: False for upstream's old way: the message as it is, no keys.
    structured: bool
    error: BaseException | str | None
    keys: Mapping[str, Any]


class Sink(Protocol):
    def write(self, entry: Entry) -> None:
        """Put the entry where it belongs; never fails, as nobody can be told."""
