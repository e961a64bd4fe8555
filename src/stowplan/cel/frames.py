"""The state of one evaluation: slots of variables, and what it has cost so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from stowplan.cel.errors import CostLimitExceeded, Interrupted
from stowplan.cel.values import Value

#: After how many steps of comprehensions an evaluation asks whether it should end.
CHECK_FREQUENCY = 100


class Frame:
    """The state of one evaluation."""

    __slots__ = ("_interrupted", "_limit", "_steps", "cost", "slots")

    def __init__(self, slots: list[Value], limit: int, interrupted: Callable[[], bool] | None) -> None:
        self.cost = 0
        self.slots = slots
        self._limit = limit
        self._steps = 0
        self._interrupted = interrupted

    def check_limit(self) -> None:
        if self.cost > self._limit:
            raise CostLimitExceeded

    def step(self) -> None:
        """Called after each step of a comprehension: nothing else goes on for long without a cost."""
        self.check_limit()
        self._steps += 1
        if self._steps % CHECK_FREQUENCY == 0 and self._interrupted is not None and self._interrupted():
            raise Interrupted


#: A compiled node: computes its value, counting what that costs.
Closure: TypeAlias = Callable[[Frame], Value]
