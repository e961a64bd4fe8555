"""Times in layouts of Go's package `time`, such as `2006-01-02T15:04:05Z07:00`.

A layout shows how its author would write a certain moment: 2006 stands for the year, 01 for the month in two digits,
and so on. Here a layout becomes a regular expression with a group per part; layouts with names of weekdays or of time
zones, and days of the year, are not read.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

RFC3339 = "2006-01-02T15:04:05Z07:00"

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ZONE = r"[+-][0-9]{2}"
#: Part of a layout -> (what it sets, what matches it); longer ones first.
_PARTS = {
    "2006": ("year", r"[0-9]{4}"),
    "Z07:00": ("zone", rf"Z|{_ZONE}:[0-9]{{2}}"),
    "-07:00": ("zone", rf"{_ZONE}:[0-9]{{2}}"),
    "Z0700": ("zone", rf"Z|{_ZONE}[0-9]{{2}}"),
    "-0700": ("zone", rf"{_ZONE}[0-9]{{2}}"),
    "Jan": ("month_name", "|".join(_MONTHS)),
    "01": ("month", r"[0-9]{2}"),
    "02": ("day", r"[0-9]{2}"),
    "15": ("hour", r"[0-9]{2}"),
    "04": ("minute", r"[0-9]{2}"),
    # A fraction may follow the seconds even if the layout has none.
    "05": ("second", r"[0-9]{2}(?:[.,][0-9]+)?"),
    "06": ("short_year", r"[0-9]{2}"),
}
_PART = re.compile("|".join(map(re.escape, _PARTS)))
_FRACTION = re.compile(r"(?<=05)[.,](?:0+|9+)")


@cache
def _pattern(layout: str) -> re.Pattern[str]:
    layout = _FRACTION.sub("", layout)
    found, end = "", 0
    for part in _PART.finditer(layout):
        name, matching = _PARTS[part[0]]
        found += f"{re.escape(layout[end : part.start()])}(?P<{name}>{matching})"
        end = part.end()
    return re.compile(found + re.escape(layout[end:]))


def seconds_at(text: str, layout: str) -> float | None:
    """Seconds since the epoch; None if the text is not of the layout, or no such moment exists."""
    match = _pattern(layout).fullmatch(text)
    if match is None:
        return None
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    second, _, fraction = parts.get("second", "0").replace(",", ".").partition(".")
    try:
        moment = datetime(
            _year(parts),
            _MONTHS.index(parts["month_name"]) + 1 if "month_name" in parts else int(parts.get("month", 1)),
            int(parts.get("day", 1)),
            int(parts.get("hour", 0)),
            int(parts.get("minute", 0)),
            int(second),
            tzinfo=_zone(parts.get("zone", "Z")),
        )
    except ValueError:
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() + float(f"0.{fraction or 0}")


def _year(parts: dict[str, str]) -> int:
    short = int(parts.get("short_year", 0))
    return int(parts.get("year", short + (1900 if short >= 69 else 2000)))


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-offset if text[0] == "-" else offset)
