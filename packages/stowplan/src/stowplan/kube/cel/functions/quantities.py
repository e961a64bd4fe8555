"""Kubernetes quantities. Upstream: k8s.io/apiserver/pkg/cel/library/quantity.go."""

from __future__ import annotations

from stowplan.kube.api.quantity import FORMAT_WRONG, NANO, QuantityError, read_amount
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import function, member, overload
from stowplan.kube.cel.values import Quantity, Value


def _parsed(text: str) -> Value:
    try:
        return read(text)
    except QuantityError as error:
        raise ValueProblem(str(error)) from None


def read(text: str | int | float) -> Quantity:
    """The value of a JSON quantity. Raises a `QuantityError`."""
    if isinstance(text, str) and (not text or text != text.strip()):
        raise QuantityError(FORMAT_WRONG)
    amount = read_amount(text)
    return Quantity(amount.nano, amount.scale, amount.is_big)


def _is_quantity(text: str) -> Value:
    try:
        read(text)
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
    nano = left.nano + right.nano
    scale = min(left.scale, right.scale)
    is_big = left.is_big or right.is_big
    if not is_big and not right.nano:
        scale = left.scale
    elif not is_big and not left.nano:
        scale = right.scale
    elif not is_big:
        is_big = not all(_fits(amount, scale) for amount in (left.nano, right.nano, nano))
    return Quantity(nano, scale, is_big, is_computed=True)


def _fits(nano: int, scale: int) -> bool:
    return v.INT_MIN <= _unscaled(nano, scale) <= v.INT_MAX


def _unscaled(nano: int, scale: int) -> int:
    return nano // int(10 ** (9 + scale))


def _sub(left: Quantity, right: Quantity) -> Value:
    return _add(left, Quantity(-right.nano, right.scale, right.is_big))


def _add_int(left: Quantity, right: int) -> Value:
    return _add(left, Quantity(right * NANO))


def _sub_int(left: Quantity, right: int) -> Value:
    return _sub(left, Quantity(right * NANO))


def _is_integer(quantity: Quantity) -> bool:
    return not quantity.is_big and quantity.scale >= 0 and _fits(quantity.nano, 0)


def _as_integer(quantity: Quantity) -> Value:
    if not _is_integer(quantity):
        raise ValueProblem("cannot convert value to integer")
    return quantity.nano // NANO


def _as_float(quantity: Quantity) -> Value:
    base = float(_unscaled(quantity.nano, quantity.scale))
    return base * float(f"1e{quantity.scale}") if quantity.scale else base


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
