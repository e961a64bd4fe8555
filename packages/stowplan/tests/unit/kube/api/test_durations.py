"""Durations are parsed and formatted as in Go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.config import Duration, parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds", "written"),
    [
        ("15s", 15_000_000_000, "15s"),
        ("10m", 600_000_000_000, "10m0s"),
        ("1h", 3_600_000_000_000, "1h0m0s"),
        ("1.5h", 5_400_000_000_000, "1h30m0s"),
        ("500ms", 500_000_000, "500ms"),
        ("1500ms", 1_500_000_000, "1.5s"),
        ("-1s", -1_000_000_000, "-1s"),
        ("+.5us", 500, "500ns"),
        ("1.5µs", 1_500, "1.5µs"),
        ("0", 0, "0s"),
        ("1h2m3.004s", 3_723_004_000_000, "1h2m3.004s"),
    ],
)
def test_reading_and_writing(text, nanoseconds, written):
    assert parse_duration(text) == nanoseconds
    assert str(parse_duration(text)) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("15", 'time: missing unit in duration "15"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_invalid_durations(text, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        parse_duration(text)
    assert str(caught.value) == message


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_formatted_durations_parse_back(nanoseconds):
    assert parse_duration(str(Duration(nanoseconds))) == nanoseconds


def test_seconds():
    assert Duration.of_seconds(1.5).seconds == 1.5
