"""Cached results of each Filter plugin on all nodes, updated incrementally.

The filtering half of an `Evaluation`, which determines what changed. `run` calls every plugin for every node; `update`
only calls those affected by changed rows or by pods on other nodes. `update` returns whether it succeeded; if not, the
results here must not be used before the next `run`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.engine.evaluation.node_sums import FEW
from stowplan.scheduler.engine.evaluation.object_watches import plugins_to_rerun
from stowplan.scheduler.engine.evaluation.plans import FilterPlan
from stowplan.scheduler.framework.boundary import call, declares, no
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.interface import NodeFilterPlugin, Reads
from stowplan.scheduler.framework.rejections import Rejections
from stowplan.scheduler.framework.runtime.metrics import measured
from stowplan.scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    import numpy.typing as npt

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.evaluation.node_sums import NodeSums, RefusedColumn
    from stowplan.scheduler.framework.interface import FilterPlugin, PreFilterPlugin
    from stowplan.scheduler.framework.runtime.framework import Framework, PreFiltered

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]


class Filtering:
    """The filters' results on all rows for pods of one signature."""

    def __init__(self, framework: Framework, sums: NodeSums, *, asking: bool) -> None:
        self._framework = framework
        self._asking = asking
        self._metrics = None if asking else framework.metrics
        self._sums = sums
        #: For plugins with shared `sums`, by name; pods of one signature share the question.
        self._columns: dict[str, RefusedColumn] = {}
        self._cluster = framework.handle.cluster
        self.state = CycleState(asking=self._asking)
        #: The result of PreFilter; None before the first run.
        self.pre_filtered: PreFiltered | None = None
        #: The error that ended the last run.
        self.error: Status | None = None
        #: Rows that PreFilter left.
        self._named: Mask = np.zeros(0, np.bool_)
        #: The rows that the evaluation is restricted to; None: all.
        self._within: Rows | None = None
        #: Rows to filter, and their number.
        self.examined: Mask = np.zeros(0, np.bool_)
        self.seen = 0
        #: Rows that pass all plugins.
        self.feasible: Mask = np.zeros(0, np.bool_)
        #: Each Filter's result over all rows, in plugin order; None: it rejects no row.
        self._answers: dict[str, Rejections | None] = {}
        #: Plugins whose masks were updated without their reasons.
        self._without_reasons: set[str] = set()
        #: Whether a plugin was added out of order, which a diagnosis must not show.
        self._disordered = False
        #: Whether node-level plugins took part.
        self.whole = True
        #: Plugins whose PreFilter state was renewed by the last update, and those that were outdated.
        self.renewed: set[str] = set()
        #: What changing pods can affect; created on demand. None: each plugin has to be checked.
        self._plan: FilterPlan | None = None
        self._planned = False
        #: Rows that pass all filters except the plan's filters by sums; None: not computed.
        self._open: Mask | None = None
        #: Position in the change log of `FilterPlan.refused` up to which `feasible` is current; None: not current.
        self._followed: int | None = None
        #: Whether `_answers` of the plan's filters by sums are out of date.
        self._behind = False
        #: Plugins that were called again and whose results were not used.
        self._unsettled: set[str] = set()
        #: Position in the cluster's change log up to which `feasible` is current; −1: not current.
        self._position = -1
        #: Seconds spent in PreFilter since the evaluation last reset this; 0.0 without metrics.
        self.preparing = 0.0

    @cached_property
    def looks_one_by_one(self) -> bool:
        """Whether there are node-level plugins."""
        return any(isinstance(plugin, NodeFilterPlugin) for plugin in self._framework.filter)

    @property
    def judged_all(self) -> bool:
        """Whether all plugins evaluated all the nodes that PreFilter left."""
        whole = self.whole and self._within is None and self.error is None
        return whole and self.pre_filtered is not None and self.pre_filtered.status is None

    def sample(self) -> None:
        """Time single plugin calls, if this cycle is sampled."""
        if self._metrics is not None:
            self.state.plugin_times = self._metrics.sample

    # -- full run ------------------------------------------------------------------------------------------------------

    def run(self, pod: PodInfo, *, within: Rows | None, one_by_one: bool = True) -> None:
        """Call every plugin for every node. Without `one_by_one`, node-level plugins are left out."""
        self.whole = one_by_one
        self.state = CycleState(asking=self._asking)
        self.sample()
        self._answers, self.error, self.renewed = {}, None, set()
        self._without_reasons, self._disordered, self._planned = set(), False, False
        self._behind, self._position, self._unsettled = False, self._cluster.changes.position, set()
        nodes = Nodes(self._cluster)
        run_pre_filter = self._framework.run_pre_filter
        pre, seconds = measured(self._metrics, run_pre_filter, self.state, pod, nodes)
        self.preparing += seconds
        self.pre_filtered = pre
        self._named = self._left_by(pre)
        self.restrict(within)
        if pre.status is None:
            self._ask_all(pod, nodes)
            return
        if not pre.status.rejected:
            self.error = pre.status
        self.feasible = np.zeros(self._cluster.table.n, np.bool_)

    def _left_by(self, pre: PreFiltered) -> Mask:
        """Rows that PreFilter left."""
        table = self._cluster.table
        if pre.status is not None:
            return np.zeros(table.n, np.bool_)
        valid = table.valid[: table.n].copy()
        if pre.node_names is None:
            return valid
        named = np.zeros(table.n, np.bool_)
        named[[table.row_of[name] for name in pre.node_names if name in table.row_of]] = True
        return valid & named

    def restrict(self, within: Rows | None) -> bool:
        """Restrict the rows (None: all that PreFilter left); return whether they changed."""
        moved = not equal_arrays(within, self._within)
        self._within = within
        self.examined = self._named if within is None else self._named & self._marked(within)
        self.seen = int(np.count_nonzero(self.examined))
        return moved

    def _marked(self, rows: Rows) -> Mask:
        found = np.zeros(self._cluster.table.n, np.bool_)
        found[rows] = True
        return found

    def _ask_all(self, pod: PodInfo, nodes: Nodes) -> None:
        feasible = self.examined
        called: list[FilterPlugin] = []
        for plugin in self._framework.active_filters(self.state):
            if self._leaves_out(plugin):
                continue
            nodes.candidates = feasible
            called.append(plugin)
            answer = self._framework.ask_filter(plugin, self.state, pod, nodes)
            if isinstance(answer, Status):
                self.error = answer
                break
            self._answers[plugin.name] = answer
            if answer is not None:
                feasible = feasible & ~answer.mask
        else:
            self.feasible = feasible
        if self._metrics is not None:
            self._metrics.count(called, self._metrics.filter, self._cluster.table.n)

    # -- incremental update --------------------------------------------------------------------------------------------

    def planned(self, pod: PodInfo) -> bool:
        """Whether only counters and sums can change the results, so that `update` needs no full plugin calls."""
        if not self._planned:
            self._plan = FilterPlan.of(self._framework, self.state, pod, self._answers, self._sums)
            self._planned, self._open, self._followed = True, None, None
        return self._plan is not None

    def follow(self, pod: PodInfo) -> bool:
        """`update` by the plan: only counting plugins and the joint result of filters by sums can change. False if not.

        Uses the rows of the last run.
        """
        self.renewed.clear()
        state, plan = self.state, self._plan if self.planned(pod) else None
        if plan is None or state.plugin_times is not None:
            # Each plugin has to be called, to be timed.
            return False
        for counter, plugin in plan.counters:
            if not call(counter.filter_holds, state, pod, check=None, failed=no) and not self._renew(plugin, pod):
                return False
        position = self._cluster.changes.position
        if position != self._position:
            if not plan.refused.update(state, pod):
                return False
            if self._followed != plan.refused.changes.position:
                self._take_over(plan)
            # Even if the same rows are refused, it may be by other filters, and for other reasons.
            self._without_reasons |= plan.names
            self._position, self._behind = position, True
        return True

    def _renew(self, plugin: PreFilterPlugin, pod: PodInfo) -> bool:
        """Call one plugin again, from PreFilter on; False if it fails, narrows, or starts or stops skipping."""
        assert self.pre_filtered is not None
        name, skipped = plugin.name, plugin.name in self.state.skip_filter
        if name in self.pre_filtered.narrowed_by:
            return False
        nodes, ask = Nodes(self._cluster), self._framework.ask_pre_filter
        prepared, seconds = measured(self._metrics, ask, plugin, self.state, pod, nodes)
        self.preparing += seconds
        self.renewed.add(name)
        if skipped and isinstance(prepared, Status) and prepared.code == Code.Skip:
            return True
        if not skipped and prepared is None:
            found = next((p for p in self._framework.filter if p.name == name), None)
            if found is None:
                return True
            answer = self._framework.run_filter(found, self.state, pod, self._nodes_left_to(found))
            if not isinstance(answer, Status):
                if self._replace(name, answer):
                    self._open, self._followed, self._position = None, None, -1
                return True
        # Its state is current, but its result was not used.
        self._unsettled.add(name)
        return False

    def _take_over(self, plan: FilterPlan) -> None:
        """Update the feasible rows from the joint result of the filters by sums."""
        changes, refused = plan.refused.changes, plan.refused.values
        if self._open is None:
            self._open = self._joined([name for name in self._answers if name not in plan.names])
        rows = None if self._followed is None else changes.since(self._followed)
        if rows is None or len(rows) > FEW:
            feasible = self._open & ~refused
            if not np.array_equal(feasible, self.feasible):
                self.feasible = feasible
        else:
            feasible = self.feasible.copy()
            for row in rows:
                feasible[row] = self._open.item(row) and not refused.item(row)
            self.feasible = feasible
        self._followed = changes.position

    def _catch_up(self, pod: PodInfo) -> bool:
        """Update `_answers` of the filters by sums, which `follow` does not maintain; False on an error."""
        for plugin in self._plan.by_sums if self._plan is not None else ():
            refused = self._column(plugin, pod).values(self.state, pod)
            if isinstance(refused, Status):
                return False
            self._answers[plugin.name] = Rejections(refused.copy(), ()) if refused.any() else None
        self._behind = False
        return True

    def update(self, pod: PodInfo, rows: list[int], *, within: Rows | None, outdated: frozenset[str]) -> bool:
        """Update the results after pods of some rows changed; False if a full run is needed.

        `outdated`: plugins to call for every node, because lookup objects changed that they depend on.
        """
        self.renewed.clear()
        if not outdated and equal_arrays(within, self._within) and self.follow(pod):
            return True
        return self.renew(pod, rows, within=within, outdated=outdated)

    def renew(self, pod: PodInfo, rows: list[int], *, within: Rows | None, outdated: frozenset[str]) -> bool:
        """`update` without the plan: check each plugin."""
        self.state.forget(outdated | self._framework.undeclared_filters)
        if outdated:
            self.state.forget_memos()
        renewed, seconds = measured(self._metrics, self._renew_pre_filters, pod, outdated)
        self.preparing += seconds
        if not renewed:
            return False
        changed = self._behind or self._position < 0
        if changed and not self._catch_up(pod):
            return False
        changed = (not equal_arrays(within, self._within) and self.restrict(within)) or changed
        skipped = self.state.skip_filter
        for plugin in self._framework.node_pods_filters if rows else ():
            if plugin.name not in skipped and plugin.name not in outdated:
                fresh = self._filter_rows(plugin, pod, rows)
                if fresh is None:
                    return False
                changed = self._patch(plugin.name, rows, fresh) or changed
        for plugin in plugins_to_rerun(self._framework.filter, self._framework.moving_filters, outdated):
            if plugin.name in skipped:
                changed = self._answers.pop(plugin.name, None) is not None or changed
            elif self._leaves_out(plugin):
                continue
            elif plugin.name in self.renewed or plugin.name not in self._answers or plugin.reads is Reads.ANYTHING:
                answer = self._framework.run_filter(plugin, self.state, pod, self._nodes_left_to(plugin))
                if isinstance(answer, Status):
                    return False
                changed = self._replace(plugin.name, answer) or changed
        if changed:
            self.feasible = self._joined(self._answers)
        self._open = self._followed = None
        self._position = self._cluster.changes.position
        return True

    def _renew_pre_filters(self, pod: PodInfo, outdated: frozenset[str]) -> bool:
        """Rerun PreFilter where its state is no longer valid; False if its result changed fundamentally."""
        self.renewed, counters = {*outdated, *self.renewed}, self._framework.pod_counters
        moving = self._framework.plugins_to_call(self.state, pod).moving_pre_filters
        for plugin in plugins_to_rerun(self._framework.pre_filter, moving, outdated):
            unsettled = plugin.name in outdated or plugin.name in self._unsettled
            counter = None if unsettled else counters.get(plugin.name)
            if counter is not None and declares(counter.filter_holds, self.state, pod):
                continue
            if self.pre_filtered is not None and plugin.name in self.pre_filtered.narrowed_by:
                # It may select other nodes now, or all.
                return False
            answer = self._framework.ask_pre_filter(plugin, self.state, pod, Nodes(self._cluster))
            if answer is None:
                if plugin.name in self.state.skip_filter:
                    self.state.skip_filter.discard(plugin.name)
                    self._planned = False
            elif isinstance(answer, Status) and answer.code == Code.Skip:
                if plugin.name in self.state.skip_filter:
                    continue
                self.state.skip_filter.add(plugin.name)
                self._planned = False
            else:
                return False
            self.renewed.add(plugin.name)
        self._unsettled.clear()
        return True

    def _filter_rows(self, plugin: FilterPlugin, pod: PodInfo, rows: list[int]) -> list[bool] | None:
        """A plugin's new result on some rows; None for an error."""
        if plugin.reads is Reads.NODE_SUMS:
            values = self._column(plugin, pod).values(self.state, pod)
            return None if isinstance(values, Status) else _of(values, rows)
        nodes = Nodes(self._cluster, np.array(rows, np.intp))
        answer = self._framework.run_filter(plugin, self.state, pod, nodes)
        if isinstance(answer, Status):
            return None
        return [False] * len(rows) if answer is None else answer.mask.tolist()

    def _column(self, plugin: FilterPlugin, pod: PodInfo) -> RefusedColumn:
        column = self._columns.get(plugin.name)
        if column is None:
            column = self._columns[plugin.name] = self._sums.refused(plugin, pod)
        return column

    def _patch(self, name: str, rows: list[int], fresh: list[bool]) -> bool:
        """Write a plugin's new result on some rows into its mask; return whether the mask changed."""
        old = self._answers[name]
        self._without_reasons.add(name)
        if old is None:
            if not any(fresh):
                return False
            mask = np.zeros(self._cluster.table.n, np.bool_)
        elif _of(old.mask, rows) == fresh:
            return False
        else:
            mask = old.mask.copy()
        mask[rows] = fresh
        self._answers[name] = Rejections(mask, ())
        return True

    def _replace(self, name: str, answer: Rejections | None) -> bool:
        """Store a plugin's new result; return whether it rejects other nodes than before."""
        known = name in self._answers
        old = self._answers.get(name)
        self._answers[name] = answer
        self._without_reasons.discard(name)
        self._disordered = self._disordered or not known
        if old is None or answer is None:
            return old is not answer
        return not equal_arrays(old.mask, answer.mask)

    def explain(self, pod: PodInfo) -> bool:
        """Compute the missing reasons of filters whose masks are up to date; False if a full run is needed."""
        if self._disordered or not self.whole:
            return False
        for plugin in self._framework.active_filters(self.state) if self._without_reasons else ():
            if plugin.name in self._without_reasons:
                answer = self._framework.run_filter(plugin, self.state, pod, Nodes(self._cluster))
                if isinstance(answer, Status):
                    return False
                self._answers[plugin.name] = answer
        self._without_reasons.clear()
        self._behind = False
        return True

    def _joined(self, names: Iterable[str]) -> Mask:
        """Rows that these plugins let pass."""
        feasible = self.examined
        for name in names:
            rejections = self._answers[name]
            if rejections is not None:
                feasible = feasible & ~rejections.mask
        return feasible

    def feasible_without(self, pod: PodInfo, names: Container[str]) -> Mask | None:
        """Rows that pass all plugins but these; None if a plugin fails."""
        if self._behind and not self._catch_up(pod):
            return None
        return self._joined([name for name in self._answers if name not in names])

    def _nodes_left_to(self, plugin: FilterPlugin) -> Nodes:
        """All nodes, with those marked as candidates that pass the plugins before this one."""
        nodes = Nodes(self._cluster)
        if plugin.reads is Reads.ANYTHING:
            # Only matters to node-level plugins.
            left = self.examined
            for earlier in takewhile(lambda p: p is not plugin, self._framework.active_filters(self.state)):
                rejections = self._answers.get(earlier.name)
                left = left if rejections is None else left & ~rejections.mask
            nodes.candidates = left
        return nodes

    # -- node-level plugins --------------------------------------------------------------------------------------------

    def _leaves_out(self, plugin: FilterPlugin) -> bool:
        return not self.whole and isinstance(plugin, NodeFilterPlugin)

    def passing(self, pod: PodInfo, rows: Rows) -> Mask | Status:
        """Which of some feasible rows also pass the plugins that were left out."""
        nodes = Nodes(self._cluster, rows)
        passed = np.ones(len(rows), np.bool_)
        for plugin in self._framework.active_filters(self.state):
            if not self._leaves_out(plugin) or not passed.any():
                continue
            nodes.candidates = passed
            answer = self._framework.run_filter(plugin, self.state, pod, nodes)
            if isinstance(answer, Status):
                return answer
            if answer is not None:
                passed = passed & ~answer.mask
        return passed

    # -- reasons ------------------------------------------------------------------------------------------------------

    def diagnosis(self, refused: dict[int, Status]) -> Diagnosis:
        """The verdict on every node after a run; `refused`: rejections caused by nominated pods, by row."""
        table, pre = self._cluster.table, self.pre_filtered
        assert pre is not None
        present = table.valid[: table.n].copy()
        if self._within is not None:
            present &= self._marked(self._within)
        diagnosis = Diagnosis(present, self.examined)
        diagnosis.filtered = [(name, r) for name, r in self._answers.items() if r is not None]
        diagnosis.nominated = refused
        if pre.status is not None:
            diagnosis.absent = pre.status
            diagnosis.pre_filter_message = pre.status.message
            refusing = (pre.status.plugin,) if pre.status.plugin else ()
            diagnosis.pre_filter_plugins = frozenset((*refusing, *pre.narrowed_by))
        elif pre.node_names is not None:
            named = " ".join(sorted(pre.narrowed_by))
            reason = f"node(s) didn't satisfy plugin(s) [{named}]"
            diagnosis.absent = Status(Code.UnschedulableAndUnresolvable, (reason,))
            diagnosis.pre_filter_plugins = frozenset(pre.narrowed_by)
        return diagnosis


def equal_arrays(one: npt.NDArray[Any] | None, other: npt.NDArray[Any] | None) -> bool:
    """Whether the arrays have equal values. Arrays that are kept never change, so the same array is a shortcut."""
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _of(mask: Mask, rows: list[int]) -> list[bool]:
    """The mask's values of some rows."""
    found: list[bool] = mask.take(rows).tolist() if len(rows) > FEW else list(map(mask.item, rows))
    return found
