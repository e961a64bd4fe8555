"""Regular expressions as Go has them, matched in time that no pattern can blow up.

Patterns come with custom resource definitions, and so from users; a server with one thread cannot
afford Python's backtracking on `(a+)+$`. So they are parsed here and run as a finite automaton:
every character of the value is looked at once, whatever the pattern. What remains is the size of
the automaton, which is bounded, and the work of building it while matching, which has a budget.

The syntax is Go's: no back references, no look-around; `$` is the end of the text; `\\d`, `\\w` and
`\\s` are ASCII. `\\p{…}` knows general categories, but not scripts.

Upstream: Go's regexp and regexp/syntax (RE2).
"""

from __future__ import annotations

from functools import lru_cache

from stowplan_cluster.apiserver.custom.re2.automaton import Automaton, TooCostly
from stowplan_cluster.apiserver.custom.re2.syntax import PatternError, parse

__all__ = ["Pattern", "PatternError", "TooCostly", "compile_pattern"]


class Pattern:
    """A compiled pattern; it keeps what it learns about values, up to a bound."""

    def __init__(self, text: str) -> None:
        self._automaton = Automaton(parse(text), text)

    def matches(self, value: str) -> bool:
        """Whether it matches anywhere in the value; TooCostly if that cannot be told with reasonable effort."""
        return self._automaton.search(value)


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """Raises PatternError, whose text is Go's."""
    return Pattern(text)
