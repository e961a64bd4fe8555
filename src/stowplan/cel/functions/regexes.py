"""Regular expressions, in RE2's syntax and in time linear in the text: `matches`, `find`, `findAll`.

RE2 itself does it. Python's `re` cannot stand in for it: its syntax differs, and a pattern of a few characters can keep
it busy for hours.

Upstream: k8s.io/apiserver/pkg/cel/library/regex.go; messages: Go's regexp/syntax.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stowplan.cel.declarations import function, member, overload
from stowplan.cel.errors import ValueProblem

if TYPE_CHECKING:
    from stowplan.cel.values import Value

#: RE2's words for what is wrong with a pattern, and Go's.
_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}
_TRAILING_BACKSLASH = "trailing \\"


class PatternError(ValueError):
    """A pattern that is no regular expression; the message is the reference's."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    try:
        import re2  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise PatternError("regular expressions need the package google-re2, which is not installed") from None
    options = re2.Options()
    options.log_errors = False
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


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a pattern."""
    try:
        compiled(pattern)
    except PatternError as error:
        return str(error)
    return None


def _matches(text: str, pattern: str) -> Value:
    try:
        return compiled(pattern).search(text) is not None
    except PatternError as error:
        raise ValueProblem(str(error)) from None


def _find(text: str, pattern: str) -> Value:
    match = _library_pattern(pattern).search(text)
    return match.group() if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> Value:
    found: list[Value] = []
    for match in _library_pattern(pattern).finditer(text):
        if 0 <= limit <= len(found):
            break
        found.append(match.group())
    return found


def _library_pattern(pattern: str) -> Any:
    try:
        return compiled(pattern)
    except PatternError as error:
        raise ValueProblem(f"Illegal regex: {error}") from None


def _is_text(value: Value) -> bool:
    return isinstance(value, str)


def _matches_any(text: Value, pattern: Value) -> Value:
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise ValueProblem("no such overload")
    return _matches(text, pattern)


FUNCTIONS = [
    function(
        "matches",
        overload("matches", "string, string -> bool"),
        member("matches_string", "string, string -> bool"),
        implementation=_matches_any,
        takes_first=_is_text,
    ),
    function("find", member("string_find_string", "string, string -> string", _find)),
    function(
        "findAll",
        member("string_find_all_string", "string, string -> list(string)", _find_all),
        member("string_find_all_string_int", "string, string, int -> list(string)", _find_all),
    ),
]
