"""The fold of the filters: which nodes all of them let pass, for pods of one signature.

`run` calls PreFilter and every Filter for every node. For the next equal pod, `refresh` calls PreFilter again where its
state no longer holds, brings each filter's column (`columns.py`) up to date, and folds those that changed into
`feasible`. If it cannot, the results here must not be used before the next `run`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from itertools import takewhile
from operator import attrgetter

import numpy as np

from stowplan.scheduler.cluster.arrays import Mask, Rows, Values
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.engine.evaluation.columns import FilterColumn, Fold, SharedColumns, few_of
from stowplan.scheduler.framework.boundary import declares
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.interface import FilterPlugin, NodeFilterPlugin, PreFilterPlugin
from stowplan.scheduler.framework.runtime.framework import Framework, PreFiltered
from stowplan.scheduler.framework.runtime.metrics import measured
from stowplan.scheduler.framework.status import Code, Status

_ANYTHING = Reads.ANYTHING
_version_of = attrgetter("version")


class Filtering(Fold[PreFilterPlugin]):
    """The filters' results on all rows for pods of one signature."""

    def __init__(self, framework: Framework, shared: SharedColumns | None, *, asking: bool) -> None:
        super().__init__(framework, shared, asking=asking)
        self._asking = asking
        self.state = CycleState(asking=asking)
        #: The result of PreFilter; None before the first run.
        self.pre_filtered: PreFiltered | None = None
        #: The error that ended the last run.
        self.error: Status | None = None
        #: Rows that PreFilter left.
        self._named: Mask = np.zeros(0, np.bool_)
        #: The rows that the evaluation is restricted to; None: all.
        self._within: Rows | None = None
        #: Whether node-level plugins took part.
        self.ran_node_level = True
        #: Rows to filter, and their number.
        self.examined: Mask = np.zeros(0, np.bool_)
        self.seen = 0
        #: Rows that pass all plugins, and their number. Replaced, not written.
        self.feasible: Mask = np.zeros(0, np.bool_)
        self.feasible_count = 0
        #: By plugin, in the profile's order.
        self._columns: dict[str, FilterColumn] = {}
        #: A plugin that failed when no node was left to it: upstream would not have called it, so it rejects none until
        #: there is one again.
        self._failed_without_nodes: FilterPlugin | None = None
        #: Whether all plugins that take part declare what they read, and the columns that change with a node's pods.
        self.declared = False
        self._by_rows: list[FilterColumn] = []
        #: The versions of `_by_rows` that `feasible` was folded from; after a change of others, all is folded again.
        self._versions: list[int] = []
        #: Changes whenever a result, or the reason for it, may have changed.
        self.version = 0
        self._has_node_level: bool | None = None
        #: Seconds spent in PreFilter since `begin`; 0.0 without metrics.
        self.preparing = 0.0

    @property
    def has_node_level(self) -> bool:
        if self._has_node_level is None:
            self._has_node_level = any(isinstance(plugin, NodeFilterPlugin) for plugin in self._framework.filter)
        return self._has_node_level

    @property
    def judged_all(self) -> bool:
        """Whether all plugins evaluated all the nodes that PreFilter left."""
        return self.ran_node_level and self._within is None

    def begin(self) -> None:
        """Start a cycle; single plugin calls are timed if it is sampled."""
        self.preparing = 0.0
        if self._metrics is not None:
            self.state.plugin_times = self._metrics.sample

    # -- full run ------------------------------------------------------------------------------------------------------

    def run(self, pod: PodInfo, *, within: Rows | None, one_by_one: bool = True) -> None:
        """Call every plugin for every node. Without `one_by_one`, node-level plugins are left out."""
        self._generation = -1
        self.ran_node_level, self._few = one_by_one, few_of(self._cluster.table.n)
        times, self.state = self.state.plugin_times, CycleState(asking=self._asking)
        self.state.plugin_times = times
        self._columns, self._failed_without_nodes, self.error = {}, None, None
        if self._shared is not None:
            framework = self._framework
            # Pods of one signature have the same answer to `ignores`.
            moving = framework.applicable_plugins(pod.shape).cluster_dependent_pre_filters
            self._watch(pod, (*framework.pre_filter, *framework.filter), moving)
        nodes = Nodes(self._cluster)
        run_pre_filter = self._framework.run_pre_filter
        pre, seconds = measured(self._metrics, run_pre_filter, self.state, pod, nodes)
        self.preparing += seconds
        self.pre_filtered = pre
        self._named = self._left_by(pre)
        self.restrict(within)
        self.feasible, self.feasible_count = np.zeros(self._cluster.table.n, np.bool_), 0
        if pre.status is None:
            self._ask_all(pod, nodes)
        elif not pre.status.rejected:
            self.error = pre.status
        self.version += 1
        self._generation, self._position = self._cluster.table.generation, self._cluster.changes.position
        if self._shared is not None:
            self._regard_declarations()

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

    def restrict(self, within: Rows | None) -> None:
        """Restrict the rows; None: all that PreFilter left."""
        self._within = within
        self.examined = self._named if within is None else self._named & self._marked(within)
        self.seen = int(np.count_nonzero(self.examined))

    def _marked(self, rows: Rows) -> Mask:
        found = np.zeros(self._cluster.table.n, np.bool_)
        found[rows] = True
        return found

    def _ask_all(self, pod: PodInfo, nodes: Nodes) -> None:
        framework, table, position = self._framework, self._cluster.table, self._cluster.changes.position
        feasible, none, some_left = self.examined, np.zeros(table.n, np.bool_), self.seen > 0
        called: list[FilterPlugin] = []
        for plugin in framework.active_filters(self.state):
            if not self.ran_node_level and isinstance(plugin, NodeFilterPlugin):
                continue
            nodes.candidates = feasible
            called.append(plugin)
            answer = framework.ask_filter(plugin, self.state, pod, nodes)
            if isinstance(answer, Status):
                if some_left:
                    self.error = answer
                    break
                self._failed_without_nodes = self._failed_without_nodes or plugin
                column = FilterColumn(framework, (plugin,), False, none, table.generation, position)
            else:
                column = self._column(FilterColumn, (plugin,), pod, none if answer is None else answer.mask)
                column.rejections = answer
            self._columns[plugin.name] = column
            if column.rejections is not None:
                feasible = feasible & ~column.values
                some_left = bool(feasible[feasible.argmax()])
        else:
            self.feasible, self.feasible_count = feasible, int(np.count_nonzero(feasible))
        if self._metrics is not None:
            self._metrics.count(called, self._metrics.filter, table.n)

    # -- the next equal pod --------------------------------------------------------------------------------------------

    def refresh(self, pod: PodInfo, within: Rows | None) -> Collection[str] | None:
        """Bring all results up to date; the plugins that were called again: none of them is the common case.

        None instead: the results are of no use, and a run is needed. Whether a column is outdated is found out here, in
        its turn, and nowhere else.
        """
        generation, pre, changes = self._generation, self.pre_filtered, self._cluster.changes
        if generation != self._cluster.table.generation or self._shared is None or self.error is not None:
            return None
        if pre is None or pre.status is not None:
            return None
        # Nothing counts until everything is done, also if a plugin's exception passes through.
        self._generation = -1
        # PreFilter first: columns are computed from the state that it leaves.
        called = self._prepare(pod)
        if called is None:
            return None
        if within is not self._within and not equal_arrays(within, self._within):
            self.restrict(within)
            self._position = -1
        # In the common case, only few columns can have changed.
        for column in self._columns.values() if called or not self.declared else self._by_rows:
            again = bool(called) and column.plugin.name in called
            if column.by_rows and not again:
                done = column.refresh(self.state, pod) is None
            elif again or column.plugin.reads is _ANYTHING:
                done = self._rerun(column, pod)
            else:
                continue
            if not done:
                # Some plugins' states are ahead of their columns now, and some columns ahead of the fold.
                return None
        if self._failed_without_nodes is not None and self._left_to(self._failed_without_nodes).any():
            return None
        if called or self._position != changes.position:
            self.version += 1
        self._fold()
        self._generation, self._position = generation, changes.position
        return called

    def _prepare(self, pod: PodInfo) -> Collection[str] | None:
        """Call PreFilter again where its state does not hold.

        Returns these plugins, and those that read an object that changed: their columns have to be computed again. None
        if PreFilter fails, or narrowed the nodes: a run is needed.
        """
        state, rearranged = self.state, False
        assert self._objects is not None
        outdated = self._objects.changed(pod)
        if outdated or not self.declared or state.plugin_times is not None:
            # Plugins that are called again in any case expect to find nothing of their last call.
            state.forget({*outdated, *self._framework.undeclared_filters})
        if outdated:
            state.forget_memos()
        called = set(outdated)
        plugins = self._moving
        if outdated or state.plugin_times is not None:
            # In a sampled cycle, all of them: every call is timed.
            moving = self._framework.plugins_to_call(state, pod).cluster_dependent_pre_filters
            plugins = self._to_call(self._framework.pre_filter, moving, outdated)
        for plugin, counter in plugins:
            name, at = plugin.name, ("FilterHolds", plugin)
            if counter is not None and name not in outdated and declares(counter.filter_holds, state, pod, at=at):
                continue
            if self.pre_filtered is not None and name in self.pre_filtered.narrowed_by:
                # It may select other nodes now, or all.
                return None
            answer, seconds = measured(
                self._metrics, self._framework.ask_pre_filter, plugin, state, pod, Nodes(self._cluster)
            )
            self.preparing += seconds
            skipped = name in state.skip_filter
            if answer is None:
                state.skip_filter.discard(name)
            elif isinstance(answer, Status) and answer.code == Code.Skip:
                if skipped:
                    continue
                state.skip_filter.add(name)
            else:
                return None
            rearranged = rearranged or skipped or answer is not None
            called.add(name)
        if rearranged or outdated:
            self._arrange(pod, outdated)
        return called

    def _arrange(self, pod: PodInfo, outdated: Collection[str]) -> None:
        """List the columns again, after plugins started or stopped to skip, with new ones for these plugins."""
        known = {name: column for name, column in self._columns.items() if name not in outdated}
        self._columns = {
            plugin.name: known.get(plugin.name) or self._column(FilterColumn, (plugin,), pod)
            for plugin in self._framework.active_filters(self.state)
            if not self._leaves_out(plugin)
        }
        # The fold has other columns than before, so that versions and rows do not say what changed.
        self._position = -1
        self._regard_declarations()

    def _regard_declarations(self) -> None:
        columns = self._columns.values()
        self._by_rows = [column for column in columns if column.by_rows]
        self._versions = [*map(_version_of, self._by_rows)]
        undeclared = any(column.plugin.reads is _ANYTHING for column in columns)
        self.declared = not undeclared and all(counter for _, counter in self._moving)

    def _rerun(self, column: FilterColumn, pod: PodInfo) -> bool:
        """Compute a column again; False if the plugin fails."""
        version = column.version
        if column.rerun(self.state, pod, self._nodes_left_to(column.plugin)) is not None:
            return False
        if column.version != version:
            # Any row may be another: this plugin reads more than the pods of the row's node.
            self._position = -1
        return True

    def _nodes_left_to(self, plugin: FilterPlugin) -> Nodes:
        """All nodes, with those marked as candidates that pass the plugins before this one."""
        nodes = Nodes(self._cluster)
        if plugin.reads is _ANYTHING:
            # Only matters to node-level plugins.
            nodes.candidates = self._left_to(plugin)
        return nodes

    def _left_to(self, plugin: FilterPlugin) -> Mask:
        """Rows that pass the plugins before this one."""
        return self._joined(takewhile(lambda column: column.plugin is not plugin, self._columns.values()))

    # -- the fold -----------------------------------------------------------------------------------------------------

    def _fold(self) -> None:
        """Update `feasible` in the rows that changed since `_position`; −1 stands for all."""
        # Only of these: a change of any other column has set the position to -1 (`_rerun`, `_arrange`).
        versions = [*map(_version_of, self._by_rows)]
        if self._position >= 0 and versions == self._versions:
            return
        self._versions = versions
        # Columns may be newer than this fold, as others read them, too: their rows changed since its position as well.
        rows, before = self._cluster.changes.since(self._position), self.feasible
        if rows is None or len(rows) > self._few:
            feasible = self._joined(self._columns.values())
            if not np.count_nonzero(feasible != before):
                # The same array: others recognize by it that nothing changed.
                return
        else:
            examined, rejected = self.examined, [c.values for c in self._columns.values() if c.may_reject()]
            moved = [
                row
                for row in rows
                if (examined.item(row) and True not in [one.item(row) for one in rejected]) != before.item(row)
            ]
            if not moved:
                return
            feasible = before.copy()
            feasible[moved] = ~feasible[moved]
        self.feasible, self.feasible_count = feasible, int(np.count_nonzero(feasible))

    def _joined(self, columns: Iterable[FilterColumn]) -> Mask:
        """Rows that these plugins let pass."""
        feasible = self.examined
        for column in columns:
            if column.may_reject():
                feasible = feasible & ~column.values
        return feasible

    def feasible_without(self, names: Container[str]) -> Mask:
        """Rows that pass all plugins but these."""
        return self._joined([column for name, column in self._columns.items() if name not in names])

    # -- node-level plugins --------------------------------------------------------------------------------------------

    def _leaves_out(self, plugin: FilterPlugin) -> bool:
        return not self.ran_node_level and isinstance(plugin, NodeFilterPlugin)

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

    def explain(self, pod: PodInfo) -> bool:
        """Compute the missing reasons of filters; False if a run is needed."""
        if not self.ran_node_level:
            return False
        for column in self._columns.values():
            if column.patched and column.rerun(self.state, pod, Nodes(self._cluster)) is not None:
                return False
        return True

    def diagnosis(self, refused: dict[int, Status]) -> Diagnosis:
        """The verdict on every node after `run` or `explain`.

        `refused`: rejections caused by nominated pods, by row.
        """
        table, pre = self._cluster.table, self.pre_filtered
        assert pre is not None
        present = table.valid[: table.n].copy()
        if self._within is not None:
            present &= self._marked(self._within)
        diagnosis = Diagnosis(present, self.examined)
        diagnosis.filtered = [(name, c.rejections) for name, c in self._columns.items() if c.rejections is not None]
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

    def problems(self) -> Iterator[str]:
        """Where the fold is not that of its columns, while it counts as current."""
        table, changes = self._cluster.table, self._cluster.changes
        if self._generation != table.generation or self._position != changes.position or self.error is not None:
            return
        columns = self._columns.values()
        for column in columns:
            yield from column.problems()
            if column.by_rows and not column.is_current():
                if column.states is None:
                    yield f"{column.plugin.name} rejects rows as of change {column.position} of {changes.position}"
                # Another evaluation read it in a transaction that was undone.
                return
        rejected = self.pre_filtered is not None and self.pre_filtered.status is not None
        if not rejected and not equal_arrays(self.feasible, self._joined(columns)):
            yield "other rows are feasible than those that no filter rejects"
        there = int(np.count_nonzero(self.feasible))
        if self.feasible_count != there:
            yield f"{self.feasible_count} feasible rows are counted, {there} are there"


def equal_arrays(one: Values | None, other: Values | None) -> bool:
    """Whether the arrays have equal values. Arrays that are kept never change, so the same array is a shortcut."""
    return one is other or (one is not None and other is not None and bool(np.array_equal(one, other)))
