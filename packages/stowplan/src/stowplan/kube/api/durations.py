"""Go durations in configuration files: `15s`, `1h2m`, `500ms`.

A duration is an integer number of nanoseconds, so that parsing and formatting reproduces the reference's output.

Upstream: Go's time.ParseDuration and Duration.String, k8s.io/apimachinery/pkg/apis/meta/v1/duration.go.
"""

import re
from fractions import Fraction
from typing import Self

from stowplan.kube.api.field_errors import go_quote

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LARGEST = 2**63 - 1
_PART = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^0-9.]*)")


class Duration(int):
    """Nanoseconds; `str()` has Go's format."""

    @classmethod
    def of_seconds(cls, seconds: float) -> Self:
        return cls(round(seconds * 1_000_000_000))

    @property
    def seconds(self) -> float:
        return int(self) / 1_000_000_000

    def __str__(self) -> str:
        sign = "-" if self < 0 else ""
        return sign + _format_positive(abs(int(self)))

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"


def parse_duration(text: str) -> Duration:
    """Parse Go's format; a ValueError has Go's message."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    if not rest:
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    total = Fraction(0)
    while rest:
        part, rest = _next_part(rest, text)
        total += part
    nanoseconds = int(total)
    if nanoseconds > _LARGEST + (sign < 0):
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    return Duration(sign * nanoseconds)


def _next_part(rest: str, text: str) -> tuple[Fraction, str]:
    match = _PART.match(rest)
    assert match is not None  # every group may be empty
    whole, _, fraction, unit = match[1], match[2], match[3] or "", match[4]
    if not whole and not fraction:
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    if not unit:
        raise ValueError(f"time: missing unit in duration {go_quote(text)}")
    if unit not in _NANOSECONDS:
        raise ValueError(f"time: unknown unit {go_quote(unit)} in duration {go_quote(text)}")
    digits = Fraction(int((whole + fraction) or "0"), 10 ** len(fraction))
    # Go truncates each part to whole nanoseconds before it adds them.
    return Fraction(int(digits * _NANOSECONDS[unit])), rest[match.end() :]


def _format_positive(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < 1_000_000_000:
        unit = next(unit for unit in ("ms", "µs", "ns") if nanoseconds >= _NANOSECONDS[unit])
        return _decimal(nanoseconds, _NANOSECONDS[unit]) + unit
    minutes, rest = divmod(nanoseconds, _NANOSECONDS["m"])
    seconds = _decimal(rest, _NANOSECONDS["s"]) + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    width = len(str(unit)) - 1
    return f"{whole}.{rest:0{width}d}".rstrip("0")
