"""Regular expressions, in time linear in the text: `matches`, `find`, `findAll`.

Upstream: k8s.io/apiserver/pkg/cel/library/regex.go.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.api.regexes import PatternError, compiled
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import function, member, overload
from stowplan.kube.cel.values import Value


def pattern_problem(pattern: str) -> str | None:
    """The problem with a pattern."""
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
