"""Patterns of custom resource definitions: limits on memory and time.

Patterns come from users, and one slow match would block the whole single-threaded server. Without RE2 installed every
pattern compiles and every value matches: definitions are accepted with a warning.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stowplan.kube.api import regexes
from stowplan.kube.api.regexes import PatternError

__all__ = ["Pattern", "PatternError", "TooCostly", "compile_pattern"]

#: Memory limit per pattern in bytes: the program and its cached states.
_MAX_MEMORY = 1 << 20

#: Limit on program size times value length; the worst pattern takes 30 ns per unit.
_MAX_WORK = 30_000_000


class TooCostly(Exception):
    """Matching this value would block the event loop for too long."""


class Pattern:
    def __init__(self, compiled: Any) -> None:
        #: None if RE2 is not installed.
        self._compiled = compiled

    def matches(self, value: str) -> bool:
        """Whether the pattern matches anywhere in the value; raise TooCostly if matching might take too long."""
        if self._compiled is None:
            return True
        if self._compiled.programsize * len(value) > _MAX_WORK:
            raise TooCostly
        return self._compiled.search(value) is not None


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern; raise PatternError if it is invalid."""
    return Pattern(regexes.compiled(text, _MAX_MEMORY) if regexes.available() else None)
