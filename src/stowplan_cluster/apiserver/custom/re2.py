"""Patterns of custom resource definitions: limits on memory and time.

They come from users, and a server with one thread cannot afford a value that takes long. Where RE2 is not installed
every text is taken for a pattern, and every value matches: definitions are accepted with a warning, as CEL rules are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stowplan.api import regexes
from stowplan.api.regexes import PatternError

__all__ = ["Pattern", "PatternError", "TooCostly", "compile_pattern"]

#: Bytes that a pattern may take, its program and what it learns about values.
_MAX_MEMORY = 1 << 20

#: Instructions times characters: the worst pattern takes 30 ns for each.
_MAX_WORK = 30_000_000


class TooCostly(Exception):
    """Matching this value would block the event loop for too long."""


class Pattern:
    def __init__(self, compiled: Any) -> None:
        #: None if RE2 is not installed.
        self._compiled = compiled

    def matches(self, value: str) -> bool:
        """Whether it matches anywhere in the value; TooCostly if that might take long."""
        if self._compiled is None:
            return True
        if self._compiled.programsize * len(value) > _MAX_WORK:
            raise TooCostly
        return self._compiled.search(value) is not None


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Raises a PatternError."""
    return Pattern(regexes.compiled(text, _MAX_MEMORY) if regexes.available() else None)
