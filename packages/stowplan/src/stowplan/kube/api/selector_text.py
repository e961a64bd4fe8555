"""Parse label and field selectors from text: `app in (web, api),!canary`, `spec.nodeName=n1`.

Upstream: k8s.io/apimachinery/pkg/labels/selector.go (Parse), pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.api.label_selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    Requirement,
    Selector,
    SelectorError,
    new_requirement,
    requirement_errors,
    selector_of,
)
from stowplan.kube.structs import PlainStruct

_TOKEN_RE = re.compile(r"\s*(?:(?P<sign>==|!=|=|!|<|>|,|\(|\))|(?P<word>[^\s=!<>,()]+))")
_SIGNS = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}
_SETS = {"in": IN, "notin": NOT_IN}

#: Selectors up to this length are cached; longer ones could take too much memory.
SHORT = 1024


def parse_label_selector(text: str) -> Selector:
    """The selector; raises SelectorError."""
    return _known(text) if len(text) <= SHORT else _parsed(text)


def _parsed(text: str) -> Selector:
    return selector_of(_Parser(text).requirements()) if text.strip() else EVERYTHING


_known = lru_cache(maxsize=4096)(_parsed)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [(match["sign"] or "", match["word"] or "") for match in _TOKEN_RE.finditer(text.rstrip())]
        self._next = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", "")

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._next += 1
        return token

    def requirements(self) -> Iterator[Requirement]:
        while True:
            yield self._requirement()
            token = self._take()
            if token == ("", ""):
                return
            if token[0] != ",":
                raise SelectorError(f"found '{token[0] or token[1]}', expected: ',' or 'end of string'")
            if self._peek() == ("", ""):
                raise SelectorError("found '', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        negated = self._peek()[0] == "!"
        if negated:
            self._take()
        key = self._word("identifier")
        if negated:
            return _checked(key, DOES_NOT_EXIST, ())
        sign, word = self._peek()
        if (sign, word) == ("", "") or sign == ",":
            return _checked(key, EXISTS, ())
        self._take()
        if word in _SETS:
            return _checked(key, _SETS[word], tuple(self._values()))
        if sign not in _SIGNS:
            raise SelectorError(
                f"found '{sign or word}', expected: in, notin, =, ==, !=, gt, lt"  # Parity: upstream's order
            )
        return _checked(key, _SIGNS[sign], (self._exact_value(),))

    def _word(self, expected: str) -> str:
        sign, word = self._take()
        if not word:
            raise SelectorError(f"found '{sign}', expected: {expected}")
        return word

    def _exact_value(self) -> str:
        """A value may be empty: `key=`."""
        sign, word = self._peek()
        if word:
            self._take()
        elif sign not in ("", ","):
            raise SelectorError(f"found '{sign}', expected: identifier")
        return word

    def _values(self) -> Iterator[str]:
        sign, word = self._take()
        if sign != "(":
            raise SelectorError(f"found '{sign or word}' expected: '('")
        while True:
            sign, word = self._peek()
            if word:
                self._take()
                sign, _ = self._peek()
            yield word
            self._take()
            if sign == ")":
                return
            if sign != ",":
                raise SelectorError(f"found '{sign}', expected: ',' or ')'")


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    errors = requirement_errors(key, operator, values)
    if errors:
        raise SelectorError(aggregate(errors))
    return new_requirement(key, operator, values)


class FieldTerm(PlainStruct, frozen=True):
    """One of the ANDed terms of a field selector."""

    field: str
    value: str
    equal: bool

    def holds(self, value: str) -> bool:
        return (value == self.value) == self.equal


def parse_field_selector(text: str) -> tuple[FieldTerm, ...]:
    """The terms; raises SelectorError. Callers check whether the fields exist."""
    return tuple(_term(part, text) for part in _split(text, ",") if part)


def _term(part: str, text: str) -> FieldTerm:
    for sign in ("!=", "==", "="):
        name, *values = _split(part, sign)
        if values:
            return FieldTerm(_unescape(name), _unescape(sign.join(values)), sign != "!=")
    raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")


def _split(text: str, separator: str) -> list[str]:
    """Split where the separator is not escaped with a backslash."""
    return re.split(rf"(?<!\\){re.escape(separator)}", text)


def _unescape(text: str) -> str:
    if not re.fullmatch(r"(?:[^\\]|\\[\\,=])*", text):
        raise SelectorError(f"invalid field selector: {go_quote(text)}: a backslash escapes only \\, comma and =")
    return re.sub(r"\\([\\,=])", r"\1", text)
