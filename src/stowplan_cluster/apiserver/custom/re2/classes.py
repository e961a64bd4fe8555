"""Character classes with a name: `\\d`, `[:alpha:]`, `\\p{Lu}`.

Upstream: Go's regexp/syntax/perl_groups.go; categories are those of the Unicode data that Python has.
"""

from __future__ import annotations

import re

from stowplan_cluster.apiserver.custom.re2.nodes import CharSet, Ranges

_DIGITS: Ranges = ((0x30, 0x39),)
_UPPER: Ranges = ((0x41, 0x5A),)
_LOWER: Ranges = ((0x61, 0x7A),)
_ALPHA: Ranges = (*_UPPER, *_LOWER)
_WORD: Ranges = (*_DIGITS, *_ALPHA, (0x5F, 0x5F))
#: Unlike Python's, without the vertical tab.
_SPACE: Ranges = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))

CLASS_ESCAPES: dict[str, CharSet] = {
    "d": CharSet(_DIGITS),
    "D": CharSet(_DIGITS, negated=True),
    "w": CharSet(_WORD),
    "W": CharSet(_WORD, negated=True),
    "s": CharSet(_SPACE),
    "S": CharSet(_SPACE, negated=True),
}
POSIX_CLASSES: dict[str, Ranges] = {
    "alnum": (*_DIGITS, *_ALPHA),
    "alpha": _ALPHA,
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGITS,
    "graph": ((0x21, 0x7E),),
    "lower": _LOWER,
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": (*_DIGITS, (0x41, 0x46), (0x61, 0x66)),
}
_SUBCATEGORIES = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_CATEGORIES = {"Any", *_SUBCATEGORIES} | {main + sub for main, subs in _SUBCATEGORIES.items() for sub in subs}
_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))")


def category_of(text: str, at: int) -> tuple[int, str, bool] | None:
    """Where a `\\p{…}` ends, its category ("" if there is none of that name), and whether all but it is meant."""
    match = _PROPERTY.match(text, at)
    if match is None:
        return None
    name = match[3] or match[4]
    negated = (match[1] == "P") is not bool(match[2])
    return match.end(), name if name in _CATEGORIES else "", negated
