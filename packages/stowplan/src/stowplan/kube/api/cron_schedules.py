"""Schedules of CronJobs, in cron's notation: five fields, a descriptor such as `@hourly`, or `@every 90m`.

A schedule's times are the minutes whose local time matches. When clocks go forward, times in the gap are skipped; when
they go back, those in the repeated hour come twice. No library is used because messages and such cases are those of the
reference's parser.

Upstream: github.com/robfig/cron (ParseStandard).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta, tzinfo
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from stowplan.kube.api.durations import parse_duration
from stowplan.kube.structs import PlainStruct

_NUMBER_RE = re.compile(r"[+-]?[0-9]+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    least: int
    most: int
    names: Mapping[str, int] = {}


_FIELDS = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
#: A schedule without a time in so many years has none.
_YEARS = 5
_DAY = timedelta(days=1)


class Schedule(Protocol):
    def next(self, after: float) -> float | None:
        """The first time after this one, in whole seconds since the epoch; None if there is none."""
        ...


class _Every(PlainStruct, frozen=True):
    seconds: int

    def next(self, after: float) -> float | None:
        return float(int(after) + self.seconds)


class _Matches(PlainStruct, frozen=True):
    """The values of a field. `all`: it is `*` or `?`."""

    values: frozenset[int]
    all: bool


class _Cron(PlainStruct, frozen=True):
    zone: tzinfo
    minutes: frozenset[int]
    hours: frozenset[int]
    days: _Matches
    months: frozenset[int]
    weekdays: _Matches

    def next(self, after: float) -> float | None:
        first = (int(after) // 60 + 1) * 60
        begin = datetime.fromtimestamp(first, self.zone)
        day, limit = begin.date(), begin.year + _YEARS
        while day.year <= limit and day < date.max - _DAY:
            if day.month not in self.months:
                # The last day before the next month.
                day = (day.replace(day=1) + timedelta(days=31)).replace(day=1) - _DAY
            elif self._matches_day(day):
                found = self._first_on(day, first)
                if found is not None:
                    return found
            day += _DAY
        return None

    def _matches_day(self, day: date) -> bool:
        of_month, of_week = day.day in self.days.values, day.isoweekday() % 7 in self.weekdays.values
        # Parity: either suffices if both are restricted.
        return of_month and of_week if self.days.all or self.weekdays.all else of_month or of_week

    def _first_on(self, day: date, first: int) -> float | None:
        """The first time on a day, at `first` or later."""
        at = max(int(datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp()), first)
        while (local := datetime.fromtimestamp(at, self.zone)).date() <= day:
            if local.hour not in self.hours:
                at += 60 * (60 - local.minute)
            elif local.minute not in self.minutes or local.date() < day:
                at += 60
            else:
                return float(at)
        return None


def parse_schedule(text: str, zone: str = "UTC") -> Schedule:
    """Parse a schedule, which may name its own zone (`TZ=…`); a ValueError has the reference's message."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        named, _, text = text.partition(" ")
        zone, text = named.partition("=")[2], text.strip()
    if text.startswith(_EVERY):
        return _every(text)
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ValueError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = map(_matches, fields, _FIELDS)
    return _Cron(_zone(zone), minutes.values, hours.values, days, months.values, weekdays)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"provided bad location {name}: unknown time zone {name}") from None


def _every(text: str) -> Schedule:
    try:
        duration = parse_duration(text.removeprefix(_EVERY))
    except ValueError as problem:
        raise ValueError(f"failed to parse duration {text}: {problem}") from None
    return _Every(max(1, int(duration.seconds)))


def _matches(text: str, field: _Field) -> _Matches:
    ranges = [_range(part, field) for part in text.split(",") if part]
    values = frozenset(value for one in ranges for value in one.values)
    return _Matches(values, any(one.all for one in ranges))


def _range(text: str, field: _Field) -> _Matches:
    bounds, *steps = text.split("/")
    low, *high = bounds.split("-")
    is_all = low in ("*", "?")
    if is_all:
        start, end = field.least, field.most
    else:
        start = end = _number(low, field.names)
        if len(high) > 1:
            raise ValueError(f"too many hyphens: {text}")
        if high:
            end = _number(high[0], field.names)
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not high:
        end = field.most
    if start < field.least:
        raise ValueError(f"beginning of range ({start}) below minimum ({field.least}): {text}")
    if end > field.most:
        raise ValueError(f"end of range ({end}) above maximum ({field.most}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return _Matches(frozenset(range(start, end + 1, step)), is_all and step == 1)


def _number(text: str, named: Mapping[str, int]) -> int:
    if text.lower() in named:
        return named[text.lower()]
    if not _NUMBER_RE.fullmatch(text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number
