"""Label and field selectors as requests spell them: `app in (web, api),!canary`, `spec.nodeName=n1`.

Upstream: k8s.io/apimachinery/pkg/labels/selector.go (Parse), pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from stowplan.api.api_errors import BadRequest
from stowplan.api.field_errors import aggregate, go_quote
from stowplan.api.label_selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    Requirement,
    Selector,
    new_requirement,
    requirement_errors,
    selector_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan_cluster.apiserver.resources import Resource
    from stowplan_cluster.apiserver.store import Stored

_TOKEN_RE = re.compile(r"\s*(?:(?P<sign>==|!=|=|!|<|>|,|\(|\))|(?P<word>[^\s=!<>,()]+))")
_SIGNS = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}
_SETS = {"in": IN, "notin": NOT_IN}

#: Selectors up to this length are parsed once; thousands of longer ones would be too much to remember.
_SHORT = 1024
#: Fields that every resource lets one select by.
COMMON_FIELDS = ("metadata.name", "metadata.namespace")
#: Where a selectable field is kept under another name.
_KEPT_AS = {
    "source": "deprecatedSource.component",
    "reportingComponent": "reportingController",
    "status.successful": "status.succeeded",
}


def parse_label_selector(text: str) -> Selector:
    """The selector, or BadRequest."""
    return _known_labels(text) if len(text) <= _SHORT else _parsed_labels(text)


def _parsed_labels(text: str) -> Selector:
    if not text.strip():
        return EVERYTHING
    try:
        return selector_of(_Parser(text).requirements())
    except _SyntaxError as error:
        raise BadRequest(f"unable to parse requirement: {error}") from None


_known_labels = lru_cache(maxsize=4096)(_parsed_labels)


class _SyntaxError(ValueError):
    pass


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
                raise _SyntaxError(f"found '{token[0] or token[1]}', expected: ',' or 'end of string'")
            if self._peek() == ("", ""):
                raise _SyntaxError("found '', expected: identifier after ','")

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
            raise _SyntaxError(
                f"found '{sign or word}', expected: in, notin, =, ==, !=, gt, lt"  # Parity: as upstream lists them
            )
        return _checked(key, _SIGNS[sign], (self._exact_value(),))

    def _word(self, expected: str) -> str:
        sign, word = self._take()
        if not word:
            raise _SyntaxError(f"found '{sign}', expected: {expected}")
        return word

    def _exact_value(self) -> str:
        """A value may be empty: `key=`."""
        sign, word = self._peek()
        if word:
            self._take()
        elif sign not in ("", ","):
            raise _SyntaxError(f"found '{sign}', expected: identifier")
        return word

    def _values(self) -> Iterator[str]:
        sign, word = self._take()
        if sign != "(":
            raise _SyntaxError(f"found '{sign or word}' expected: '('")
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
                raise _SyntaxError(f"found '{sign}', expected: ',' or ')'")


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    errors = requirement_errors(key, operator, values)
    if errors:
        raise _SyntaxError(aggregate(errors))
    return new_requirement(key, operator, values)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    #: As the storage keeps it.
    field: str
    value: str
    equal: bool


def parse_field_selector(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    """The terms, all of which must hold; BadRequest for what does not parse or cannot be selected by."""
    return _known_fields(text, resource) if len(text) <= _SHORT else _parsed_fields(text, resource)


def _parsed_fields(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    terms = []
    for part in _split(text, ","):
        if not part:
            continue
        for sign in ("!=", "==", "="):
            pieces = _split(part, sign)
            if len(pieces) > 1:
                break
        else:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
        name, value = _unescape(pieces[0]), _unescape(sign.join(pieces[1:]))
        if name not in COMMON_FIELDS and name not in resource.selectable_fields:
            raise BadRequest(_not_supported(name, resource))
        terms.append(FieldTerm(_kept_name(name), value, sign != "!="))
    return tuple(terms)


def _not_supported(name: str, resource: Resource) -> str:
    if resource.selectable_fields or resource.custom:
        return f"field label not supported: {name}"
    listed = ", ".join(map(go_quote, COMMON_FIELDS))
    return f"{go_quote(name)} is not a known field selector: only {listed}"


_known_fields = lru_cache(maxsize=4096)(_parsed_fields)


def _kept_name(name: str) -> str:
    if name.startswith("involvedObject."):
        return "regarding." + name.removeprefix("involvedObject.")
    return _KEPT_AS.get(name, name)


def kept_fields(resource: Resource) -> tuple[str, ...]:
    """What the storage has to keep ready for this resource's selectors."""
    return tuple(_kept_name(name) for name in resource.selectable_fields)


def _split(text: str, separator: str) -> list[str]:
    """Split where the separator is not escaped with a backslash."""
    return re.split(rf"(?<!\\){re.escape(separator)}", text)


def _unescape(text: str) -> str:
    if not re.fullmatch(r"(?:[^\\]|\\[\\,=])*", text):
        raise BadRequest(f"invalid field selector: {go_quote(text)}: a backslash escapes only \\, comma and =")
    return re.sub(r"\\([\\,=])", r"\1", text)


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a storage a request asks for."""

    namespace: str
    labels: Selector
    fields: tuple[FieldTerm, ...]

    @property
    def everything(self) -> bool:
        """Whether only the namespace restricts."""
        return self.labels.empty and not self.fields

    def matches(self, stored: Stored) -> bool:
        if self.namespace and stored.namespace != self.namespace:
            return False
        return self.labels.matches(stored.labels) and all(_holds(term, stored) for term in self.fields)


def _holds(term: FieldTerm, stored: Stored) -> bool:
    if term.field == "metadata.name":
        value = stored.name
    elif term.field == "metadata.namespace":
        value = stored.namespace
    else:
        value = stored.field(term.field)
    return (value == term.value) == term.equal


def selection_of(resource: Resource, namespace: str, label_selector: str = "", field_selector: str = "") -> Selection:
    fields = parse_field_selector(field_selector, resource) if field_selector else ()
    return Selection(namespace, parse_label_selector(label_selector), fields)
