"""Regular expressions of custom resource definitions, in Go's syntax and in time linear in the value.

Patterns come from users, and a server with one thread cannot afford Python's backtracking on `(a+)+$`. RE2 does it,
which Go's own engine follows; it has no wheel for some platforms. Without it every text is taken for a
pattern, and every value matches: definitions are accepted with a warning, as CEL rules are.

Upstream: Go's regexp and regexp/syntax.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

#: Bytes that a pattern may take, its program and what it learns about values.
_MAX_MEMORY = 1 << 20

#: Instructions times characters: the worst pattern takes 30 ns for each.
_MAX_WORK = 30_000_000

#: RE2's words for what is wrong with a pattern, and Go's.
_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}
_TRAILING_BACKSLASH = "trailing \\"
#: RE2 has single bytes; Go has not. What is quoted is no operator.
_QUOTED_OR_BYTE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(?!C).|(\\C)", re.DOTALL)


class PatternError(ValueError):
    """A text that is no regular expression; the message is Go's."""


class TooCostly(Exception):
    """A value so long, for a pattern so large, that nothing else would happen meanwhile."""


def available() -> bool:
    """Whether patterns are judged at all."""
    return find_spec("re2") is not None


class Pattern:
    def __init__(self, compiled: Any) -> None:
        #: None where nothing judges it.
        self._compiled = compiled

    def matches(self, value: str) -> bool:
        """Whether it matches anywhere in the value; TooCostly if that might take long."""
        if self._compiled is None:
            return True
        if self._compiled.programsize * len(value) > _MAX_WORK:
            raise TooCostly
        return self._compiled.search(value) is not None


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    if not available():
        return Pattern(None)
    import re2  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if any(found[1] for found in _QUOTED_OR_BYTE.finditer(text)):
        raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return Pattern(re2.compile(text, options))
    except re2.error as error:
        raise PatternError(f"error parsing regexp: {_in_go_words(error.args[0])}") from None


def _in_go_words(message: bytes | str) -> str:
    text = message.decode(errors="replace") if isinstance(message, bytes) else message
    if text.startswith(_TRAILING_BACKSLASH):
        return "trailing backslash at end of expression: ``"
    words, colon, part = text.partition(": ")
    return f"{_GO_WORDS.get(words, words)}: `{part}`" if colon else _GO_WORDS.get(words, words)
