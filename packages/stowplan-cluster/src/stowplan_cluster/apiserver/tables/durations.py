"""Format ages and durations for table cells, with two or three significant figures.

Upstream: k8s.io/apimachinery/pkg/util/duration.HumanDuration.
"""

from __future__ import annotations

from stowplan.kube.api.timestamps import parse_timestamp

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(duration: float) -> str:
    # Clocks differ: up to two seconds in the future count as now.
    seconds = int(duration)
    if seconds < -1:
        return INVALID
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, (_MINUTE, "m"), (1, "s"))
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, (_HOUR, "h"), (_MINUTE, "m"))
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, (_DAY, "d"), (_HOUR, "h"))
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, (_YEAR, "y"), (_DAY, "d"))
    return f"{seconds // _YEAR}y"


def _two(seconds: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    whole, rest = divmod(seconds, large[0])
    parts = rest // small[0]
    return f"{whole}{large[1]}{parts}{small[1]}" if parts else f"{whole}{large[1]}"


def time_since(time: object, now: float) -> str:
    """The age of an RFC 3339 time; `<unknown>` where there is none."""
    if not time:
        return UNKNOWN
    try:
        return human_duration(now - parse_timestamp(str(time)))
    except ValueError:
        return INVALID
