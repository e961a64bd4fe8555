"""Resolve name conflicts between custom resource definitions of one group.

A definition keeps the names that it has been given, and gets those of the requested names that are free. It becomes
established, and is served, once it has all of them.

Upstream: apiextensions-apiserver/pkg/controller/status/naming_controller.go, establish/establishing_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.api.timestamps import timestamp
from stowplan_cluster.apiserver.conditions import is_true, set_condition
from stowplan_cluster.apiserver.json_values import copy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stowplan_cluster.apiserver.objects import JsonObject

NAMES_ACCEPTED, ESTABLISHED = "NamesAccepted", "Established"

_INSTALLED = "the initial names have been accepted"


def names_of(definition: JsonObject) -> JsonObject:
    """The requested names."""
    names: JsonObject = (definition.get("spec") or {}).get("names") or {}
    return names


def accepted_names(definition: JsonObject) -> JsonObject:
    accepted: JsonObject = (definition.get("status") or {}).get("acceptedNames") or {}
    return accepted


def is_established(definition: JsonObject) -> bool:
    return is_true(definition.get("status") or {}, ESTABLISHED)


def judged_status(definition: JsonObject, others: Iterable[JsonObject], now: float) -> JsonObject:
    """Compute the status of a definition, given the other definitions of its group."""
    status: JsonObject = copy_of(definition.get("status") or {})
    requested, accepted = names_of(definition), accepted_names(definition)
    if _without_empty(requested) != _without_empty(accepted) or not is_true(status, NAMES_ACCEPTED):
        names, complaint = _deconflicted(requested, accepted, list(others))
        status["acceptedNames"] = names
        _set(status, NAMES_ACCEPTED, not complaint, *(complaint or ("NoConflicts", "no conflicts found")), now)
        if complaint and not is_established(definition):
            _set(status, ESTABLISHED, False, "NotAccepted", "not all names are accepted", now)
    if is_true(status, NAMES_ACCEPTED) and not is_true(status, ESTABLISHED):
        _set(status, ESTABLISHED, True, "InitialNamesAccepted", _INSTALLED, now)
    return status


def _without_empty(names: JsonObject) -> JsonObject:
    return {key: value for key, value in names.items() if value}


def _deconflicted(
    requested: JsonObject, accepted: JsonObject, others: list[JsonObject]
) -> tuple[JsonObject, tuple[str, str] | None]:
    """The names that are free, and reason and message of the last conflict."""
    resources = {name for other in others for name in _resource_names(accepted_names(other))}
    kinds = {accepted_names(other).get(key) for other in others for key in ("kind", "listKind")}
    names, complaint = dict(accepted), None
    checks: tuple[tuple[str, str, Callable[[], list[str]]], ...] = (
        ("plural", "PluralConflict", lambda: _taken(requested, accepted, "plural", resources)),
        ("singular", "SingularConflict", lambda: _taken(requested, accepted, "singular", resources)),
        ("shortNames", "ShortNamesConflict", lambda: _short_names_taken(requested, accepted, resources)),
        ("kind", "KindConflict", lambda: _taken(requested, accepted, "kind", kinds)),
        ("listKind", "ListKindConflict", lambda: _taken(requested, accepted, "listKind", kinds)),
    )
    for key, reason, taken in checks:
        if conflicts := taken():
            complaint = (reason, aggregate(f"{go_quote(name)} is already in use" for name in conflicts))
        elif requested.get(key):
            names[key] = requested[key]
        else:
            names.pop(key, None)
    return _with_categories(names, requested), complaint


def _with_categories(names: JsonObject, requested: JsonObject) -> JsonObject:
    others = {key: value for key, value in names.items() if key != "categories"}
    return others | ({"categories": requested["categories"]} if requested.get("categories") else {})


def _resource_names(names: JsonObject) -> list[str]:
    return [names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())]


def _taken(requested: JsonObject, accepted: JsonObject, key: str, used: set[str | None] | set[str]) -> list[str]:
    name = requested.get(key) or ""
    return [name] if name != accepted.get(key) and name in used else []


def _short_names_taken(requested: JsonObject, accepted: JsonObject, used: set[str]) -> list[str]:
    own = accepted.get("shortNames") or ()
    return [name for name in requested.get("shortNames") or () if name not in own and name in used]


def _set(status: JsonObject, type: str, holds: bool, reason: str, message: str, now: float) -> None:
    condition = {"type": type, "status": "True" if holds else "False", "reason": reason, "message": message}
    set_condition(status, condition, now=timestamp(now))
