"""Whole numbers in texts of others: annotations, resource versions, URL parameters.

`int` is not for them: it raises ValueError above some thousand digits, and accepts digits of every script.
"""

from __future__ import annotations

from stowplan.kube.api.meta import MAX_INT64


def whole_number(text: str, most: int = MAX_INT64) -> int | None:
    """The number in ASCII decimal digits; None if the text is something else, or the number is above `most`."""
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0")
    if len(digits) > len(str(most)):
        return None
    number = int(digits or 0)
    return number if number <= most else None
