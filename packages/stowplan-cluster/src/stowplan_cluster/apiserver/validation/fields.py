"""Field errors, and how they format values, worded as in the reference.

A path is a plain string; its last step is joined only when there is an error. Values are printed as in Go: strings
quoted, everything else as JSON.

Upstream: k8s.io/apimachinery/pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api import api_errors
from stowplan.kube.api.api_errors import FieldError
from stowplan.kube.api.field_errors import child, go_json, go_quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stowplan_cluster.apiserver.objects import JsonObject

Errors = list[FieldError]

NOT_NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
IMMUTABLE = "field is immutable"

#: Marks a value that the message omits.
OMITTED = object()


def shown(value: object) -> str:
    return go_quote(value) if isinstance(value, str) else go_json(value)


def _error(reason: str, path: str, what: str, value: object, detail: str) -> FieldError:
    message = what if value is OMITTED else f"{what}: {shown(value)}"
    return FieldError(reason, path, f"{message}: {detail}" if detail else message)


def required(path: str, detail: str = "") -> FieldError:
    return _error(api_errors.REQUIRED, path, "Required value", OMITTED, detail)


def invalid(path: str, value: object, detail: str) -> FieldError:
    return _error(api_errors.INVALID, path, "Invalid value", value, detail)


def duplicate(path: str, value: object, detail: str = "") -> FieldError:
    return _error(api_errors.DUPLICATE, path, "Duplicate value", value, detail)


def not_found(path: str, value: object, detail: str = "") -> FieldError:
    return _error(api_errors.NOT_FOUND, path, "Not found", value, detail)


def forbidden(path: str, detail: str = "") -> FieldError:
    return _error(api_errors.FORBIDDEN, path, "Forbidden", OMITTED, detail)


def internal_error(path: str, detail: str) -> FieldError:
    return _error(api_errors.INTERNAL, path, "Internal error", OMITTED, detail)


def not_supported(path: str, value: object, supported: Iterable[str]) -> FieldError:
    """`supported` is in the reference's order, which is mostly sorted."""
    listed = ", ".join(go_quote(name) for name in supported)
    return _error(api_errors.NOT_SUPPORTED, path, "Unsupported value", value, f"supported values: {listed}")


def too_long(path: str, limit: int, unit: str = "byte") -> FieldError:
    return _error(api_errors.TOO_LONG, path, "Too long", OMITTED, f"may not be more than {_counted(limit, unit)}")


def too_many(path: str, count: int, limit: int) -> FieldError:
    return _error(api_errors.TOO_MANY, path, "Too many", count, f"must have at most {_counted(limit, 'item')}")


def _counted(limit: int, unit: str) -> str:
    return f"{limit} {unit}" if limit == 1 else f"{limit} {unit}s"


def check_enum(errors: Errors, path: str, value: str | None, supported: Sequence[str]) -> None:
    """Check a required field with enumerated values."""
    if not value:
        errors.append(required(path))
    elif value not in supported:
        errors.append(not_supported(path, value, supported))


def check_supported(errors: Errors, path: str, value: str | None, supported: Sequence[str]) -> None:
    """Check an optional field with enumerated values."""
    if value is not None and value not in supported:
        errors.append(not_supported(path, value, supported))


def check_not_negative(errors: Errors, path: str, value: int | None) -> None:
    if value is not None and value < 0:
        errors.append(invalid(path, value, NOT_NEGATIVE))


def check_positive(errors: Errors, path: str, value: int | None) -> None:
    if value is None or value <= 0:
        errors.append(invalid(path, value or 0, NOT_POSITIVE))


def check_not_negative_fields(errors: Errors, path: str, obj: JsonObject, names: Iterable[str]) -> None:
    for name in names:
        if obj.get(name, 0) < 0:
            errors.append(invalid(child(path, name), obj[name], NOT_NEGATIVE))


def check_required_fields(errors: Errors, path: str, obj: JsonObject, names: Iterable[str]) -> None:
    for name in names:
        if not obj.get(name):
            errors.append(required(f"{path}.{name}"))


def check_texts(errors: Errors, path: str, value: str, complaints: Iterable[str]) -> None:
    """Add one error for each message of a string rule."""
    for complaint in complaints:
        errors.append(invalid(path, value, complaint))


def check_length(errors: Errors, path: str, value: str, limit: int) -> None:
    if byte_length(value) > limit:
        errors.append(too_long(path, limit))


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"
