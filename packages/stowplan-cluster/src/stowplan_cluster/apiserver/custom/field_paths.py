"""Paths of fields in a schema, as rules and selectable fields name them: `.spec.size`, `.labels['a.b']`.

Upstream: ValidFieldPath of apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stowplan.kube.api.field_errors import child
from stowplan_cluster.apiserver.objects import JsonObject

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """The path leads nowhere."""


def field_at(schema: JsonObject, path: str, *, array_notation: bool = True) -> tuple[str, JsonObject]:
    """The path as errors write it, and the schema there. Raises a FieldPathError."""
    shown = ""
    tokens = (match[0] for match in _TOKEN.finditer(path))
    for token in tokens:
        if token == "[":
            if not array_notation:
                raise FieldPathError("array notation is not allowed")
            name = _unquoted(_next(tokens))
        elif token == ".":
            name = _next(tokens)
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if properties is not None:
            shown = child(shown, name)
            inner = properties.get(name)
        else:
            shown = f"{shown}[{name}]"
            inner = others
        if not isinstance(inner, dict):
            raise FieldPathError("does not refer to a valid field")
        schema = inner
        if token == "[" and (end := _next(tokens)) != "]":
            raise FieldPathError(f"expected ] but got {end}")
    return shown, schema


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise FieldPathError("unexpected end of JSON path")
    return token


def _unquoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {token}")

    def unescaped(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", unescaped, token[1:-1])
