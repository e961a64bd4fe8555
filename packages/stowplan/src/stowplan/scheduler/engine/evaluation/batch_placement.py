"""Compute where equal pods are placed one after the other, without assuming any of them.

A pod changes the filters' and scores' results for its own node: each further pod takes that node to its next *level*.
If the participating plugins read nothing but node objects and the sums of a node's pods, the levels of all candidate
nodes can be computed in advance: the plugins evaluate hypothetical nodes with one, two, three more pods, many levels
per call. Then each pod takes the best total and advances one number.

Plugins that count pods on other nodes take part if they can tell what they will refuse, and how they will score
(`BatchState`), as topology spread and inter-pod affinity do.

A `BatchPlacement` yields the rows in the order in which pod-by-pod scheduling would choose them, until no more fit.

Upstream has no counterpart; each pod is judged from scratch.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.engine.evaluation.scoring import INFEASIBLE, Score, Scored
from stowplan.scheduler.framework.batch_state import BatchState
from stowplan.scheduler.framework.boundary import call, declares, nothing
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Plugin, Reads
from stowplan.scheduler.framework.interface import FilterPlugin
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status

_SUMS = Reads.NODE_SUMS
#: Results of these plugins cannot be computed from a node's level.
_OTHERWISE = (Reads.NODE_PODS, Reads.ANYTHING)

#: Number of hypothetical nodes per call: few nodes are evaluated with several more pods at once, up to `_MOST_LEVELS`.
_AT_ONCE = 2048
_MOST_LEVELS = 64


class Pick(NamedTuple):
    """The choice for one pod."""

    row: int
    #: Number of rows that it was made from.
    feasible: int


class BatchStart(PlainStruct, eq=False, kw_only=True):
    """The starting point of a batch: the evaluation of the first pod."""

    framework: Framework
    state: CycleState
    pod: PodInfo
    #: Number of filtered nodes.
    seen: int
    #: Rows that pass all filters except those with `ahead`.
    open: Mask
    scored: Scored
    #: Participating filters that read the sums of a node's pods.
    filters: list[FilterPlugin]
    #: Results of plugins that count pods on other nodes, by plugin.
    ahead: dict[str, BatchState]
    #: Whether each pod is placed in the cluster before it is counted here; if not, none of them is.
    placed: bool


class BatchPlacement:
    """Works on *places*: positions among the rows that are open at the start.

    What depends on pods of other nodes is the same for all places in the same domains and classes. These are a *cell*,
    so a pod changes one place and some cells, and the best place is found among the best ones of the cells.
    """

    def __init__(self, start: BatchStart) -> None:
        self._start = start
        #: For the decisions of all pods, and the number of filtered nodes.
        self.state, self.seen = start.state, start.seen
        scores = [score for name, score in start.scored.parts.items() if not self._is_ahead(name)]
        self._by_sums = [score for score in scores if score.plugin.reads is _SUMS]
        rows = np.flatnonzero(start.open)
        self._rows: list[int] = rows.tolist()
        #: Scores that change with the set of feasible nodes.
        self._relative = [score for score in scores if score.plugin.normalizes and not self._is_steady(score)]
        #: Their raw scores, as the evaluation may be used for other nodes in between, and their part of the totals.
        self._raw = [score.raw for score in self._relative]
        self._weighted = [score.weighted.take(rows) for score in self._relative]
        #: The totals of the scores that do not depend on pods of other nodes; `INFEASIBLE` without room for a pod.
        sums = start.scored.sums
        by_sums = np.zeros(len(rows), np.int64) if sums is None else sums.values.take(rows)
        # A copy, because without scores the sum is its start, and the totals are written to.
        self._totals: Ints = sum([score.weighted.take(rows) for score in scores], by_sums.copy())
        #: The part of these that does not depend on the pods of a place, either.
        self._fixed: Ints = self._totals - by_sums
        for score in self._by_sums:
            self._fixed -= score.weighted.take(rows)
        #: By place: the number of pods added, and how many were computed in advance.
        self._level: Ints = np.zeros(len(rows), np.int64)
        self._known: Ints = np.zeros(len(rows), np.int64)
        #: What they leave of the totals: the part that depends on the pods of a place, `INFEASIBLE` without room for
        #: another one. That of a place is at `_base` and its level.
        self._worth: list[int] = []
        self._base: Rows = np.zeros(len(rows), np.intp)
        # -- by cell
        self._refusals = [each for ahead in start.ahead.values() for each in ahead.refusals]
        #: Scores that depend on pods of other nodes, with their weights.
        self._scores = [
            (ahead.scores, start.framework.weights.get(name, 1))
            for name, ahead in start.ahead.items()
            if ahead.scores is not None
        ]
        #: The cell of each place; the domains and classes of each cell, one array per filter and score.
        self._cells: Rows
        self._keys: list[Rows]
        self._cells, self._keys = _cells_of(
            [each.codes.take(rows) for each in self._refusals] + [each.classes.take(rows) for each, _ in self._scores],
            len(rows),
        )
        self._cell_of: dict[tuple[int, ...], int] | None = None
        cells = len(self._keys[0]) if self._keys else 1
        #: Number of places with room, and the best total of these; the places that have it, if they were listed.
        self._room: Ints = np.bincount(self._cells, minlength=cells)
        self._best: Ints
        self._places: list[list[int] | None]
        self._find_best(cells)
        #: Whether a filter refuses the cell, or it has no room; and the sum of the scores that depend on pods of other
        #: nodes.
        self._refused: Mask
        self._closed: Mask
        self._moving: Ints = np.zeros(cells, np.int64)
        #: The number of feasible places by class, for each of the scores; None: to be counted.
        self._by_class: list[Ints] | None = None
        #: The number of feasible rows.
        self.feasible_count: int
        #: The cells with the best sum; None: to be found.
        self._winners: Rows | None = None
        self._refuse()
        if self.feasible_count > 1 and not self._score(again=False):
            self.feasible_count = 0

    def _is_ahead(self, name: str) -> bool:
        ahead = self._start.ahead.get(name)
        return ahead is not None and ahead.scores is not None

    def _is_steady(self, score: Score) -> bool:
        """Whether any set of feasible nodes gives the same scores."""
        raw = score.raw.take(self._rows)
        return score.plugin.normalizes_by_bounds and (not len(raw) or int(raw.min()) == int(raw.max()))

    # -- the next pod -------------------------------------------------------------------------------------------------

    def picks(self, count: int, draw: Callable[[int], int]) -> list[Pick]:
        """The choices for this many pods, or for fewer if no more fit or the result is unknown; see `pick`."""
        found: list[Pick] = []
        while len(found) < count and self.feasible_count:
            found.append(Pick(self.pick(draw), self.feasible_count))
            if len(found) < count and not self.place(found[-1].row):
                break
        return found

    def pick(self, draw: Callable[[int], int]) -> int:
        """The row for the next pod; at least one is feasible.

        `draw` chooses one of so many equally good rows, by its position among them.
        """
        if self._winners is None:
            self._winners = self._find_winners()
        if len(self._winners) == 1:
            places = self._places_of(self._winners.item())
            return self._rows[places[draw(len(places))]]
        # There may be as many of them as nodes, if pods keep apart by host.
        won = np.zeros(len(self._places), np.bool_)
        won[self._winners] = True
        found: Rows = (won.take(self._cells) & (self._totals == self._best.take(self._cells))).nonzero()[0]
        return self._rows[found.item(draw(len(found)))]

    def place(self, row: int) -> bool:
        """Count a pod on a row that was open. False: the next pod's nodes are unknown: this must not be used again."""
        place = bisect_left(self._rows, row)
        level = self._level[place] = self._level.item(place) + 1
        if level > self._known.item(place) and not self._more_levels():
            return False
        worth, before = self._worth[self._base.item(place) + level], self._cells.item(place)
        cell, feasible_moved = before, worth == INFEASIBLE
        if self._keys:
            counted = call(self._counted, row, check=None, failed=nothing)
            if counted is None:
                return False
            classes, domains_moved = counted
            cell, feasible_moved = self._cell_with(before, classes), feasible_moved or domains_moved
        # With its old total, by which `_leave` tells whether the cell has lost its best place.
        self._leave(place, before)
        if worth != INFEASIBLE:
            self._enter(place, cell, self._fixed.item(place) + worth)
        if feasible_moved:
            self._refuse()
        if cell != before:
            self._by_class = None
        # A single feasible node is chosen without scoring.
        return self.feasible_count < 2 or not (feasible_moved or self._scores) or self._score(again=feasible_moved)

    def _counted(self, row: int) -> tuple[list[int], bool]:
        """Count the pod for plugins; the row's classes from now on, and whether the refused domains changed."""
        domains = [each.place(row) for each in self._refusals]
        return [each.place(row) for each, _ in self._scores], any(domains)

    def _more_levels(self) -> bool:
        """Compute what more pods leave to places of which that is unknown; False if a plugin failed."""
        start = self._start
        places = np.flatnonzero((self._level >= self._known) & (self._totals != INFEASIBLE))
        added = max(1, min(_AT_ONCE // len(places), _MOST_LEVELS))
        missing = self._known.take(places) + 1
        if start.placed:
            # The cluster has these pods already, so only those beyond them are hypothetical.
            missing -= self._level.take(places)
        nodes = self._hypothetical(np.repeat(places, added), np.add.outer(missing, np.arange(added)).ravel())
        refused = np.zeros(len(nodes), np.bool_)
        for plugin in start.filters:
            answer = start.framework.run_filter(plugin, start.state, start.pod, nodes)
            if isinstance(answer, Status):
                return False
            if answer is not None:
                refused |= answer.mask
        sums = start.scored.sums
        worth = np.zeros(len(nodes), np.int64) if sums is None else sums.ask(start.state, start.pod, nodes)
        if isinstance(worth, Status):
            return False
        for score in self._by_sums:
            raw = start.framework.run_score(score.plugin, start.state, start.pod, nodes)
            if not isinstance(raw, Status):
                raw = start.framework.normalize(score.plugin, start.state, start.pod, raw, ~refused)
            if isinstance(raw, Status):
                return False
            worth = worth + raw * score.weight
        worth = np.where(refused, INFEASIBLE, worth)
        # Before `_worth` and `_known` grow: the new levels of a place lie in a row from here.
        self._base[places] = len(self._worth) + np.arange(len(places)) * added - self._known.take(places) - 1
        self._known[places] += added
        self._worth += worth.tolist()
        return True

    def _hypothetical(self, places: Rows, pods: Ints) -> HypotheticalNodes:
        """These places, with so many more equal pods."""
        cluster, shape = self._start.framework.handle.cluster, self._start.pod.shape
        nodes = HypotheticalNodes(cluster, np.array(self._rows, np.intp).take(places))
        requests = cluster.vector_of(shape)[:, None] * pods
        non_zero = np.array(shape.non_zero_used, np.int64)[:, None] * pods
        nodes.shift(np.arange(len(nodes)), requests, non_zero, 1, pods)
        return nodes

    # -- cells --------------------------------------------------------------------------------------------------------

    def _find_best(self, cells: int) -> None:
        self._best = np.full(cells, INFEASIBLE, np.int64)
        np.maximum.at(self._best, self._cells, self._totals)
        self._places, self._winners = [None] * cells, None

    def _places_of(self, cell: int) -> list[int]:
        """The places with the best total of the cell."""
        places = self._places[cell]
        if places is None:
            is_best = self._totals == self._best.item(cell)
            if len(self._places) > 1:
                is_best &= self._cells == cell
            places = self._places[cell] = is_best.nonzero()[0].tolist()
        return places

    def _leave(self, place: int, cell: int) -> None:
        self._room[cell] -= 1
        was_best = self._totals.item(place) == self._best.item(cell)
        self._totals[place] = INFEASIBLE
        if not was_best:
            return
        listed = self._places[cell]
        if listed is not None:
            del listed[bisect_left(listed, place)]
        if not self._places_of(cell):
            others = self._totals if len(self._places) == 1 else self._totals[self._cells == cell]
            self._best[cell] = others.max()
            self._closed[cell] = self._refused.item(cell) or not self._room.item(cell)
            self._places[cell] = self._winners = None

    def _enter(self, place: int, cell: int, total: int) -> None:
        self._room[cell] += 1
        self._cells[place], self._totals[place] = cell, total
        best, places = self._best.item(cell), self._places[cell]
        if total > best:
            self._best[cell], self._places[cell], self._winners = total, [place], None
            self._closed[cell] = self._refused.item(cell)
        elif total == best and places is not None:
            insort(places, place)

    def _cell_with(self, cell: int, classes: list[int]) -> int:
        """The cell in the same domains as this one, with these classes."""
        domains = len(self._refusals)
        if classes == [key.item(cell) for key in self._keys[domains:]]:
            return cell
        if self._cell_of is None:
            self._cell_of = {key: i for i, key in enumerate(zip(*(key.tolist() for key in self._keys), strict=True))}
        key = (*(key.item(cell) for key in self._keys[:domains]), *classes)
        found = self._cell_of.get(key)
        if found is None:
            found = self._cell_of[key] = len(self._places)
            self._keys = [np.append(of_cell, code) for of_cell, code in zip(self._keys, key, strict=True)]
            self._best, self._room = np.append(self._best, INFEASIBLE), np.append(self._room, 0)
            self._refused = np.append(self._refused, self._refused.item(cell))
            self._closed = np.append(self._closed, True)
            self._moving = np.append(self._moving, 0)
            self._places.append(None)
        return found

    def _refuse(self) -> None:
        """Find the cells that filters refuse."""
        self._refused = np.zeros(len(self._places), np.bool_)
        for each, of_cell in zip(self._refusals, self._keys, strict=False):
            self._refused |= each.refused.take(of_cell)
        self._closed = self._refused | (self._room == 0)
        self.feasible_count = int(self._room[~self._refused].sum())
        self._by_class = self._winners = None

    def _find_winners(self) -> Rows:
        ranked = np.where(self._closed, INFEASIBLE, self._best + self._moving)
        found: Rows = (ranked == ranked.max()).nonzero()[0]
        return found

    def _score(self, *, again: bool) -> bool:
        """Score the next pod, `again` if other places are feasible; False if a plugin failed."""
        if again and self._relative and not self._normalize():
            return False
        if not self._scores:
            return True
        moving = call(self._scored, check=None, failed=nothing)
        if moving is None:
            return False
        self._moving, self._winners = moving, None
        return True

    def _scored(self) -> Ints:
        """The sum of the scores that depend on pods of other nodes, by cell."""
        keys = self._keys[len(self._refusals) :]
        if self._by_class is None:
            room = np.where(self._refused, 0, self._room)
            self._by_class = [
                np.bincount(key, room, each.size).astype(np.int64)
                for (each, _), key in zip(self._scores, keys, strict=True)
            ]
        parts = [
            each.by_class(feasible).take(key) * weight
            for (each, weight), key, feasible in zip(self._scores, keys, self._by_class, strict=True)
        ]
        return parts[0] if len(parts) == 1 else sum(parts, np.zeros(len(self._places), np.int64))

    def _normalize(self) -> bool:
        """Score the feasible places after their set changed; False if a plugin failed."""
        start, full = self._start, self._totals == INFEASIBLE
        feasible = np.zeros(len(start.open), np.bool_)
        feasible[self._rows] = ~(full | self._refused.take(self._cells))
        for i, score in enumerate(self._relative):
            normal = start.framework.normalize(score.plugin, start.state, start.pod, self._raw[i], feasible)
            if isinstance(normal, Status):
                return False
            weighted = normal.take(self._rows) * score.weight
            change = weighted - self._weighted[i]
            if change.any():
                self._weighted[i] = weighted
                self._fixed += change
                self._totals += np.where(full, 0, change)
                self._find_best(len(self._places))
        return True


def _cells_of(keys: Sequence[Rows], places: int) -> tuple[Rows, list[Rows]]:
    """The cell of each place, and the keys of each cell: places with the same keys share one."""
    if not keys:
        return np.zeros(places, np.intp), []
    joined = np.zeros(places, np.int64)
    for key in keys:
        # Numbers of pairs; counted anew, so that they stay below the product of two numbers of places.
        _, joined = np.unique(joined * (int(key.max(initial=0)) + 1) + key, return_inverse=True)
    _, firsts, cells = np.unique(joined, return_index=True, return_inverse=True)
    return cells, [key.take(firsts) for key in keys]


def batch_states(
    framework: Framework, state: CycleState, pod: PodInfo, shapes: Collection[PodShape]
) -> dict[str, BatchState] | None:
    """By plugin, results for equal pods of these shapes that depend on where the pods before them went.

    Apart from those, a pod only changes the sums of its node. None: it may change more.

    Called after the pod was filtered and scored.
    """
    counters = framework.pod_counters
    for plugin in framework.cluster_dependent_pre_filters:
        counter = counters.get(plugin.name)
        if counter is None and not _ignores(plugin, shapes):
            return None
    if any(plugin.name not in counters for plugin in framework.cluster_dependent_pre_scores):
        return None
    if any(plugin.reads in _OTHERWISE for plugin in framework.active_filters(state)):
        return None
    scores = framework.active_scores(state)
    if any(plugin.reads in _OTHERWISE or (plugin.reads is _SUMS and plugin.normalizes) for plugin in scores):
        return None
    found: dict[str, BatchState] = {}
    # A plugin may be enabled at PreFilter or PreScore alone.
    filtering, scoring = ({plugin.name for plugin in plugins} for plugins in (framework.filter, framework.score))
    for name, counter in counters.items():
        if _ignores(counter, shapes):
            continue
        ahead = call(counter.batch_state, state, pod, shapes, check=None, failed=nothing, at=("BatchState", counter))
        if ahead is None:
            return None
        refusals = ahead.refusals if name in filtering else ()
        left = BatchState(refusals, ahead.scores if name in scoring else None)
        if not left.changes_nothing:
            found[name] = left
    return found


def _ignores(plugin: Plugin, shapes: Collection[PodShape]) -> bool:
    return all(declares(plugin.ignores, shape, at=("Ignores", plugin)) for shape in shapes)
