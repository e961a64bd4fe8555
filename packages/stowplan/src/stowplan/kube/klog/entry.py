"""A log entry before formatting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Upstream's letters at the start of a line.
Severity = Literal["I", "W", "E"]


class Entry(NamedTuple):
    severity: Severity
    #: The level of `v(level)`; 0 for warnings and errors.
    level: int
    #: Path of the source file as in `co_filename`, and the line.
    file: str
    line: int
    module: str
    message: str
    #: False for klog's unstructured lines: the message without quotes, no keys.
    structured: bool
    error: BaseException | str | None
    keys: Mapping[str, Any]


class Sink(Protocol):
    def write(self, entry: Entry) -> None:
        """Write the entry; must not raise, as errors of logging cannot be reported."""
