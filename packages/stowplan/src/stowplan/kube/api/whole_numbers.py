"""Whole numbers in texts of others: annotations, percentages, resource versions, URL parameters.

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


def share(amount: int | str | None, of: int, *, round_up: bool) -> int:
    """The value of a number-or-percentage field; None and a text that is no percentage are 0."""
    if amount is None or isinstance(amount, int):
        return amount or 0
    hundredths = (whole_number(amount.removesuffix("%")) or 0) * of
    return -(-hundredths // 100) if round_up else hundredths // 100
