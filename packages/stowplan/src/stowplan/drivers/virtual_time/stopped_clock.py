"""Clock and random source for disabled metrics."""

from __future__ import annotations


class StoppedClock:
    """An engine's `Meter`."""

    @staticmethod
    def clock() -> float:
        return 0.0

    @staticmethod
    def random() -> float:
        return 0.0
