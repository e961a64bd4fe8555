"""Values at run time: types that Python lacks, and CEL's types, equality, order and sizes.

Python's bool, int, float, str, bytes, None, list and dict are CEL's bool, int, double, string, bytes, null, list and
map. Lists and maps are immutable once they are values. A map's keys are stored by `map_key`, because Python's True
equals 1.

Upstream: common/types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.structs import PlainStruct

Value: TypeAlias = object

INT_MAX, INT_MIN, UINT_MAX = (1 << 63) - 1, -(1 << 63), (1 << 64) - 1


class UInt(int):
    """An unsigned integer; compares with other numbers by CEL's rules."""

    __slots__ = ()


class Optional(PlainStruct, frozen=True):
    value: Value


#: The empty optional.
NONE = Optional(None)


class Duration(PlainStruct, frozen=True, order=True):
    nanoseconds: int


class Timestamp(PlainStruct, frozen=True, order=True):
    """A point in time; nanoseconds since 1970."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Quantity:
    """A Kubernetes quantity, in nano-units."""

    nano: int
    #: It is a multiple of this power of ten: the reference does not treat a negative one as an integer, even for 1000m.
    scale: int = field(default=0, compare=False)
    #: A big decimal, which the reference never treats as an integer.
    is_big: bool = field(default=False, compare=False)
    #: Parity: the result of `add` or `sub` cannot be the right operand of an equality comparison.
    is_computed: bool = field(default=False, compare=False)


class BoolKey:
    """A bool as the key of a map."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value


_TRUE_KEY, _FALSE_KEY = BoolKey(True), BoolKey(False)


class DomainMap(dict[str, Value]):
    """The map of a device's domains: a missing one is an empty map when accessed, but not `in` it."""

    __slots__ = ()


_NO_NAMES: dict[Value, Value] = {}


def map_key(key: Value) -> Value:
    if key is True:
        return _TRUE_KEY
    if key is False:
        return _FALSE_KEY
    return key


def key_value(key: Value) -> Value:
    """The value of a map key."""
    return key.value if type(key) is BoolKey else key


class _Absent:
    __slots__ = ()


ABSENT = _Absent()


def find(mapping: dict[Value, Value], key: Value) -> Value:
    """The value of a key, `ABSENT` if it is missing."""
    try:
        value = mapping.get(map_key(key), ABSENT)
    except TypeError:  # a list or a map, which cannot be a key
        return ABSENT
    return _NO_NAMES if value is ABSENT and type(mapping) is DomainMap else value


def contains_key(mapping: dict[Value, Value], key: Value) -> bool:
    try:
        return map_key(key) in mapping
    except TypeError:
        return False


# --- Types.

_TYPES: dict[type, t.Type] = {
    bool: t.BOOL,
    int: t.INT,
    UInt: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
    list: t.list_of(t.DYN),
    dict: t.map_of(t.DYN, t.DYN),
    DomainMap: t.map_of(t.DYN, t.DYN),
    Optional: t.optional_of(t.DYN),
    Duration: t.DURATION,
    Timestamp: t.TIMESTAMP,
    Quantity: t.QUANTITY,
    t.Type: t.TYPE,
}


def register(python_type: type, cel_type: t.Type) -> None:
    """Register a class as a CEL type, for libraries with their own values."""
    _TYPES[python_type] = cel_type


def type_of(value: Value) -> t.Type:
    return _TYPES[type(value)]


def type_name(value: Value) -> str:
    return _TYPES[type(value)].name


_BY_NAME: dict[t.TypeKind, type] = {
    t.TypeKind.BOOL: bool,
    t.TypeKind.INT: int,
    t.TypeKind.UINT: UInt,
    t.TypeKind.DOUBLE: float,
    t.TypeKind.STRING: str,
    t.TypeKind.BYTES: bytes,
    t.TypeKind.NULL: type(None),
    t.TypeKind.DURATION: Duration,
    t.TypeKind.TIMESTAMP: Timestamp,
    t.TypeKind.TYPE: t.Type,
}


def type_guard(wanted: t.Type) -> Callable[[Value], bool]:
    """Whether a value can be passed to a parameter of this type.

    Like in the reference, only the first element of lists and maps is checked.
    """
    if wanted.is_dynamic or wanted.kind is t.TypeKind.PARAM:
        return lambda _value: True
    exact = _BY_NAME.get(wanted.kind)
    if exact is not None:
        return lambda value: type(value) is exact
    if wanted.kind is t.TypeKind.LIST:
        element = type_guard(wanted.params[0])
        return lambda value: isinstance(value, list) and (not value or element(value[0]))
    if wanted.kind is t.TypeKind.MAP:
        key, item = type_guard(wanted.params[0]), type_guard(wanted.params[1])
        return lambda value: isinstance(value, dict) and (not value or _first_fits(value, key, item))
    return lambda value: type_name(value) == wanted.name


def _first_fits(
    mapping: dict[Value, Value], key_fits: Callable[[Value], bool], item_fits: Callable[[Value], bool]
) -> bool:
    key, item = next(iter(mapping.items()))
    return key_fits(key_value(key)) and item_fits(item)


# --- Equality and order.

_NUMBERS = frozenset({int, UInt, float})
#: Comparing these with another type is an error, while most types are just unequal.
_STRICT: set[type] = set()


def register_strict_equality(python_type: type) -> None:
    _STRICT.add(python_type)


def equal(left: Value, right: Value) -> bool:
    """`left == right`; raises where the reference has an error value."""
    kind, other = type(left), type(right)
    if kind is other and kind in _PLAIN:
        return left == right
    if kind is Quantity and (other is not Quantity or right.is_computed):  # type: ignore[attr-defined]
        raise ValueProblem("no such overload")
    if kind in _NUMBERS and other in _NUMBERS:
        return _compared_numbers(left, right) == 0  # type: ignore[arg-type] # both are numbers
    if left is None or right is None:
        return left is right
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(_equal_elements, left, right))
    if isinstance(left, dict):
        return isinstance(right, dict) and len(left) == len(right) and _equal_maps(left, right)
    if kind is Optional:
        return other is Optional and _equal_optionals(left, right)  # type: ignore[arg-type] # both are optionals
    if kind is t.Type:
        return other is t.Type and left.name == right.name  # type: ignore[attr-defined]
    if kind is not other:
        if kind in _STRICT:
            raise ValueProblem("no such overload")
        return False
    return left == right


_PLAIN = frozenset({bool, int, UInt, float, str, bytes, Duration, Timestamp})


def _equal_elements(left: Value, right: Value) -> bool:
    """Elements that cannot be compared count as equal: in the reference only an inequality ends the comparison."""
    try:
        return equal(left, right)
    except ValueProblem:
        return True


def _equal_maps(left: dict[Value, Value], right: dict[Value, Value]) -> bool:
    for key, value in left.items():
        other = right.get(key, ABSENT)
        if other is ABSENT or not _equal_elements(value, other):
            return False
    return True


def _equal_optionals(left: Optional, right: Optional) -> bool:
    if left is NONE or right is NONE:
        return left is right
    return equal(left.value, right.value)


def is_equal(left: Value, right: Value) -> bool:
    """Equality for membership, `!=` and searches, where an error counts as unequal."""
    try:
        return equal(left, right)
    except ValueProblem:
        return False


#: Values that Go cannot hash, and Go's names of their types.
UNHASHABLE: dict[type, str] = {bytes: "types.Bytes"}

_ORDERED = frozenset({bool, str, bytes, Duration, Timestamp})


def is_comparable(value: Value) -> bool:
    return type(value) in _ORDERED or type(value) in _NUMBERS


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1."""
    kind = type(left)
    if kind in _NUMBERS and type(right) in _NUMBERS:
        return _checked_numbers(left, right)  # type: ignore[arg-type] # both are numbers
    if kind is not type(right) or kind not in _ORDERED:
        raise ValueProblem("no such overload")
    if kind is str:
        return _order(left.encode(errors="surrogatepass"), right.encode(errors="surrogatepass"))  # type: ignore[attr-defined]
    return _order(left, right)


def _order(left: Value, right: Value) -> int:
    return int(left > right) - int(left < right)  # type: ignore[operator] # of one ordered type


def _checked_numbers(left: float, right: float) -> int:
    if math.isnan(left) or math.isnan(right):
        raise ValueProblem("NaN values cannot be ordered")
    return _compared_numbers(left, right)


def _compared_numbers(left: float, right: float) -> int:
    """Order of numbers of any type. An integer is converted to compare with a double, like in the reference."""
    if left != left or right != right:
        return 2
    if (type(left) is float) != (type(right) is float):
        if not INT_MIN <= left <= UINT_MAX or not INT_MIN <= right <= UINT_MAX:
            return _order(left, right)
        return _order(float(left), float(right))
    return _order(left, right)


def member(element: Value, values: Iterable[Value]) -> bool:
    return any(is_equal(element, value) for value in values)


# --- Sizes, for `size()` and for costs.

_SIZES: dict[type, Callable[[Value], int]] = {}


def register_size(python_type: type, size: Callable[[Value], int]) -> None:
    _SIZES[python_type] = size


_SIZED = (str, bytes, list, dict)


def cost_size(value: Value) -> int:
    """The size of a value in costs: its length, or 1 if it has none."""
    if isinstance(value, _SIZED):
        return len(value)
    if type(value) is Optional and value is not NONE:
        return cost_size(value.value)
    size = _SIZES.get(type(value))
    return size(value) if size is not None else 1


def shown(value: Value) -> str:
    """A value in an error message."""
    if value is True or value is False:
        return "true" if value else "false"
    if value is None:
        return "null"
    if type(value) is float:
        return go_float(value)
    if isinstance(value, list):
        return "[" + ", ".join(shown(element) for element in value) + "]"
    return str(value)


def go_float(value: float) -> str:
    """A double in Go's %g format: shortest digits, with an exponent from a million on."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    _sign, digit_tuple, power = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, digit_tuple))
    exponent = len(digits) - 1 + int(power)
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value and not -4 <= exponent < 6:
        mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return f"{sign}{Decimal(digits).scaleb(int(power)):f}"


def has_size(value: Value) -> bool:
    """Whether `size(value)` is defined for a value of a library."""
    return type(value) in _SIZES
