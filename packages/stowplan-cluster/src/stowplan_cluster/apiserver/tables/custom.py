"""Tables of custom resources, with additionalPrinterColumns.

Upstream: apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from stowplan_cluster.apiserver.json_values import go_number, sorted_json
from stowplan_cluster.apiserver.tables.cells import AGE, NAME, Cell, Column, Printer, name_of
from stowplan_cluster.apiserver.tables.durations import time_since
from stowplan_cluster.apiserver.tables.jsonpath import JsonPath, JsonPathError, compile_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

_AGE = {
    "name": "Age",
    "type": "date",
    "description": AGE.description,
    "jsonPath": ".metadata.creationTimestamp",
}


def custom_printer(resource: Resource) -> Printer:
    columns = [NAME]
    paths: list[tuple[str, JsonPath]] = []
    for definition in resource.printer_columns or (_AGE,):
        try:
            path = compile_path(str(definition["jsonPath"]))
        except JsonPathError:
            # Parity: an invalid column drops it and all later ones.
            break
        columns.append(_column(definition))
        paths.append((columns[-1].type, path))
    return Printer(tuple(columns), partial(_cells, paths))


def _column(definition: Mapping[str, Any]) -> Column:
    shown = f"Custom resource definition column (in JSONPath format): {definition['jsonPath']}"
    return Column(
        definition["name"],
        definition["type"],
        definition.get("description") or shown,
        format=definition.get("format") or "",
        priority=definition.get("priority") or 0,
    )


def _cells(paths: Iterable[tuple[str, JsonPath]], obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), *(_cell(type, path, obj, now) for type, path in paths)]


def _cell(type: str, path: JsonPath, obj: JsonObject, now: float) -> Cell:
    try:
        found = path.find(obj)
    except JsonPathError:
        return None
    if not found:
        return None
    return _string(found[0]) if type == "string" else _typed(type, found[0], now)


def _string(value: Any) -> str:
    if isinstance(value, dict | list):
        return sorted_json(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return go_number(value)
    return "<no value>" if value is None else str(value)


def _typed(type: str, value: Any, now: float) -> Cell:
    """The cell; None if the value does not have the column's type."""
    if type == "boolean":
        return value if isinstance(value, bool) else None
    if type == "date":
        return time_since(value, now) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type == "integer" else float(value)
