"""The fold of the scores: the weighted sum of what the Score plugins say of all nodes, for pods of one signature.

`run` calls PreScore and every Score. For the next equal pod, `refresh` calls PreScore again where its state no longer
holds, brings each plugin's column (`columns.py`) up to date, normalizes the scores that changed or that depend on the
set of feasible nodes, and adds up the rows that changed. If it cannot, the results here must not be used before the
next `run`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.engine.evaluation.columns import Column, Fold, ScoreColumn, SharedColumns, SumColumn, few_of
from stowplan.scheduler.framework.boundary import declares
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads
from stowplan.scheduler.framework.interface import MAX_SCORE, MIN_SCORE, PreScorePlugin, ScorePlugin
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import measured
from stowplan.scheduler.framework.status import Code, Status

#: Total of an infeasible node.
INFEASIBLE = np.iinfo(np.int64).min
_NOT_KNOWN = np.iinfo(np.int64).max
_ANYTHING = Reads.ANYTHING
_NO_SCORES: Ints = np.zeros(0, np.int64)


@mypyc_attr(native_class=True)
class Score(PlainStruct, eq=False):
    """One plugin's part of the totals, unless it is in the `SumColumn`."""

    plugin: ScorePlugin
    weight: int
    column: ScoreColumn
    #: Normalized scores of this version of the column; not its own array, which is written to.
    normal: Ints = _NO_SCORES
    version: int = -1
    #: Lowest and highest raw score of the feasible rows, and of all rows; None: not computed.
    bounds: tuple[int, int] | None = None
    limits: tuple[int, int] | None = None

    @property
    def raw(self) -> Ints:
        return self.column.values

    @property
    def weighted(self) -> Ints:
        return self.normal * self.weight

    def depends_on_feasible(self) -> bool:
        """Whether another set of feasible rows may give other scores, or other errors."""
        plugin = self.plugin
        if plugin.in_range and not plugin.normalizes:
            return False
        if plugin.normalizes and not plugin.normalizes_by_bounds:
            return True
        if self.limits is None:
            self.limits = int(self.raw.min()), int(self.raw.max())
        low, high = self.limits
        return low != high if plugin.normalizes else low < MIN_SCORE or high > MAX_SCORE

    def bounds_hold(self, changed: Sequence[int], before: Mask, feasible: Mask) -> bool:
        """Whether the lowest and the highest raw score stay the same when the feasible rows change in these rows.

        At least two rows are feasible. False if more than these rows would have to be read to tell.
        """
        raw = self.raw
        if self.bounds is None:
            among = raw[before]
            if not len(among):
                return False
            self.bounds = int(among.min()), int(among.max())
        low, high = self.bounds
        for row in changed:
            value = raw.item(row)
            if feasible.item(row):
                if not low <= value <= high:
                    return False
            # A row that leaves with an extreme score may have been the last to have it; if all scores are equal,
            # another one has.
            elif low != high and not low < value < high:
                return False
        return True


@mypyc_attr(native_class=True)
class Scored(PlainStruct, eq=False):
    """The scores of the feasible nodes for a pod; valid until the evaluation is used again."""

    state: CycleState
    pod: PodInfo
    #: Why there are no scores.
    error: Status | None
    #: Whether PreScore ended scoring, so that no Score ran.
    ended_early: bool
    #: Seconds spent in PreScore; 0.0 without metrics.
    preparing: float
    #: The totals, `INFEASIBLE` for infeasible rows.
    ranked: Ints
    #: The raw scores that are added up by row, and each other plugin's part of the totals.
    sums: SumColumn | None
    parts: dict[str, Score]

    @property
    def totals(self) -> Ints:
        """Sums over the plugins, for all rows."""
        return _totals(self.sums, self.parts.values(), len(self.ranked))

    def by_plugin(self) -> dict[str, Ints]:
        """Plugin -> normalized and weighted scores of all rows."""
        found, sums = {name: part.weighted for name, part in self.parts.items()}, self.sums
        if sums is not None:
            framework = sums.framework
            # The parts are those of the last call for all rows; of rows patched since, only the sum is known.
            if not sums.patched or sums.rerun(self.state, self.pod, Nodes(framework.handle.cluster)) is None:
                found |= sums.parts
            found = {plugin.name: found[plugin.name] for plugin in framework.score if plugin.name in found}
        return found


class Scoring(Fold[PreScorePlugin]):
    """The scores of all rows for pods of one signature."""

    def __init__(self, framework: Framework, shared: SharedColumns | None, *, asking: bool) -> None:
        super().__init__(framework, shared, asking=asking)
        #: The evaluation's state for the pod that is being scored.
        self._state = CycleState()
        #: The feasible rows that the scores are valid for.
        self._feasible: Mask = np.zeros(0, np.bool_)
        #: Raw scores that are added up by row; None: there is no such plugin.
        self._sums: SumColumn | None = None
        #: All others by plugin, in the profile's order, and their sum.
        self._scores: dict[str, Score] = {}
        self._others: Ints = _NO_SCORES
        #: The sum of all in feasible rows, `INFEASIBLE` in others.
        self.ranked: Ints = _NO_SCORES
        #: The highest of these, and its rows, ascending; empty: not known. They may be nearly all, so an array.
        self._highest = _NOT_KNOWN
        self._best: array[int] = array("i")
        #: Which of `_scores` can change without a call of PreScore, or another set of feasible nodes.
        self._unsteady: frozenset[str] = frozenset()
        #: Whether the current scoring ended with PreScore, and the seconds that PreScore took.
        self._ended_early = False
        self._preparing = 0.0

    def score(self, state: CycleState, pod: PodInfo, feasible: Mask) -> Scored:
        """Score all rows, or update the scores."""
        self._ended_early, self._preparing = False, 0.0
        failed = None if self.refresh(state, pod, feasible) else self.run(state, pod, feasible)
        # Not copies: for the next pod, `ranked` and the columns are updated in place.
        return Scored(state, pod, failed, self._ended_early, self._preparing, self.ranked, self._sums, self._scores)

    # -- full run ------------------------------------------------------------------------------------------------------

    def run(self, state: CycleState, pod: PodInfo, feasible: Mask) -> Status | None:
        """Call every plugin for every node; a Status is an error."""
        # As in `refresh`: valid again only at the end.
        self._generation, self._state, self._feasible, self._few = -1, state, feasible, few_of(self._cluster.table.n)
        self._sums, self._scores = None, {}
        if self._shared is not None:
            framework = self._framework
            self._watch(pod, (*framework.pre_score, *framework.score), framework.cluster_dependent_pre_scores)
        nodes = self._nodes()
        failed, seconds = measured(self._metrics, self._framework.run_pre_score, state, pod, nodes)
        self._preparing += seconds
        if failed is not None:
            self._ended_early = True
            return failed
        failed = self._ask_all(pod, nodes)
        if failed is not None:
            return failed
        self._others = np.zeros(self._cluster.table.n, np.int64)
        if self._shared is not None:
            self._regard_declarations()
        for part in self._scores.values():
            changed = self._normalize(part, pod)
            if isinstance(changed, Status):
                return changed
        self._rank_all()
        self._generation, self._position = self._cluster.table.generation, self._cluster.changes.position
        return None

    def _nodes(self) -> Nodes:
        """All nodes, with the feasible ones marked as candidates."""
        nodes = Nodes(self._cluster)
        nodes.candidates = self._feasible
        return nodes

    def _ask_all(self, pod: PodInfo, nodes: Nodes) -> Status | None:
        framework, table, failed = self._framework, self._cluster.table, None
        active = framework.active_scores(self._state)
        raws: list[tuple[ScorePlugin, Ints]] = []
        summed: list[tuple[ScorePlugin, Ints]] = []
        for plugin in active:
            raw = framework.ask_score(plugin, self._state, pod, nodes)
            if isinstance(raw, Status):
                failed = raw
                break
            (summed if plugin.name in framework.summed_scores else raws).append((plugin, raw))
        if self._metrics is not None:
            called = active[: len(raws) + len(summed) + 1]
            self._metrics.count(called, self._metrics.score, table.n)
        if failed is not None:
            return failed
        if summed:
            plugins, scores = zip(*summed, strict=True)
            self._sums = self._column(SumColumn, plugins, pod)
            self._sums.store(self._sums.weighted(scores, nodes))
        self._scores = {plugin.name: self._part(plugin, pod, raw) for plugin, raw in raws}
        return None

    def _part(self, plugin: ScorePlugin, pod: PodInfo, raw: Ints | None = None) -> Score:
        column = self._column(ScoreColumn, (plugin,), pod, raw)
        return Score(plugin, self._framework.weights.get(plugin.name, 1), column)

    # -- the next equal pod --------------------------------------------------------------------------------------------

    def refresh(self, state: CycleState, pod: PodInfo, feasible: Mask) -> bool:
        """Bring all results up to date; False if a run is needed.

        As in `Filtering.refresh`, whether a column is outdated is found out in its turn, and nowhere else.
        """
        generation, changes, before = self._generation, self._cluster.changes, self._feasible
        # Another state is that of a full run of the filters: PreScore has not seen it.
        if generation != self._cluster.table.generation or state is not self._state or self._shared is None:
            return False
        # Nothing counts until everything is done, also if a plugin's exception passes through.
        self._generation, self._feasible = -1, feasible
        # By value: filtering again may have found the same nodes.
        moved: Sequence[int] = () if feasible is before else (feasible != before).nonzero()[0]
        everywhere = len(moved) > self._few
        if len(moved) and not everywhere:
            moved = [*map(int, moved)]
        called = self._prepare(pod, feasible_moved=len(moved) > 0)
        if called is None:
            return False
        rows = [] if everywhere else [*moved]
        if self._sums is not None:
            again = bool(called) and any(plugin.name in called for plugin in self._sums.plugins)
            if not self._brought_up(self._sums, pod, again=again):
                return False
            everywhere = everywhere or again
        # In the common case, only few can have changed.
        names = self._scores if len(moved) else self._unsteady.union(called)
        for part in [part for name, part in self._scores.items() if name in names]:
            column, again = part.column, part.plugin.name in called or part.plugin.reads is _ANYTHING
            if not self._brought_up(column, pod, again=again):
                return False
            # `normalize` may read what PreScore wrote: the same raw scores do not say that it returns the same.
            if again or part.version != column.version or (len(moved) and self._varies(part, moved, before)):
                changed = self._normalize(part, pod)
                if isinstance(changed, Status):
                    return False
                if changed is None:
                    everywhere = True
                else:
                    rows += changed
        self._rank(rows, everywhere=everywhere)
        self._generation, self._position = generation, changes.position
        return True

    def _brought_up(self, column: Column, pod: PodInfo, *, again: bool) -> bool:
        """Bring a column up to date, `again` by calling the plugin for all rows; False if that fails."""
        if again:
            return column.rerun(self._state, pod, self._nodes()) is None
        return not column.by_rows or column.refresh(self._state, pod) is None

    def _prepare(self, pod: PodInfo, *, feasible_moved: bool) -> Collection[str] | None:
        """Call PreScore again where its state does not hold; None if it fails.

        Those plugins, and those that read an object that changed: their columns have to be computed again.
        """
        state, undeclared, rearranged = self._state, self._framework.undeclared_scores, False
        assert self._objects is not None
        outdated = self._objects.changed(pod)
        if undeclared:
            # They expect to find nothing of their last call.
            state.forget(undeclared)
        called = set(outdated)
        plugins, framework = self._moving, self._framework
        if outdated:
            plugins = self._to_call(framework.pre_score, framework.cluster_dependent_pre_scores, outdated)
        for plugin, counter in plugins:
            name, at = plugin.name, ("ScoreHolds", plugin)
            if (
                counter is not None
                and name not in outdated
                and declares(counter.score_holds, state, pod, feasible_moved, at=at)
            ):
                continue
            answer, seconds = measured(self._metrics, self._framework.ask_pre_score, plugin, state, pod, self._nodes())
            self._preparing += seconds
            skipped = name in state.skip_score
            if answer is None or answer.code == Code.Success:
                state.skip_score.discard(name)
            elif answer.code == Code.Skip:
                if skipped:
                    continue
                state.skip_score.add(name)
            else:
                return None
            rearranged = rearranged or skipped or name in state.skip_score
            called.add(name)
        if rearranged or outdated:
            self._arrange(pod, outdated)
        return called

    def _arrange(self, pod: PodInfo, outdated: Collection[str]) -> None:
        """List the scores again, after plugins started or stopped to skip, with new columns for these plugins."""
        known = {name: part for name, part in self._scores.items() if name not in outdated}
        active, among = self._framework.active_scores(self._state), self._framework.summed_scores
        summed = tuple(plugin for plugin in active if plugin.name in among)
        if any(plugin.name in outdated for plugin in summed) or summed != (self._sums.plugins if self._sums else ()):
            self._sums = self._column(SumColumn, summed, pod) if summed else None
        self._scores = {
            plugin.name: known.get(plugin.name) or self._part(plugin, pod)
            for plugin in active
            if plugin.name not in among
        }
        weighted = [known[name].weighted for name in self._scores if name in known]
        self._others = sum(weighted, np.zeros(self._cluster.table.n, np.int64))
        # As for the filters: the rows in the log do not say what changed.
        self._position = -1
        self._regard_declarations()

    def _regard_declarations(self) -> None:
        self._unsteady = frozenset(
            name for name, part in self._scores.items() if part.column.by_rows or part.plugin.reads is _ANYTHING
        )

    def _varies(self, part: Score, moved: Sequence[int], before: Mask) -> bool:
        """Whether normalized scores may be others because the feasible rows `moved`."""
        if not part.depends_on_feasible():
            return False
        by_bounds = part.plugin.normalizes_by_bounds and len(moved) <= self._few
        return not (by_bounds and part.bounds_hold(moved, before, self._feasible))

    def _normalize(self, part: Score, pod: PodInfo) -> Sequence[int] | Status | None:
        """Normalize a plugin's raw scores, and check that they are in range.

        The rows where that made a difference; None: more than a few.
        """
        normal = self._framework.normalize(part.plugin, self._state, pod, part.raw, self._feasible)
        if isinstance(normal, Status):
            return normal
        part.bounds, part.limits, part.version = None, None, part.column.version
        before, weight, others = part.normal, part.weight, self._others
        if normal is before:
            return ()
        # A column's own array may be patched again; the first patch is made in a copy.
        part.normal = normal.copy() if normal is part.raw and part.column.patched else normal
        # `others` is written in place, which only totals see that count as current: `ranked` is an array of its own.
        if not len(before):
            # Most pods have nothing that a plugin looks for.
            if np.count_nonzero(normal):
                others += normal * weight
            return None
        changed = normal != before
        if np.count_nonzero(changed) > self._few:
            others += (normal - before) * weight
            return None
        rows: list[int] = changed.nonzero()[0].tolist()
        for row in rows:
            others[row] += (normal.item(row) - before.item(row)) * weight
        return rows

    # -- the fold -----------------------------------------------------------------------------------------------------

    def _rank(self, others: Sequence[int], *, everywhere: bool) -> None:
        """Add up the rows that changed since `_position`, and `others`; `everywhere`: all."""
        rows = None if everywhere else self._cluster.changes.since(self._position)
        if rows is None or len(rows) + len(others) > self._few:
            self._rank_all()
            return
        # In place: who got `ranked` has used it by now (`Scored`).
        added, feasible, ranked = None if self._sums is None else self._sums.values, self._feasible, self.ranked
        highest, best = self._highest, self._best
        for row in (*rows, *others):
            total = self._others.item(row) if added is None else added.item(row) + self._others.item(row)
            total, before = total if feasible.item(row) else INFEASIBLE, ranked.item(row)
            if total == before:
                continue
            ranked[row] = total
            if total > highest:
                highest, best = total, array("i", (row,))
            elif len(best) and total == highest:
                insort(best, row)
            elif len(best) and before == highest:
                del best[bisect_left(best, row)]
        self._highest, self._best = highest, best

    def _rank_all(self) -> None:
        totals = self._others.copy() if self._sums is None else self._sums.values + self._others
        if np.count_nonzero(self._feasible) < len(totals):
            np.putmask(totals, ~self._feasible, INFEASIBLE)
        self.ranked, self._highest, self._best = totals, _NOT_KNOWN, array("i")

    def best(self) -> Sequence[int]:
        """The rows with the highest total, ascending; read-only, and valid until the next pod."""
        if not len(self._best):
            ranked = self.ranked
            self._highest = ranked.item(ranked.argmax())
            rows = (ranked == self._highest).nonzero()[0]
            self._best = array("i", rows.astype(np.intc).tobytes())
        return self._best

    def problems(self) -> Iterator[str]:
        """Where the totals are not those of the columns, while they count as current."""
        if self._generation != self._cluster.table.generation or self._position != self._cluster.changes.position:
            return
        for column in (*([self._sums] if self._sums else ()), *(part.column for part in self._scores.values())):
            yield from column.problems()
            if column.by_rows and not column.is_current():
                # Another evaluation read it in a transaction that was undone.
                return
        for part in self._scores.values():
            if part.version != part.column.version:
                yield f"{part.plugin.name}'s scores were normalized before they changed"
        totals = _totals(self._sums, self._scores.values(), len(self.ranked))
        if not np.array_equal(self.ranked, np.where(self._feasible, totals, INFEASIBLE)):
            yield "the totals are not the sums of the scores"
        if len(self._best) and self._best.tolist() != (self.ranked == self.ranked.max()).nonzero()[0].tolist():
            yield "other rows have the highest total"


def _totals(sums: SumColumn | None, parts: Iterable[Score], rows: int) -> Ints:
    first = np.zeros(rows, np.int64) if sums is None else sums.values
    return sum([part.weighted for part in parts], first)
