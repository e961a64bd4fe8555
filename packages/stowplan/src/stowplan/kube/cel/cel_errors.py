"""Errors of expressions, in compilation and evaluation, and their positions in the text."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import field

from stowplan.kube.structs import PlainStruct


class CelError(Exception):
    """Base of the two kinds of errors that this package raises; has the reference's message."""


class CompileError(CelError):
    """The text is not a valid expression of its environment."""


class EvaluationError(CelError):
    """A compiled expression that fails for this input."""

    #: Whether the caller interrupted it: see the `interrupted` argument of evaluations.
    interrupted = False


class ValueProblem(Exception):
    """An error value of CEL: the result of a failed operation."""


class EvaluationStopped(Exception):
    """The evaluation as a whole ends; nothing in the expression absorbs that."""


class CostLimitExceeded(EvaluationStopped):
    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Interrupted(EvaluationStopped):
    def __init__(self) -> None:
        super().__init__("operation interrupted")


# Positions in an expression's text, and errors with the line and a marker below the position.
#
# An offset counts code points from the start of the text. Upstream: common/source.go, common/error.go.

#: Offset of errors about the text as a whole.
NOWHERE = -1

_MAX_SNIPPET = 16384
_MAX_ISSUES = 100


class Issue(PlainStruct, frozen=True):
    offset: int
    message: str


class Issues(PlainStruct):
    """The problems of one text, in order of discovery; printed in order of position."""

    text: str
    found: list[Issue] = field(default_factory=list)

    def report(self, offset: int, message: str) -> None:
        self.found.append(Issue(offset, message))

    def raise_if_any(self) -> None:
        if self.found:
            raise CompileError("compilation failed: " + self._shown())

    def _shown(self) -> str:
        source = _Source(self.text)
        kept = self.found[:_MAX_ISSUES]
        lines = [source.shown(issue) for issue in sorted(kept, key=lambda issue: source.place(issue.offset))]
        if len(self.found) > _MAX_ISSUES:
            lines.append(f"{len(self.found) - _MAX_ISSUES} more errors were truncated")
        return "\n".join(lines)


class _Source:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, as printed."""
        if offset < 0:
            return -1, 0
        if self._starts[-1] == 1:
            # Parity: an empty text has line 1, but no column.
            return 1, 0
        line = min(bisect_right(self._starts, offset), len(self._lines))
        return line, offset - self._starts[line - 1] + 1

    def shown(self, issue: Issue) -> str:
        line, column = self.place(issue.offset)
        headline = f"ERROR: <input>:{line}:{column}: {issue.message}"
        if line < 1 or not self._lines[line - 1] or len(self._lines[line - 1]) > _MAX_SNIPPET:
            return headline
        snippet = self._lines[line - 1].replace("\t", " ")
        dots = "".join("." if ord(char) < 128 else "\uff0e" for char in snippet[: column - 1])
        wide = column <= len(snippet) and ord(snippet[column - 1]) >= 128
        mark = "\uff3e" if wide else "^"
        return f"{headline}\n | {snippet}\n | {dots}{mark}"
