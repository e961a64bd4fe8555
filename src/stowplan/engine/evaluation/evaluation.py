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
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.cluster.view import Nodes
from stowplan.engine.evaluation.node_sums import NodeSums
from stowplan.engine.evaluation.nominated_nodes import PromisedRoom
from stowplan.engine.evaluation.scoring import Scoring
from stowplan.framework.cycle_state import CycleState
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.interface import CountsPods, NodeFilterPlugin, Reads
from stowplan.framework.metrics import preparing
from stowplan.framework.rejections import Rejections
from stowplan.framework.status import NOT_THEIRS, Code, Status, error

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.interface import FilterPlugin, PreFilterPlugin
    from stowplan.framework.runtime import Framework, PreFiltered

    Mask = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

_NO_ROWS = np.zeros(0, np.intp)

#: More changed rows than this share of the table are not worth telling apart.
_MOST_ROWS = 0.1


@dataclass
class Outcome:
    """One attempt's findings, before a node is chosen."""

    state: CycleState
    #: Why the attempt ended early; None when nodes were judged.
    error: Status | None = None
    feasible: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: Rows that filters looked at, and how many they are.
    examined: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    seen: int = 0
    diagnosis: Diagnosis | None = None
    #: Rows that have no room next to the pods promised to them.
    refused: dict[int, Status] = field(default_factory=dict)


class Evaluation:
    """The nodes as pods of one signature see them."""

    def __init__(self, framework: Framework, sums: NodeSums | None = None) -> None:
        self._framework = framework
        self._metrics = framework.metrics
        #: Shared with other evaluations of the profile.
        self._sums = sums if sums is not None else NodeSums(framework)
        self._cluster = framework.handle.cluster
        self._generation = -1
        self._objects = -1
        self._position = -1
        self._state = CycleState()
        self._pre_filtered: PreFiltered | None = None
        self._examined: Mask = np.zeros(0, np.bool_)
        self._seen = 0
        #: Filter's answers over all rows, in the order of the plugins; None: refuses nobody.
        self._filters: dict[str, Rejections | None] = {}
        self._patched = False
        #: Whether plugins that look at nodes one by one took part.
        self._whole = True
        #: The last findings, if the pod fitted nowhere, and what they hang on.
        self._kept: tuple[tuple[Any, ...], Outcome] | None = None
        self._error: Status | None = None
        self._feasible: Mask = np.zeros(0, np.bool_)
        self.scoring = Scoring(framework, self._sums)
        #: Plugins whose PreFilter state was renewed in this cycle.
        self._moved: set[str] = set()
        self._promised = PromisedRoom(framework)

    @cached_property
    def _looks_one_by_one(self) -> bool:
        return any(isinstance(plugin, NodeFilterPlugin) for plugin in self._framework.filter)

    # -- filtering ----------------------------------------------------------------------------------------------------

    def filter(self, pod: PodInfo, *, one_by_one: bool = True) -> Outcome:
        """Judge all nodes, or bring the last judgement up to date.

        Without `one_by_one`, plugins that look at nodes one by one are left for `passing`, if other plugins leave any.
        """
        one_by_one = one_by_one or not self._looks_one_by_one
        self._time_plugins()
        rows = self._changed_rows() if one_by_one == self._whole else None
        if rows is None or not self._update_filters(pod, rows):
            self._run_filters(pod, one_by_one=one_by_one)
            rows = None
        #: Whether the last pod was judged by what its equals had left.
        self.reused = rows is not None
        self.scoring.outdate(rows)
        self._stand_now()
        if self._error is not None:
            return Outcome(self._state, self._error)
        if rows is not None and not len(rows) and not self._moved and self._kept is not None:
            stamp, outcome = self._kept
            if stamp == self._stamp(pod):
                return outcome
        return self._judgement(pod)

    def _time_plugins(self) -> None:
        if self._metrics is not None:
            self._state.plugin_times = self._metrics.sample

    @property
    def ended_early(self) -> Status | None:
        """What PreFilter said to the last pod if that was the end of it: no Filter ran."""
        return None if self._pre_filtered is None else self._pre_filtered.status

    def _judgement(self, pod: PodInfo) -> Outcome:
        """The filters' findings and what promises make of them; with the reasons if no node is left."""
        self._kept = None
        feasible, refused = self._with_promises(pod)
        if isinstance(refused, Status):
            return Outcome(self._state, refused)
        if feasible.any():
            return Outcome(self._state, None, feasible, self._examined, self._seen, None, refused)
        if self._patched or not self._whole:
            # Reasons are not kept up to date, only masks.
            self._run_filters(pod)
            self.scoring.outdate(None)
            if self._error is not None:
                return Outcome(self._state, self._error)
        diagnosis = self.diagnosis(refused)
        outcome = Outcome(self._state, None, feasible, self._examined, self._seen, diagnosis, refused)
        stamp = self._stamp(pod)
        if stamp is not None:
            self._kept = stamp, outcome
        return outcome

    def _stamp(self, pod: PodInfo) -> tuple[Any, ...] | None:
        """What findings hang on besides the cluster's state; None when they are not to be kept."""
        nominator, skipped = self._cluster.nominator, self._state.skip_filter
        if any(p.reads is Reads.ANYTHING and p.name not in skipped for p in self._framework.moving_filters):
            return None
        if nominator.node_of(pod.uid):
            # Room that is promised to the pod itself is free for it, and for no other pod.
            return None
        # Promised pods may tell pods apart that nothing on the nodes does.
        return nominator.version, pod.priority, pod.shape if nominator else None

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
        return np.array(rows, np.intp) if rows else _NO_ROWS

    def _stand_now(self) -> None:
        self._generation = self._cluster.table.generation
        self._objects = self._cluster.objects.total_version
        self._position = self._cluster.changes.position

    def _run_filters(self, pod: PodInfo, *, one_by_one: bool = True) -> None:
        self._whole = one_by_one
        table = self._cluster.table
        nodes = Nodes(self._cluster)
        self._state = CycleState()
        self._time_plugins()
        self._filters, self._error, self._patched = {}, None, False
        pre = self._pre_filtered = preparing(self._metrics, self._framework.run_pre_filter, self._state, pod, nodes)
        self._examined = self._in_question(pre)
        self._seen = int(np.count_nonzero(self._examined))
        if pre.status is not None:
            if not pre.status.rejected:
                self._error = pre.status
            self._feasible = np.zeros(table.n, np.bool_)
            return
        feasible = self._examined
        asked: list[FilterPlugin] = []
        for plugin in self._framework.active_filters(self._state):
            if self._leaves_out(plugin):
                continue
            nodes.candidates = feasible
            asked.append(plugin)
            answer = self._framework.ask_filter(plugin, self._state, pod, nodes)
            if isinstance(answer, Status):
                self._error = answer
                break
            self._filters[plugin.name] = answer
            if answer is not None:
                feasible = feasible & ~answer.mask
        else:
            self._feasible = feasible
        if self._metrics is not None:
            self._metrics.count(asked, self._metrics.filter, table.n)

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
        if not preparing(self._metrics, self._renew_pre_filters, pod):
            return False
        skipped = self._state.skip_filter
        changed = False
        for plugin in self._framework.node_pods_filters if len(rows) else ():
            if plugin.name not in skipped:
                fresh = self._filter_rows(plugin, pod, rows)
                if fresh is None:
                    return False
                changed = self._patch(plugin.name, rows, fresh) or changed
        for plugin in self._framework.moving_filters:
            if plugin.name in skipped:
                changed = self._filters.pop(plugin.name, None) is not None or changed
            elif self._leaves_out(plugin):
                continue
            elif plugin.name in self._moved or plugin.name not in self._filters or plugin.reads is Reads.ANYTHING:
                answer = self._framework.run_filter(plugin, self._state, pod, self._nodes_left_to(plugin))
                if isinstance(answer, Status):
                    return False
                changed = self._replace(plugin.name, answer) or changed
        if changed:
            self._join_filters()
        return True

    def _replace(self, name: str, answer: Rejections | None) -> bool:
        """Take over a plugin's new answer; whether it refuses other nodes than before."""
        known = name in self._filters
        old = self._filters.get(name)
        self._filters[name] = answer
        # A plugin that joins late stands in the wrong place for a diagnosis.
        self._patched = self._patched or not known
        if old is None or answer is None:
            return old is not answer
        return old.mask is not answer.mask

    def _join_filters(self) -> None:
        feasible = self._examined
        for rejections in self._filters.values():
            if rejections is not None:
                feasible = feasible & ~rejections.mask
        self._feasible = feasible

    def _nodes_left_to(self, plugin: FilterPlugin) -> Nodes:
        """All nodes, with those in question that the plugins before this one leave."""
        nodes = Nodes(self._cluster)
        if plugin.reads is Reads.ANYTHING:
            # Only plugins that look at nodes one by one mind.
            left = self._examined
            for earlier in takewhile(lambda p: p is not plugin, self._framework.active_filters(self._state)):
                rejections = self._filters.get(earlier.name)
                left = left if rejections is None else left & ~rejections.mask
            nodes.candidates = left
        return nodes

    def _filter_rows(self, plugin: FilterPlugin, pod: PodInfo, rows: npt.NDArray[np.intp]) -> Mask | None:
        """A plugin's fresh verdict on some rows; None for an error."""
        if plugin.reads is Reads.NODE_SUMS:
            column = self._sums.refused(plugin, self._state, pod)
            return None if isinstance(column, Status) else column.take(rows)
        answer = self._framework.run_filter(plugin, self._state, pod, Nodes(self._cluster, rows))
        if isinstance(answer, Status):
            return None
        return np.zeros(len(rows), np.bool_) if answer is None else answer.mask

    def _patch(self, name: str, rows: npt.NDArray[np.intp], fresh: Mask) -> bool:
        """Put a plugin's fresh verdict on some rows into its mask; whether the mask changed."""
        old = self._filters[name]
        self._patched = True
        if old is None:
            if not fresh.any():
                return False
            mask = np.zeros(self._cluster.table.n, np.bool_)
        elif (old.mask[rows] == fresh).all():
            self._filters[name] = Rejections(old.mask, ())
            return False
        else:
            mask = old.mask.copy()
        mask[rows] = fresh
        self._filters[name] = Rejections(mask, ())
        return True

    def _renew_pre_filters(self, pod: PodInfo) -> bool:
        """Run PreFilter again where its state no longer holds; False when it now says something else altogether."""
        self._moved = set()
        for plugin in self._framework.moving_pre_filters:
            if isinstance(plugin, CountsPods) and plugin.filter_holds(self._state, pod):
                continue
            if self._pre_filtered is not None and plugin.name in self._pre_filtered.narrowed_by:
                # It may want other nodes now, or all.
                return False
            answer = self._attempt_pre_filter(plugin, pod)
            if answer is None:
                self._state.skip_filter.discard(plugin.name)
            elif isinstance(answer, Status) and answer.code == Code.Skip:
                if plugin.name in self._state.skip_filter:
                    continue
                self._state.skip_filter.add(plugin.name)
            else:
                return False
            self._moved.add(plugin.name)
        return True

    def _attempt_pre_filter(self, plugin: PreFilterPlugin, pod: PodInfo) -> object:
        try:
            return self._framework.ask_pre_filter(plugin, self._state, pod, Nodes(self._cluster))
        except NOT_THEIRS:
            raise
        except BaseException as e:
            # The full run that follows will find it again, and tell it properly.
            return error(e)

    # -- plugins that look at nodes one by one ------------------------------------------------------------------------

    def _leaves_out(self, plugin: FilterPlugin) -> bool:
        return not self._whole and isinstance(plugin, NodeFilterPlugin)

    def passing(self, pod: PodInfo, rows: npt.NDArray[np.intp]) -> Mask | Status:
        """Which of some feasible rows also pass the plugins that the last `filter` left out."""
        nodes = Nodes(self._cluster, rows)
        passed = np.ones(len(rows), np.bool_)
        for plugin in self._framework.active_filters(self._state):
            if not self._leaves_out(plugin) or not passed.any():
                continue
            nodes.candidates = passed
            answer = self._framework.run_filter(plugin, self._state, pod, nodes)
            if isinstance(answer, Status):
                return answer
            if answer is not None:
                passed = passed & ~answer.mask
        return passed

    def passes(self, pod: PodInfo, row: int) -> bool:
        answer = self.passing(pod, np.array([row], np.intp))
        return not isinstance(answer, Status) and bool(answer[0])

    # -- promised nodes and diagnosis ---------------------------------------------------------------------------------

    def _with_promises(self, pod: PodInfo) -> tuple[Mask, dict[int, Status] | Status]:
        """Take out nodes that would not fit once the pods promised to them have come."""
        if not self._cluster.nominator:
            return self._feasible, {}
        refused = self._promised.refused(self._state, pod, self._examined)
        if isinstance(refused, Status) or not refused:
            return self._feasible, refused
        feasible = self._feasible.copy()
        feasible[list(refused)] = False
        return feasible, refused

    def diagnosis(self, refused: dict[int, Status]) -> Diagnosis:
        """The verdict on every node after a `filter` that ran in full and had this outcome."""
        table, pre = self._cluster.table, self._pre_filtered
        assert pre is not None
        diagnosis = Diagnosis(table.valid[: table.n].copy(), self._examined)
        diagnosis.filtered = [(name, r) for name, r in self._filters.items() if r is not None]
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

    # -- scoring ------------------------------------------------------------------------------------------------------

    def score(self, pod: PodInfo, feasible: Mask) -> Ints | Status:
        """Totals of all rows, `INFEASIBLE` where the pod does not fit."""
        return self.scoring.run(self._state, pod, feasible)
