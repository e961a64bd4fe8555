"""Field errors, and how they format values, worded as in the reference.

A path is a plain string; its last step is joined only when there is an error. Values are printed as in Go: strings
quoted, everything else as JSON.

Upstream: k8s.io/apimachinery/pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stowplan.kube.api import api_errors
from stowplan.kube.api.api_errors import DUPLICATE, INVALID, NOT_SUPPORTED, FieldError
from stowplan.kube.api.field_errors import child, go_json, go_quote
from stowplan_cluster.apiserver.objects import JsonObject, go_value, sorted_json

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


def forbidden(path: str, detail: str = "") -> FieldError:
    return _error(api_errors.FORBIDDEN, path, "Forbidden", OMITTED, detail)


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


class Errors(list[FieldError]):
    """The errors of an object, in the order in which they were found."""

    def required(self, path: str, detail: str = "") -> None:
        self.append(required(path, detail))

    def invalid(self, path: str, value: object, detail: str) -> None:
        self.append(invalid(path, value, detail))

    def duplicate(self, path: str, value: object, detail: str = "") -> None:
        self.append(duplicate(path, value, detail))

    def not_found(self, path: str, value: object, detail: str = "") -> None:
        self.append(_error(api_errors.NOT_FOUND, path, "Not found", value, detail))

    def forbidden(self, path: str, detail: str = "") -> None:
        self.append(forbidden(path, detail))

    def internal_error(self, path: str, detail: str) -> None:
        self.append(_error(api_errors.INTERNAL, path, "Internal error", OMITTED, detail))

    def not_supported(self, path: str, value: object, supported: Iterable[str]) -> None:
        self.append(not_supported(path, value, supported))

    def too_long(self, path: str, limit: int, unit: str = "byte") -> None:
        self.append(too_long(path, limit, unit))

    def too_many(self, path: str, count: int, limit: int) -> None:
        self.append(too_many(path, count, limit))

    def check_enum(self, path: str, value: str | None, supported: Sequence[str]) -> None:
        """Check a required field with enumerated values."""
        if not value:
            self.required(path)
        else:
            self.check_supported(path, value, supported)

    def check_supported(self, path: str, value: str | None, supported: Sequence[str]) -> None:
        """Check an optional field with enumerated values."""
        if value is not None and value not in supported:
            self.not_supported(path, value, supported)

    def check_not_negative(self, path: str, value: int | None) -> None:
        if value is not None and value < 0:
            self.invalid(path, value, NOT_NEGATIVE)

    def check_positive(self, path: str, value: int | None) -> None:
        if value is None or value <= 0:
            self.invalid(path, value or 0, NOT_POSITIVE)

    def check_not_negative_fields(self, path: str, obj: JsonObject, names: Iterable[str]) -> None:
        for name in names:
            self.check_not_negative(child(path, name), obj.get(name))

    def check_required_fields(self, path: str, obj: JsonObject, names: Iterable[str]) -> None:
        for name in names:
            if not obj.get(name):
                self.required(f"{path}.{name}")

    def check_texts(self, path: str, value: str, complaints: Iterable[str]) -> None:
        """Add one error for each message of a string rule."""
        for complaint in complaints:
            self.invalid(path, value, complaint)

    def check_length(self, path: str, value: str, limit: int) -> None:
        if byte_length(value) > limit:
            self.too_long(path, limit)

    def check_immutable(self, path: str, new: object, old: object) -> None:
        if not same(new, old):
            self.invalid(path, new, IMMUTABLE)

    def check_immutable_fields(self, path: str, new: JsonObject, old: JsonObject, *names: str) -> None:
        for name in names:
            self.check_immutable(child(path, name), new.get(name), old.get(name))


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


# Detect changes between the old and the new object; used by all rules about immutable fields.
#
# Empty counts as absent: the API does not distinguish the two.
#
# Upstream: k8s.io/apimachinery/pkg/api/equality (Semantic), k8s.io/apimachinery/pkg/util/diff.

_SHOWN_CHANGES = 10


def same(new: object, old: object) -> bool:
    """Semantic equality; quantities have to be canonical (`schema.conform`)."""
    if new == old:
        return True
    if isinstance(new, dict) and isinstance(old, dict):
        return all(same(new.get(key), old.get(key)) for key in new.keys() | old.keys())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(same, new, old))
    return _is_empty(new) and _is_empty(old)


def _is_empty(value: object) -> bool:
    if isinstance(value, dict):
        return all(field is None for field in value.values())
    return value is None or (isinstance(value, list | str) and not value)


def difference(new: object, old: object) -> str:
    """A human-readable diff, one change per line."""
    lines = [f"  {path or '.'}: -{go_json(before)} +{go_json(after)}" for path, before, after in _changes("", old, new)]
    rest = len(lines) - _SHOWN_CHANGES
    return "\n".join([*lines[:_SHOWN_CHANGES], *([f"  and {rest} more"] if rest > 0 else [])])


def _changes(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if same(new, old):
        return
    if isinstance(new, dict) and isinstance(old, dict):
        for key in sorted(new.keys() | old.keys()):
            yield from _changes(child(path, key), old.get(key), new.get(key))
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(f"{path}[{index}]", before, after)
    else:
        yield path, old, new


# Errors of custom resources, whose values have any type.

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
