"""Text forms of durations and timestamps, in nanoseconds. Upstream: time.ParseDuration, RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from stowplan.kube.cel.values import Duration, Timestamp

SECOND = 10**9
DURATION_MAX = (1 << 63) - 1
#: Years 1 to 9999.
TIMESTAMP_MIN, TIMESTAMP_MAX = -62135596800 * SECOND, 253402300800 * SECOND - 1

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART_RE = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP_RE = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:[.,](\d+))?(?:Z|([+-])(\d{2}):(\d{2}))", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_duration(text: str) -> Duration | None:
    sign, body = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if body == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(body):
        part = _PART_RE.match(body, position)
        if part is None or not (part[1] or part[2]) or len(part[1]) > 20:
            return None
        unit = _UNITS[part[3]]
        fraction = (part[2] or "")[:20]
        total += int(part[1] or "0") * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        position = part.end()
    if not body or total > DURATION_MAX:
        return None
    return Duration(sign * total)


def duration_text(duration: Duration) -> str:
    whole, rest = divmod(abs(duration.nanoseconds), SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if duration.nanoseconds < 0 else ''}{whole}{fraction}s"


def read_timestamp(text: str) -> Timestamp | None:
    match = _TIMESTAMP_RE.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    hours, minutes = int(match[4] or 0), int(match[5] or 0)
    if hours > 24 or minutes > 60:
        return None
    nanoseconds = _seconds(moment) * SECOND + int((match[2] or "0")[:9].ljust(9, "0"))
    nanoseconds -= (hours * 60 + minutes) * 60 * SECOND * (-1 if match[3] == "-" else 1)
    return Timestamp(nanoseconds) if TIMESTAMP_MIN <= nanoseconds <= TIMESTAMP_MAX else None


def timestamp_text(timestamp: Timestamp) -> str:
    seconds, rest = divmod(timestamp.nanoseconds, SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def moment(timestamp: Timestamp, zone: tzinfo) -> datetime:
    """The date and time in a zone, to the second."""
    return (_EPOCH + timedelta(seconds=timestamp.nanoseconds // SECOND)).astimezone(zone)


def _seconds(moment: datetime) -> int:
    delta = moment - _EPOCH
    return delta.days * 86400 + delta.seconds
