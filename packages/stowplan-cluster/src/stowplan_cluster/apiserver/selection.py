"""Label and field selectors: of requests (`app in (web, api),!canary`, `spec.nodeName=n1`), and LabelSelectors in JSON.

Upstream: pkg/fields/selector.go, pkg/labels/selector.go and pkg/apis/meta/v1/helpers.go of k8s.io/apimachinery.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from stowplan.kube.api import selector_text
from stowplan.kube.api.api_errors import BadRequest
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.label_selectors import (
    IN,
    LABEL_SELECTOR_OPERATORS,
    NOT_IN,
    Selector,
    SelectorError,
    compile_label_selector,
    requirement_errors,
)
from stowplan.kube.api.meta import LabelSelector, LabelSelectorRequirement
from stowplan.kube.api.selector_text import SHORT, FieldTerm, parse_label_selector
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.store import Event, EventType, Stored, stored_of

#: Fields that every resource supports.
COMMON_FIELDS = ("metadata.name", "metadata.namespace")
#: Selectable fields that have another name in the storage version.
_KEPT_AS = {
    "source": "deprecatedSource.component",
    "reportingComponent": "reportingController",
    "status.successful": "status.succeeded",
}


def label_selector_of(text: str) -> Selector:
    """Parse a label selector; raise BadRequest if it is invalid."""
    try:
        return parse_label_selector(text)
    except SelectorError as error:
        raise BadRequest(f"unable to parse requirement: {error}") from None


def parse_field_selector(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    """Parse a field selector to storage field names; raise BadRequest if it is invalid or not supported."""
    return _known_fields(text, resource) if len(text) <= SHORT else _parsed_fields(text, resource)


def _parsed_fields(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    try:
        terms = selector_text.parse_field_selector(text)
    except SelectorError as error:
        raise BadRequest(str(error)) from None
    for term in terms:
        if term.field not in COMMON_FIELDS and term.field not in resource.selectable_fields:
            raise BadRequest(_not_supported(term.field, resource))
    return tuple(replace(term, field=_kept_name(term.field)) for term in terms)


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
    """The fields that the storage has to index for this resource's selectors."""
    return tuple(_kept_name(name) for name in resource.selectable_fields)


class Selection(PlainStruct, frozen=True):
    """The namespace and selectors of a request."""

    namespace: str
    labels: Selector
    fields: tuple[FieldTerm, ...]

    @property
    def everything(self) -> bool:
        """Whether there are no label and field terms."""
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
    return term.holds(value)


def selection_of(resource: Resource, namespace: str, label_selector: str = "", field_selector: str = "") -> Selection:
    fields = parse_field_selector(field_selector, resource) if field_selector else ()
    return Selection(namespace, label_selector_of(label_selector), fields)


# Map a change to the watch event that a selector sees: ADDED on entry, DELETED on exit.
#
# Upstream: k8s.io/apiserver/pkg/storage/cacher/cacher.go (convertToWatchEvent).


def visible(event: Event, selection: Selection) -> tuple[EventType, Stored] | None:
    """The event type and object for this watcher; None if its selector does not match."""
    before = event.previous is not None and selection.matches(event.previous)
    if event.type == "DELETED":
        return ("DELETED", event.stored) if before else None
    after = selection.matches(event.stored)
    if after:
        return ("MODIFIED" if before else "ADDED"), event.stored
    return ("DELETED", _as_last_seen(event)) if before else None


def _as_last_seen(event: Event) -> Stored:
    """The previous state, which matched, with the resourceVersion of the change."""
    if event.previous is None:
        return event.stored
    obj = event.previous.to_dict()
    obj["metadata"]["resourceVersion"] = str(event.stored.version)
    return stored_of(event.stored.resource, obj, version=event.stored.version)


def compiled(selector: JsonObject | None) -> Selector | None:
    """Compile a selector; None if it is invalid. An absent selector matches nothing."""
    if selector is None:
        return compile_label_selector(None)
    expressions = tuple(
        LabelSelectorRequirement(
            key=entry.get("key", ""), operator=entry.get("operator", ""), values=tuple(entry.get("values") or ())
        )
        for entry in selector.get("matchExpressions") or ()
    )
    labels = selector.get("matchLabels") or {}
    try:
        return compile_label_selector(LabelSelector(match_labels=labels, match_expressions=expressions))
    except SelectorError:
        return None


def format_selector(selector: JsonObject | None) -> str:
    """Format as `kubectl -l` syntax; raise SelectorError if the selector is invalid."""
    labels = (selector or {}).get("matchLabels") or {}
    expressions = (selector or {}).get("matchExpressions") or []
    requirements = [(key, f"{key}={value}") for key, value in labels.items()]
    requirements += [(expression.get("key", ""), _format_expression(expression)) for expression in expressions]
    return ",".join(shown for _, shown in sorted(requirements, key=lambda requirement: requirement[0]))


def _format_expression(expression: JsonObject) -> str:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    values = tuple(expression.get("values") or ())
    if operator not in LABEL_SELECTOR_OPERATORS or requirement_errors(key, operator, values):
        raise SelectorError(f"not a label selector requirement: {key} {operator}")
    if operator in (IN, NOT_IN):
        return f"{key} {'in' if operator == IN else 'notin'} ({','.join(sorted(values))})"
    return key if operator == "Exists" else f"!{key}"
