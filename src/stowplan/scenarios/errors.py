"""What is wrong with a scenario, for the person who wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class ScenarioError(ValueError):
    """A scenario that cannot be run: one line for each problem, with its place."""

    def __init__(self, *problems: str, hints: Sequence[str] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        #: What may help.
        self.hints = tuple(hints)
