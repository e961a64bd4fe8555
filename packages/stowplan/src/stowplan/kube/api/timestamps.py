"""RFC 3339 timestamps in UTC, as metav1.Time and metav1.MicroTime.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

#: 9999-12-31T23:59:59Z: RFC 3339 has no later year, but a grace period may be of 292 billion.
_LATEST = 253_402_300_799


def timestamp(seconds: float) -> str:
    """metav1.Time of seconds since the epoch, at most the end of the year 9999."""
    return _whole_seconds(min(int(seconds), _LATEST))


# Most writes within a second use the same one.
@lru_cache(maxsize=64)
def _whole_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """metav1.MicroTime of seconds since the epoch."""
    whole, micros = divmod(round(seconds * 1e6), 1_000_000)
    return f"{_whole_seconds(whole)[:-1]}.{micros:06}Z"


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch; ValueError if it is not an RFC 3339 time."""
    return datetime.fromisoformat(text).timestamp()


def seconds_of(text: str | None) -> float:
    """A timestamp in epoch seconds; 0 if there is none."""
    return parse_timestamp(text) if text else 0.0
