"""What is wrong with a scenario, for the person who wrote it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ScenarioError(ValueError):
    """A scenario that cannot be run: one line for each problem, with its place."""

    def __init__(self, *problems: str, hints: Sequence[str] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        #: What may help.
        self.hints = tuple(hints)


class Problems:
    """Collects what is wrong in several places, so that the user hears of everything at once."""

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Go on after the block if it raises a ScenarioError."""
        try:
            yield
        except ScenarioError as error:
            self._found += error.problems

    def raise_any(self) -> None:
        if self._found:
            raise ScenarioError(*self._found)
