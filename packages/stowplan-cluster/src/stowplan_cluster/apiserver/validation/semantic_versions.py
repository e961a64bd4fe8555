"""Parse and compare semantic versions (semver.org 2.0.0).

Upstream: github.com/blang/semver/v4, as the rules of several kinds use it.
"""

from __future__ import annotations

import re

# Numbers have 64 bits, hence at most 20 digits; Python refuses to parse thousands of them.
_NUMBER, _TAG = r"(0|[1-9][0-9]{0,19})", "[0-9a-zA-Z-]+"
_BEFORE = r"(?:0|[1-9][0-9]{0,19}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION_RE = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_BEFORE}(?:\.{_BEFORE})*))?(?:\+{_TAG}(?:\.{_TAG})*)?")

#: A comparison key; build metadata is ignored.
Precedence = tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]
ZERO: Precedence = (0, 0, 0, True, ())


def parse(text: str) -> Precedence | None:
    """Parse a version; None if it is invalid."""
    match = _VERSION_RE.fullmatch(text)
    if match is None:
        return None
    parts = match[4].split(".") if match[4] else []
    # Numeric identifiers sort before alphanumeric ones.
    before = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
    return int(match[1]), int(match[2]), int(match[3]), not before, before
