"""Errors in a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class ScenarioError(ValueError):
    """An invalid scenario: one line per problem, with its location."""

    def __init__(self, *problems: str, hints: Sequence[str] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        #: Suggestions.
        self.hints = tuple(hints)


class Problems:
    """Collects problems, so that all of them are reported at once."""

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Continue after the block if it raises a ScenarioError."""
        try:
            yield
        except ScenarioError as error:
            self._found += error.problems

    def raise_any(self) -> None:
        if self._found:
            raise ScenarioError(*self._found)
