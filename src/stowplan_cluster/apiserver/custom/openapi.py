"""Validate a value against an OpenAPI schema, with the reference's messages.

If all alternatives of `anyOf` or `oneOf` fail, the errors of the closest one are reported: the one with the most passed
checks. So checks are counted exactly as upstream counts them.

On an update, errors in unchanged parts are ignored (ratcheting), so that an object stays updatable after its schema
became stricter.

Upstream: k8s.io/kube-openapi/pkg/validation/validate, apiextensions-apiserver/pkg/apiserver/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from stowplan.api.api_errors import TYPE_INVALID, FieldError
from stowplan.api.field_errors import go_quote
from stowplan.structs import PlainStruct
from stowplan_cluster.apiserver.custom import formats
from stowplan_cluster.apiserver.custom.correlation import ABSENT, Old, old_field, old_item
from stowplan_cluster.apiserver.custom.errors import NO_PATH, invalid_object, invalid_value, unsupported_value
from stowplan_cluster.apiserver.custom.re2 import PatternError, TooCostly, compile_pattern
from stowplan_cluster.apiserver.json_values import equal, go_number, is_number
from stowplan_cluster.apiserver.validation.fields import required, too_long, too_many

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_INT64 = range(-(1 << 63), 1 << 63)
_INT32 = range(-(1 << 31), 1 << 31)
_NAMES = {str: "string", bool: "boolean", list: "array", dict: "object", int: "integer", float: "number"}
_FLOAT32_MAX = 3.4028234663852886e38


class Result(PlainStruct):
    errors: list[FieldError] = field(default_factory=list)
    #: Number of checks that passed.
    matches: int = 0

    def merge(self, other: Result) -> None:
        self.errors += other.errors
        self.matches += other.matches


def validate_value(schema: JsonObject, value: Any, *, path: str = "", old: Old = ABSENT) -> Result:
    """All errors of a value; `old` is the previous value, if it can be correlated."""
    result = _check(schema, value, path, old)
    if result.errors and old is not ABSENT and equal(value, old):
        result.errors = []
    return result


def _check(schema: JsonObject, value: Any, path: str, old: Old) -> Result:
    result = Result()
    types = _types(schema)
    if value is None:
        _check_null(result, schema, types, path)
        return result
    if types or _format(schema, types):
        _check_type(result, schema, types, value, path)
        result.matches += 1
    result.merge(_check_alternatives(schema, value, path, old))
    result.matches += 1
    if isinstance(value, str):
        result.errors += _string_errors(schema, value, path)
        result.errors += _format_errors(schema, types, value, path)
        result.matches += 1 + bool(_format(schema, types))
    elif is_number(value):
        result.errors += _number_errors(schema, types, value, path)
        result.matches += 2
    elif isinstance(value, list):
        result.merge(_check_items(schema, value, path, old))
        result.matches += 2
    if "enum" in schema and not any(equal(value, each) for each in schema["enum"] or ()):
        result.errors += _enum_errors(schema, value, path)
    result.matches += 1
    if isinstance(value, dict):
        result.merge(_check_fields(schema, value, path, old))
        result.matches += 1
    result.matches += 1
    return result


# Types


def _types(schema: JsonObject) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _format(schema: JsonObject, types: tuple[str, ...]) -> str:
    """The format, if it applies to this type."""
    name: str = schema.get("format") or ""
    return name if name and formats.is_known(name, types[0] if len(types) == 1 else "") else ""


def _check_null(result: Result, schema: JsonObject, types: tuple[str, ...], path: str) -> None:
    result.matches += 1
    if types and not schema.get("nullable"):
        result.errors.append(_wrong_type(path, ",".join(types), "null"))
        result.matches -= 1
    if schema.get("enum"):
        result.errors += _enum_errors(schema, None, path)


def _check_type(result: Result, schema: JsonObject, types: tuple[str, ...], value: Any, path: str) -> None:
    wanted = _format(schema, types)
    is_numeric = "number" in types or "integer" in types
    if wanted and not is_numeric and isinstance(value, str | list):
        result.matches += 1
        return
    name = _name_of(value)
    fits = name in types or (name == "integer" and "number" in types)
    if fits or (name == "number" and "integer" in types and float(value).is_integer()):
        result.matches += 1
    elif wanted and not isinstance(value, str | list):
        # Parity: if the value is neither string nor list, the error shows a format (int64), not a type.
        result.errors.append(_wrong_type(path, wanted, {"integer": "int64", "number": "float64"}.get(name, "")))
    else:
        result.errors.append(_wrong_type(path, ",".join(types), name))


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


def _check_items(schema: JsonObject, value: list[Any], path: str, old: Old) -> Result:
    result = Result(matches=1)
    items = schema.get("items")
    if items:
        for index, item in enumerate(value):
            before = old_item(schema, value, index, old)
            result.merge(validate_value(items, item, path=f"{path}[{index}]", old=before))
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        result.errors.append(_says(path, len(value), f"have at least {least} items"))
    if most is not None and len(value) > most:
        result.errors.append(too_many(_field(path), len(value), most))
    return result


def _check_fields(schema: JsonObject, value: JsonObject, path: str, old: Old) -> Result:
    result = Result()
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        result.errors.append(_says(path, len(value), f"have at least {least} properties"))
    if most is not None and len(value) > most:
        result.errors.append(too_many(_field(path), len(value), most))
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            continue
        if others is False:
            detail = f"{path}.{name} in body is a forbidden property"
            result.errors.append(invalid_value(_field(path), name, detail))
        elif isinstance(others, dict):
            before = old_field(schema, name, old)
            result.merge(validate_value(others, item, path=f"{path}.{name}", old=before))
    for name, of in properties.items():
        if name in value:
            inner = f"{path}.{name}" if path else name
            result.merge(validate_value(of, value[name], path=inner, old=old_field(schema, name, old)))
    missing = [name for name in schema.get("required") or () if name not in value]
    result.errors += [required(_field(f"{path}.{name}")) for name in missing]
    return result


# Alternatives


def _check_alternatives(schema: JsonObject, value: Any, path: str, old: Old) -> Result:
    result = Result(matches=1)
    if choices := schema.get("anyOf"):
        result.merge(_any_of(choices, value, path, old))
    if choices := schema.get("oneOf"):
        result.merge(_one_of(choices, value, path, old))
    if choices := schema.get("allOf"):
        result.merge(_all_of(choices, value, path, old))
    if (forbidden := schema.get("not")) is not None and not _check(forbidden, value, path, old).errors:
        result.errors.append(invalid_object(f"{go_quote(path)} must not validate the schema (not)"))
    return result


def _closest(results: list[Result]) -> Result:
    return max(results, key=lambda result: result.matches)


def _any_of(choices: list[JsonObject], value: Any, path: str, old: Old) -> Result:
    failed = []
    for choice in choices:
        result = _check(choice, value, path, old)
        if not result.errors:
            return result
        failed.append(result)
    merged = Result([invalid_object(f"{go_quote(path)} must validate at least one schema (anyOf)")])
    merged.merge(_closest(failed))
    return merged


def _one_of(choices: list[JsonObject], value: Any, path: str, old: Old) -> Result:
    results = [_check(choice, value, path, old) for choice in choices]
    valid = [result for result in results if not result.errors]
    if len(valid) == 1:
        return valid[0]
    found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    merged = Result([invalid_object(f"{go_quote(path)} must validate one and only one schema (oneOf). {found}")])
    if not valid:
        merged.merge(_closest(results))
    return merged


def _all_of(choices: list[JsonObject], value: Any, path: str, old: Old) -> Result:
    merged = Result()
    results = [_check(choice, value, path, old) for choice in choices]
    for result in results:
        merged.merge(result)
    failed = sum(bool(result.errors) for result in results)
    if failed:
        none = ". None validated" if failed == len(results) else ""
        merged.errors.append(invalid_object(f"{go_quote(path)} must validate all the schemas (allOf){none}"))
    return merged
