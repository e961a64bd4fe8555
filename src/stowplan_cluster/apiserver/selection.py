"""Label and field selectors as requests spell them: `app in (web, api),!canary`, `spec.nodeName=n1`.

Upstream: pkg/fields/selector.go of k8s.io/apimachinery.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from stowplan.api.api_errors import BadRequest
from stowplan.api.field_errors import go_quote
from stowplan.api.label_selectors import SelectorError
from stowplan.api.selector_text import SHORT, parse_label_selector

if TYPE_CHECKING:
    from stowplan.api.label_selectors import Selector
    from stowplan_cluster.apiserver.resources import Resource
    from stowplan_cluster.apiserver.store import Stored

#: Fields that every resource lets one select by.
COMMON_FIELDS = ("metadata.name", "metadata.namespace")
#: Where a selectable field is kept under another name.
_KEPT_AS = {
    "source": "deprecatedSource.component",
    "reportingComponent": "reportingController",
    "status.successful": "status.succeeded",
}


def label_selector_of(text: str) -> Selector:
    """The selector, or BadRequest."""
    try:
        return parse_label_selector(text)
    except SelectorError as error:
        raise BadRequest(f"unable to parse requirement: {error}") from None


@dataclass(frozen=True, slots=True)
class FieldTerm:
    #: As the storage keeps it.
    field: str
    value: str
    equal: bool


def parse_field_selector(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    """The terms, all of which must hold; BadRequest for what does not parse or cannot be selected by."""
    return _known_fields(text, resource) if len(text) <= SHORT else _parsed_fields(text, resource)


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
    return Selection(namespace, label_selector_of(label_selector), fields)
