"""Cached results of each Score plugin on all nodes, and their weighted sum.

The scoring half of an `Evaluation`, which determines what changed. For the next equal pod, only those scores are
recomputed that are affected by the changes, or by a different set of feasible nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.engine.evaluation.node_sums import FEW
from stowplan.scheduler.engine.evaluation.object_watches import plugins_to_rerun
from stowplan.scheduler.engine.evaluation.plans import ScorePlan
from stowplan.scheduler.engine.evaluation.score import Score
from stowplan.scheduler.framework.boundary import call, declares, no
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import Reads
from stowplan.scheduler.framework.runtime.metrics import measured
from stowplan.scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.evaluation.node_sums import NodeSums, ScoredColumn
    from stowplan.scheduler.framework.interface import PreScorePlugin, ScorePlugin
    from stowplan.scheduler.framework.runtime.framework import Framework

    Mask = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

#: Total of an infeasible node.
INFEASIBLE = np.iinfo(np.int64).min


class Scored(PlainStruct, eq=False):
    """The scores of the feasible nodes for a pod; valid until the evaluation is used again."""

    #: Why there are no scores.
    error: Status | None
    #: Whether PreScore ended scoring, so that no Score ran.
    ended_early: bool
    #: Seconds spent in PreScore; 0.0 without metrics.
    preparing: float
    #: Sums over the plugins, for all rows.
    totals: Ints
    #: The totals, `INFEASIBLE` for infeasible rows.
    ranked: Ints
    #: Each plugin's part of the totals.
    parts: dict[str, Score]

    def by_plugin(self) -> dict[str, Ints]:
        """Plugin -> normalized and weighted scores of all rows."""
        return {name: part.weighted for name, part in self.parts.items()}


class Scoring:
    """The scores of all rows for pods of one signature."""

    def __init__(self, framework: Framework, sums: NodeSums, *, asking: bool) -> None:
        self._framework = framework
        self._metrics = None if asking else framework.metrics
        self._sums = sums
        #: For plugins with shared `sums`, by name; pods of one signature share the question.
        self._columns: dict[str, ScoredColumn] = {}
        self._cluster = framework.handle.cluster
        #: The evaluation's state for the pod that is being scored.
        self._state = CycleState()
        #: The feasible rows that the scores below are valid for; None: there are no scores.
        self._scored: Mask | None = None
        self._scores: dict[str, Score] = {}
        #: Whether the current scoring ended with PreScore, and the seconds that PreScore took.
        self._ended_early = False
        self._preparing = 0.0
        self._totals: Ints = np.zeros(0, np.int64)
        #: The totals, INFEASIBLE for infeasible rows.
        self._ranked: Ints = np.zeros(0, np.int64)
        #: Plugins whose PreScore state was renewed in this cycle, and those that were outdated.
        self._moved: set[str] = set()
        #: Plugins whose scores depend on lookup objects that changed since.
        self._outdated: frozenset[str] = frozenset()
        #: What changing pods can affect; created on demand. None: each plugin has to be checked.
        self._plan: ScorePlan | None = None
        self._planned = False
        #: Totals without the plan's scores by sums; None: not computed.
        self._rest: Ints | None = None
        #: Position in the change log of `ScorePlan.worth` up to which `_ranked` is current; None: not current.
        self._followed: int | None = None
        #: Whether `_totals` and the plan's scores by sums are out of date.
        self._behind = False
        #: Rows whose scores are not up to date.
        self._dirty: list[int] | None = None

    def outdate(self, rows: list[int] | None, plugins: frozenset[str] = frozenset()) -> None:
        """Mark the scores of these rows, and of these plugins, as outdated; None: all of them."""
        if plugins:
            self._outdated |= plugins
        if rows is None:
            self._scored = None
            self._dirty = None
        elif not self._dirty:
            self._dirty = rows
        elif rows:
            self._dirty = sorted({*self._dirty, *rows})

    def run(self, state: CycleState, pod: PodInfo, feasible: Mask) -> Scored:
        """Score all rows, or update the scores."""
        self._state = state
        self._ended_early, self._preparing = False, 0.0
        if self._scored is None or self._dirty is None:
            failed = self._run(pod, feasible)
        else:
            failed = self._update(pod, feasible)
        if failed is None and self._behind:
            failed = self._catch_up(pod)
        if failed is not None:
            self._scored = None
        return Scored(failed, self._ended_early, self._preparing, self._totals, self._ranked, self._scores)

    @property
    def ranked(self) -> Ints:
        """The totals, `INFEASIBLE` for infeasible rows; valid until the next use."""
        return self._ranked

    def current(self, feasible: Mask) -> bool:
        """Whether the totals are up to date for these nodes."""
        return self._scored is feasible and self._dirty is not None and not self._dirty and not self._outdated

    def follow(self, state: CycleState, pod: PodInfo, feasible: Mask) -> bool:
        """`run` by the plan, if only sums, counted pods and feasible nodes changed; False if not.

        Requires scores that are up to date except for these.
        """
        if not self._planned:
            self._plan, self._planned = ScorePlan.of(self._framework, state, pod, self._scores, self._sums), True
            self._rest = self._followed = None
        plan, before = self._plan, self._scored
        if plan is None or before is None or state.plugin_times is not None:
            return False
        self._state = state
        if self._rest is None:
            self._rest = self._totals - plan.sum_of_parts(len(self._totals))
        rest, changed = self._rest, () if feasible is before else (feasible != before).nonzero()[0].tolist()
        if not self._count_again(plan, pod, feasible, before, changed) or not plan.worth.update(state, pod):
            return False
        self._rank(plan, feasible, changed, whole=rest is not self._rest)
        # Single scores may have changed even where their sum is the same.
        self._scored, self._behind = feasible, True
        return True

    def _count_again(self, plan: ScorePlan, pod: PodInfo, feasible: Mask, before: Mask, changed: Sequence[int]) -> bool:
        """Update scores that count pods or depend on the set of feasible nodes; False if a full run is needed.

        `changed`: rows whose feasibility changed.
        """
        state, moved, done = self._state, feasible is not before, set()
        for counter, plugin in plan.counters:
            if not call(counter.score_holds, state, pod, moved, check=None, failed=no):
                if not self._renew(plugin, pod, feasible):
                    return False
                done.add(plugin.name)
        few = len(changed) <= FEW
        for part in plan.normalized if changed else ():
            if part.plugin.name in done or (
                few and part.plugin.normalizes_by_bounds and part.bounds_hold(changed, before, feasible)
            ):
                continue
            if not self._normalize_again(part, pod, feasible):
                return False
        return True

    def _renew(self, plugin: PreScorePlugin, pod: PodInfo, feasible: Mask) -> bool:
        """Call one plugin again, from PreScore on; False if it fails, or starts or stops skipping."""
        nodes = Nodes(self._cluster)
        nodes.candidates = feasible
        answer = self._framework.ask_pre_score(plugin, self._state, pod, nodes)
        part = self._scores.get(plugin.name)
        if part is None and answer is not None and answer.code == Code.Skip:
            return True
        if part is not None and (answer is None or answer.code == Code.Success):
            raw = self._framework.run_score(part.plugin, self._state, pod, nodes)
            if not isinstance(raw, Status):
                part.raw = raw
                return self._normalize_again(part, pod, feasible)
        # Its state is current, but its result was not used.
        self._outdated |= {plugin.name}
        return False

    def _normalize_again(self, part: Score, pod: PodInfo, feasible: Mask) -> bool:
        change = self._renormalized(part, pod, feasible)
        if isinstance(change, Status):
            return False
        if change is not None:
            assert self._rest is not None
            self._rest, self._behind = self._rest + change, True
        return True

    def _rank(self, plan: ScorePlan, feasible: Mask, changed: Sequence[int], *, whole: bool) -> None:
        """Update `_ranked` for rows whose sums or feasibility changed; `whole`: for all rows."""
        worth, changes, rest = plan.worth.values, plan.worth.changes, self._rest
        assert rest is not None
        if self._followed == changes.position and not changed and not whole:
            return
        rows = None if whole or self._followed is None else changes.since(self._followed)
        if rows is None or len(rows) + len(changed) > FEW:
            self._ranked = np.where(feasible, worth + rest, INFEASIBLE)
        else:
            ranked = self._ranked
            for row in (*rows, *changed):
                ranked[row] = worth.item(row) + rest.item(row) if feasible.item(row) else INFEASIBLE
        self._followed = changes.position

    def _catch_up(self, pod: PodInfo) -> Status | None:
        """Update `_totals` and the single scores by sums, which `follow` does not maintain."""
        assert self._plan is not None
        assert self._rest is not None
        totals = self._rest.copy()
        for part in self._plan.by_sums:
            raw = self._column(part.plugin, pod).values(self._state, pod)
            if isinstance(raw, Status):
                return raw
            part.raw = part.normal = raw.copy()
            part.weighted = part.raw * part.weight
            totals += part.weighted
        self._totals, self._behind = totals, False
        return None

    def _run(self, pod: PodInfo, feasible: Mask) -> Status | None:
        nodes = Nodes(self._cluster)
        nodes.candidates = feasible
        failed, seconds = measured(self._metrics, self._framework.run_pre_score, self._state, pod, nodes)
        self._preparing += seconds
        if failed is not None:
            self._ended_early = True
            return failed
        self._scores, self._planned, self._behind = {}, False, False
        raws: list[tuple[ScorePlugin, Ints]] = []
        active = self._framework.active_scores(self._state)
        for plugin in active:
            raw = self._framework.ask_score(plugin, self._state, pod, nodes)
            if isinstance(raw, Status):
                failed = raw
                break
            raws.append((plugin, raw))
        if self._metrics is not None:
            self._metrics.count(active[: len(raws) + 1], self._metrics.score, self._cluster.table.n)
        if failed is not None:
            return failed
        totals = np.zeros(self._cluster.table.n, np.int64)
        for plugin, raw in raws:
            part = self._weighted(plugin, pod, raw, feasible)
            if isinstance(part, Status):
                return part
            self._scores[plugin.name] = part
            totals += part.weighted
        self._totals, self._scored = totals, feasible
        self._ranked = self._only_feasible(feasible)
        self._dirty, self._outdated = [], frozenset()
        return None

    def _only_feasible(self, feasible: Mask) -> Ints:
        if np.count_nonzero(feasible) == len(feasible):
            return self._totals
        return np.where(feasible, self._totals, INFEASIBLE)

    def _weighted(self, plugin: ScorePlugin, pod: PodInfo, raw: Ints, feasible: Mask) -> Score | Status:
        weight = self._framework.weights.get(plugin.name, 1)
        normal = self._framework.normalize(plugin, self._state, pod, raw, feasible)
        return normal if isinstance(normal, Status) else Score(plugin, weight, raw, normal, normal * weight)

    def _update(self, pod: PodInfo, feasible: Mask) -> Status | None:
        """Recompute what is affected by the changed rows and the changed set of feasible nodes."""
        assert self._scored is not None
        assert self._dirty is not None
        moved = feasible is not self._scored and bool((feasible != self._scored).any())
        if not moved:
            self._scored = feasible
        rows, self._dirty = self._dirty, []
        if not self._outdated and self.follow(self._state, pod, feasible):
            return None
        outdated, self._outdated = self._outdated, frozenset()
        behind = self._behind
        failed = self._catch_up(pod) if behind else None
        if failed is not None:
            return failed
        self._rest = self._followed = None
        self._state.forget(self._framework.undeclared_scores)
        whole = Nodes(self._cluster)
        whole.candidates = feasible
        renewed, seconds = measured(self._metrics, self._renew_pre_scores, pod, whole, moved, outdated)
        self._preparing += seconds
        if not renewed:
            return self._run(pod, feasible)
        everywhere = self._drop_skipped() or moved or behind
        for plugin in self._framework.active_scores(self._state):
            part, failed = self._scores.get(plugin.name), None
            if part is None or plugin.name in self._moved or plugin.reads is Reads.ANYTHING:
                before = None if part is None else part.normal
                failed = self._replace_score(plugin, pod, whole, feasible)
                everywhere = everywhere or before is None or self._scores[plugin.name].normal is not before
            elif rows and plugin.reads in (Reads.NODE_SUMS, Reads.NODE_PODS):
                failed = self._patch_score(part, pod, rows, feasible)
                everywhere = everywhere or plugin.normalizes
            elif moved and plugin.normalizes:
                failed = self._renormalize(part, pod, feasible)
            if failed is not None:
                return failed
        if everywhere:
            self._ranked = self._only_feasible(feasible)
        else:
            self._ranked[rows] = np.where(feasible[rows], self._totals[rows], INFEASIBLE)
        self._scored = feasible
        return None

    def _renew_pre_scores(self, pod: PodInfo, nodes: Nodes, moved: bool, outdated: frozenset[str]) -> bool:
        self._moved, counters = set(outdated), self._framework.pod_counters
        for plugin in plugins_to_rerun(self._framework.pre_score, self._framework.moving_pre_scores, outdated):
            counter = None if plugin.name in outdated else counters.get(plugin.name)
            if counter is not None and declares(counter.score_holds, self._state, pod, moved):
                continue
            answer = self._framework.ask_pre_score(plugin, self._state, pod, nodes)
            skipped = self._state.skip_score
            if answer is None or answer.code == Code.Success:
                self._planned = self._planned and plugin.name not in skipped
                skipped.discard(plugin.name)
            elif answer.code == Code.Skip:
                self._planned = self._planned and plugin.name in skipped
                skipped.add(plugin.name)
            else:
                return False
            self._moved.add(plugin.name)
        return True

    def _replace_score(self, plugin: ScorePlugin, pod: PodInfo, nodes: Nodes, feasible: Mask) -> Status | None:
        """Recompute the scores of all nodes for one plugin."""
        old = self._scores.get(plugin.name)
        if old is None:
            raw = self._framework.run_score(plugin, self._state, pod, nodes)
            part = raw if isinstance(raw, Status) else self._weighted(plugin, pod, raw, feasible)
            if isinstance(part, Status):
                return part
            self._totals += part.weighted
            self._scores[plugin.name] = part
            return None
        raw = self._framework.run_score(plugin, self._state, pod, nodes)
        if isinstance(raw, Status):
            return raw
        old.raw = raw
        return self._renormalize(old, pod, feasible)

    def _patch_score(self, part: Score, pod: PodInfo, changed: list[int], feasible: Mask) -> Status | None:
        """Recompute the scores of some rows for one plugin."""
        rows = np.array(changed, np.intp)
        raw = self._score_rows(part.plugin, pod, rows)
        if isinstance(raw, Status):
            return raw
        # A copy: the plugin may keep the array as well.
        part.raw = part.raw.copy()
        part.raw[rows] = raw
        if part.plugin.normalizes:
            return self._renormalize(part, pod, feasible)
        part.normal = part.raw
        normal = self._framework.normalize(part.plugin, self._state, pod, raw, feasible.take(rows))
        if isinstance(normal, Status):
            return normal
        weighted = normal * part.weight
        self._totals[rows] += weighted - part.weighted.take(rows)
        part.weighted[rows] = weighted
        return None

    def _score_rows(self, plugin: ScorePlugin, pod: PodInfo, rows: npt.NDArray[np.intp]) -> Ints | Status:
        if plugin.reads is Reads.NODE_SUMS:
            values = self._column(plugin, pod).values(self._state, pod)
            return values if isinstance(values, Status) else values.take(rows)
        return self._framework.run_score(plugin, self._state, pod, Nodes(self._cluster, rows))

    def _column(self, plugin: ScorePlugin, pod: PodInfo) -> ScoredColumn:
        column = self._columns.get(plugin.name)
        if column is None:
            column = self._columns[plugin.name] = self._sums.scored(plugin, pod)
        return column

    def _renormalize(self, part: Score, pod: PodInfo, feasible: Mask) -> Status | None:
        change = self._renormalized(part, pod, feasible)
        if isinstance(change, Status):
            return change
        if change is not None:
            self._totals += change
        return None

    def _renormalized(self, part: Score, pod: PodInfo, feasible: Mask) -> Ints | Status | None:
        """Normalize a plugin's raw scores again; by how much its part of the totals changed, None: nowhere."""
        part.bounds = None
        normal = self._framework.normalize(part.plugin, self._state, pod, part.raw, feasible)
        if isinstance(normal, Status):
            return normal
        if normal is part.normal:
            return None
        weighted = normal * part.weight
        change: Ints = weighted - part.weighted
        part.normal, part.weighted = normal, weighted
        return change

    def _drop_skipped(self) -> bool:
        """Remove plugins whose PreScore now returns Skip; return whether there were any."""
        dropped = [name for name in self._scores if name in self._state.skip_score]
        for name in dropped:
            self._totals -= self._scores.pop(name).weighted
        return bool(dropped)
