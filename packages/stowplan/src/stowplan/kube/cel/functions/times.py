"""Parts of timestamps and durations, in UTC or a zone given by name or offset. Upstream: common/types/timestamp.go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import Function, Overload, function, member
from stowplan.kube.cel.time_text import SECOND, moment
from stowplan.kube.cel.values import Duration, Timestamp, Value

_Part = Callable[[datetime], int]


def _zone(name: str) -> tzinfo:
    hours, colon, minutes = name.partition(":")
    if not colon:
        try:
            return ZoneInfo(name) if name not in ("", "UTC") else UTC
        except (ValueError, OSError, LookupError):
            raise ValueProblem(f"unknown time zone {name}") from None
    try:
        offset = int(hours) * 60 + (-int(minutes) if name.startswith("-") else int(minutes))
        return timezone(timedelta(minutes=offset))
    except ValueError as error:
        raise ValueProblem(str(error)) from None


def _of_timestamp(part: _Part) -> Callable[..., Value]:
    def compute(timestamp: Timestamp, zone: str = "UTC") -> Value:
        return part(moment(timestamp, _zone(zone)))

    return compute


def _milliseconds(timestamp: Timestamp, _zone: str = "UTC") -> Value:
    return timestamp.nanoseconds % SECOND // 10**6


def _of_duration(unit: int) -> Callable[[Duration], Value]:
    def compute(duration: Duration) -> Value:
        whole = abs(duration.nanoseconds) // unit
        return -whole if duration.nanoseconds < 0 else whole

    return compute


def _getter(name: str, id: str, part: _Part, *more: Overload) -> Function:
    return function(name, *_timestamp_overloads(id, _of_timestamp(part)), *more)


def _timestamp_overloads(id: str, compute: Callable[..., Value]) -> list[Overload]:
    return [
        member(id, "timestamp -> int", compute),
        member(f"{id}_with_tz", "timestamp, string -> int", compute),
    ]


FUNCTIONS = [
    _getter("getFullYear", "timestamp_to_year", lambda at: at.year),
    _getter("getMonth", "timestamp_to_month", lambda at: at.month - 1),
    _getter("getDayOfYear", "timestamp_to_day_of_year", lambda at: at.timetuple().tm_yday - 1),
    _getter("getDayOfMonth", "timestamp_to_day_of_month", lambda at: at.day - 1),
    _getter("getDate", "timestamp_to_day_of_month_1_based", lambda at: at.day),
    _getter("getDayOfWeek", "timestamp_to_day_of_week", lambda at: at.isoweekday() % 7),
    _getter(
        "getHours",
        "timestamp_to_hours",
        lambda at: at.hour,
        member("duration_to_hours", "duration -> int", _of_duration(3600 * SECOND)),
    ),
    _getter(
        "getMinutes",
        "timestamp_to_minutes",
        lambda at: at.minute,
        member("duration_to_minutes", "duration -> int", _of_duration(60 * SECOND)),
    ),
    _getter(
        "getSeconds",
        "timestamp_to_seconds",
        lambda at: at.second,
        member("duration_to_seconds", "duration -> int", _of_duration(SECOND)),
    ),
    function(
        "getMilliseconds",
        *_timestamp_overloads("timestamp_to_milliseconds", _milliseconds),
        member("duration_to_milliseconds", "duration -> int", _of_duration(10**6)),
    ),
]
