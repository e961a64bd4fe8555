"""Validate a value against an OpenAPI schema, with the reference's messages.

If all alternatives of `anyOf` or `oneOf` fail, the errors of the closest one are reported: here the one with the fewest
errors, upstream the one with the most passed checks.

On an update, errors in unchanged parts are ignored (ratcheting), so that an object stays updatable after its schema
became stricter.

Upstream: k8s.io/kube-openapi/pkg/validation/validate, apiextensions-apiserver/pkg/apiserver/validation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stowplan.kube.api import regexes
from stowplan.kube.api.api_errors import TYPE_INVALID, FieldError
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.regexes import PatternError
from stowplan_cluster.apiserver.custom import formats
from stowplan_cluster.apiserver.custom.correlation import ABSENT, Old, old_field, old_item
from stowplan_cluster.apiserver.objects import JsonObject, equal, go_number, is_number
from stowplan_cluster.apiserver.validation.field_errors import (
    NO_PATH,
    invalid_object,
    invalid_value,
    required,
    too_long,
    too_many,
    unsupported_value,
)

# Patterns of custom resource definitions: limits on memory and time.
#
# Patterns come from users, and one slow match would block the whole single-threaded server. Without RE2 installed
# every pattern compiles and every value matches: definitions are accepted with a warning.

#: Memory limit per pattern in bytes: the program and its cached states.
_MAX_MEMORY = 1 << 20

#: Limit on program size times value length; the worst pattern takes 30 ns per unit.
_MAX_WORK = 30_000_000


class TooCostly(Exception):
    """Matching this value would block the event loop for too long."""


class Pattern:
    def __init__(self, compiled: Any) -> None:
        #: None if RE2 is not installed.
        self._compiled = compiled

    def matches(self, value: str) -> bool:
        """Whether the pattern matches anywhere in the value; raise TooCostly if matching might take too long."""
        if self._compiled is None:
            return True
        if self._compiled.programsize * len(value) > _MAX_WORK:
            raise TooCostly
        return self._compiled.search(value) is not None


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern; raise PatternError if it is invalid."""
    return Pattern(regexes.compiled(text, _MAX_MEMORY) if regexes.available() else None)


_INT64 = range(-(1 << 63), 1 << 63)
_INT32 = range(-(1 << 31), 1 << 31)
_NAMES = {str: "string", bool: "boolean", list: "array", dict: "object", int: "integer", float: "number"}
_FLOAT32_MAX = 3.4028234663852886e38


def validate_value(schema: JsonObject, value: Any, *, path: str = "", old: Old = ABSENT) -> list[FieldError]:
    """All errors of a value; `old` is the previous value, if it can be correlated."""
    errors = _check(schema, value, path, old)
    return [] if errors and old is not ABSENT and equal(value, old) else errors


def _check(schema: JsonObject, value: Any, path: str, old: Old) -> list[FieldError]:
    types = _types(schema)
    if value is None:
        return _null_errors(schema, types, path)
    errors: list[FieldError] = []
    if types or _format(schema, types):
        errors += _type_errors(schema, types, value, path)
    errors += _alternative_errors(schema, value, path, old)
    if isinstance(value, str):
        errors += _string_errors(schema, value, path) + _format_errors(schema, types, value, path)
    elif is_number(value):
        errors += _number_errors(schema, types, value, path)
    elif isinstance(value, list):
        errors += _item_errors(schema, value, path, old)
    if "enum" in schema and not any(equal(value, each) for each in schema["enum"] or ()):
        errors += _enum_errors(schema, value, path)
    if isinstance(value, dict):
        errors += _field_errors(schema, value, path, old)
    return errors


# Types


def _types(schema: JsonObject) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _format(schema: JsonObject, types: tuple[str, ...]) -> str:
    """The format, if it applies to this type."""
    name: str = schema.get("format") or ""
    return name if name and formats.is_known(name, types[0] if len(types) == 1 else "") else ""


def _null_errors(schema: JsonObject, types: tuple[str, ...], path: str) -> list[FieldError]:
    errors = [] if not types or schema.get("nullable") else [_wrong_type(path, ",".join(types), "null")]
    return errors + (_enum_errors(schema, None, path) if schema.get("enum") else [])


def _type_errors(schema: JsonObject, types: tuple[str, ...], value: Any, path: str) -> list[FieldError]:
    wanted = _format(schema, types)
    is_numeric = "number" in types or "integer" in types
    if wanted and not is_numeric and isinstance(value, str | list):
        return []
    name = _name_of(value)
    fits = name in types or (name == "integer" and "number" in types)
    if fits or (name == "number" and "integer" in types and float(value).is_integer()):
        return []
    if wanted and not isinstance(value, str | list):
        # Parity: if the value is neither string nor list, the error shows a format (int64), not a type.
        return [_wrong_type(path, wanted, {"integer": "int64", "number": "float64"}.get(name, ""))]
    return [_wrong_type(path, ",".join(types), name)]


def _name_of(value: Any) -> str:
    name = _NAMES[type(value)]
    return "number" if name == "integer" and value not in _INT64 else name


def _wrong_type(path: str, wanted: str, shown: str) -> FieldError:
    detail = f"{path} in body must be of type {wanted}: {go_quote(shown)}"
    return invalid_value(_field(path), shown, detail, reason=TYPE_INVALID)


def _field(path: str) -> str:
    return path.removeprefix(".") or NO_PATH


def _says(path: str, value: Any, what: str) -> FieldError:
    return invalid_value(_field(path), value, f"{path} in body should {what}")


def _enum_errors(schema: JsonObject, value: Any, path: str) -> list[FieldError]:
    return [unsupported_value(_field(path), value, schema["enum"])] if schema["enum"] else []


# Strings and numbers


def _string_errors(schema: JsonObject, value: str, path: str) -> list[FieldError]:
    """The first violation of maxLength, minLength or pattern."""
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if longest is not None and len(value) > longest:
        return [too_long(_field(path), longest)]
    if shortest is not None and len(value) < shortest:
        return [_says(path, value, f"be at least {shortest} chars long")]
    pattern = schema.get("pattern")
    return _pattern_errors(pattern, value, path) if pattern else []


def _pattern_errors(pattern: str, value: str, path: str) -> list[FieldError]:
    try:
        matches = compile_pattern(pattern).matches(value)
    except PatternError as error:
        return [_says(path, value, f"match '{pattern}, but pattern is invalid: {error}'")]
    except TooCostly:
        return [_says(path, value, f"match '{pattern}', but that takes too long to find out: shorten the value")]
    return [] if matches else [_says(path, value, f"match '{pattern}'")]


def _format_errors(schema: JsonObject, types: tuple[str, ...], value: str, path: str) -> list[FieldError]:
    name = _format(schema, types)
    valid = formats.string_format(name) if name else None
    if valid is None or valid(value):
        return []
    detail = f"{path} in body must be of type {name}: {go_quote(value)}"
    return [invalid_value(_field(path), value, detail, reason=TYPE_INVALID)]


def _number_errors(schema: JsonObject, types: tuple[str, ...], value: float, path: str) -> list[FieldError]:
    number = value if isinstance(value, float) or value in _INT64 else float(value)
    wanted, name = (types[0] if len(types) == 1 else ""), _format(schema, types)
    errors = _range_errors(number, wanted, name, "Checked", path)
    if (factor := schema.get("multipleOf")) is not None:
        errors += _range_errors(factor, wanted, name, "MultipleOf", path) + _multiple_errors(number, factor, path)
    if (low := schema.get("minimum")) is not None:
        errors += _range_errors(low, wanted, name, "Minimum boundary", path)
        exclusive = bool(schema.get("exclusiveMinimum"))
        if number < low or (exclusive and number == low):
            errors.append(_beyond(path, number, low, "greater than", exclusive=exclusive))
    if (high := schema.get("maximum")) is not None:
        errors += _range_errors(high, wanted, name, "Maximum boundary", path)
        exclusive = bool(schema.get("exclusiveMaximum"))
        if number > high or (exclusive and number == high):
            errors.append(_beyond(path, number, high, "less than", exclusive=exclusive))
    return errors


def _beyond(path: str, number: float, limit: float, than: str, *, exclusive: bool) -> FieldError:
    # Parity: the limit is printed as a number of the value's type.
    shown = go_number(float(limit) if isinstance(number, float) else limit)
    return _says(path, number, f"be {than} {'' if exclusive else 'or equal to '}{shown}")


def _range_errors(number: float, type: str, format: str, what: str, path: str) -> list[FieldError]:
    """Check that a number, from the value or the schema, is representable in the declared type and format."""
    if type == "integer":
        fits = float(number).is_integer() and int(number) in (_INT32 if format == "int32" else _INT64)
    else:
        fits = format != "float" or abs(number) <= _FLOAT32_MAX
    if fits:
        return []
    expected = f"{type} with format {format}" if format else f"{type} (default format)"
    return [invalid_object(f"{what} value must be of type {expected} in {path}")]


def _multiple_errors(number: float, factor: float, path: str) -> list[FieldError]:
    if isinstance(number, int):
        factor = int(factor)
    if factor <= 0:
        detail = f"factor MultipleOf declared for {path} must be positive: {go_number(factor)}"
        return [invalid_value(_field(path), factor, detail)]
    if isinstance(number, int):
        is_multiple = number % factor == 0
    else:
        quotient = 1 / factor * number if factor < 1 else number / factor
        is_multiple = abs(quotient - round(quotient)) < 1e-9 * max(1.0, abs(quotient))
    return [] if is_multiple else [_says(path, number, f"be a multiple of {go_number(factor)}")]


# Lists and objects


def _item_errors(schema: JsonObject, value: list[Any], path: str, old: Old) -> list[FieldError]:
    errors: list[FieldError] = []
    items = schema.get("items")
    if items:
        for index, item in enumerate(value):
            before = old_item(schema, value, index, old)
            errors += validate_value(items, item, path=f"{path}[{index}]", old=before)
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        errors.append(_says(path, len(value), f"have at least {least} items"))
    if most is not None and len(value) > most:
        errors.append(too_many(_field(path), len(value), most))
    return errors


def _field_errors(schema: JsonObject, value: JsonObject, path: str, old: Old) -> list[FieldError]:
    errors: list[FieldError] = []
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        errors.append(_says(path, len(value), f"have at least {least} properties"))
    if most is not None and len(value) > most:
        errors.append(too_many(_field(path), len(value), most))
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            continue
        if others is False:
            detail = f"{path}.{name} in body is a forbidden property"
            errors.append(invalid_value(_field(path), name, detail))
        elif isinstance(others, dict):
            before = old_field(schema, name, old)
            errors += validate_value(others, item, path=f"{path}.{name}", old=before)
    for name, of in properties.items():
        if name in value:
            inner = f"{path}.{name}" if path else name
            errors += validate_value(of, value[name], path=inner, old=old_field(schema, name, old))
    missing = [name for name in schema.get("required") or () if name not in value]
    errors += [required(_field(f"{path}.{name}")) for name in missing]
    return errors


# Alternatives


def _alternative_errors(schema: JsonObject, value: Any, path: str, old: Old) -> list[FieldError]:
    errors: list[FieldError] = []
    for word, judge in (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of)):
        if choices := schema.get(word):
            errors += judge([_check(choice, value, path, old) for choice in choices], path)
    if (forbidden := schema.get("not")) is not None and not _check(forbidden, value, path, old):
        errors.append(invalid_object(f"{go_quote(path)} must not validate the schema (not)"))
    return errors


def _any_of(results: list[list[FieldError]], path: str) -> list[FieldError]:
    closest = min(results, key=len)
    if not closest:
        return []
    return [invalid_object(f"{go_quote(path)} must validate at least one schema (anyOf)"), *closest]


def _one_of(results: list[list[FieldError]], path: str) -> list[FieldError]:
    valid = results.count([])
    if valid == 1:
        return []
    found = f"Found {valid} valid alternatives" if valid else "Found none valid"
    error = invalid_object(f"{go_quote(path)} must validate one and only one schema (oneOf). {found}")
    return [error, *min(results, key=len)]


def _all_of(results: list[list[FieldError]], path: str) -> list[FieldError]:
    failed = [errors for errors in results if errors]
    if not failed:
        return []
    none = ". None validated" if len(failed) == len(results) else ""
    error = invalid_object(f"{go_quote(path)} must validate all the schemas (allOf){none}")
    return [*(each for errors in failed for each in errors), error]
