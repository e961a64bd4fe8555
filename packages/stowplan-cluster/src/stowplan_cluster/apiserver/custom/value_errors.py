"""Field errors for custom resources, whose values have any type; see `validation.field_errors` for built-in kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stowplan.kube.api.api_errors import DUPLICATE, INVALID, NOT_SUPPORTED, FieldError
from stowplan.kube.api.field_errors import go_quote
from stowplan_cluster.apiserver.objects import go_value, sorted_json

#: What the reference prints as the path of an error without a field.
NO_PATH = "<nil>"


def invalid_value(path: str, value: Any, detail: str, *, reason: str = INVALID) -> FieldError:
    return FieldError(reason, path, f"Invalid value: {go_value(value)}: {detail}")


def invalid_object(detail: str) -> FieldError:
    """An error without a field."""
    return invalid_value(NO_PATH, "", detail)


def unsupported_value(path: str, value: Any, supported: Iterable[Any]) -> FieldError:
    listed = ", ".join(go_quote(each if isinstance(each, str) else sorted_json(each)) for each in supported)
    return FieldError(NOT_SUPPORTED, path, f"Unsupported value: {go_value(value)}: supported values: {listed}")


def duplicate_value(path: str, value: Any) -> FieldError:
    return FieldError(DUPLICATE, path, f"Duplicate value: {go_value(value)}")
