"""Counts of compared answers, by category and kind."""

from collections import Counter
from typing import NamedTuple

#: An answer is the verdict of a pod, a step (whatever else was observed of a scenario), or the fate of a configuration.
KINDS = VERDICTS, STEPS, CONFIGURATIONS = ("verdicts", "steps", "config")


class Answer(NamedTuple):
    kind: str
    name: str
    differences: list[str]
    #: Why Stowplan answers otherwise on purpose; then there are no differences.
    intended: str = ""


class Tally:
    def __init__(self) -> None:
        self._equal: Counter[tuple[str, str]] = Counter()
        self._total: Counter[tuple[str, str]] = Counter()
        #: Reason -> number of answers that differ on purpose, and count as equal.
        self.intended: Counter[str] = Counter()

    def add(self, category: str, answer: Answer) -> None:
        for of in (category, ""):
            self._total[of, answer.kind] += 1
            self._equal[of, answer.kind] += not answer.differences
        if answer.intended:
            self.intended[answer.intended] += 1

    def figures(self, category: str = "") -> str:
        """For a category, or for all of them."""
        return ", ".join(
            f"{kind} {self._equal[category, kind]}/{self._total[category, kind]}"
            for kind in KINDS
            if not category or self._total[category, kind]
        )

    @property
    def all_equal(self) -> bool:
        return bool(self._total) and self._equal == self._total
