"""Kubernetes quantities. Upstream: k8s.io/apiserver/pkg/cel/library/quantity.go."""

from __future__ import annotations

from stowplan.api.quantity import NANO, QuantityError, read_quantity
from stowplan.cel import values as v
from stowplan.cel.declarations import function, member, overload
from stowplan.cel.errors import ValueProblem
from stowplan.cel.values import Quantity, Value


def _parsed(text: str) -> Value:
    try:
        return Quantity(_read(text))
    except QuantityError as error:
        raise ValueProblem(str(error)) from None


def _read(text: str) -> int:
    if not text or text != text.strip():
        raise QuantityError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    return read_quantity(text).nano


def _is_quantity(text: str) -> Value:
    try:
        _read(text)
    except QuantityError:
        return False
    return True


def _compare(left: Quantity, right: Quantity) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


def _is_greater(left: Quantity, right: Quantity) -> Value:
    return left.nano > right.nano


def _is_less(left: Quantity, right: Quantity) -> Value:
    return left.nano < right.nano


def _add(left: Quantity, right: Quantity) -> Value:
    return Quantity(left.nano + right.nano, is_computed=True)


def _add_int(left: Quantity, right: int) -> Value:
    return Quantity(left.nano + right * NANO, is_computed=True)


def _sub(left: Quantity, right: Quantity) -> Value:
    return Quantity(left.nano - right.nano, is_computed=True)


def _sub_int(left: Quantity, right: int) -> Value:
    return Quantity(left.nano - right * NANO, is_computed=True)


def _is_integer(quantity: Quantity) -> bool:
    return quantity.nano % NANO == 0 and v.INT_MIN <= quantity.nano // NANO <= v.INT_MAX


def _as_integer(quantity: Quantity) -> Value:
    if not _is_integer(quantity):
        raise ValueProblem("cannot convert value to integer")
    return quantity.nano // NANO


def _as_float(quantity: Quantity) -> Value:
    return quantity.nano / NANO


def _sign(quantity: Quantity) -> Value:
    return (quantity.nano > 0) - (quantity.nano < 0)


FUNCTIONS = [
    function("quantity", overload("string_to_quantity", "string -> Quantity", _parsed)),
    function("isQuantity", overload("is_quantity_string", "string -> bool", _is_quantity)),
    function("sign", overload("quantity_sign", "Quantity -> int", _sign)),
    function("isGreaterThan", member("quantity_is_greater_than", "Quantity, Quantity -> bool", _is_greater)),
    function("isLessThan", member("quantity_is_less_than", "Quantity, Quantity -> bool", _is_less)),
    function("compareTo", member("quantity_compare_to", "Quantity, Quantity -> int", _compare)),
    function("asApproximateFloat", member("quantity_get_float", "Quantity -> double", _as_float)),
    function("asInteger", member("quantity_get_int", "Quantity -> int", _as_integer)),
    function("isInteger", member("quantity_is_integer", "Quantity -> bool", _is_integer)),
    function(
        "add",
        member("quantity_add", "Quantity, Quantity -> Quantity", _add),
        member("quantity_add_int", "Quantity, int -> Quantity", _add_int),
    ),
    function(
        "sub",
        member("quantity_sub", "Quantity, Quantity -> Quantity", _sub),
        member("quantity_sub_int", "Quantity, int -> Quantity", _sub_int),
    ),
]
