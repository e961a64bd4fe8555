"""`"%s has %d".format([…])`. Upstream: ext/formatting.go.

`%e` and `%f` print like the reference with its fixed locale, where `%e` always has six digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.functions.conversions import to_string
from stowplan.kube.cel.functions.operators import bounded_text
from stowplan.kube.cel.functions.semvers import quoted
from stowplan.kube.cel.values import Value
from stowplan.kube.structs import PlainStruct

_CLAUSE_RE = re.compile(r"%(?:(?P<percent>%)|(?:\.(?P<precision>[0-9]*))?(?P<verb>.)?)", re.DOTALL)
_PRECISION = 6
_SUPERSCRIPTS = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
_NUMBER_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})

_STRING_KINDS = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"


class Clause(PlainStruct, frozen=True):
    """A part of a format: literal text, then the format of one argument; the last part has no argument."""

    text: str
    verb: str
    precision: int

    def formatted(self, value: Value) -> str:
        bounded_text(self.precision)
        try:
            return _VERBS[self.verb](value, self.precision)
        except _FormatError as error:
            raise ValueProblem(f"error during formatting: {error}") from None

    def problem_with(self, value: Value | OfType) -> str | None:
        """The problem with a value as the argument."""
        try:
            _VERBS[self.verb](value, 0)
        except _FormatError as error:
            return f"error during formatting: {error}"
        return None


def clauses(text: str) -> Iterator[Clause]:
    """The clauses with an argument. Raises a `ValueProblem` for an invalid one."""
    return (clause for clause in _parsed(text) if clause.verb)


def formatted(text: str, args: list[Value]) -> Value:
    parts: list[str] = []
    used = size = 0
    for clause in _parsed(text):
        parts.append(clause.text)
        if clause.verb:
            if used >= len(args):
                raise ValueProblem(f"index {used} out of range")
            parts.append(clause.formatted(args[used]))
            used += 1
            size += len(parts[-1])
            bounded_text(size)
    return "".join(parts)


def _parsed(text: str) -> Iterator[Clause]:
    position = 0
    for match in _CLAUSE_RE.finditer(text):
        before = text[position : match.start()]
        position = match.end()
        if match["percent"]:
            yield Clause(f"{before}%", "", 0)
        else:
            yield Clause(before, _verb(match), _precision(match["precision"]))
    yield Clause(text[position:], "", 0)


def _verb(match: re.Match[str]) -> str:
    verb = match["verb"]
    if verb is None:
        if match["precision"] is None:
            raise ValueProblem("unexpected end of string")
        wrong = "error while parsing precision: could not find end of precision specifier"
        raise ValueProblem(f"could not parse formatting clause: {wrong}")
    if verb not in _VERBS:
        raise ValueProblem(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return str(verb)


def _precision(digits: str | None) -> int:
    if digits is None:
        return _PRECISION
    # More digits are too large in any case.
    return int(digits[:18] or "0")


class _FormatError(Exception):
    pass


class OfType:
    """Stands for any value of a type that no clause accepts."""

    def __init__(self, name: str) -> None:
        self.name = name


def _given(value: Value | OfType) -> str:
    return f"was given {value.name if isinstance(value, OfType) else v.type_name(value)}"


def _refused(clause: str, kinds: str, value: Value | OfType) -> _FormatError:
    return _FormatError(f"{clause} clause can only be used on {kinds}, {_given(value)}")


def _string(value: Value | OfType, _precision: int) -> str:
    match value:
        case None:
            return "null"
        case list():
            return _list(value)
        case dict():
            return _map(value)
        case t.Type():
            return value.name
        case bool() | int() | float() | str() | bytes() | v.Duration() | v.Timestamp():
            return str(to_string(value))
    raise _refused("string", _STRING_KINDS, value)


def _list(values: list[Value]) -> str:
    return "[" + ", ".join(map(_element, values)) + "]"


def _map(mapping: dict[Value, Value]) -> str:
    entries: list[tuple[str, str]] = []
    for raw_key, value in mapping.items():
        key = v.key_value(raw_key)
        if not isinstance(key, str | bool | int):
            raise _FormatError(f"no formatting function for map key of type {v.type_name(key)}")
        entries.append((_element(key), _element(value)))
    return "{" + ", ".join(f"{key}:{value}" for key, value in sorted(entries)) + "}"


def _element(value: Value) -> str:
    """A value inside a list or a map."""
    match value:
        case str():
            return quoted(value)
        case bytes():
            return "b" + quoted(_string(value, 0))
        case bool():
            return _string(value, 0)
        case int():
            return str(int(value))
        case float():
            return f"{value:.{_PRECISION}f}" if math.isfinite(value) else quoted(v.go_float(value))
        case v.Duration():
            return f"duration({quoted(_string(value, 0))})"
        case v.Timestamp():
            return f"timestamp({quoted(_string(value, 0))})"
        case None | list() | dict() | t.Type():
            return _string(value, 0)
    raise _FormatError(f"no formatting function for {v.type_name(value)}")


def _decimal(value: Value | OfType, _precision: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    raise _refused("decimal", "integers", value)


def _number(clause: str, value: Value | OfType) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _NUMBER_WORDS:
        return float(value.replace("Infinity", "inf"))
    raise _refused(clause, "doubles", value)


def _fixed(value: Value | OfType, precision: int) -> str:
    number = _number("fixed-point", value)
    return f"{number:,.{precision}f}" if math.isfinite(number) else _not_finite(number)


def _scientific(value: Value | OfType, _precision: int) -> str:
    number = _number("scientific", value)
    if not math.isfinite(number):
        return _not_finite(number)
    mantissa, _, exponent = f"{number:.6e}".partition("e")
    sign = "⁻" if exponent[0] == "-" else ""
    return f"{mantissa}×10{sign}{exponent[1:].translate(_SUPERSCRIPTS)}"


def _not_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _binary(value: Value | OfType, _precision: int) -> str:
    if isinstance(value, int):
        return f"{int(value):b}"
    raise _FormatError(f"only integers and bools can be formatted as binary, {_given(value)}")


def _hex(value: Value | OfType, _precision: int) -> str:
    match value:
        case bool():
            pass
        case int():
            return f"{int(value):x}"
        case str():
            return value.encode(errors="surrogatepass").hex()
        case bytes():
            return value.hex()
    raise _FormatError(f"only integers, byte buffers, and strings can be formatted as hex, {_given(value)}")


def _upper_hex(value: Value | OfType, precision: int) -> str:
    return _hex(value, precision).upper()


def _octal(value: Value | OfType, _precision: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{int(value):o}"
    raise _refused("octal", "integers", value)


_VERBS: dict[str, Callable[[Value | OfType, int], str]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": _upper_hex,
    "o": _octal,
}
