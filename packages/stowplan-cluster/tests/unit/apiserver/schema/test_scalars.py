"""Quantities, times and base64 as the API server reads and writes them."""

import base64
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.schema.conform import (
    canonical_base64,
    canonical_micro_time,
    canonical_quantity,
    canonical_time,
)

SECONDS = "2006-01-02T15:04:05Z07:00"
MICROSECONDS = "2006-01-02T15:04:05.000000Z07:00"


@pytest.mark.parametrize(
    ("read", "printed"),
    [("0.5", "500m"), (0.5, "500m"), (1, "1"), ("1.5Gi", "1536Mi"), ("1000m", "1"), (1e3, "1k"), ("2e3", "2e3")],
)
def test_quantities(read, printed):
    assert canonical_quantity(read) == printed


@pytest.mark.parametrize("value", ["", "much", "1 Gi", "1Gib", float("nan"), float("inf")], ids=repr)
def test_invalid_quantities(value):
    with pytest.raises(ValueError, match=r"^quantities must match|^unable to parse"):
        canonical_quantity(value)


@pytest.mark.parametrize(
    ("read", "printed"),
    [
        ("2026-01-31T23:59:59Z", "2026-01-31T23:59:59Z"),
        ("2026-01-31T23:59:59.999Z", "2026-01-31T23:59:59Z"),
        ("2026-01-31T23:59:59,5Z", "2026-01-31T23:59:59Z"),
        ("2026-02-01T01:00:00+02:00", "2026-01-31T23:00:00Z"),
    ],
)
def test_times(read, printed):
    assert canonical_time(read) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yesterday", f'parsing time "yesterday" as "{SECONDS}": cannot parse "yesterday" as "2006"'),
        ("", f'parsing time "" as "{SECONDS}": cannot parse "" as "2006"'),
        ("2026-01-31", f'parsing time "2026-01-31" as "{SECONDS}": cannot parse "" as "T"'),
        (
            "2026-01-31 23:59:59Z",
            f'parsing time "2026-01-31 23:59:59Z" as "{SECONDS}": cannot parse " 23:59:59Z" as "T"',
        ),
        (
            "2026-01-31T23:59:59",
            f'parsing time "2026-01-31T23:59:59" as "{SECONDS}": cannot parse "" as "Z07:00"',
        ),
        ("2026-01-31T23:59:59Zulu", 'parsing time "2026-01-31T23:59:59Zulu": extra text: "ulu"'),
        ("2026-13-01T00:00:00Z", 'parsing time "2026-13-01T00:00:00Z": month out of range'),
        ("2026-02-30T00:00:00Z", 'parsing time "2026-02-30T00:00:00Z": day out of range'),
        ("2026-01-01T25:00:00Z", 'parsing time "2026-01-01T25:00:00Z": hour out of range'),
    ],
)
def test_invalid_times(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        canonical_time(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2026-01-31T23:59:59Z",
            f'parsing time "2026-01-31T23:59:59Z" as "{MICROSECONDS}": cannot parse "Z" as ".000000"',
        ),
        (
            "2026-01-31T23:59:59.1234567Z",
            f'parsing time "2026-01-31T23:59:59.1234567Z" as "{MICROSECONDS}": cannot parse "7Z" as "Z07:00"',
        ),
    ],
)
def test_micro_times_have_six_digits(text, message):
    assert canonical_micro_time("2026-02-01T00:30:00.000001+01:00") == "2026-01-31T23:30:00.000001Z"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        canonical_micro_time(text)


moments = st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29))
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(moment=moments, zone=zones)
def test_time_zones_are_converted(moment, zone):
    moment = moment.replace(tzinfo=UTC)
    there = moment.astimezone(zone)

    assert canonical_time(there.isoformat()) == f"{moment.replace(tzinfo=None, microsecond=0).isoformat()}Z"
    assert canonical_micro_time(there.isoformat(timespec="microseconds")) == (
        f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    )


@given(st.binary())
def test_base64_round_trip(data):
    text = base64.b64encode(data).decode()

    assert canonical_base64(text) == text
    assert canonical_base64("\r\n".join(text)) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("plain text", 5, id="invalid first character"),
        pytest.param("YWJj*", 4, id="after whole groups"),
        pytest.param("YWJjZ", 4, id="group of one"),
        pytest.param("YWJjZm8", 4, id="no padding"),
        pytest.param("YW\nJjZm8\n", 6, id="line breaks count"),
        pytest.param("=AAA", 0, id="padding first"),
        pytest.param("YQ=", 3, id="half the padding"),
        pytest.param("YQ=a", 2, id="padding broken off"),
        pytest.param("YQ==YQ==", 4, id="more after the padding"),
        pytest.param("YWI=YWI=", 4, id="more after one padding"),
        pytest.param("éAAA", 0, id="not ASCII"),
    ],
)
def test_invalid_base64(text, place):
    with pytest.raises(ValueError, match=f"^illegal base64 data at input byte {place}$"):
        canonical_base64(text)


@given(st.text(alphabet="AZaz09+/=\n*é"))
def test_base64_is_refused_where_python_refuses_it(text):
    plain = text.replace("\n", "")
    # Python accepts unnecessary padding.
    assume(len(plain) % 4 == 0 or not plain.endswith("="))
    try:
        canonical_base64(text)
    except ValueError as error:
        place = int(str(error).rpartition(" ")[2])
        assert 0 <= place <= len(text.encode())
        with pytest.raises(ValueError):  # noqa: PT011 - any of binascii's
            base64.b64decode(plain.encode("ascii", "strict") if plain.isascii() else plain, validate=True)
    else:
        base64.b64decode(plain, validate=True)
