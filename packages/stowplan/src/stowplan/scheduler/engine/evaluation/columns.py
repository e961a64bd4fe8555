"""What one plugin says of all nodes, kept for equal pods: a column.

The invariant, on which every reused decision rests. A column's values are what its plugin would return now for every
row, given

* the state that the plugin's PreFilter (or PreScore) left,
* the node objects (`generation`) and the lookup objects that the plugin reads,
* the pods, as they were at `position` in the cluster's change log.

What has to be done before it is read again follows from what the plugin declares that it reads:

| reads | pods changed | its lookup objects changed |
| --- | --- | --- |
| `NODES` | nothing | `rerun` |
| `NODE_SUMS`, `NODE_PODS` | `refresh`: the rows in the log since `position` | `rerun` |
| `CLUSTER_PODS` | nothing while its state holds; else PreFilter or PreScore, and `rerun` | `rerun` |
| `ANYTHING` | `rerun` | `rerun` |

After a change of a node object, everything is computed from scratch.

Whether something changed is read off four numbers, which each reader compares with those that it remembers:
`NodeTable.generation`, `ClusterState.changes.position`, the versions of lookup objects (`ObjectWatches`), and
`Nominator.version`, which matters to no column, but to what `NominatedNodes` and `Evaluation` keep. All of them are
compared and used within one step, in which nothing else changes the cluster.

`Filtering.refresh` and `Scoring.refresh` do this for all of their columns before anything is read, so nothing is ever
marked as outdated. Where one of their steps fails, nothing of it is used: a full run calls every plugin again.

A result that depends on the sums of a row alone is the same for every pod with the same question, and for every row in
the same state. Evaluations share these columns (`SharedColumns`), and a column remembers the results by state
(`RowStates`): usually, no plugin is called for the next pod at all. Scores of this kind that are added up as they are
have one column together, their weighted sum (`SumColumn`); who wants to know a plugin's part asks the plugin again.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence, Sized
from itertools import count
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.arrays import Values
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import CountsPods, Plugin, Reads
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status, typed

C = TypeVar("C", bound="Column")
Q = TypeVar("Q", bound=Plugin)

#: Up to this many changed rows are updated one by one as Python numbers, which is cheaper than array operations; of
#: many rows, up to 1/512 of them.
FEW = 16
#: If more than this share of the rows changed, the plugin is called for all of them.
MAX_CHANGED_SHARE = 0.125
#: Maximum number of cached row states over all columns.
_MAX_STATES = 1 << 17

#: Of plugins whose result for a node changes with the pods of that node, and with no others.
BY_ROWS = (Reads.NODE_SUMS, Reads.NODE_PODS)
_NO_VALUES = np.zeros(0, np.bool_)
_NO_PLUGINS: frozenset[str] = frozenset()


def few_of(rows: int) -> int:
    """How many of these rows are updated one by one."""
    return max(FEW, rows >> 9)


class Column(PlainStruct, eq=False, weakref=True):
    """What one plugin says of every row, or several plugins together."""

    framework: Framework
    plugins: tuple[Any, ...]
    #: Whether a row changes with the pods of its node.
    by_rows: bool
    #: For others read-only, and valid until the next refresh.
    values: Values = _NO_VALUES
    #: What the values are valid for; −1: there are none.
    generation: int = -1
    position: int = -1
    #: Incremented when a value changed, or may have.
    version: int = 0
    #: For shared columns.
    states: RowStates | None = None
    #: Whether rows in the same state have the same value; if not, only the same row has.
    alike: bool = False
    #: Whether rows were updated since the plugin was called for all of them. Until then `values` may be an array that
    #: the plugin keeps, so it must not be written.
    patched: bool = False
    #: State of a row -> its value.
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def plugin(self) -> Any:
        """The only plugin."""
        return self.plugins[0]

    def ask(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Values | Status:
        raise NotImplementedError

    def is_current(self) -> bool:
        """Whether the values are of these nodes and pods."""
        cluster = self.framework.handle.cluster
        return self.generation == cluster.table.generation and self.position == cluster.changes.position

    def rerun(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Call the plugin for all rows; a Status is an error."""
        values = self.ask(state, pod, nodes)
        if isinstance(values, Status):
            return values
        self.store(values)
        return None

    def store(self, values: Values) -> None:
        """Replace the values by what the plugin just returned for all rows."""
        cluster = self.framework.handle.cluster
        generation = cluster.table.generation
        if self.generation != generation:
            self.known.clear()
            self.version += 1
        elif values is not self.values and self.differs(values):
            # The same array is a shortcut only because what plugins of others return is copied where it comes in
            # (`framework/answers.py`).
            self.version += 1
        self.values, self.patched = values, False
        self.generation, self.position = generation, cluster.changes.position

    def differs(self, values: Values) -> bool:
        """Whether the values may be others than before; compared only where that is cheaper than supposing so.

        A current column has what its plugin returns now, whoever calls it. After PreScore was called again that may be
        something else, but `Scoring` normalizes these scores in any case.
        """
        return not self.is_current()

    def refresh(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Update the rows whose pods changed, if any did; a Status is an error."""
        cluster = self.framework.handle.cluster
        changes, same_nodes = cluster.changes, self.generation == cluster.table.generation
        if same_nodes and self.position == changes.position:
            return None
        found = self.states.since(self.position) if self.states is not None and same_nodes else None
        if found is not None:
            rows, keys = found if self.alike else (found[0], list(zip(*found, strict=True)))
            fresh = list(map(self.known.get, keys))
            if None in fresh and (failed := self._learn(rows, keys, fresh, state, pod)) is not None:
                return failed
        else:
            # None, too, if the position is of a transaction that was undone.
            since = changes.since(self.position) if same_nodes else None
            if since is None or len(since) > cluster.table.n * MAX_CHANGED_SHARE + 1:
                return self.rerun(state, pod, Nodes(cluster))
            answer = self._asked(since, state, pod)
            if isinstance(answer, Status):
                return answer
            rows, fresh = since, answer
        if not self.patched:
            self.values, self.patched = self.values.copy(), True
        values = self.values
        if list(map(values.item, rows)) != fresh:
            for row, value in zip(rows, fresh, strict=True):
                values[row] = value
            self.version += 1
        # Last: after an error, the same rows have to be updated.
        self.position = changes.position
        return None

    def _learn(
        self, rows: list[int], keys: list[Any], fresh: list[Any], state: CycleState, pod: PodInfo
    ) -> Status | None:
        """Replace None in `fresh` by what the plugin says of these rows."""
        unknown = [i for i, value in enumerate(fresh) if value is None]
        answer = self._asked([rows[i] for i in unknown], state, pod)
        if isinstance(answer, Status):
            return answer
        assert self.states is not None
        if len(self.known) >= self.states.most_known():
            self.known.clear()
        for i, value in zip(unknown, answer, strict=True):
            fresh[i] = self.known[keys[i]] = value
        return None

    def _asked(self, rows: list[int], state: CycleState, pod: PodInfo) -> list[Any] | Status:
        values = self.ask(state, pod, Nodes(self.framework.handle.cluster, np.array(rows, np.intp)))
        return values if isinstance(values, Status) else values.tolist()

    def problems(self) -> Iterator[str]:
        """Rows whose value is not that of their state, while the column is current."""
        cluster = self.framework.handle.cluster
        if self.states is None or not self.is_current():
            return
        rows = list(range(cluster.table.n))
        keys = self.states.of(rows)
        for row, key, value in zip(
            rows, keys if self.alike else zip(rows, keys, strict=True), self.values, strict=True
        ):
            if self.known.get(key, value) != value:
                names = ", ".join(plugin.name for plugin in self.plugins)
                yield f"{names}: {value} of row {row}, and {self.known[key]} of rows in its state"


class FilterColumn(Column):
    """The rows that a Filter rejects."""

    #: With reasons, as long as no row was `patched`; None: it rejects none.
    rejections: Rejections | None = None

    def may_reject(self) -> bool:
        """Without reasons and never patched, it rejects none: its array need not be read."""
        return self.patched or self.rejections is not None

    def ask(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Values | Status:
        answer = self.framework.run_filter(self.plugin, state, pod, nodes)
        if isinstance(answer, Status):
            return answer
        if answer is not None:
            values = answer.mask
        elif nodes.rows is None and self.rejections is None and not self.patched and len(self.values) == len(nodes):
            # As before.
            values = self.values
        else:
            values = np.zeros(len(nodes), np.bool_)
        if nodes.rows is None:
            self.rejections = answer
        return values

    def differs(self, values: Values) -> bool:
        return bool(np.count_nonzero(values != self.values))


class ScoreColumn(Column):
    """The raw scores of a Score plugin."""

    def ask(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Values | Status:
        return self.framework.run_score(self.plugin, state, pod, nodes)


class SumColumn(Column):
    """The weighted sum of the raw scores of plugins that read nothing but the sums of a node's pods."""

    #: Each plugin's part, as long as no row was `patched`.
    parts: dict[str, Values] = field(default_factory=dict)

    def ask(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Values | Status:
        raws = []
        for plugin in self.plugins:
            raw = self.framework.run_score(plugin, state, pod, nodes)
            if isinstance(raw, Status):
                return raw
            raws.append(raw)
        return self.weighted(raws, nodes)

    def weighted(self, raws: Sequence[Values], nodes: Nodes) -> Values:
        """The weighted sum of what the plugins return for nodes."""
        weights, parts, total = self.framework.weights, {}, None
        for plugin, raw in zip(self.plugins, raws, strict=True):
            weight = weights.get(plugin.name, 1)
            # With a single plugin of weight 1, the column has the array that the plugin returned: it is copied before
            # it is written (`patched`).
            part = parts[plugin.name] = raw if weight == 1 else raw * weight
            total = part if total is None else total + part
        if nodes.rows is None:
            self.parts = parts
        assert total is not None
        return total


class RowStates:
    """Numbers for the states of rows: rows with the same number have the same capacity, and the same sums of pods."""

    def __init__(self, cluster: ClusterState, columns: Sized) -> None:
        """`columns`: those that share the memory for known states."""
        self._cluster = cluster
        self._columns = columns
        #: State -> its number. Numbers are never reused, because columns keep results by them.
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._next_number = count()
        #: Row -> the number of its state at these versions of nodes and pods.
        self._of_rows: dict[int, int] = {}
        self._generation = -1
        self._position = -1
        #: The last answer, and what it was the answer to: columns are read one after the other.
        self._asked = (-1, -1)
        self._found: tuple[list[int], list[int]] | None = None

    def since(self, position: int) -> tuple[list[int], list[int]] | None:
        """The rows that changed since a position, and their states as numbers; None: unknown, or more than a few."""
        changes = self._cluster.changes
        # These identify an answer for good: numbers are not used again after a transaction that was undone.
        asked = position, changes.position
        if asked != self._asked or self._generation != self._cluster.table.generation:
            rows = changes.since(position)
            few = few_of(self._cluster.table.n)
            self._found = None if rows is None or len(rows) > few else (rows, self.of(rows))
            self._asked = asked
        return self._found

    def of(self, rows: list[int]) -> list[int]:
        """The numbers of the rows' states."""
        self._forget_changed()
        return [self._number_of(row) for row in rows]

    def _forget_changed(self) -> None:
        changes, generation = self._cluster.changes, self._cluster.table.generation
        changed = changes.since(self._position) if self._generation == generation else None
        if changed is None:
            self._of_rows.clear()
        else:
            for row in changed:
                self._of_rows.pop(row, None)
        self._generation, self._position = generation, changes.position

    def _number_of(self, row: int) -> int:
        found = self._of_rows.get(row)
        if found is not None:
            return found
        if len(self._numbers) > _MAX_STATES:
            # Equal states get other numbers from now on, so that columns ask for them once more.
            self._numbers.clear()
        sums = self._cluster.table.sums(row)
        found = self._numbers.get(sums)
        if found is None:
            found = self._numbers[sums] = next(self._next_number)
        self._of_rows[row] = found
        return found

    def most_known(self) -> int:
        """How many states a column may remember."""
        return _MAX_STATES // max(1, len(self._columns))


class SharedColumns:
    """The columns of one profile that depend on the sums of a node (`Reads.NODE_SUMS`).

    Evaluations hold the columns that they read; a column is freed with the last of them.
    """

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._columns: WeakValueDictionary[Hashable, Column] = WeakValueDictionary()
        self._states = RowStates(framework.handle.cluster, self._columns)

    def column(self, kind: type[C], plugins: tuple[Plugin, ...], pod: PodInfo, objects: ObjectWatches) -> C:
        """The column for pods with this pod's question, while the objects that the plugins read are as they are."""
        # Objects as part of the key: evaluations that have not noticed a change yet keep the column of before.
        key = kind, *((one.name, _aggregate_key(one, pod), objects.versions(one.name)) for one in plugins)
        found = self._columns.get(key)
        if not isinstance(found, kind):
            # Who says what counts of a pod says that only sums count of a node; by default, any of its fields may.
            alike = all(type(one).aggregate_key is not Plugin.aggregate_key for one in plugins)
            # Also in `found`: until the caller holds it, nothing else keeps the column alive in a weak mapping.
            found = self._columns[key] = kind(self._framework, plugins, True, states=self._states, alike=alike)
        return found


def _aggregate_key(plugin: Plugin, pod: PodInfo) -> Hashable:
    found = call(plugin.aggregate_key, pod, check=_hashable, required=True, failed=Raised, at=("AggregateKey", plugin))
    if isinstance(found, Raised):
        raise RuntimeError(f'running AggregateKey of plugin "{plugin.name}": {typed(found.cause)}') from found.cause
    return found


def _hashable(answer: Hashable) -> Hashable:
    hash(answer)
    return answer


class ObjectWatches:
    """The lookup objects that the results of some plugins depend on, for pods of one signature."""

    def __init__(self, framework: Framework, pod: PodInfo, plugins: Collection[Plugin]) -> None:
        self._framework = framework
        self._store = framework.handle.cluster.objects
        self._watches = {
            plugin.name: framework.watch_objects(pod, plugin)
            for plugin in framework.object_readers
            if plugin in plugins
        }
        #: The store's version when this was asked last.
        self._total = self._store.total_version

    def changed(self, pod: PodInfo) -> Collection[str]:
        """The plugins whose objects changed since this was asked last. They must be called again."""
        total = self._store.total_version
        if total == self._total:
            return _NO_PLUGINS
        # They count as told: a caller that does not get to calling them must start with a full run.
        self._total = total
        found = [name for name, watch in self._watches.items() if watch.changed()]
        for name in found:
            # The set of objects may depend on those that changed: a claim names its volume.
            self._watches[name] = self._framework.watch_objects(pod, self._framework.plugins[name])
        return found

    def versions(self, plugin: str) -> Hashable:
        """Equal as long as none of the plugin's objects changes."""
        watch = self._watches.get(plugin)
        return None if watch is None else watch.versions


class Fold(Generic[Q]):
    """What the folds of the filters and of the scores have in common; `Q`: the plugins of PreFilter or PreScore."""

    def __init__(self, framework: Framework, shared: SharedColumns | None, *, asking: bool) -> None:
        """Without `shared` columns, it serves one pod only: objects that results depend on are not watched."""
        self._framework = framework
        self._metrics = None if asking else framework.metrics
        self._shared = shared
        self._cluster = framework.handle.cluster
        self._objects: ObjectWatches | None = None
        #: As `few_of` the rows, as of the last run.
        self._few = FEW
        #: Plugins whose state can change with pods, and what tells whether it did (None: it may have).
        self._moving: Sequence[tuple[Q, CountsPods | None]] = ()
        #: The nodes and the position in the cluster's change log that the results are valid for; −1: of nothing.
        #: A position of −1 alone: results changed in rows that are not in the log, so all rows have to be folded.
        self._generation = -1
        self._position = -1

    def _watch(self, pod: PodInfo, plugins: Collection[Plugin], moving: Collection[Q]) -> None:
        """Before all plugins are called: their objects count as read."""
        self._moving = self._to_call(moving, moving, ())
        if self._objects is None:
            self._objects = ObjectWatches(self._framework, pod, plugins)
        else:
            self._objects.changed(pod)

    def _to_call(
        self, plugins: Collection[Q], moving: Collection[Q], outdated: Collection[str]
    ) -> Sequence[tuple[Q, CountsPods | None]]:
        """Those that may have to be called again."""
        counters = self._framework.pod_counters
        return [(p, counters.get(p.name)) for p in plugins if p in moving or p.name in outdated]

    def _column(self, kind: type[C], plugins: tuple[Plugin, ...], pod: PodInfo, values: Values | None = None) -> C:
        """A column of these plugins, with what they just returned for all rows; None: not yet."""
        reads = plugins[0].reads
        if self._shared is not None and self._objects is not None and reads is Reads.NODE_SUMS:
            found = self._shared.column(kind, plugins, pod, self._objects)
            if values is not None:
                found.store(values)
            return found
        if values is None:
            return kind(self._framework, plugins, reads in BY_ROWS)
        cluster = self._cluster
        return kind(
            self._framework, plugins, reads in BY_ROWS, values, cluster.table.generation, cluster.changes.position
        )
