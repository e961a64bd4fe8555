"""What every node is worth to a pod, and how that stays true when little has changed.

An `Evaluation` runs the profile's filters and scores over all nodes and keeps each plugin's arrays. Equal pods then
share it: when the next one comes, only what its predecessors changed is worked out again: the rows whose pods
changed for plugins that read a node's pods (`Reads.NODE_PODS`), the whole of a plugin that counts pods everywhere if
one of its counters moved (`Reads.CLUSTER_PODS`), nothing for plugins that read node objects, everything for plugins
that do not say. When a node object or a lookup object changed, all is done anew. The result is the same as without
reuse, bit for bit; a property test holds it to that.

Upstream has the idea as "opportunistic batching" (pkg/scheduler/framework/runtime/batch.go) and gives up on most pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stowplan.cluster.hypothetical import HypotheticalNodes
from stowplan.cluster.view import Nodes
from stowplan.framework import nominated
from stowplan.framework.cycle_state import CycleState
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.interface import CountsPods, PreFilterPlugin, PreScorePlugin, Reads, ScorePlugin
from stowplan.framework.rejections import Rejections
from stowplan.framework.status import Code, Status

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.interface import FilterPlugin
    from stowplan.framework.runtime import Framework, PreFiltered

    Mask = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

#: More changed rows than this share of the table are not worth telling apart.
_MOST_ROWS = 0.1


@dataclass(eq=False)
class _Score:
    """One Score plugin's part of the totals."""

    plugin: ScorePlugin
    weight: int
    raw: Ints
    #: Normalized, times the weight.
    weighted: Ints


@dataclass
class Outcome:
    """One attempt's findings, before a node is chosen."""

    state: CycleState
    #: Why the attempt ended early; None when nodes were judged.
    error: Status | None = None
    feasible: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    diagnosis: Diagnosis | None = None


class Evaluation:
    """The nodes as pods of one signature see them."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._cluster = framework.handle.cluster
        self._generation = -1
        self._objects = -1
        self._position = -1
        self._state = CycleState()
        self._pre_filtered: PreFiltered | None = None
        self._examined: Mask = np.zeros(0, np.bool_)
        #: Filter's answers over all rows, in the order of the plugins; None: refuses nobody.
        self._filters: dict[str, Rejections | None] = {}
        self._patched = False
        self._error: Status | None = None
        self._feasible: Mask = np.zeros(0, np.bool_)
        #: The feasible rows that the scores below were worked out for; None: there are no scores.
        self._scored: Mask | None = None
        self._scores: dict[str, _Score] = {}
        self._totals: Ints = np.zeros(0, np.int64)
        self._dirty: npt.NDArray[np.intp] | None = None

    # -- filtering ----------------------------------------------------------------------------------------------------

    def filter(self, pod: PodInfo) -> Outcome:
        """Judge all nodes, or bring the last judgement up to date."""
        rows = self._changed_rows()
        if rows is None or not self._update_filters(pod, rows):
            self._run_filters(pod)
            rows = None
        self._note_dirty(rows)
        self._stand_now()
        if self._error is not None:
            return Outcome(self._state, self._error)
        feasible, refused = self._with_promises(pod)
        if isinstance(refused, Status):
            return Outcome(self._state, refused)
        outcome = Outcome(self._state, None, feasible)
        if not feasible.any():
            if self._patched:
                # Reasons are not kept up to date, only masks.
                self._run_filters(pod)
                self._note_dirty(None)
            outcome.diagnosis = self._diagnosis(refused)
        return outcome

    def _changed_rows(self) -> npt.NDArray[np.intp] | None:
        """Rows whose pods changed since; None when everything must be done anew."""
        table = self._cluster.table
        if self._generation != table.generation or self._objects != self._cluster.objects.total_version:
            return None
        if self._error is not None or self._pre_filtered is None or self._pre_filtered.status is not None:
            return None
        rows = self._cluster.changes.since(self._position)
        if rows is None or len(rows) > max(1, table.n * _MOST_ROWS):
            return None
        return np.array(rows, np.intp)

    def _stand_now(self) -> None:
        self._generation = self._cluster.table.generation
        self._objects = self._cluster.objects.total_version
        self._position = self._cluster.changes.position

    def _note_dirty(self, rows: npt.NDArray[np.intp] | None) -> None:
        """Remember the rows that scores do not know of yet."""
        if rows is None:
            self._scored = None
            self._dirty = None
        elif self._dirty is None or not len(self._dirty):
            self._dirty = rows
        elif len(rows):
            self._dirty = np.union1d(self._dirty, rows)

    def _run_filters(self, pod: PodInfo) -> None:
        table = self._cluster.table
        nodes = Nodes(self._cluster)
        self._state = CycleState()
        self._filters, self._error, self._patched = {}, None, False
        pre = self._pre_filtered = self._framework.run_pre_filter(self._state, pod, nodes)
        self._examined = self._in_question(pre)
        if pre.status is not None:
            if not pre.status.rejected:
                self._error = pre.status
            self._feasible = np.zeros(table.n, np.bool_)
            return
        feasible = self._examined
        for plugin in self._framework.active_filters(self._state):
            nodes.candidates = feasible
            answer = self._framework.run_filter(plugin, self._state, pod, nodes)
            if isinstance(answer, Status):
                self._error = answer
                return
            self._filters[plugin.name] = answer
            if answer is not None:
                feasible = feasible & ~answer.mask
        self._feasible = feasible

    def _in_question(self, pre: PreFiltered) -> Mask:
        """Rows that Filter looks at."""
        table = self._cluster.table
        valid = table.valid[: table.n].copy()
        if pre.status is not None:
            return np.zeros(table.n, np.bool_)
        if pre.node_names is None:
            return valid
        named = np.zeros(table.n, np.bool_)
        named[[table.row_of[name] for name in pre.node_names if name in table.row_of]] = True
        return valid & named

    def _update_filters(self, pod: PodInfo, rows: npt.NDArray[np.intp]) -> bool:
        """Bring the filters up to date; False when that cannot be done piecemeal."""
        if not self._renew_pre_filters(pod):
            return False
        view = Nodes(self._cluster, rows)
        for plugin in self._framework.active_filters(self._state):
            known = plugin.name in self._filters
            if plugin.reads is Reads.NODE_PODS and known:
                if len(rows) and not self._patch(plugin, pod, view):
                    return False
            elif plugin.reads is Reads.CLUSTER_PODS or plugin.reads is Reads.ANYTHING or not known:
                if known and plugin.reads is Reads.CLUSTER_PODS and plugin.name not in self._moved:
                    continue
                answer = self._framework.run_filter(plugin, self._state, pod, self._all_nodes())
                if isinstance(answer, Status):
                    return False
                self._filters[plugin.name] = answer
        feasible = self._examined
        active = {plugin.name for plugin in self._framework.active_filters(self._state)}
        for name, rejections in self._filters.items():
            if rejections is not None and name in active:
                feasible = feasible & ~rejections.mask
        self._feasible = feasible
        return True

    def _all_nodes(self) -> Nodes:
        nodes = Nodes(self._cluster)
        nodes.candidates = self._examined
        return nodes

    def _patch(self, plugin: FilterPlugin, pod: PodInfo, view: Nodes) -> bool:
        """Put a plugin's fresh answer for some rows into its mask."""
        answer = self._framework.run_filter(plugin, self._state, pod, view)
        if isinstance(answer, Status):
            return False
        old = self._filters[plugin.name]
        if answer is None and old is None:
            return True
        mask = np.zeros(self._cluster.table.n, np.bool_) if old is None else old.mask
        mask[view.rows] = False if answer is None else answer.mask
        self._filters[plugin.name] = Rejections(mask, ())
        self._patched = True
        return True

    def _renew_pre_filters(self, pod: PodInfo) -> bool:
        """Run PreFilter again where its state no longer holds; False when it now says something else altogether."""
        #: CLUSTER_PODS filters whose state was renewed.
        self._moved: set[str] = set()
        for plugin in self._framework.pre_filter:
            if isinstance(plugin, CountsPods):
                if plugin.filter_holds(self._state, pod):
                    continue
            elif plugin.reads is not Reads.ANYTHING:
                continue
            answer = _attempt_pre_filter(plugin, self._state, pod, Nodes(self._cluster))
            if answer is None:
                self._state.skip_filter.discard(plugin.name)
            elif isinstance(answer, Status) and answer.code == Code.Skip:
                self._state.skip_filter.add(plugin.name)
            else:
                return False
            self._moved.add(plugin.name)
        return True

    # -- promised nodes and diagnosis ---------------------------------------------------------------------------------

    def _with_promises(self, pod: PodInfo) -> tuple[Mask, dict[int, Status] | Status]:
        """Take out nodes that would not fit once the pods promised to them have come."""
        if not self._cluster.nominator:
            return self._feasible, {}
        promises = nominated.promised(self._cluster, pod)
        promises = {row: pods for row, pods in promises.items() if self._examined[row]}
        if not promises:
            return self._feasible, {}
        nodes = HypotheticalNodes(self._cluster, np.array(list(promises), np.intp))
        by_position = dict(enumerate(promises.values()))
        answer = nominated.first_pass(self._framework, self._state, pod, nodes, by_position)
        if isinstance(answer, Status):
            return self._feasible, answer
        filtered, passed = answer
        refused = {}
        for i, row in enumerate(promises):
            if not passed[i]:
                plugin, rejections = next((p, r) for p, r in filtered if r.mask[i])
                refused[row] = rejections.status(i).with_plugin(plugin)
        feasible = self._feasible.copy()
        feasible[list(refused)] = False
        return feasible, refused

    def _diagnosis(self, refused: dict[int, Status]) -> Diagnosis:
        table, pre = self._cluster.table, self._pre_filtered
        assert pre is not None
        diagnosis = Diagnosis(table.valid[: table.n].copy(), self._examined)
        diagnosis.filtered = [(name, r) for name, r in self._filters.items() if r is not None]
        diagnosis.nominated = refused
        if pre.status is not None:
            diagnosis.absent = pre.status
            diagnosis.pre_filter_message = pre.status.message
            diagnosis.pre_filter_plugins = frozenset((pre.status.plugin,) if pre.status.plugin else pre.narrowed_by)
        elif pre.node_names is not None:
            named = " ".join(sorted(pre.narrowed_by))
            reason = f"node(s) didn't satisfy plugin(s) [{named}]"
            diagnosis.absent = Status(Code.UnschedulableAndUnresolvable, (reason,))
            diagnosis.pre_filter_plugins = frozenset(pre.narrowed_by)
        return diagnosis

    def diagnosis(self) -> Diagnosis:
        """The verdict on every node after a `filter` that ran in full."""
        return self._diagnosis({})

    # -- scoring ------------------------------------------------------------------------------------------------------

    def score(self, pod: PodInfo, feasible: Mask) -> Ints | Status:
        """Totals of all rows; meaningful where the pod is feasible."""
        if self._scored is None or self._dirty is None:
            return self._run_scores(pod, feasible)
        return self._update_scores(pod, feasible)

    def _run_scores(self, pod: PodInfo, feasible: Mask) -> Ints | Status:
        nodes = Nodes(self._cluster)
        nodes.candidates = feasible
        failed = self._framework.run_pre_score(self._state, pod, nodes)
        if failed is not None:
            return failed
        self._scores = {}
        totals = np.zeros(self._cluster.table.n, np.int64)
        for plugin in self._framework.active_scores(self._state):
            part = self._fresh_score(plugin, pod, nodes, feasible)
            if isinstance(part, Status):
                return part
            self._scores[plugin.name] = part
            totals += part.weighted
        self._totals, self._scored = totals, feasible
        self._dirty = np.zeros(0, np.intp)
        return totals

    def _fresh_score(self, plugin: ScorePlugin, pod: PodInfo, nodes: Nodes, feasible: Mask) -> _Score | Status:
        raw = self._framework.run_score(plugin, self._state, pod, nodes)
        if isinstance(raw, Status):
            return raw
        weight = self._framework.weights.get(plugin.name, 1)
        weighted = self._weighted(plugin, pod, raw, feasible, weight)
        return weighted if isinstance(weighted, Status) else _Score(plugin, weight, raw, weighted)

    def _weighted(
        self, plugin: ScorePlugin, pod: PodInfo, raw: Ints, feasible: Mask, weight: int
    ) -> Ints | Status:
        normal = self._framework.normalize(plugin, self._state, pod, raw, feasible)
        if isinstance(normal, Status) or weight == 1:
            return normal
        return normal * weight

    def _update_scores(self, pod: PodInfo, feasible: Mask) -> Ints | Status:
        """Work out again what the changed rows and the changed set of feasible nodes touch."""
        assert self._scored is not None
        assert self._dirty is not None
        moved = bool((feasible != self._scored).any())
        rows, self._dirty = self._dirty, np.zeros(0, np.intp)
        whole = Nodes(self._cluster)
        whole.candidates = feasible
        view = Nodes(self._cluster, rows)
        if not self._renew_pre_scores(pod, whole, moved):
            return self._run_scores(pod, feasible)
        for plugin in self._framework.active_scores(self._state):
            part = self._scores.get(plugin.name)
            if part is None or plugin.reads is Reads.ANYTHING or plugin.name in self._moved_scores:
                failed = self._replace_score(plugin, pod, whole, feasible)
            elif plugin.reads is Reads.NODE_PODS and len(rows):
                failed = self._patch_score(part, pod, view, feasible)
            elif moved and plugin.normalizes:
                failed = self._renormalize(part, pod, feasible)
            else:
                continue
            if failed is not None:
                return failed
        self._drop_skipped()
        self._scored = feasible
        return self._totals

    def _renew_pre_scores(self, pod: PodInfo, nodes: Nodes, moved: bool) -> bool:
        self._moved_scores: set[str] = set()
        for plugin in self._framework.pre_score:
            if isinstance(plugin, CountsPods):
                if plugin.score_holds(self._state, pod, moved):
                    continue
            elif plugin.reads is not Reads.ANYTHING:
                continue
            answer = _attempt_pre_score(plugin, self._state, pod, nodes)
            if answer is None or answer.code == Code.Success:
                self._state.skip_score.discard(plugin.name)
            elif answer.code == Code.Skip:
                self._state.skip_score.add(plugin.name)
            else:
                return False
            self._moved_scores.add(plugin.name)
        return True

    def _replace_score(self, plugin: ScorePlugin, pod: PodInfo, nodes: Nodes, feasible: Mask) -> Status | None:
        old = self._scores.get(plugin.name)
        part = self._fresh_score(plugin, pod, nodes, feasible)
        if isinstance(part, Status):
            return part
        self._totals += part.weighted if old is None else part.weighted - old.weighted
        self._scores[plugin.name] = part
        return None

    def _patch_score(self, part: _Score, pod: PodInfo, view: Nodes, feasible: Mask) -> Status | None:
        raw = self._framework.run_score(part.plugin, self._state, pod, view)
        if isinstance(raw, Status):
            return raw
        part.raw[view.rows] = raw
        if part.plugin.normalizes:
            return self._renormalize(part, pod, feasible)
        weighted = self._weighted(part.plugin, pod, raw, feasible[view.rows], part.weight)
        if isinstance(weighted, Status):
            return weighted
        self._totals[view.rows] += weighted - part.weighted[view.rows]
        part.weighted[view.rows] = weighted
        return None

    def _renormalize(self, part: _Score, pod: PodInfo, feasible: Mask) -> Status | None:
        weighted = self._weighted(part.plugin, pod, part.raw, feasible, part.weight)
        if isinstance(weighted, Status):
            return weighted
        self._totals += weighted - part.weighted
        part.weighted = weighted
        return None

    def _drop_skipped(self) -> None:
        for name in [name for name in self._scores if name in self._state.skip_score]:
            self._totals -= self._scores.pop(name).weighted

    def scores(self) -> dict[str, Ints]:
        """Plugin -> normalized and weighted scores of all rows, after `score`."""
        return {name: part.weighted for name, part in self._scores.items()}


def _attempt_pre_filter(plugin: PreFilterPlugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> object:
    try:
        return plugin.pre_filter(state, pod, nodes)
    except Exception as e:
        # Found again, and told properly, by the full run that follows.
        return Status(Code.Error, error=e)


def _attempt_pre_score(plugin: PreScorePlugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
    try:
        return plugin.pre_score(state, pod, nodes)
    except Exception as e:
        return Status(Code.Error, error=e)
