"""A pattern as a finite automaton, made deterministic as far as values need it.

The nodes become instructions; where a match can be after some characters is a set of them. Sets and
the ways between them are remembered, so that most characters cost one look-up. Assertions look at
the characters on both sides of a place, of which only the kind matters.

Upstream: Go's regexp does the same without remembering sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.custom.re2.nodes import Alternate, Assertion, CharSet, Concat, Node, Repeat
from stowplan_cluster.apiserver.custom.re2.syntax import PatternError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Instructions of one pattern.
MAX_SIZE = 20_000
#: Instructions looked at while matching one value: a second or so.
MAX_WORK = 2_000_000
_MAX_REMEMBERED = 10_000

_MATCH = -1


class TooCostly(Exception):
    """A pattern and a value that would take too long."""


class _Kind(IntEnum):
    """What is on one side of a place."""

    NOTHING = 0
    NEWLINE = 1
    WORD = 2
    OTHER = 3


@dataclass(frozen=True, slots=True)
class _Char:
    chars: CharSet
    to: int


@dataclass(frozen=True, slots=True)
class _Assert:
    assertion: Assertion
    to: int


@dataclass(slots=True)
class _Split:
    to: tuple[int, ...] = ()


_Place = frozenset[int]


class Automaton:
    def __init__(self, node: Node, text: str) -> None:
        self._text = text
        self._code: list[_Char | _Assert | _Split] = []
        self._start = self._compile(node, _MATCH)
        #: From a place, the kind of character before it and the next character, to the next place; None matches.
        self._known: dict[tuple[_Place, _Kind, str], _Place | None] = {}
        self._work = 0

    def search(self, value: str) -> bool:
        self._work = 0
        place, before = frozenset((self._start,)), _Kind.NOTHING
        for char in value:
            following = self._next(place, before, char)
            if following is None:
                return True
            place, before = following, _kind(char)
        return _MATCH in self._closure(place, before, _Kind.NOTHING)

    def _next(self, place: _Place, before: _Kind, char: str) -> _Place | None:
        key = (place, before, char)
        if key not in self._known:
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            self._known[key] = self._advance(place, before, char)
        return self._known[key]

    def _advance(self, place: _Place, before: _Kind, char: str) -> _Place | None:
        reached = {self._start}
        closure = self._closure(place, before, _kind(char))
        if _MATCH in closure:
            return None
        for index in closure:
            each = self._code[index]
            if isinstance(each, _Char) and each.to not in reached and each.chars.has(char):
                reached.add(each.to)
        return frozenset(reached)

    def _closure(self, place: Iterable[int], before: _Kind, after: _Kind) -> set[int]:
        """All that can be reached without a character."""
        waiting = list(place)
        seen = set(waiting)
        while waiting:
            index = waiting.pop()
            for to in () if index == _MATCH else self._reached(index, before, after):
                if to not in seen:
                    seen.add(to)
                    waiting.append(to)
        self._work += len(seen)
        if self._work > MAX_WORK:
            raise TooCostly(self._text)
        return seen

    def _reached(self, index: int, before: _Kind, after: _Kind) -> tuple[int, ...]:
        each = self._code[index]
        if isinstance(each, _Split):
            return each.to
        if isinstance(each, _Assert) and _holds(each.assertion, before, after):
            return (each.to,)
        return ()

    # Compiling: from a node and what comes after it to where it begins

    def _compile(self, node: Node, then: int) -> int:
        if isinstance(node, CharSet):
            return self._add(_Char(node, then))
        if isinstance(node, Assertion):
            return self._add(_Assert(node, then))
        if isinstance(node, Concat):
            for part in reversed(node.parts):
                then = self._compile(part, then)
            return then
        if isinstance(node, Alternate):
            return self._add(_Split(tuple(self._compile(choice, then) for choice in node.choices)))
        return self._compile_repeat(node, then)

    def _compile_repeat(self, node: Repeat, then: int) -> int:
        begin = then
        if node.most is None:
            loop = _Split()
            begin = self._add(loop)
            loop.to = (self._compile(node.body, begin), then)
        else:
            for _ in range(node.most - node.least):
                begin = self._add(_Split((self._compile(node.body, begin), then)))
        for _ in range(node.least):
            begin = self._compile(node.body, begin)
        return begin

    def _add(self, instruction: _Char | _Assert | _Split) -> int:
        if len(self._code) >= MAX_SIZE:
            raise PatternError("expression too large", self._text)
        self._code.append(instruction)
        return len(self._code) - 1


def _kind(char: str) -> _Kind:
    if char == "\n":
        return _Kind.NEWLINE
    return _Kind.WORD if char == "_" or (char.isascii() and char.isalnum()) else _Kind.OTHER


def _holds(assertion: Assertion, before: _Kind, after: _Kind) -> bool:
    match assertion:
        case Assertion.TEXT_START:
            return before is _Kind.NOTHING
        case Assertion.TEXT_END:
            return after is _Kind.NOTHING
        case Assertion.LINE_START:
            return before in (_Kind.NOTHING, _Kind.NEWLINE)
        case Assertion.LINE_END:
            return after in (_Kind.NOTHING, _Kind.NEWLINE)
    at_boundary = (before is _Kind.WORD) is not (after is _Kind.WORD)
    return at_boundary is (assertion is Assertion.WORD_BOUNDARY)
