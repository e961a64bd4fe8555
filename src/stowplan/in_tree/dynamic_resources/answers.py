"""What was found for sets of claims on nodes: searched once for all nodes that are equal, and kept.

A search takes as long as it takes, so it is done in portions: an attempt may spend a number of steps, and what is not
found by then ends the attempt with an error, as the reference's timeout does. The next attempt goes on from there. A
search that took all the steps that a filter timeout stands for is given up, as long as the node stays as it is.
Steps are counted and not seconds, so that a recorded run can be repeated.

Questions (`stowplan explain`) have answers of their own: what they find must not change how far the next attempt gets.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from stowplan.in_tree.dynamic_resources.allocator.claims import MAX_ALTERNATIVES
from stowplan.in_tree.dynamic_resources.allocator.search import Answer, Search, Verdict
from stowplan.in_tree.dynamic_resources.allocator.selectors import Budget, SelectorVerdicts

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.in_tree.dynamic_resources.allocator.claims import Claim, Features
    from stowplan.in_tree.dynamic_resources.inventory import Inventory

    Rows = npt.NDArray[np.intp]

#: Steps that searches may take in one attempt, and on one node of it: some 0.2 s, and 0.05 s.
ATTEMPT_STEPS, NODE_STEPS = 200_000, 50_000
#: Steps that stand for a second of the filter timeout.
STEPS_PER_SECOND = 100_000

#: Sets of claims whose answers are kept.
_MAX_KEPT = 256

_UNKNOWN = 0
_GIVEN_UP = Answer(Verdict.TIMED_OUT)


class _Known:
    """The answers to one set of claims."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        #: Code -> verdict; 0: not known.
        self.verdicts = np.zeros(64, np.int8)
        self.scores = np.full(64, -1, np.int64)
        self.answers: dict[int, Answer] = {}
        #: Code -> a search that has not come to its end.
        self.searches: dict[int, Search] = {}

    def reserve(self, size: int) -> None:
        if size > len(self.verdicts):
            more = max(size, len(self.verdicts))
            self.verdicts = np.concatenate([self.verdicts, np.zeros(more, np.int8)])
            self.scores = np.concatenate([self.scores, np.full(more, -1, np.int64)])


class Answers:
    def __init__(self, inventory: Inventory, features: Features, *, filter_timeout: float) -> None:
        self._inventory = inventory
        self._features = features
        #: None: no limit.
        self._max_steps = int(filter_timeout * STEPS_PER_SECOND) if filter_timeout > 0 else None
        self._known: OrderedDict[tuple[Claim, ...], _Known] = OrderedDict()
        self._selected = SelectorVerdicts(list_attributes=features.list_attributes)

    def verdicts(self, claims: tuple[Claim, ...], rows: Rows) -> npt.NDArray[np.int8]:
        """The value of a `Verdict` for each row; rows with the same devices are searched once."""
        known = self._of(claims)
        codes = self._inventory.codes[rows]
        found: npt.NDArray[np.int8] = known.verdicts[codes]
        unknown = np.flatnonzero(found == _UNKNOWN)
        if not len(unknown):
            return found
        attempt = Budget(ATTEMPT_STEPS)
        pending, first = np.unique(codes[unknown], return_index=True)
        # In the order of rows, so that it does not depend on codes who comes to the end of the budget.
        for i in np.argsort(first).tolist():
            self._search(known, claims, int(pending[i]), int(rows[unknown[first[i]]]), attempt)
        found = known.verdicts[codes]
        found[found == _UNKNOWN] = Verdict.TIMED_OUT.value
        return found

    def answer(self, claims: tuple[Claim, ...], row: int) -> Answer:
        """What was found for a row; devices are places in the row's world."""
        self.verdicts(claims, np.array([row], np.intp))
        return self._of(claims).answers.get(int(self._inventory.codes[row]), _GIVEN_UP)

    def scores(self, claims: tuple[Claim, ...], rows: Rows) -> npt.NDArray[np.int64]:
        """For each row how early the alternatives stand that were chosen; -1 where nothing was found."""
        self.verdicts(claims, rows)
        known = self._of(claims)
        found: npt.NDArray[np.int64] = known.scores[self._inventory.codes[rows]]
        return found

    def _of(self, claims: tuple[Claim, ...]) -> _Known:
        known = self._known.get(claims)
        if known is None or known.epoch != self._inventory.epoch:
            known = self._known[claims] = _Known(self._inventory.epoch)
            if len(self._known) > _MAX_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(claims)
        known.reserve(self._inventory.size)
        return known

    def _search(self, known: _Known, claims: tuple[Claim, ...], code: int, row: int, attempt: Budget) -> None:
        if attempt.left <= 0:
            return
        search = known.searches.pop(code, None)
        if search is None:
            search = Search(claims, self._inventory.world(row), features=self._features, verdicts=self._selected)
        portion = Budget(min(attempt.left, NODE_STEPS))
        before = portion.left
        answer = search.run(portion)
        attempt.spend(before - portion.left)
        if answer is None and self._max_steps is not None and search.spent >= self._max_steps:
            answer = _GIVEN_UP
        if answer is None:
            known.searches[code] = search
            return
        known.answers[code] = answer
        known.verdicts[code] = answer.verdict.value
        if answer.verdict is Verdict.FOUND:
            known.scores[code] = _score(claims, answer)


def _score(claims: tuple[Claim, ...], answer: Answer) -> int:
    chosen = {(i, pick.request): pick.alternative for i, picks in enumerate(answer.picks) for pick in picks}
    return sum(
        MAX_ALTERNATIVES - alternative
        for (claim, request), alternative in chosen.items()
        if claims[claim].requests[request].prioritized
    )
