"""Format durations for people."""

from __future__ import annotations


def span_text(seconds: float) -> str:
    """In the largest unit of which there are at least two."""
    for unit, length in (("d", 86_400.0), ("h", 3_600.0), ("m", 60.0)):
        if seconds >= 2 * length:
            number = f"{seconds / length:.1f}"
            return f"{number.removesuffix('.0')} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.2g} s"
