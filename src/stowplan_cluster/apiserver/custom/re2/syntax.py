"""From the text of a pattern to its nodes, with Go's complaints about what is no pattern.

Upstream: Go's regexp/syntax/parse.go with the flags of regexp.Compile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from stowplan_cluster.apiserver.custom.re2.classes import CLASS_ESCAPES, POSIX_CLASSES, category_of
from stowplan_cluster.apiserver.custom.re2.nodes import (
    EMPTY,
    Alternate,
    Assertion,
    CharSet,
    Concat,
    Node,
    Ranges,
    Repeat,
)

_MAX_REPEAT = 1000
_MAX_DEPTH = 100

_COUNT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_GROUP_NAME = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_OCTAL = re.compile(r"[1-7][0-7]{1,2}|0[0-7]{0,2}")
_HEX = re.compile(r"x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_ASSERTIONS = {
    "A": Assertion.TEXT_START,
    "z": Assertion.TEXT_END,
    "b": Assertion.WORD_BOUNDARY,
    "B": Assertion.NO_WORD_BOUNDARY,
}
_REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ANY = CharSet(negated=True)
_ANY_BUT_NEWLINE = CharSet(((10, 10),), negated=True)


class PatternError(ValueError):
    """Text that is no pattern."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


@dataclass(frozen=True, slots=True)
class _Flags:
    fold: bool = False
    multi_line: bool = False
    dot_all: bool = False


def parse(text: str) -> Node:
    parser = _Parser(text)
    node = parser.alternation(_Flags(), depth=0)
    if parser.rest:
        raise PatternError("unexpected )", text)
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def rest(self) -> str:
        return self._text[self._at :]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, match: re.Match[str]) -> None:
        self._at = match.end()

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        return expression.match(self._text, self._at)

    # Structure

    def alternation(self, flags: _Flags, depth: int) -> Node:
        """Up to the end or an unmatched parenthesis, which stays."""
        if depth > _MAX_DEPTH:
            raise PatternError("expression nests too deeply", self._text)
        choices: list[Node] = []
        parts: list[Node] = []
        while (char := self._peek()) and char != ")":
            if char == "|":
                self._at += 1
                choices.append(_concat(parts))
                parts = []
            elif changed := self._flags_alone(flags):
                flags = changed
            elif self._text.startswith("\\Q", self._at):
                parts += self._quoted(flags)
            else:
                parts.append(self._repeated(self._atom(flags, depth)))
        choices.append(_concat(parts))
        return choices[0] if len(choices) == 1 else Alternate(tuple(choices))

    def _flags_alone(self, flags: _Flags) -> _Flags | None:
        """`(?i)`: flags for the rest of the group."""
        match = self._match(_FLAGS)
        if match is None or match[3] == ":":
            return None
        self._skip(match)
        return _with_flags(flags, match)

    def _group(self, flags: _Flags, depth: int) -> Node:
        start = self._at
        if named := self._match(_GROUP_NAME):
            self._skip(named)
        elif scoped := self._match(_FLAGS):
            self._skip(scoped)
            flags = _with_flags(flags, scoped)
        elif self._text.startswith(("(?P<", "(?<"), start):
            raise PatternError("invalid named capture", self._text[start:])
        elif self._text.startswith("(?", start):
            raise PatternError("invalid or unsupported Perl syntax", self._text[start : start + 3])
        else:
            self._at += 1
        node = self.alternation(flags, depth + 1)
        if self._peek() != ")":
            raise PatternError("missing closing )", self._text)
        self._at += 1
        return node

    def _repeated(self, node: Node) -> Node:
        start = self._at
        counts = self._repeat_counts()
        if counts is None:
            return node
        if self._peek() == "?":
            self._at += 1
        shown = self._text[start : self._at]
        if _exceeds(counts) or _repeats(node) * _times(counts) > _MAX_REPEAT:
            raise PatternError("invalid repeat count", shown)
        repeated = Repeat(node, *counts)
        if self._repeat_counts() is not None:
            raise PatternError("invalid nested repetition operator", self._text[start : self._at])
        return repeated

    def _repeat_counts(self) -> tuple[int, int | None] | None:
        char = self._peek()
        if char in _REPEATS:
            self._at += 1
            return _REPEATS[char]
        if char != "{" or (match := self._match(_COUNT)) is None:
            return None
        self._skip(match)
        least = int(match[1])
        if match[2] is None:
            return least, least
        return least, int(match[3]) if match[3] else None

    # Single characters and classes

    def _atom(self, flags: _Flags, depth: int) -> Node:
        char = self._peek()
        if char == "(":
            return self._group(flags, depth)
        if char == "[":
            return self._class(flags)
        if char == "\\":
            return self._escaped(flags)
        if char in _REPEATS or (char == "{" and self._match(_COUNT)):
            self._repeat_counts()
            raise PatternError("missing argument to repetition operator", char)
        self._at += 1
        if char == ".":
            return _ANY if flags.dot_all else _ANY_BUT_NEWLINE
        if char == "^":
            return Assertion.LINE_START if flags.multi_line else Assertion.TEXT_START
        if char == "$":
            return Assertion.LINE_END if flags.multi_line else Assertion.TEXT_END
        return _literal(char, flags)

    def _quoted(self, flags: _Flags) -> list[Node]:
        """`\\Q…\\E`: as it stands."""
        inside, _, _ = self._text[self._at + 2 :].partition("\\E")
        self._at = min(self._at + len(inside) + 4, len(self._text))
        literals: list[Node] = [_literal(char, flags) for char in inside]
        return [*literals[:-1], self._repeated(literals[-1])] if literals else []

    def _escaped(self, flags: _Flags) -> Node:
        following = self._text[self._at + 1 : self._at + 2]
        if assertion := _ASSERTIONS.get(following):
            self._at += 2
            return assertion
        if (known := self._class_escape()) is not None:
            return replace(known, fold=flags.fold)
        return _literal(self._character(), flags)

    def _class_escape(self) -> CharSet | None:
        """`\\d`, `\\pL` and their like."""
        following = self._text[self._at + 1 : self._at + 2]
        if following in CLASS_ESCAPES:
            self._at += 2
            return CLASS_ESCAPES[following]
        if following not in ("p", "P") or not following:
            return None
        found = category_of(self._text, self._at)
        if found is None:
            raise PatternError("invalid character class range", self._text[self._at : self._at + 3])
        self._at, category, negated = found
        if not category:
            raise PatternError("invalid character class range", self._text[self._at :])
        return CharSet(categories=((category, negated),))

    def _character(self) -> str:
        """One character, which may be escaped."""
        char = self._peek()
        self._at += 1
        if char != "\\":
            return char
        if not self.rest:
            raise PatternError("trailing backslash at end of expression", "")
        for expression, base in ((_OCTAL, 8), (_HEX, 16)):
            if match := self._match(expression):
                self._skip(match)
                digits = next((group for group in match.groups() if group), match[0])
                return self._of_code(int(digits, base))
        following = self._peek()
        self._at += 1
        if following in _CONTROLS:
            return _CONTROLS[following]
        if not following.isascii() or following.isalnum():
            raise PatternError("invalid escape sequence", f"\\{following}")
        return following

    def _of_code(self, code: int) -> str:
        if code > 0x10FFFF:
            raise PatternError("invalid escape sequence", self._text)
        return chr(code)

    def _class(self, flags: _Flags) -> CharSet:
        start = self._at
        self._at += 1
        negated = self._peek() == "^"
        self._at += negated
        ranges: list[tuple[int, int]] = []
        categories: list[tuple[str, bool]] = []
        first = True
        while first or self._peek() != "]":
            if not self.rest:
                raise PatternError("missing closing ]", self._text[start:])
            first = False
            if (named := self._posix_class()) is not None:
                ranges += named
            elif self._peek() == "\\" and (escape := self._class_escape()) is not None:
                ranges += _complement(escape.ranges) if escape.negated else escape.ranges
                categories += escape.categories
            else:
                ranges.append(self._range(start))
        self._at += 1
        return CharSet(tuple(ranges), tuple(categories), negated=negated, fold=flags.fold)

    def _posix_class(self) -> Ranges | None:
        if not self._text.startswith("[:", self._at):
            return None
        end = self._text.find(":]", self._at + 2)
        if end < 0:
            return None
        name = self._text[self._at + 2 : end]
        ranges = POSIX_CLASSES.get(name.removeprefix("^"))
        if ranges is None:
            raise PatternError("invalid character class range", self._text[self._at : end + 2])
        self._at = end + 2
        return _complement(ranges) if name.startswith("^") else ranges

    def _range(self, class_start: int) -> tuple[int, int]:
        start = self._at
        low = self._character_in_class(class_start)
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return low, low
        self._at += 1
        high = self._character_in_class(class_start)
        if high < low:
            raise PatternError("invalid character class range", self._text[start : self._at])
        return low, high

    def _character_in_class(self, class_start: int) -> int:
        if not self.rest:
            raise PatternError("missing closing ]", self._text[class_start:])
        return ord(self._character())


def _with_flags(flags: _Flags, match: re.Match[str]) -> _Flags:
    """The flags after `(?i-s`; U, which swaps greediness, changes nothing here."""
    on, off = match[1], match[2] or ""
    return _Flags(
        fold=("i" in on or flags.fold) and "i" not in off,
        multi_line=("m" in on or flags.multi_line) and "m" not in off,
        dot_all=("s" in on or flags.dot_all) and "s" not in off,
    )


def _literal(char: str, flags: _Flags) -> CharSet:
    return CharSet(((ord(char), ord(char)),), fold=flags.fold)


def _concat(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Concat(tuple(parts)) if parts else EMPTY


def _complement(ranges: Ranges) -> Ranges:
    found, at = [], 0
    for low, high in sorted(ranges):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    return (*found, (at, 0x10FFFF))


def _exceeds(counts: tuple[int, int | None]) -> bool:
    least, most = counts
    return least > _MAX_REPEAT or (most is not None and (most > _MAX_REPEAT or most < least))


def _times(counts: tuple[int, int | None]) -> int:
    least, most = counts
    return max(least, most or 0, 1)


def _repeats(node: Node) -> int:
    """How often its innermost part can be asked for by counts alone."""
    if isinstance(node, Repeat):
        return _times((node.least, node.most)) * _repeats(node.body)
    inner: tuple[Node, ...] = ()
    if isinstance(node, Concat):
        inner = node.parts
    elif isinstance(node, Alternate):
        inner = node.choices
    return max((_repeats(each) for each in inner), default=1)
