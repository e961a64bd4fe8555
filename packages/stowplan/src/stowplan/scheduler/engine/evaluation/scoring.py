"""The fold of the scores: the weighted sum of what the Score plugins say of all nodes, for pods of one signature.

`run` calls PreScore and every Score. For the next equal pod, `refresh` calls PreScore again where its state no longer
holds, brings each plugin's column (`columns.py`) up to date, normalizes the scores that changed or that depend on the
set of feasible nodes, and adds up the rows that changed. If it cannot, the results here must not be used before the
next `run`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.engine.evaluation.columns import BY_ROWS, FEW, Fold, ScoreColumn, SharedColumns
from stowplan.scheduler.framework.boundary import declares
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import PreScorePlugin, Reads, ScorePlugin
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import measured
from stowplan.scheduler.framework.status import Code, Status

#: Total of an infeasible node.
INFEASIBLE = np.iinfo(np.int64).min
_ANYTHING, _NODE_SUMS = Reads.ANYTHING, Reads.NODE_SUMS
_NO_SCORES: Ints = np.zeros(0, np.int64)


class Score(PlainStruct, eq=False):
    """One plugin's part of the totals."""

    plugin: ScorePlugin
    weight: int
    column: ScoreColumn
    #: Whether scores are the raw ones, which change with the pods of their node: they are added up by row.
    added_by_row: bool
    #: Normalized scores of this version of the column, times the weight; unless `added_by_row`.
    normalized: Ints = _NO_SCORES
    version: int = -1
    #: Lowest and highest raw score of the feasible rows; None: not computed.
    bounds: tuple[int, int] | None = None

    @property
    def raw(self) -> Ints:
        return self.column.values

    @property
    def weighted(self) -> Ints:
        """Normalized scores of all rows, times the weight."""
        return self.column.values * self.weight if self.added_by_row else self.normalized

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
            elif low != high and not low < value < high:
                return False
        return True


class Scored(PlainStruct, eq=False):
    """The scores of the feasible nodes for a pod; valid until the evaluation is used again."""

    #: Why there are no scores.
    error: Status | None
    #: Whether PreScore ended scoring, so that no Score ran.
    ended_early: bool
    #: Seconds spent in PreScore; 0.0 without metrics.
    preparing: float
    #: The totals, `INFEASIBLE` for infeasible rows.
    ranked: Ints
    #: Each plugin's part of the totals.
    parts: dict[str, Score]

    @property
    def totals(self) -> Ints:
        """Sums over the plugins, for all rows."""
        return sum([part.weighted for part in self.parts.values()], np.zeros(len(self.ranked), np.int64))

    def by_plugin(self) -> dict[str, Ints]:
        """Plugin -> normalized and weighted scores of all rows."""
        return {name: part.weighted for name, part in self.parts.items()}


class Scoring(Fold[PreScorePlugin]):
    """The scores of all rows for pods of one signature."""

    def __init__(self, framework: Framework, shared: SharedColumns | None, *, asking: bool) -> None:
        super().__init__(framework, shared, asking=asking)
        #: The evaluation's state for the pod that is being scored.
        self._state = CycleState()
        #: The feasible rows that the scores are valid for.
        self._feasible: Mask = np.zeros(0, np.bool_)
        #: By plugin, in the profile's order.
        self._scores: dict[str, Score] = {}
        #: The sum of the scores that are added by row, and of all others.
        self._by_row: Ints = _NO_SCORES
        self._others: Ints = _NO_SCORES
        #: Their sum in feasible rows, `INFEASIBLE` in others.
        self.ranked: Ints = _NO_SCORES
        #: Whether the current scoring ended with PreScore, and the seconds that PreScore took.
        self._ended_early = False
        self._preparing = 0.0

    def score(self, state: CycleState, pod: PodInfo, feasible: Mask) -> Scored:
        """Score all rows, or update the scores."""
        self._ended_early, self._preparing = False, 0.0
        failed = None if self.refresh(state, pod, feasible) else self.run(state, pod, feasible)
        return Scored(failed, self._ended_early, self._preparing, self.ranked, self._scores)

    # -- full run ------------------------------------------------------------------------------------------------------

    def run(self, state: CycleState, pod: PodInfo, feasible: Mask) -> Status | None:
        """Call every plugin for every node; a Status is an error."""
        self._generation, self._state, self._scores, self._feasible = -1, state, {}, feasible
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
        for part in self._scores.values():
            changed = not part.added_by_row and self._normalize(part, pod)
            if isinstance(changed, Status):
                return changed
        self._add_up()
        self._generation, self._position = self._cluster.table.generation, self._cluster.changes.position
        return None

    def _nodes(self) -> Nodes:
        """All nodes, with the feasible ones marked as candidates."""
        nodes = Nodes(self._cluster)
        nodes.candidates = self._feasible
        return nodes

    def _ask_all(self, pod: PodInfo, nodes: Nodes) -> Status | None:
        framework, table, position = self._framework, self._cluster.table, self._cluster.changes.position
        active, failed = framework.active_scores(self._state), None
        for plugin in active:
            raw = framework.ask_score(plugin, self._state, pod, nodes)
            if isinstance(raw, Status):
                failed = raw
                break
            if self._shared is not None and plugin.reads is _NODE_SUMS:
                part = self._part(plugin, pod)
                part.column.store(raw)
            else:
                by_rows = plugin.reads in BY_ROWS
                column = ScoreColumn(framework, plugin, by_rows, raw, table.generation, position)
                part = Score(plugin, framework.weights.get(plugin.name, 1), column, _added_by_row(plugin))
            self._scores[plugin.name] = part
        if self._metrics is not None:
            called = active[: len(self._scores) + 1]
            self._metrics.count(called, self._metrics.score, table.n)
        return failed

    def _part(self, plugin: ScorePlugin, pod: PodInfo) -> Score:
        column = self._column(ScoreColumn, plugin, pod)
        return Score(plugin, self._framework.weights.get(plugin.name, 1), column, _added_by_row(plugin))

    # -- the next equal pod --------------------------------------------------------------------------------------------

    def refresh(self, state: CycleState, pod: PodInfo, feasible: Mask) -> bool:
        """Bring all results up to date; False if a run is needed.

        As in `Filtering.refresh`, whether a column is outdated is found out in its turn, and nowhere else.
        """
        generation, changes, before = self._generation, self._cluster.changes, self._feasible
        if generation != self._cluster.table.generation or state is not self._state or self._shared is None:
            return False
        # Nothing counts until everything is done, also if a plugin's exception passes through.
        self._generation, self._feasible = -1, feasible
        # By value: filtering again may have found the same nodes.
        moved = [] if feasible is before else (feasible != before).nonzero()[0].tolist()
        called = self._prepare(pod, feasible_moved=bool(moved))
        if called is None:
            return False
        everywhere = False
        for name, part in self._scores.items():
            column, again = part.column, name in called or part.plugin.reads is _ANYTHING
            if again:
                done = column.rerun(state, pod, self._nodes()) is None
            else:
                current = column.position == changes.position and column.generation == generation
                same = not column.by_rows or current
                done = same or column.refresh(state, pod) is None
            if not done:
                return False
            if part.added_by_row:
                continue
            # `normalize` may read what PreScore wrote: the same raw scores do not say that it returns the same.
            if again or part.version != column.version or (moved and self._varies(part, moved, before)):
                changed = self._normalize(part, pod)
                if isinstance(changed, Status):
                    return False
                everywhere = everywhere or changed
        self._rank(moved, everywhere=everywhere)
        self._generation, self._position = generation, changes.position
        return True

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
            name = plugin.name
            if (
                counter is not None
                and name not in outdated
                and declares(counter.score_holds, state, pod, feasible_moved)
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
        active = self._framework.active_scores(self._state)
        self._scores = {plugin.name: known.get(plugin.name) or self._part(plugin, pod) for plugin in active}
        normalized = [known[name].normalized for name in self._scores if name in known and not known[name].added_by_row]
        self._others = sum(normalized, np.zeros(self._cluster.table.n, np.int64))
        self._position = -1

    def _varies(self, part: Score, moved: Sequence[int], before: Mask) -> bool:
        """Whether normalized scores may be others because the feasible rows `moved`."""
        plugin = part.plugin
        if plugin.in_range and not plugin.normalizes:
            return False
        by_bounds = plugin.normalizes_by_bounds and len(moved) <= FEW
        return not (by_bounds and part.bounds_hold(moved, before, self._feasible))

    def _normalize(self, part: Score, pod: PodInfo) -> bool | Status:
        """Normalize a plugin's raw scores, and check that they are in range; whether that made a difference."""
        normal = self._framework.normalize(part.plugin, self._state, pod, part.raw, self._feasible)
        if isinstance(normal, Status):
            return normal
        part.bounds, part.version = None, part.column.version
        before, part.normalized = part.normalized, normal * part.weight
        # In place, which only totals see that count as current: `ranked` is an array of its own.
        if not len(before):
            self._others += part.normalized
        elif (before == part.normalized).all():
            return False
        else:
            self._others += part.normalized - before
        return True

    # -- the fold -----------------------------------------------------------------------------------------------------

    def _rank(self, moved: Sequence[int], *, everywhere: bool) -> None:
        """Add up the rows that changed since `_position`, and those whose feasibility `moved`; `everywhere`: all."""
        rows = self._cluster.changes.since(self._position)
        if rows is None or len(rows) + len(moved) > FEW:
            self._add_up()
            return
        # In place: who got `ranked` has used it by now (`IncrementalResults`, `Scored`).
        by_row, others, feasible, ranked = self._by_row, self._others, self._feasible, self.ranked
        for row in rows:
            total = 0
            for part in self._scores.values():
                if part.added_by_row:
                    total += part.column.values.item(row) * part.weight
            by_row[row] = total
        if everywhere:
            self._rank_all()
            return
        for row in (*rows, *moved):
            ranked[row] = by_row.item(row) + others.item(row) if feasible.item(row) else INFEASIBLE

    def _add_up(self) -> None:
        """Add up all rows."""
        self._by_row = np.zeros(self._cluster.table.n, np.int64)
        for part in self._scores.values():
            if part.added_by_row:
                self._by_row += part.column.values * part.weight
        self._rank_all()

    def _rank_all(self) -> None:
        totals = self._by_row + self._others
        if np.count_nonzero(self._feasible) < len(totals):
            totals = np.where(self._feasible, totals, INFEASIBLE)
        self.ranked = totals

    def problems(self) -> Iterator[str]:
        """Where the totals are not those of the columns, while they count as current."""
        if self._generation != self._cluster.table.generation or self._position != self._cluster.changes.position:
            return
        for part in self._scores.values():
            column = part.column
            yield from column.problems()
            if column.by_rows and not column.is_current():
                # Another evaluation read it in a transaction that was undone.
                return
            if not part.added_by_row and part.version != column.version:
                yield f"{part.plugin.name}'s scores were normalized before they changed"
        totals = sum([part.weighted for part in self._scores.values()], np.zeros(len(self.ranked), np.int64))
        if not np.array_equal(self.ranked, np.where(self._feasible, totals, INFEASIBLE)):
            yield "the totals are not the sums of the scores"


def _added_by_row(plugin: ScorePlugin) -> bool:
    return plugin.in_range and not plugin.normalizes and plugin.reads in BY_ROWS
