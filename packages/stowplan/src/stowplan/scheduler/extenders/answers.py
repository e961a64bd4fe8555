"""Decode extender responses, as Go's decoder would.

Keys are case-insensitive, the last of duplicates wins, and unknown ones are ignored; null means absent; anything after
the first JSON value is ignored. Of whole nodes only the names are read, as our own state is more recent.

Upstream: staging/src/k8s.io/kube-scheduler/extender/v1/types.go, encoding/json of Go.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn, TypedDict

import msgspec

_MAX_INT64 = 2**63 - 1


class AnswerError(ValueError):
    """An invalid response body; says which field, and why."""


class FilterAnswer(TypedDict):
    #: Names of the remaining nodes, if the response has whole nodes; else None.
    nodes: list[str] | None
    #: Names of the remaining nodes, if the response has names; else None.
    names: list[str] | None
    #: Node -> reason.
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


class BindAnswer(TypedDict):
    error: str


def answer_to(verb: str, body: bytes) -> Any:
    """Decode the response for a verb; raises AnswerError."""
    return _READERS[verb](_first_value(body))


# -- JSON -------------------------------------------------------------------------------------------------------------


def _first_value(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _first_of_several(body)


def _first_of_several(body: bytes) -> Any:
    """The first of several JSON values; or the error in it."""
    try:
        text = body.decode("utf-8", errors="replace").lstrip(" \t\r\n")
        value, _ = _DECODER.raw_decode(text)
    except RecursionError:
        raise AnswerError("it is nested too deeply") from None
    except ValueError as error:
        raise AnswerError(f"it is not JSON: {error}") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


# -- Go's types -------------------------------------------------------------------------------------------------------


def _fields(value: Any, where: str) -> dict[str, Any]:
    """The fields of a struct, by lower-case name."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return {name.lower(): field for name, field in value.items()}


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(where, "a string", value)
    return value


def _texts(values: list[Any], where: str) -> list[str]:
    # Nearly all lists consist of strings, and may be long.
    if set(map(type, values)) <= {str}:
        return values
    return [_text(value, where) for value in values]


def _number(value: Any, where: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not -_MAX_INT64 - 1 <= value <= _MAX_INT64:
        raise _wrong(where, "an integer of 64 bits", value)
    return value


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(where, "a list", value)
    return value


def _map(value: Any, where: str, read: Callable[[Any, str], Any]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return {name: read(item, f"{where}[{name}]") for name, item in value.items()}


_WORDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}


def _wrong(where: str, wanted: str, value: Any) -> AnswerError:
    found = _WORDS.get(type(value), "a number")
    return AnswerError(f"{where}: expected {wanted}, got {found}" if where else f"expected {wanted}, got {found}")


# -- responses ---------------------------------------------------------------------------------------------------------


def _filtered(value: Any) -> FilterAnswer:
    fields = _fields(value, "")
    nodes, names = fields.get("nodes"), fields.get("nodenames")
    return {
        "nodes": None if nodes is None else _names_of_nodes(nodes),
        "names": None if names is None else _texts(_list(names, "NodeNames"), "NodeNames[]"),
        "failed": _map(fields.get("failednodes"), "FailedNodes", _text),
        "unresolvable": _map(fields.get("failedandunresolvablenodes"), "FailedAndUnresolvableNodes", _text),
        "error": _text(fields.get("error"), "Error"),
    }


def _names_of_nodes(value: Any) -> list[str]:
    names = []
    for i, item in enumerate(_list(_fields(value, "Nodes").get("items"), "Nodes.items")):
        where = f"Nodes.items[{i}]"
        metadata = _fields(_fields(item, where).get("metadata"), f"{where}.metadata")
        names.append(_text(metadata.get("name"), f"{where}.metadata.name"))
    return names


def _prioritized(value: Any) -> dict[str, int]:
    """Node -> score; the scores of duplicate nodes are added."""
    points: dict[str, int] = {}
    for i, item in enumerate(_list(value, "")):
        fields = _fields(item, f"[{i}]")
        host = _text(fields.get("host"), f"[{i}].Host")
        points[host] = points.get(host, 0) + _number(fields.get("score"), f"[{i}].Score")
    return points


def _preempted(value: Any) -> dict[str, tuple[list[str], int]]:
    """Node -> UIDs of the victims, and how many of them violate a budget."""
    return _map(_fields(value, "").get("nodenametometavictims"), "NodeNameToMetaVictims", _victims)


def _victims(value: Any, where: str) -> tuple[list[str], int]:
    fields = _fields(value, where)
    pods = _list(fields.get("pods"), f"{where}.Pods")
    uids = [_text(_fields(pod, f"{where}.Pods[]").get("uid"), f"{where}.Pods[].UID") for pod in pods]
    return uids, _number(fields.get("numpdbviolations"), f"{where}.NumPDBViolations")


def _bound(value: Any) -> BindAnswer:
    return {"error": _text(_fields(value, "").get("error"), "Error")}


_READERS: dict[str, Callable[[Any], Any]] = {
    "filter": _filtered,
    "prioritize": _prioritized,
    "preempt": _preempted,
    "bind": _bound,
}
