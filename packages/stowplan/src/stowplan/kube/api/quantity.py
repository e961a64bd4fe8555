"""Resource quantities ("500m", "1.5Gi", "2e3") as exact numbers.

A quantity is an integer number of nano-units (1e-9), Kubernetes' finest precision, so adding and comparing are integer
operations. Parsing rounds away from zero to that precision; the integer views round away from zero once more, and only
there.

The scheduler uses `parse_quantity`. `Quantity` also keeps the format, to print the API server's canonical string.

Upstream: k8s.io/apimachinery/pkg/api/resource.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.kube.api.meta import QuantityValue

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_WRONG = "unable to parse numeric part of quantity"
SUFFIX_WRONG = "unable to parse quantity's suffix"

NANO = 10**9
_NANO_PER_MILLI = 10**6
_INT64_MAX = (1 << 63) - 1

_SPLIT_RE = re.compile(
    r"(?P<sign>[+-]?)0*(?P<num>[0-9]*)(?:\.(?P<denom>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)"
)
_EXPONENT_RE = re.compile(r"[eE]([+-]?[0-9]+)")

_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_BY_EXPONENT = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}

# A larger exponent makes no difference: far beyond int64, or far below a nano-unit.
_EXPONENT_LIMIT = 1000
# The reference has no limit; Python refuses to parse integers of thousands of digits.
_LENGTH_LIMIT = 1000


class QuantityError(ValueError):
    """An invalid quantity; has the reference's message."""


class Format(Enum):
    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


class Quantity(PlainStruct, frozen=True):
    nano: int
    format: Format = Format.DECIMAL_SI
    #: The source text, if the reference prints it unchanged.
    text: str | None = None

    def __str__(self) -> str:
        return self.text or format_quantity(self.nano, self.format)


@lru_cache(maxsize=65536)
def parse_quantity(value: QuantityValue) -> int:
    """The nano-units of a JSON quantity."""
    if isinstance(value, int):
        return value * NANO
    return read_quantity(value).nano


@lru_cache(maxsize=4096)
def read_quantity(value: QuantityValue) -> Quantity:
    """The quantity with its format, for printing."""
    text = value.strip() if isinstance(value, str) else str(value)
    parts = _SPLIT_RE.fullmatch(text) if text else None
    if parts is None:
        raise QuantityError(FORMAT_WRONG)
    if len(text) > _LENGTH_LIMIT:
        raise QuantityError(NUMERIC_WRONG)
    number = _Number(parts["num"], parts["denom"] or "", *_interpret(parts["suffix"]))
    if not parts["num"] and not parts["denom"] and "0" not in text[: parts.start("suffix")] and not number.is_small:
        # Parity: a number without digits ("Mi", "-") is zero, except in the slow path.
        raise QuantityError(NUMERIC_WRONG)
    nano = number.nano
    signed = -nano if parts["sign"] == "-" else nano
    if number.is_small:
        return Quantity(signed, number.format, text if number.prints_as_read else None)
    below_one = number.format is Format.BINARY_SI and 0 < nano < NANO
    return Quantity(signed, Format.DECIMAL_SI if below_one else number.format)


class Amount(PlainStruct, frozen=True):
    """A quantity with the reference's representation, which determines whether it counts as an integer."""

    nano: int
    #: It is a multiple of this power of ten.
    scale: int
    #: Whether it is a big decimal rather than a scaled int64.
    is_big: bool


@lru_cache(maxsize=4096)
def read_amount(value: QuantityValue) -> Amount:
    """The amount of a JSON quantity."""
    quantity = read_quantity(value)
    parts = _SPLIT_RE.fullmatch(value.strip() if isinstance(value, str) else str(value))
    assert parts is not None  # Parsed before.
    number = _Number(parts["num"], parts["denom"] or "", *_interpret(parts["suffix"]))
    exponent = 0 if number.format is Format.BINARY_SI else number.exponent
    return Amount(quantity.nano, max(-9, exponent - len(number.denom)), not number.is_small)


def _interpret(suffix: str) -> tuple[int, Format]:
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return _BINARY_SUFFIXES[suffix], Format.BINARY_SI
    match = _EXPONENT_RE.fullmatch(suffix)
    if match is None:
        raise QuantityError(SUFFIX_WRONG)
    return int(match[1]), Format.DECIMAL_EXPONENT


class _Number(PlainStruct, frozen=True):
    """The unsigned parts of a quantity: digits before (no leading zeros) and after the dot, and the suffix."""

    num: str
    denom: str
    exponent: int
    format: Format

    @property
    def nano(self) -> int:
        digits = int(self.num + self.denom or "0")
        if self.format is Format.BINARY_SI:
            nano = _divide_up(digits * NANO << self.exponent, 10 ** len(self.denom))
            return min(nano, _INT64_MAX * NANO)
        shift = 9 - len(self.denom) + max(-_EXPONENT_LIMIT, min(_EXPONENT_LIMIT, self.exponent))
        return digits * 10**shift if shift >= 0 else _divide_up(digits, 10**-shift)

    @property
    def is_small(self) -> bool:
        """Whether the reference represents it as a scaled int64 rather than a big decimal."""
        digits = max(1, len(self.num))
        if self.format is Format.BINARY_SI:
            small = not self.denom and 14 - digits - self.exponent * 3 // 10 >= 0
            return small and int(self.num or "0") << self.exponent <= _INT64_MAX
        return digits + len(self.denom) <= 18 and self.exponent - len(self.denom) >= -9

    @property
    def prints_as_read(self) -> bool:
        shifted = (self.num or "0") + self.denom
        if self.format is Format.BINARY_SI:
            return int(shifted) & 7 != 0
        return (self.exponent - len(self.denom)) % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def value(nano: int) -> int:
    """Whole units, rounded away from zero; 0 if that does not fit into int64."""
    return _rounded(nano, NANO)


def milli_value(nano: int) -> int:
    """Milli-units, rounded away from zero; 0 if that does not fit into int64."""
    return _rounded(nano, _NANO_PER_MILLI)


def _rounded(nano: int, unit: int) -> int:
    magnitude = _divide_up(abs(nano), unit)
    if magnitude > _INT64_MAX:
        return 0
    return -magnitude if nano < 0 else magnitude


def format_quantity(nano: int, format: Format = Format.DECIMAL_SI) -> str:
    """Canonical text: no fraction, the largest possible suffix."""
    if nano == 0:
        return "0"
    sign, magnitude = ("-", -nano) if nano < 0 else ("", nano)
    if format is Format.BINARY_SI and magnitude >= 1024 * NANO and magnitude % NANO == 0:
        number, times = _without_factors(magnitude // NANO, 1024)
        return f"{sign}{number}{_BINARY_BY_EXPONENT.get(10 * times, '')}"
    number, times = _without_factors(magnitude, 10)
    exponent = times - 9
    excess = exponent % 3
    return f"{sign}{number * 10**excess}{_decimal_suffix(exponent - excess, format)}"


def _decimal_suffix(exponent: int, format: Format) -> str:
    if format is Format.DECIMAL_EXPONENT:
        return f"e{exponent}" if exponent else ""
    # Parity: beyond exa the reference prints no suffix.
    return _DECIMAL_BY_EXPONENT.get(exponent, "")


def _without_factors(number: int, factor: int) -> tuple[int, int]:
    times = 0
    while number % factor == 0:
        number //= factor
        times += 1
    return number, times
