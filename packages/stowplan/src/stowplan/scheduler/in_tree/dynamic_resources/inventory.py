"""Which devices each node can reach, and which are allocated, encoded as an integer per node.

Nodes whose devices and allocations are equal except for names have the same code. A search result for one of them
applies to all, so that of 5,000 nodes a handful is searched. Codes follow slices, claims and nodes: an allocation only
changes the codes of the nodes that reach its pool.

Most pools are reachable from one node only (`local`); for pools reachable from several nodes (`shared`), nodes are
grouped by what they see of them. Both parts have codes of their own, and a node's code stands for the pair.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from stowplan.kube.api.affinity import NodeSelector
from stowplan.kube.api.devices import Device
from stowplan.kube.api.node_selectors import compile_node_selector
from stowplan.kube.api.types import ResourceClaim, ResourceSlice
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.arrays import Codes, Mask
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.in_tree.common.node_selection import matcher_mask
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import Features
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import (
    PoolState,
    PoolView,
    Usage,
    ViewKind,
    World,
)
from stowplan.scheduler.in_tree.dynamic_resources.pools import (
    DeviceUse,
    Pool,
    PoolId,
    SliceView,
    compiled,
    taken_by,
    view_of,
)
from stowplan.scheduler.in_tree.dynamic_resources.taint_rules import TaintRules

#: Everything that a search can observe of a node, its pools in order.
Seen = tuple[tuple["ViewKind", Usage], ...]

#: Unused codes per node from which on all codes are reassigned.
_MAX_UNUSED = 16


class Inventory:
    def __init__(self, cluster: ClusterState, features: Features) -> None:
        self._cluster = cluster
        self._features = features
        #: Until 1.36, slices with counters matter to all nodes.
        self._counters_have_nodes = features.emulated_version >= V1_37
        self._slices_seen: int | None = None
        self._claims_seen: int | None = None
        self._rules = TaintRules(cluster, enabled=features.device_taint_rules)
        self._generation = -1
        self._names: list[str] = []
        self.pools: dict[PoolId, Pool] = {}
        self._pool_of_slice: dict[str, PoolId] = {}
        #: Claim -> its allocated devices.
        self._allocations: dict[str, tuple[DeviceUse, ...]] = {}
        #: Node -> the pools that only it reaches.
        self._local: dict[str, set[PoolId]] = {}
        #: Pools that several nodes reach, and their names by driver in order.
        self._shared: dict[PoolId, Pool] = {}
        self._shared_names: dict[str, list[str]] = {}
        #: Shared pools whose views have to be recomputed.
        self._stale_views: set[PoolId] = set()
        #: Pools with changed allocations or slices, and nodes whose codes have to be recomputed.
        self._moved: set[PoolId] = set()
        self._recode: set[str] = set()
        self._recode_all = True
        self._local_codes: Codes = np.zeros(0, np.intp)
        self._group_of: Codes = np.zeros(0, np.intp)
        self._groups: list[tuple[PoolId, ...]] = []
        self._views_of_group: list[tuple[PoolView, ...]] = []
        self._interned: dict[Any, int] = {}
        #: Code -> its meaning, for codes that were queried.
        self._seen: dict[int, Seen] = {}
        #: Changes when codes are reassigned, which invalidates everything cached by code.
        self.epoch = 0
        #: A code per row; rows with the same code have the same results.
        self.codes: Codes = np.zeros(0, np.intp)
        #: Rows for which node selectors of slices are invalid, and why.
        self.problems: list[tuple[Mask, str]] = []

    # -- updates -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Process all changes."""
        self._follow_slices()
        self._follow_claims()
        self._follow_nodes()
        if self._stale_views:
            self._see_shared_pools()
        if self._recode_all or self._recode or self._moved:
            self._code()

    def _follow_slices(self) -> None:
        objects = self._cluster.objects
        log = objects.changes(ResourceSlice)
        names = None if self._slices_seen is None else log.since(self._slices_seen)
        tainted = self._rules.refresh()
        if names is None:
            names = list({s.metadata.name for s in objects.all(ResourceSlice)} | self._pool_of_slice.keys())
        self._slices_seen = log.position
        changed = set()
        again = set()
        if tainted is not None:
            again = {name for name, p in self._pool_of_slice.items() if tainted(self.pools[p].slices[name].obj.spec)}
        for name in dict.fromkeys((*names, *sorted(again))):
            obj = objects.get(ResourceSlice, name)
            before = self._pool_of_slice.get(name)
            if before is not None:
                if obj is self.pools[before].slices[name].obj and name not in again:
                    continue
                del self.pools[before].slices[name], self._pool_of_slice[name]
                changed.add(before)
            if obj is not None:
                pool = obj.spec.driver, obj.spec.pool.name
                self.pools.setdefault(pool, Pool()).slices[name] = compiled(
                    obj, self._rules.applied(obj.spec), self._features
                )
                self._pool_of_slice[name] = pool
                changed.add(pool)
        for pool in changed:
            self._place(pool)

    def _place(self, pool_id: PoolId) -> None:
        """Determine the nodes that can use a newly published pool."""
        pool = self.pools[pool_id]
        pool.usages.clear()
        self._moved.add(pool_id)
        if pool.node_name:
            self._local[pool.node_name].discard(pool_id)
            self._recode.add(pool.node_name)
        if self._shared.pop(pool_id, None) is not None:
            self._stale_views.add(pool_id)
        pool.node_name, pool.local = "", None
        if not pool.slices:
            if not pool.taken:
                del self.pools[pool_id]
            return
        node_name = self._only_node(pool)
        if node_name and self._is_harmless_elsewhere(pool_id, pool):
            pool.node_name, pool.groups = node_name, None
            pool.local = self._view(pool_id, pool, [*pool.slices.values()], {})
            self._local.setdefault(node_name, set()).add(pool_id)
            self._recode.add(node_name)
        else:
            self._shared[pool_id] = pool
            self._stale_views.add(pool_id)

    def _only_node(self, pool: Pool) -> str:
        """The node that all slices with devices are for; "" if there is no single one."""
        names = {
            "" if s.obj.spec.per_device_node_selection is not None else s.obj.spec.node_name or ""
            for s in pool.slices.values()
            if not s.has_counters
        }
        return names.pop() if len(names) == 1 else ""

    def _is_harmless_elsewhere(self, pool_id: PoolId, pool: Pool) -> bool:
        """Whether other nodes, which only see the counters, can ignore the pool."""
        counters = [s for s in pool.slices.values() if s.has_counters]
        if self._counters_have_nodes:
            counters = [s for s in counters if s.obj.spec.node_name != self._only_node(pool)]
        if not counters:
            return True
        if not self._features.partitionable_devices:
            return False
        view = self._view(pool_id, pool, counters, {})
        return view is None or view.state is PoolState.COMPLETE

    def _view(
        self, pool_id: PoolId, pool: Pool, relevant: list[SliceView], reachable: Mapping[tuple[str, int], bool]
    ) -> PoolView | None:
        return view_of(
            pool_id,
            pool,
            relevant,
            reachable,
            partitionable=self._features.partitionable_devices,
            counters_have_nodes=self._counters_have_nodes,
        )

    # -- claims -------------------------------------------------------------------------------------------------------

    def _follow_claims(self) -> None:
        log = self._cluster.objects.changes(ResourceClaim)
        keys = None if self._claims_seen is None else log.since(self._claims_seen)
        if keys is None:
            keys = [*self._cluster.in_flight.keys(ResourceClaim), *self._allocations]
            keys += [f"{c.metadata.namespace}/{c.metadata.name}" for c in self._cluster.objects.all(ResourceClaim)]
            keys = list(dict.fromkeys(keys))
        self._claims_seen = log.position
        for key in keys:
            claim = self._cluster.in_flight.newest(ResourceClaim, key)
            after = () if claim is None else taken_by(key, claim, shares=self._features.consumable_capacity)
            before = self._allocations.get(key, ())
            if before == after:
                continue
            for taken in before:
                self._count(taken, -1)
            for taken in after:
                self._count(taken, 1)
            if after:
                self._allocations[key] = after
            else:
                del self._allocations[key]

    def _count(self, taken: DeviceUse, sign: int) -> None:
        pool = self.pools.setdefault(taken.pool, Pool())
        pool.usages.clear()
        count = pool.taken.get(taken, 0) + sign
        if count:
            pool.taken[taken] = count
        else:
            del pool.taken[taken]
            if not pool.taken and not pool.slices:
                del self.pools[taken.pool]
        self._moved.add(taken.pool)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _follow_nodes(self) -> None:
        table = self._cluster.table
        if self._generation == table.generation:
            return
        self._generation = table.generation
        # Labels may have changed.
        self._stale_views.update(self._shared)
        names = table.names[: table.n]
        if names != self._names:
            self._names = list(names)
            self._recode_all = True

    # -- shared pools --------------------------------------------------------------------------------------------------

    def _see_shared_pools(self) -> None:
        """Group the nodes by what they see of shared pools."""
        self.problems = []
        for pool_id in self._shared:
            self._see(pool_id, self._shared[pool_id])
        self._stale_views.clear()
        names: dict[str, list[str]] = {}
        for driver, name in sorted(self._shared):
            names.setdefault(driver, []).append(name)
        if names != self._shared_names:
            # The positions of local pools among them may have changed.
            self._shared_names, self._recode_all = names, True
        n = self._cluster.table.n
        groups = np.zeros(n, np.intp)
        for pool in self._shared.values():
            assert pool.groups is not None
            _, groups = np.unique(groups * (len(pool.views) + 1) + pool.groups, return_inverse=True)
        self._group_of = groups
        self._views_of_group = []
        self._groups = []
        for group in range(int(groups.max()) + 1 if n else 0):
            row = int(np.argmax(groups == group))
            seen = [
                (pool_id, view)
                for pool_id, pool in self._shared.items()
                if pool.groups is not None and (view := pool.views[int(pool.groups[row])]) is not None
            ]
            self._groups.append(tuple(pool_id for pool_id, _ in seen))
            self._views_of_group.append(tuple(view for _, view in seen))
        self._moved.update(self._shared)
        self._recode_all = True

    def _see(self, pool_id: PoolId, pool: Pool) -> None:
        """Group the nodes by what they see of one pool."""
        n = self._cluster.table.n
        slices = [s for s in pool.slices.values() if not self._is_ignored(s)]
        masks = [self._rows_of(s) for s in slices]
        own = [
            ((s.obj.metadata.name, i), self._device_rows(s, device))
            for s in slices
            if s.obj.spec.per_device_node_selection
            for i, device in enumerate(s.obj.spec.devices)
        ]
        groups = np.zeros(n, np.intp)
        # Slices for a single node each do not affect the grouping of others.
        by_node: dict[frozenset[int], int] = {}
        of_row: dict[int, list[int]] = {}
        for i, mask in enumerate(masks):
            if isinstance(mask, int):
                if mask >= 0:
                    of_row.setdefault(mask, []).append(i)
            else:
                _, groups = np.unique(groups * 2 + mask, return_inverse=True)
        for row, numbers in of_row.items():
            groups[row] += (len(groups) + 1) * (1 + by_node.setdefault(frozenset(numbers), len(by_node)))
        for _, mask in own:
            _, groups = np.unique(groups * 2 + mask, return_inverse=True)
        _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
        pool.groups, pool.views = groups, []
        pool.usages.clear()
        for row in first.tolist():
            relevant = [s for s, m in zip(slices, masks, strict=True) if (m == row if isinstance(m, int) else m[row])]
            reachable = {place: bool(mask[row]) for place, mask in own}
            pool.views.append(self._view(pool_id, pool, relevant, reachable) if relevant else None)

    def _is_ignored(self, slice_view: SliceView) -> bool:
        spec = slice_view.obj.spec
        partitioned = spec.per_device_node_selection is not None or bool(spec.shared_counters)
        return partitioned and not self._features.partitionable_devices

    def _rows_of(self, slice_view: SliceView) -> Mask | int:
        """The rows that a slice is relevant to; for a single node its row, or -1."""
        spec = slice_view.obj.spec
        n = self._cluster.table.n
        if slice_view.has_counters and not self._counters_have_nodes:
            return np.ones(n, np.bool_)
        if spec.node_name:
            return self._cluster.table.row_of.get(spec.node_name, -1)
        if spec.all_nodes or spec.node_selector is not None:
            return self._matching(slice_view, spec.all_nodes, spec.node_selector)
        found = np.zeros(n, np.bool_)
        if spec.per_device_node_selection:
            for device in spec.devices:
                found |= self._device_rows(slice_view, device)
        return found

    def _device_rows(self, slice_view: SliceView, device: Device) -> Mask:
        if device.node_name:
            found = np.zeros(self._cluster.table.n, np.bool_)
            row = self._cluster.table.row_of.get(device.node_name)
            if row is not None:
                found[row] = True
            return found
        return self._matching(slice_view, device.all_nodes, device.node_selector)

    def _matching(self, slice_view: SliceView, all_nodes: bool | None, selector: NodeSelector | None) -> Mask:
        table = self._cluster.table
        if all_nodes:
            return np.ones(table.n, np.bool_)
        if selector is None:
            return np.zeros(table.n, np.bool_)
        matcher = compile_node_selector(selector)
        found: Mask = table.memo(("node selector", matcher), lambda: matcher_mask(table, matcher))
        errors = [error for term in matcher.terms for error in term.errors]
        if errors:
            what = f"failed to perform node selection for slice {slice_view.obj.metadata.name}"
            self.problems.append(
                (~found, f"gather pool information: {what}: failed to parse node selector: {errors[0]}")
            )
        return found

    # -- codes --------------------------------------------------------------------------------------------------------

    def _code(self) -> None:
        table = self._cluster.table
        n = table.n
        if len(self._interned) > _MAX_UNUSED * (n + 1024):
            self._interned.clear()
            self._seen.clear()
            self.epoch += 1
            self._recode_all = True
        if self._recode_all or len(self.codes) != n:
            self._local_codes = np.zeros(n, np.intp)
            nodes: Iterable[str] = self._local
            self._recode_all = True
        else:
            local = {self.pools[p].node_name for p in self._moved if p in self.pools}
            nodes = (self._recode | local) - {""}
        rows = []
        for node in nodes:
            row = table.row_of.get(node)
            if row is not None:
                self._local_codes[row] = self._local_code(node)
                rows.append(row)
        if self._recode_all or any(p in self._shared for p in self._moved):
            self._join()
        else:
            for row in rows:
                shared = self._shared_codes[self._group_of[row]] if self._shared else 0
                self.codes[row] = self._interning((int(self._local_codes[row]), int(shared)))
        self._moved.clear()
        self._recode.clear()
        self._recode_all = False

    def _local_code(self, node: str) -> int:
        pools = self._local.get(node)
        if not pools:
            return 0
        key = []
        for pool_id in pools:
            pool = self.pools[pool_id]
            if pool.local is not None:
                rank = bisect_left(self._shared_names.get(pool_id[0], ()), pool_id[1])
                key.append((pool.local.order, pool.local.kind, pool.usage(pool.local), rank))
        key.sort(key=lambda part: part[0])
        return self._interning(tuple(part[1:] for part in key)) if key else 0

    def _join(self) -> None:
        """Combine the two parts of all nodes' codes."""
        n = self._cluster.table.n
        if not self._shared:
            self._shared_codes: Codes = np.zeros(1, np.intp)
            self._group_of = np.zeros(n, np.intp)
        else:
            self._shared_codes = np.array(
                [
                    self._interning(
                        tuple(
                            (view.order, view.kind, self.pools[pool_id].usage(view))
                            for pool_id, view in zip(ids, views, strict=True)
                        )
                    )
                    for ids, views in zip(self._groups, self._views_of_group, strict=True)
                ],
                np.intp,
            )
        pairs = np.stack([self._local_codes, self._shared_codes[self._group_of]])
        distinct, inverse = np.unique(pairs, axis=1, return_inverse=True)
        numbers = [self._interning((local, shared)) for local, shared in distinct.T.tolist()]
        self.codes = np.array(numbers, np.intp)[inverse.ravel()] if n else np.zeros(0, np.intp)

    def _interning(self, key: Any) -> int:
        # 0 means no devices.
        return self._interned.setdefault(key, len(self._interned) + 1)

    # -- queries -------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The upper bound of codes."""
        return len(self._interned) + 1

    def world(self, row: int) -> World:
        """Everything that a search on the row's node considers."""
        seen = []
        for pool_id in self._local.get(self._cluster.table.names[row], ()):
            view = self.pools[pool_id].local
            if view is not None:
                seen.append((pool_id, view))
        if self._shared:
            group = int(self._group_of[row])
            seen += zip(self._groups[group], self._views_of_group[group], strict=True)
        seen.sort(key=lambda part: part[1].order)
        return World(tuple((view, self.pools[pool_id].usage(view)) for pool_id, view in seen))

    def seen(self, row: int) -> Seen:
        """The decoded form of the row's code."""
        code = int(self.codes[row])
        found = self._seen.get(code)
        if found is None:
            found = self._seen[code] = tuple((view.kind, usage) for view, usage in self.world(row).pools)
        return found

    def unused_world(self, row: int) -> World:
        """The row's world with all devices free."""
        views = (view for view, _ in self.world(row).pools)
        return World(tuple((view, self.pools[view.driver, view.name].unused(view)) for view in views))

    def published(self, pool: PoolId, name: str) -> Device | None:
        """A device of the newest slices that have it."""
        found = self.pools.get(pool)
        slices = sorted(found.slices.values(), key=lambda s: -s.generation) if found is not None else ()
        return next((device for s in slices for device in s.obj.spec.devices if device.name == name), None)

    def holders(self, pool: PoolId, device: str) -> list[str]:
        """The claims that have a device, or shares of it."""
        found = self.pools.get(pool)
        return [] if found is None else sorted({t.claim for t in found.taken if t.device == device})
