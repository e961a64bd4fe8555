"""Go-syntax regular expressions that match in linear time.

The engine is RE2, like Go's. Python's `re` is no substitute: its syntax differs, and a short pattern such as `(a+)+$`
can take hours. google-re2 has no wheel for some platforms; without it nothing can be compiled, and callers handle that.

Upstream: Go's regexp and regexp/syntax.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

#: RE2's error texts, and Go's.
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
#: RE2 supports single bytes, Go does not. Quoted text contains no operators.
_QUOTED_OR_BYTE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(?!C).|(\\C)", re.DOTALL)


class PatternError(ValueError):
    """An invalid regular expression; has Go's message."""


def available() -> bool:
    """Whether RE2 is installed."""
    return find_spec("re2") is not None


@lru_cache(maxsize=512)
def compiled(pattern: str, max_memory: int | None = None) -> Any:
    """RE2's pattern, with `search` and `finditer`. Raises PatternError.

    `max_memory`: limit in bytes for its program and caches; None: RE2's default.
    """
    try:
        import re2  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise PatternError("regular expressions need the package google-re2, which is not installed") from None
    if any(found[1] for found in _QUOTED_OR_BYTE.finditer(pattern)):
        raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
    options = re2.Options()
    options.log_errors = False
    if max_memory is not None:
        options.max_mem = max_memory
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise PatternError(f"error parsing regexp: {_go_message(error.args[0])}") from None


def _go_message(message: bytes | str) -> str:
    text = message.decode(errors="replace") if isinstance(message, bytes) else message
    if text.startswith(_TRAILING_BACKSLASH):
        return "trailing backslash at end of expression: ``"
    words, colon, part = text.partition(": ")
    return f"{_GO_WORDS.get(words, words)}: `{part}`" if colon else _GO_WORDS.get(words, words)
