"""Ages as kubectl prints them; the cases are upstream's TestHumanDurationBoundaries and TestHumanDuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.tables.cells import human_duration, time_since

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1.999, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (1, "1s"),
        (119.9, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 1, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR + MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR + 5 * DAY, "8y"),
    ],
)
def test_durations(seconds, shown):
    assert human_duration(seconds) == shown


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        pytest.param(None, "<unknown>", id="none"),
        pytest.param("", "<unknown>", id="empty"),
        pytest.param("1970-01-01T00:00:10Z", "90s", id="seconds"),
        pytest.param("1970-01-01T00:00:10.500000Z", "89s", id="microseconds"),
        pytest.param("yesterday", "<invalid>", id="no time"),
        pytest.param("1970-01-01T01:00:00Z", "<invalid>", id="in the future"),
    ],
)
def test_since(time, shown):
    assert time_since(time, 100) == shown


_UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}


def _read(text):
    total, digits = 0, ""
    for char in text:
        if char.isdigit():
            digits += char
        else:
            total, digits = total + int(digits) * _UNITS[char], ""
    return total


@given(st.integers(0, 50 * YEAR))
def test_durations_are_rounded_down_by_a_small_amount(seconds):
    shown = _read(human_duration(seconds))
    assert shown <= seconds
    assert seconds - shown <= max(seconds // 8, 1)
