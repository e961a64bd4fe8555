"""Validate Events of both API groups; events.k8s.io/v1 is stricter.

An Event with eventTime is validated by the rules of events.k8s.io, whichever version was used.

Upstream: pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan_cluster.apiserver.conversion import EVENT_FIELDS
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors, byte_length, same

#: Messages use the field names of core/v1, except for this field.
_CORE_ONLY = {"reportingController": "reportingComponent"}
_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128}
_MAX_NOTE = 1024
_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
)


class _View:
    """An event of either version, read by the field names of core/v1."""

    def __init__(self, event: JsonObject, *, core: bool) -> None:
        self._event = event
        self._names = _CORE_ONLY if core else EVENT_FIELDS

    def get(self, name: str, default: object = "") -> object:
        return self._event.get(self._names.get(name, name), default)

    def text(self, name: str) -> str:
        return str(self.get(name) or "")


def check_core_event(errors: Errors, event: JsonObject) -> None:
    _check_common(errors, event, core=True)


def check_event(errors: Errors, event: JsonObject) -> None:
    _check_common(errors, event, core=False)
    view = _View(event, core=False)
    _check_series(errors, event.get("series"))
    if not view.get("eventTime"):
        errors.required("eventTime")
    kind = view.text("type")
    if kind not in ("Normal", "Warning"):
        errors.invalid("type", "", f"has invalid value: {kind}")
    for name in ("firstTimestamp", "lastTimestamp", "count"):
        if view.get(name):
            errors.invalid(name, "", "needs to be unset")
    source = view.get("source", None)
    if isinstance(source, dict) and any(source.values()):
        errors.invalid("source", "", "needs to be unset")


def _check_common(errors: Errors, event: JsonObject, *, core: bool) -> None:
    view = _View(event, core=core)
    namespace = (event.get("metadata") or {}).get("namespace", "")
    involved = view.get("involvedObject", None)
    about = str(involved.get("namespace") or "") if isinstance(involved, dict) else ""
    _check_namespace(errors, namespace, about, new=bool(view.get("eventTime")))
    if view.get("eventTime"):
        _check_new(errors, view, "reportingComponent" if core else "reportingController")
    errors.check_texts("namespace", namespace, names.dns_subdomain(namespace))


def _check_namespace(errors: Errors, namespace: str, about: str, *, new: bool) -> None:
    """Check that events about cluster-scoped objects are in default (new events: or in kube-system)."""
    if about:
        matches = new or namespace == about
    else:
        matches = namespace in (("default", "kube-system") if new else ("", "default"))
    if not matches:
        errors.invalid("involvedObject.namespace", about, "does not match event.namespace")


def _check_new(errors: Errors, view: _View, controller_field: str) -> None:
    controller = view.text("reportingController")
    if not controller:
        errors.required(controller_field)
    errors.check_texts(controller_field, controller, is_qualified_name_errors(controller))
    for name, limit in _LIMITS.items():
        text = view.text(name)
        if not text:
            errors.required(name)
        if byte_length(text) > limit:
            errors.invalid(name, "", f"can have at most {limit} characters")
    if byte_length(view.text("message")) > _MAX_NOTE:
        errors.invalid("message", "", f"can have at most {_MAX_NOTE} characters")


def _check_series(errors: Errors, series: JsonObject | None) -> None:
    if series is None:
        return
    if series.get("count", 0) < 2:
        errors.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        errors.required("series.lastObservedTime")


def check_core_event_update(errors: Errors, event: JsonObject, old: JsonObject, subresource: str) -> None:
    check_core_event(errors, event)


def check_event_update(errors: Errors, event: JsonObject, old: JsonObject, subresource: str) -> None:
    _check_common(errors, event, core=False)
    if not same(event.get("series"), old.get("series")):
        _check_series(errors, event.get("series"))
    new, before = _View(event, core=False), _View(old, core=False)
    for name in _FIXED:
        errors.check_immutable(name, new.get(name, None), before.get(name, None))
