"""What a parsed pattern consists of. Captures and greediness are gone: only whether it matches is asked."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import Enum

Ranges = tuple[tuple[int, int], ...]


class Assertion(Enum):
    TEXT_START = "\\A"
    TEXT_END = "\\z"
    LINE_START = "^"
    LINE_END = "$"
    WORD_BOUNDARY = "\\b"
    NO_WORD_BOUNDARY = "\\B"


@dataclass(frozen=True, slots=True)
class CharSet:
    """Characters by code point, by general category, or all but those."""

    ranges: Ranges = ()
    #: ("Lu", False) has upper case letters, ("Lu", True) all others.
    categories: tuple[tuple[str, bool], ...] = ()
    negated: bool = False
    fold: bool = False

    def has(self, char: str) -> bool:
        if not self.fold:
            return self._has(char) is not self.negated
        return any(self._has(each) for each in _same_but_for_case(char)) is not self.negated

    def _has(self, char: str) -> bool:
        code = ord(char)
        for low, high in self.ranges:
            if low <= code <= high:
                return True
        return any(_in_category(char, name) is not negated for name, negated in self.categories)


def _in_category(char: str, name: str) -> bool:
    return name == "Any" or unicodedata.category(char).startswith(name)


def _same_but_for_case(char: str) -> set[str]:
    forms = {char}
    for _ in range(2):
        forms |= {
            turned for each in forms for turned in (each.lower(), each.upper(), each.casefold()) if len(turned) == 1
        }
    # These two fold onto ASCII letters, which do not fold back to them.
    return forms | ({"\u212a"} if "k" in forms else set()) | ({"\u017f"} if "s" in forms else set())


@dataclass(frozen=True, slots=True)
class Concat:
    parts: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternate:
    choices: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    body: Node
    least: int
    #: None for any number.
    most: int | None


Node = CharSet | Assertion | Concat | Alternate | Repeat
EMPTY = Concat()
