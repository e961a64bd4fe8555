"""The JSON schema of scenarios, for editors that complete and validate YAML."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan_lab.simulation.definition.amounts import Distribution, Rate, Span, Times
from stowplan_lab.simulation.definition.schema import Scenario

_SPAN: dict[str, Any] = {"type": ["string", "number"], "description": "a time span: 90s, 5m, 1h30m, 7d, or seconds"}
_SCHEMAS: dict[Any, dict[str, Any]] = {
    Span: _SPAN,
    Rate: {"type": "string", "pattern": "^[0-9.]+/", "description": "a rate: 2/s, 100/h, 5/10m"},
    Times: {"anyOf": [_SPAN, {"type": "array", "items": _SPAN}]},
    Distribution: {
        "anyOf": [
            _SPAN,
            {
                "type": "object",
                "properties": {
                    "exponential": _SPAN,
                    "uniform": {"type": "array", "items": _SPAN, "minItems": 2, "maxItems": 2},
                    "lognormal": {"type": "object", "properties": {"median": _SPAN, "p95": _SPAN}},
                    "pareto": {"type": "object", "properties": {"least": _SPAN, "shape": {"type": "number"}}},
                    "choice": {"type": "array", "items": _SPAN, "minItems": 1},
                    "weights": {"type": "array", "items": {"type": "number", "minimum": 0}},
                },
                "additionalProperties": False,
            },
        ]
    },
}


def scenario_schema() -> dict[str, Any]:
    (schema,), parts = msgspec.json.schema_components(
        [Scenario], schema_hook=_SCHEMAS.__getitem__, ref_template="#/$defs/{name}"
    )
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": parts}
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(_without_defaults(found)))
    return decoded


def _without_defaults(value: Any) -> Any:
    """Without defaults that cannot be written as JSON."""
    if isinstance(value, dict):
        return {key: _without_defaults(item) for key, item in value.items() if key != "default" or _plain(item)}
    if isinstance(value, list | tuple):
        return [_without_defaults(item) for item in value]
    return value


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
