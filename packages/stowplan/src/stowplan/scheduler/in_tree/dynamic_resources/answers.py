"""Cached search results for sets of claims: searched once for all equal nodes.

Nodes that differ only in devices which no request matches are equal, too: whether those are allocated does not matter
(`_Known.seen`).

A search may take long, so it is done in portions of a number of steps, between which other pods are tried
(`framework.unfinished`). An attempt may take as many portions as fit into the filter timeout; then it ends with an
error, like the reference's, and the next attempt continues from there. A search that has taken all the steps of a
filter timeout is abandoned, as long as the node does not change. Steps and portions are counted instead of seconds, so
that recordings can be replayed.

Questions (`stowplan explain`) have separate results, so that they do not affect how far the next attempt gets. A
question is not repeated, so its only portion is larger.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Rows, Verdicts
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import MAX_ALTERNATIVES, ClaimDemand, Features
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import Usage, ViewKind, World
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import Search, SearchResult, Verdict
from stowplan.scheduler.in_tree.dynamic_resources.allocator.selectors import Budget, SelectorVerdicts
from stowplan.scheduler.in_tree.dynamic_resources.inventory import Inventory, Seen

#: Steps per portion: about 3 ms, including the overhead of a turn; per question: about 0.2 s; and per node: 0.05 s.
PORTION_STEPS, QUESTION_STEPS, NODE_STEPS = 2_000, 200_000, 50_000
#: Steps and portions per second of the filter timeout. With pauses, a portion takes up to 17 ms.
STEPS_PER_SECOND, PORTIONS_PER_SECOND = 1_000_000, 60

#: Maximum number of sets of claims with cached results.
_MAX_KEPT = 256

_UNKNOWN, _ALL = 0, -1
_GIVEN_UP, _UNFINISHED = SearchResult(Verdict.TIMED_OUT), SearchResult(Verdict.UNFINISHED)


class _Known:
    """The results for one set of claims."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        #: Code -> verdict; 0: unknown.
        self.verdicts = np.zeros(64, np.int8)
        self.scores = np.full(64, -1, np.int64)
        self.answers: dict[int, SearchResult] = {}
        #: Code -> an unfinished search.
        self.searches: dict[int, Search] = {}
        #: What a search can observe of a node -> its result.
        self.seen: dict[Any, SearchResult] = {}
        #: A bit per device that some request matches, and the number of evaluations at that time; _ALL: it is final.
        self.admitted: dict[ViewKind, tuple[int, int]] = {}

    def reserve(self, size: int) -> None:
        if size > len(self.verdicts):
            more = max(size, len(self.verdicts))
            self.verdicts = np.concatenate([self.verdicts, np.zeros(more, np.int8)])
            self.scores = np.concatenate([self.scores, np.full(more, -1, np.int64)])


class Answers:
    def __init__(
        self, inventory: Inventory, features: Features, *, filter_timeout: float, asking: bool = False
    ) -> None:
        self._portion = QUESTION_STEPS if asking else PORTION_STEPS
        #: Maximum number of portions per attempt; None: unlimited.
        self.max_portions = int(filter_timeout * PORTIONS_PER_SECOND) if filter_timeout > 0 else None
        self._inventory = inventory
        self._features = features
        #: None: unlimited.
        self._max_steps = int(filter_timeout * STEPS_PER_SECOND) if filter_timeout > 0 else None
        self._known: OrderedDict[tuple[ClaimDemand, ...], _Known] = OrderedDict()
        self._selected = SelectorVerdicts(lists=features.lists_in_selectors, derived_lists=features.list_attributes)

    def verdicts(self, claims: tuple[ClaimDemand, ...], rows: Rows) -> Verdicts:
        """The `Verdict` value for each row; rows with the same devices are searched once."""
        known = self._of(claims)
        codes = self._inventory.codes[rows]
        found: Verdicts = known.verdicts[codes]
        unknown = np.flatnonzero(found == _UNKNOWN)
        if not len(unknown):
            return found
        attempt = Budget(self._portion)
        pending, first = np.unique(codes[unknown], return_index=True)
        # In row order, so that the codes do not determine which search exceeds the budget.
        for i in np.argsort(first).tolist():
            self._search(known, claims, int(pending[i]), int(rows[unknown[first[i]]]), attempt)
        found = known.verdicts[codes]
        found[found == _UNKNOWN] = Verdict.UNFINISHED.value
        return found

    def answer(self, claims: tuple[ClaimDemand, ...], row: int) -> SearchResult:
        """The result for a row; devices are indexes into the row's world."""
        self.verdicts(claims, np.array([row], np.intp))
        return self._of(claims).answers.get(int(self._inventory.codes[row]), _UNFINISHED)

    def scores(self, claims: tuple[ClaimDemand, ...], rows: Rows) -> Ints:
        """For each row a score for the position of the chosen alternatives; -1 without a result."""
        self.verdicts(claims, rows)
        known = self._of(claims)
        found: Ints = known.scores[self._inventory.codes[rows]]
        return found

    def _of(self, claims: tuple[ClaimDemand, ...]) -> _Known:
        known = self._known.get(claims)
        if known is None or known.epoch != self._inventory.epoch:
            known = self._known[claims] = _Known(self._inventory.epoch)
            if len(self._known) > _MAX_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(claims)
        known.reserve(self._inventory.size)
        return known

    def _search(self, known: _Known, claims: tuple[ClaimDemand, ...], code: int, row: int, attempt: Budget) -> None:
        if attempt.left <= 0:
            return
        key = self._key(known, claims, self._inventory.seen(row))
        answer = known.seen.get(key)
        if answer is None:
            answer = self._searched(known, claims, code, self._inventory.world(row), attempt)
            if answer is None:
                return
            if answer is not _GIVEN_UP:
                known.seen[key] = answer
        known.answers[code] = answer
        known.verdicts[code] = answer.verdict.value
        if answer.verdict is Verdict.FOUND:
            known.scores[code] = _score(claims, answer)

    def _searched(
        self, known: _Known, claims: tuple[ClaimDemand, ...], code: int, world: World, attempt: Budget
    ) -> SearchResult | None:
        """None: the search has to be continued."""
        search = known.searches.pop(code, None)
        if search is None:
            search = Search(claims, world, features=self._features, verdicts=self._selected)
        portion = Budget(min(attempt.left, NODE_STEPS))
        before = portion.left
        answer = search.run(portion)
        attempt.spend(before - portion.left)
        if answer is None and self._max_steps is not None and search.spent >= self._max_steps:
            return _GIVEN_UP
        if answer is None:
            known.searches[code] = search
        return answer

    # -- irrelevant devices --------------------------------------------------------------------------------------------

    def _key(self, known: _Known, claims: tuple[ClaimDemand, ...], seen: Seen) -> Any:
        """A key that is equal if the search cannot tell nodes apart.

        Most nodes have one pool with devices allocated as a whole.
        """
        if len(seen) == 1:
            ((kind, usage),) = seen
            if not usage.shares and not usage.counters:
                return kind, usage.taken & self._admitted(known, claims, kind)
        return tuple((kind, _within(usage, self._admitted(known, claims, kind))) for kind, usage in seen)

    def _admitted(self, known: _Known, claims: tuple[ClaimDemand, ...], kind: ViewKind) -> int:
        """A bit per device that some request may match, including unknown results and errors.

        Nothing is evaluated for this, as the search may never reach a device.
        """
        evaluated = self._selected.evaluated
        as_of, found = known.admitted.get(kind, (None, 0))
        if as_of in (_ALL, evaluated):
            return found
        verdicts = [
            self._selected.of(wanted)
            for claim in claims
            for request in claim.requests
            for wanted in request.alternatives
        ]
        found, complete = 0, True
        for place, (content, _) in enumerate(kind.devices):
            of_device = [verdict.get(content) for verdict in verdicts]
            if any(verdict is not False for verdict in of_device):
                found |= 1 << place
            complete = complete and None not in of_device
        known.admitted[kind] = _ALL if complete else evaluated, found
        return found


def _within(usage: Usage, admitted: int) -> Usage:
    """The usage without devices that no request matches; of those only the counters matter."""
    shares = tuple(share for share in usage.shares if admitted >> share[0] & 1) if usage.shares else ()
    return usage._replace(taken=usage.taken & admitted, shares=shares)


def _score(claims: tuple[ClaimDemand, ...], answer: SearchResult) -> int:
    chosen = {(i, pick.request): pick.alternative for i, picks in enumerate(answer.picks) for pick in picks}
    return sum(
        MAX_ALTERNATIVES - alternative
        for (claim, request), alternative in chosen.items()
        if claims[claim].requests[request].prioritized
    )
