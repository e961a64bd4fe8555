"""Parse and validate the query parameters of each verb.

A malformed parameter is a BadRequest; an invalid value is an Invalid error about the options object that names the
field.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation, meta/internalversion/validation.
"""

from __future__ import annotations

from functools import lru_cache

from stowplan.kube.api.api_errors import (
    FORBIDDEN,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    BadRequest,
    FieldError,
    invalid,
)
from stowplan.kube.api.field_errors import go_json, go_quote
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.requests.messages import Query
from stowplan_cluster.apiserver.deletion import DeleteOptions, options_of
from stowplan_cluster.apiserver.listing import NOT_OLDER_THAN, ListOptions
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.front.negotiation import PatchKind
from stowplan_cluster.front.routes import Route, boolean

_META_GROUP = "meta.k8s.io"
_MAX_MANAGER = 128
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_MAX_INT64 = 2**63 - 1


def first(query: Query, name: str) -> str:
    values = query.get(name)
    return values[0] if values else ""


def _integer(query: Query, name: str) -> int | None:
    text = first(query, name)
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    if len(digits) > 19 or int(digits) > _MAX_INT64:
        raise BadRequest(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return int(text)


def _refuse(kind: str, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(kind, _META_GROUP, "", errors)


# Writes


def write_options(query: Query, user_agent: str, kind: str) -> Options:
    """Options of a create or update; `kind` is "CreateOptions" or the like."""
    _refuse(kind, _write_errors(query))
    return _options(query, user_agent)


def patch_options(query: Query, user_agent: str, kind: PatchKind) -> Options:
    errors = []
    if kind == "apply" and not first(query, "fieldManager"):
        errors.append(FieldError(REQUIRED, "fieldManager", "Required value: is required for apply patch"))
    if kind != "apply" and "force" in query:
        errors.append(FieldError(FORBIDDEN, "force", "Forbidden: may not be specified for non-apply patch"))
    _refuse("PatchOptions", errors + _write_errors(query))
    return _options(query, user_agent)


def _options(query: Query, user_agent: str) -> Options:
    return Options(
        field_manager=first(query, "fieldManager") or manager_of(user_agent),
        field_validation=first(query, "fieldValidation") or "Warn",
        dry_run="dryRun" in query,
        force=boolean(query, "force"),
    )


@lru_cache(maxsize=128)
def manager_of(user_agent: str) -> str:
    """The default field manager: the program in the User-Agent."""
    program = "".join(char for char in user_agent.partition("/")[0] if char.isprintable())
    return program.encode()[:_MAX_MANAGER].decode(errors="ignore")


def _write_errors(query: Query) -> list[FieldError]:
    if not query:
        return []
    return [*_manager_errors(first(query, "fieldManager")), *_dry_run_errors(query), *_validation_errors(query)]


def _manager_errors(manager: str) -> list[FieldError]:
    errors = []
    if len(manager.encode()) > _MAX_MANAGER:
        message = f"Too long: may not be more than {_MAX_MANAGER} bytes"
        errors.append(FieldError(TOO_LONG, "fieldManager", message))
    for position, char in enumerate(manager):
        if not char.isprintable():
            why = f"invalid character U+{ord(char):04X} (at position {position})"
            errors.append(FieldError(INVALID, "fieldManager", f"Invalid value: {go_quote(manager)}: {why}"))
    return errors


def _dry_run_errors(query: Query) -> list[FieldError]:
    given = query.get("dryRun", [])
    if all(value == "All" for value in given):
        return []
    message = f'Unsupported value: {go_json(given)}: supported values: "All"'
    return [FieldError(NOT_SUPPORTED, "dryRun", message)]


def _validation_errors(query: Query) -> list[FieldError]:
    given = first(query, "fieldValidation")
    if given in _VALIDATIONS:
        return []
    listed = ", ".join(go_quote(value) for value in _VALIDATIONS)
    message = f"Unsupported value: {go_quote(given)}: supported values: {listed}"
    return [FieldError(NOT_SUPPORTED, "fieldValidation", message)]


def delete_options(query: Query, body: object) -> tuple[JsonObject, DeleteOptions]:
    """DeleteOptions from the body or else the query: as sent, and parsed."""
    if body is None:
        wishes: JsonObject = {
            "gracePeriodSeconds": _integer(query, "gracePeriodSeconds"),
            "propagationPolicy": first(query, "propagationPolicy"),
            "orphanDependents": boolean(query, "orphanDependents") if "orphanDependents" in query else None,
            "dryRun": query.get("dryRun", []),
        }
    elif isinstance(body, dict):
        wishes = body
        if wishes.get("kind", "DeleteOptions") != "DeleteOptions":
            raise BadRequest("decoded object cannot be converted to DeleteOptions")
    else:
        raise BadRequest("DeleteOptions: expected an object")
    _refuse("DeleteOptions", _delete_errors(wishes))
    return wishes, options_of(wishes, DeleteOptions())


def _delete_errors(wishes: JsonObject) -> list[FieldError]:
    errors = []
    policy = wishes.get("propagationPolicy")
    if policy and wishes.get("orphanDependents") is not None:
        message = f"Invalid value: {go_json(policy)}: orphanDependents and deletionPropagation cannot be both set"
        errors.append(FieldError(INVALID, "propagationPolicy", message))
    elif policy and policy not in _PROPAGATIONS:
        listed = ", ".join(go_quote(value) for value in (*_PROPAGATIONS, "nil"))
        message = f"Unsupported value: {go_json(policy)}: supported values: {listed}"
        errors.append(FieldError(NOT_SUPPORTED, "propagationPolicy", message))
    given = wishes.get("dryRun") or []
    if not isinstance(given, list) or any(value != "All" for value in given):
        message = f'Unsupported value: {go_json(given)}: supported values: "All"'
        errors.append(FieldError(NOT_SUPPORTED, "dryRun", message))
    return errors


# Lists and watches


def list_options(query: Query, route: Route) -> ListOptions:
    """Options of a list, a watch or a delete of a collection."""
    if not query and not route.name:
        return _EVERYTHING
    if route.verb == "list":
        _integer(query, "timeoutSeconds")
        _refuse("ListOptions", _list_errors(query))
    return ListOptions(
        label_selector=first(query, "labelSelector"),
        field_selector=_field_selector(query, route),
        limit=max(_integer(query, "limit") or 0, 0),
        continue_=first(query, "continue"),
        resource_version=first(query, "resourceVersion"),
        resource_version_match=first(query, "resourceVersionMatch") if route.verb == "list" else "",
    )


_EVERYTHING = ListOptions()


def _field_selector(query: Query, route: Route) -> str:
    given = first(query, "fieldSelector")
    if not route.name:
        return given
    # A watch of a single object by its path.
    if given and f"metadata.name={route.name}" not in given.replace("==", "=").split(","):
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return given or f"metadata.name={route.name}"


def _list_errors(query: Query) -> list[FieldError]:
    match, version = first(query, "resourceVersionMatch"), first(query, "resourceVersion")
    errors = []
    if match:
        why = []
        if not version:
            why.append("resourceVersionMatch is forbidden unless resourceVersion is provided")
        if first(query, "continue"):
            why.append("resourceVersionMatch is forbidden when continue is provided")
        if match == "Exact" and version == "0":
            why.append('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        errors += [FieldError(FORBIDDEN, "resourceVersionMatch", f"Forbidden: {reason}") for reason in why]
        if match not in ("Exact", NOT_OLDER_THAN):
            message = f'Unsupported value: {go_quote(match)}: supported values: "Exact", "NotOlderThan", ""'
            errors.append(FieldError(NOT_SUPPORTED, "resourceVersionMatch", message))
    if "sendInitialEvents" in query:
        message = "Forbidden: sendInitialEvents is forbidden for list"
        errors.append(FieldError(FORBIDDEN, "sendInitialEvents", message))
    return errors


class WatchOptions(PlainStruct, frozen=True, kw_only=True):
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    bookmarks: bool = False
    #: Whether the current state is sent first, as ADDED events.
    initial_events: bool = False
    #: Whether a bookmark marks the end of the initial events.
    initial_events_end: bool = False
    #: 0 for the server's default.
    timeout_seconds: int = 0


def watch_options(query: Query, route: Route) -> WatchOptions:
    _refuse("ListOptions", _watch_errors(query))
    version = first(query, "resourceVersion")
    legacy = "sendInitialEvents" not in query
    bookmarks = boolean(query, "allowWatchBookmarks")
    initial = version in ("", "0") if legacy else boolean(query, "sendInitialEvents")
    return WatchOptions(
        label_selector=first(query, "labelSelector"),
        field_selector=_field_selector(query, route),
        resource_version=version,
        bookmarks=bookmarks,
        initial_events=initial,
        initial_events_end=initial and bookmarks and not legacy,
        timeout_seconds=max(_integer(query, "timeoutSeconds") or 0, 0),
    )


def _watch_errors(query: Query) -> list[FieldError]:
    match, sends = first(query, "resourceVersionMatch"), "sendInitialEvents" in query
    why = []
    if sends and match != NOT_OLDER_THAN:
        why.append("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match and not sends:
        why.append("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if match and first(query, "continue"):
        why.append("resourceVersionMatch is forbidden when continue is provided")
    errors = [FieldError(FORBIDDEN, "resourceVersionMatch", f"Forbidden: {reason}") for reason in why]
    if match and match != NOT_OLDER_THAN:
        message = f'Unsupported value: {go_quote(match)}: supported values: "NotOlderThan"'
        errors.append(FieldError(NOT_SUPPORTED, "resourceVersionMatch", message))
    return errors
