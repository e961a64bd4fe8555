"""Parse and format scalars as the API server does.

Each function takes a JSON value and returns its canonical form; ValueError carries the server's message. They run for
every write, hence the caches.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go, pkg/api/resource,
and Go's time and encoding/base64, whose complaints reach users.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.quantity import read_quantity

_DATE = (("2006", r"[0-9]{4}"), ("-", "-"), ("01", "[0-9]{2}"), ("-", "-"), ("02", "[0-9]{2}"), ("T", "T"))
_CLOCK = (("15", "[0-9]{2}"), (":", ":"), ("04", "[0-9]{2}"), (":", ":"), ("05", "[0-9]{2}"))
_ZONE = (("Z07:00", "Z|[+-][0-9]{2}:[0-9]{2}"),)
_SECONDS = (*_DATE, *_CLOCK[:-1], ("05", "[0-9]{2}(?:[.,][0-9]+)?"), *_ZONE)
_MICROSECONDS = (*_DATE, *_CLOCK, (".000000", r"\.[0-9]{6}"), *_ZONE)
_RANGES = (("month", 1, 12), ("day", 1, 31), ("hour", 0, 23), ("minute", 0, 59), ("second", 0, 59))
_TIME = "".join(f"(?:{pattern})" for _, pattern in _SECONDS)
_TIME_RE = re.compile(_TIME)
_MICRO_TIME_RE = re.compile("".join(f"(?:{pattern})" for _, pattern in _MICROSECONDS))
_NUMBERS_RE = re.compile(r"[0-9]{4}-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})")
_BASE64_RE = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_BASE64_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


@lru_cache(maxsize=4096, typed=True)
def canonical_quantity(value: str | int | float) -> str:
    """Canonical form of a quantity: `0.5` becomes "500m"."""
    return str(read_quantity(value if isinstance(value, str) else repr(value)))


@lru_cache(maxsize=1024)
def canonical_time(text: str) -> str:
    """Canonical form of a time: UTC, whole seconds."""
    if not _TIME_RE.fullmatch(text):
        raise ValueError(_why_no_time(text, _SECONDS))
    return f"{_utc(text.replace(',', '.')).isoformat(timespec='seconds')}Z"


@lru_cache(maxsize=1024)
def canonical_micro_time(text: str) -> str:
    """Canonical form of a MicroTime: UTC, exactly six fractional digits."""
    if not _MICRO_TIME_RE.fullmatch(text):
        raise ValueError(_why_no_time(text, _MICROSECONDS))
    return f"{_utc(text).isoformat(timespec='microseconds')}Z"


def _utc(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ValueError(f"parsing time {go_quote(text)}: {_out_of_range(text)} out of range") from None


def _out_of_range(text: str) -> str:
    numbers = _NUMBERS_RE.match(text)
    read = numbers.groups() if numbers else ()
    return next(
        (name for (name, low, high), digits in zip(_RANGES, read, strict=False) if not low <= int(digits) <= high),
        "day",
    )


def _why_no_time(text: str, layout: tuple[tuple[str, str], ...]) -> str:
    words = "".join(word for word, _ in layout)
    rest = text
    for word, pattern in layout:
        found = re.match(pattern, rest)
        if found is None:
            return f'parsing time {go_quote(text)} as "{words}": cannot parse {go_quote(rest)} as "{word}"'
        rest = rest[found.end() :]
    return f"parsing time {go_quote(text)}: extra text: {go_quote(rest)}"


def canonical_base64(text: str) -> str:
    """Canonical form of base64: without line breaks."""
    plain = text.replace("\r", "").replace("\n", "") if "\n" in text or "\r" in text else text
    if len(plain) % 4 or not _BASE64_RE.fullmatch(plain):
        raise ValueError(f"illegal base64 data at input byte {_where_no_base64(text)}")
    return plain


def _where_no_base64(text: str) -> int:
    """The offset of the first error, as Go's decoder reports it."""
    places = [(place, character) for place, character in enumerate(text) if character not in "\r\n"]
    for start in range(0, len(places), 4):
        group = places[start : start + 4]
        for number, (place, character) in enumerate(group):
            if character in _BASE64_CHARACTERS:
                continue
            if character != "=" or number < 2:
                return _bytes_before(text, place)
            return _where_bad_padding(text, places[start + number + 1 :], number)
        if len(group) < 4:
            return _bytes_before(text, len(text)) - len(group)
    return _bytes_before(text, len(text))


def _where_bad_padding(text: str, after: list[tuple[int, str]], number: int) -> int:
    """The offset of an error after the first `=`, which is the third or fourth character of its group."""
    if number == 2:
        if not after:
            return _bytes_before(text, len(text))
        if after[0][1] != "=":
            return _bytes_before(text, after[0][0]) - 1
        after = after[1:]
    return _bytes_before(text, after[0][0] if after else len(text))


def _bytes_before(text: str, place: int) -> int:
    return len(text[:place].encode("utf-8", "surrogatepass"))
