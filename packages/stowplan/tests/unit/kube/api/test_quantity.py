"""Quantities, compared with the reference's tables and with plain fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.quantity import (
    FORMAT_WRONG,
    NANO,
    NUMERIC_WRONG,
    SUFFIX_WRONG,
    Format,
    QuantityError,
    format_quantity,
    milli_value,
    parse_quantity,
    read_quantity,
    value,
)

FACTORS = {
    **{suffix: Fraction(10) ** exponent for suffix, exponent in zip(("n", "u", "m"), (-9, -6, -3), strict=True)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{f"{e}{sign}{n}": Fraction(10) ** n for e in "eE" for sign in ("", "+") for n in (0, 3, 12)},
    **{f"{e}-{n}": Fraction(10) ** -n for e in "eE" for n in (1, 3, 12)},
}


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("0.1", 1, 100),
        ("1u", 1, 1),
        ("0", 0, 0),
        ("2.5Gi", 2684354560, 2684354560000),
        ("1e3", 1000, 1000000),
        ("0.5Mi", 524288, 524288000),
        ("100.035Ki", 102436, 102435840),
        ("1.1E-9", 1, 1),
        ("-1500m", -2, -1500),
        ("-1.1m", -1, -2),
        (" 5 ", 5, 5000),
        (5, 5, 5000),
        (0.25, 1, 250),
        (1e20, 0, 0),
        ("12E", 0, 0),
        ("10P", 10**16, 0),
    ],
)
def test_integer_views(text, whole, milli):
    assert (value(parse_quantity(text)), milli_value(parse_quantity(text))) == (whole, milli)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_WRONG),
        (" ", FORMAT_WRONG),
        ("x", FORMAT_WRONG),
        ("1x", FORMAT_WRONG),
        ("1 1", FORMAT_WRONG),
        ("1.1.1", FORMAT_WRONG),
        ("1e3k", FORMAT_WRONG),
        ("1K", SUFFIX_WRONG),
        ("1mi", SUFFIX_WRONG),
        ("1e", SUFFIX_WRONG),
        ("--1", SUFFIX_WRONG),
        ("Ei", NUMERIC_WRONG),
        (float("nan"), FORMAT_WRONG),
    ],
)
def test_bad_quantities(text, message):
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["+", "-", ".", "Ki", "m", "0Ei", "-0", "0e5"])
def test_a_number_without_digits_is_zero(text):
    assert parse_quantity(text) == 0


@pytest.mark.parametrize("text", ["8Ei", "9Ei", "100Ei", "7.9999999999999999999Ei"])
def test_binary_quantities_are_capped_at_int64(text):
    assert parse_quantity(text) <= (2**63 - 1) * NANO
    assert parse_quantity("-" + text) == -parse_quantity(text)


def test_decimal_quantities_are_not_capped():
    assert parse_quantity("100E") == 100 * 10**18 * NANO


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1500m", "1500m"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.3Ki", "307200m"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("12345e1", "123450"),
        ("5000", "5k"),
        ("100000Ki", "100000Ki"),
        ("0Gi", "0"),
        ("-2048Ki", "-2Mi"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("0100m", "0100m"),
        ("1.500", "1.500"),
    ],
)
def test_canonical_text(text, canonical):
    assert str(read_quantity(text)) == canonical


def plain(sign, num, denom, suffix):
    amount = Fraction(f"{num or 0}.{denom or 0}") * FACTORS[suffix] * NANO
    nano = math.ceil(amount)
    if suffix.endswith("i"):
        nano = min(nano, (2**63 - 1) * NANO)
    return -nano if sign == "-" else nano


digits = st.text("0123456789", max_size=25)


@given(st.sampled_from(["", "+", "-"]), digits.filter(bool), digits, st.sampled_from(sorted(FACTORS)))
def test_reading_agrees_with_fractions(sign, num, denom, suffix):
    text = f"{sign}{num}.{denom}{suffix}" if denom else f"{sign}{num}{suffix}"
    assert parse_quantity(text) == plain(sign, num, denom, suffix)


@given(st.integers(-(10**18), 10**18))
def test_views_round_away_from_zero(nano):
    whole = math.ceil(Fraction(abs(nano), NANO))
    assert value(nano) == (whole if nano >= 0 else -whole)


@given(st.integers(-(10**26), 10**26), st.sampled_from(Format))
def test_canonical_text_parses_back(nano, fmt):
    assert parse_quantity(format_quantity(nano, fmt)) == nano
