"""A model of the cluster autoscaler: adds nodes for unschedulable pods, and removes unneeded ones.

In every `autoscalerInterval` in which a pod was rejected it considers the unschedulable pods. The scheduler's own
filters determine which of them fit on a new node of a group; how many nodes of which group come is decided in
`stowplan_cluster/reconcile/cluster_autoscaler.py`.

A node of a group with `autoscale` is removed after it had no pods for `idle`, except for DaemonSet pods. One with pods
is a candidate while the larger of its shares of cpu and memory is below `utilization`. After `idle`, the scheduler's
own filters determine whether its pods, one after the other, would fit on other nodes; if so, it is drained, subject to
budgets, and removed. One node is removed at a time, none within `idle` after a node was added, and none with a pod
without a controller or with `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`. Candidates are only reconsidered
after a pod or node was added or removed.

Upstream: kubernetes/autoscaler, cluster-autoscaler/FAQ.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np
from msgspec.structs import replace

from stowplan.ask.what_if.hypothetical_pods import EvictionOutcome, eviction_outcome
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.engine import Engine
from stowplan_cluster.reconcile.cluster_autoscaler import NodeGroup, WaitingPod, nodes_to_add
from stowplan_lab.simulation.nodes.drains import Drains
from stowplan_lab.simulation.nodes.fleet import Fleet, Group, amounts_of
from stowplan_lab.simulation.results.ledger import NO_NODE, Entry
from stowplan_lab.simulation.simulation_context import SimulationContext

REMOVED = "node removed"
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_COUNTED = ("cpu", "memory")
#: Maximum number of candidates per run.
_MOST_TRIED = 10


class ScaleDown:
    def __init__(
        self, context: SimulationContext, fleet: Fleet, engine: Engine, drains: Drains, removed: Callable[[str], object]
    ) -> None:
        """`removed` removes a drained node."""
        self._context = context
        self._fleet = fleet
        self._engine = engine
        self._drains = drains
        self._removed = removed
        self._groups = [
            group for group in fleet.groups.values() if group.spec.autoscale and group.spec.autoscale.utilization > 0
        ]
        #: Candidate -> since when it is one.
        self._low_since: dict[str, float] = {}
        self._emptying = ""
        self._planned = False
        self._added_at = -inf
        #: The time of the next run.
        self._wakes_at = inf

    def added(self) -> None:
        self._added_at = self._context.now

    def consider(self) -> None:
        """A pod or node was added or removed: run at the next multiple of the interval."""
        if self._groups and not self._planned:
            self._planned = True
            interval = self._context.models.autoscaler_interval or 1.0
            self._context.later(interval - (self._context.now - self._context.start) % interval, self._look)

    def _look(self) -> None:
        self._planned = False
        now = self._context.now
        low = dict(self._low())
        self._low_since = {node: self._low_since.get(node, now) for node in low}
        if self._emptying or not low:
            return
        due = {node: self._due(node) for node in low}
        ready = [node for node in sorted(low, key=lambda name: (low[name], name)) if due[node] <= now]
        going = next((node for node in ready[:_MOST_TRIED] if self._can_go(node)), None)
        if going is not None:
            self._empty(going)
            return
        self._wake(min((at for at in due.values() if at > now), default=inf))

    def _due(self, node: str) -> float:
        limits = self._fleet.groups[self._fleet.group_of[node]].spec.autoscale
        assert limits is not None
        return max(self._low_since[node], self._added_at) + limits.idle

    def _wake(self, at: float) -> None:
        if at < self._wakes_at:
            self._wakes_at = at
            self._context.later(at - self._context.now, self._woken)

    def _woken(self) -> None:
        if self._context.now >= self._wakes_at:
            self._wakes_at = inf
            self.consider()

    def _low(self) -> Iterator[tuple[str, float]]:
        """Candidates and their utilization; empty nodes are removed elsewhere."""
        table = self._engine.state.table
        counted = [table.resources[name] for name in _COUNTED if name in table.resources]
        for group in self._groups:
            limits = group.spec.autoscale
            assert limits is not None
            names = [node for node in group.names if node in table.row_of]
            if not names or len(group.names) <= limits.min:
                continue
            cells = np.ix_(counted, [table.row_of[node] for node in names])
            shares = (table.requested[cells] / np.maximum(table.allocatable[cells], 1)).max(axis=0)
            for index in np.flatnonzero(shares < limits.utilization).tolist():
                node = names[index]
                if not self._fleet.nodes[node].spec.unschedulable and self._movable(node):
                    yield node, float(shares[index])

    def _movable(self, node: str) -> list[Entry]:
        """Pods that would have to move."""
        return [
            entry
            for entry in self._context.entries_on(node)
            if not entry.why and eviction_outcome(entry.pod) is not EvictionOutcome.BELONGS_TO_NODE
        ]

    def _can_go(self, node: str) -> bool:
        pods = [entry.pod for entry in self._movable(node)]
        stays = any(
            eviction_outcome(pod) is EvictionOutcome.LOST or pod.metadata.annotations.get(_SAFE) == "false"
            for pod in pods
        )
        return not stays and self._fit_elsewhere(node, pods)

    def _fit_elsewhere(self, node: str, pods: Sequence[Pod]) -> bool:
        state, algorithm = self._engine.state, self._engine.algorithm
        with state.transaction():
            for pod in pods:
                state.remove_pod(pod.metadata.uid)
            for pod in pods:
                info = state.pod_info(replace(pod, spec=replace(pod.spec, node_name="")))
                framework = self._engine.framework_for(info)
                if framework is None:
                    return False
                _, outcome = algorithm.filtered(framework, info)
                if outcome.error is not None:
                    return False
                feasible = np.array(outcome.feasible)
                feasible[state.table.row_of[node]] = False
                if not feasible.any():
                    return False
                state.assume(info, state.table.names[int(feasible.argmax())])
        return True

    def _empty(self, node: str) -> None:
        self._emptying = node
        self._low_since.pop(node, None)
        self._drains.begin(node, REMOVED, partial(self._emptied, node))

    def _emptied(self, node: str) -> None:
        self._emptying = ""
        self._removed(node)
        self.consider()


class Autoscaler:
    def __init__(self, context: SimulationContext, fleet: Fleet, engine: Engine, drains: Drains) -> None:
        self._context = context
        self._fleet = fleet
        self._engine = engine
        self._groups = [group for group in fleet.groups.values() if group.spec.autoscale is not None]
        self._boot = {group.name: context.chance(f"boot of {group.name}") for group in self._groups}
        #: Group -> zones of nodes that are coming.
        self._coming: dict[str, Counter[str]] = {group.name: Counter() for group in self._groups}
        self._planned = False
        self.added = 0
        self.removed = 0
        #: Node -> its number of pods, except for those that belong to it.
        self._busy: Counter[str] = Counter()
        #: Node -> since when it has none.
        self._idle_since: dict[str, float] = {}
        self._scale_down = ScaleDown(context, fleet, engine, drains, self._take_away)
        if self._groups:
            context.ledger.on_failure.append(self._refused)
            context.time.watch(self)

    # -- scale-up ------------------------------------------------------------------------------------------------------

    def _refused(self, entry: Entry) -> None:
        self._plan()

    def _plan(self) -> None:
        """Run at the next multiple of the interval."""
        if self._planned:
            return
        self._planned = True
        interval = self._context.models.autoscaler_interval or 1.0
        passed = self._context.now - self._context.start
        self._context.later(interval - passed % interval, self._look)

    def _look(self) -> None:
        self._planned = False
        infos = {info.uid: info for info in self._waiting()}
        waiting = [WaitingPod(info.uid, info.shape.used) for info in infos.values()]

        def accepts(name: str, pods: Sequence[WaitingPod]) -> set[str]:
            return self._accepted(self._fleet.groups[name], [infos[pod.uid] for pod in pods])

        for name, number in nodes_to_add(map(self._sized, self._groups), waiting, accepts).items():
            self._order(self._fleet.groups[name], number)

    def _waiting(self) -> list[PodInfo]:
        """Rejected pods that do not wait for preemption."""
        found = []
        for queued in self._engine.queue.pending():
            entry = self._context.ledger.of(queued.pod.uid)
            if entry is not None and (entry.reasons or entry.cause == NO_NODE) and not queued.gated:
                found.append(queued.pod)
        return sorted(found, key=lambda info: info.key)

    def _sized(self, group: Group) -> NodeGroup:
        limits, coming = group.spec.autoscale, self._coming[group.name].total()
        assert limits is not None
        room = limits.max - len(group.names) - coming - self._fleet.away[group.name]
        return NodeGroup(group.name, amounts_of(group.template), group.price, coming, room)

    def _order(self, group: Group, number: int) -> None:
        limits, coming = group.spec.autoscale, self._coming[group.name]
        assert limits is not None
        for _ in range(number):
            zone = self._fleet.zone_for(group, coming)
            coming[zone] += 1
            self._context.later(limits.boot.draw(self._boot[group.name]), partial(self._arrives, group, zone))

    def _arrives(self, group: Group, zone: str) -> None:
        coming = self._coming[group.name]
        coming[zone] -= 1
        if not coming[zone]:
            del coming[zone]
        if zone in self._fleet.zones_out:
            # Nothing starts there; consider the waiting pods again.
            self._plan()
            return
        self.added += 1
        self._scale_down.added()
        self._fleet.add_to(group, zone)

    def _accepted(self, group: Group, waiting: Sequence[PodInfo]) -> set[str]:
        """UIDs of the pods that pass the filters on a new node."""
        state, algorithm = self._engine.state, self._engine.algorithm
        verdicts: dict[Any, bool] = {}
        accepted = set()
        with state.transaction():
            name = f"{group.name}-hypothetical"
            state.add_node(group.named(name, self._fleet.zone_for(group)))
            row = state.table.row_of[name]
            for info in waiting:
                known = verdicts.get(info.shape)
                if known is None:
                    framework = self._engine.framework_for(info)
                    known = False
                    if framework is not None:
                        _, outcome = algorithm.filtered(framework, info)
                        known = outcome.error is None and bool(np.asarray(outcome.feasible)[row])
                    verdicts[info.shape] = known
                if known:
                    accepted.add(info.uid)
        return accepted

    # -- scale-down ----------------------------------------------------------------------------------------------------

    def changed(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        kind = type(new if old is None else old)
        if kind is Node:
            self._node_changed(old, new)
            self._scale_down.consider()
        elif kind is Pod:
            was = "" if old is None else old.spec.node_name
            now = "" if new is None else new.spec.node_name
            if was != now and eviction_outcome(old or new) is not EvictionOutcome.BELONGS_TO_NODE:
                self._scale_down.consider()
                if was:
                    self._leaves(was)
                if now:
                    self._busy[now] += 1
                    self._idle_since.pop(now, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            self._idle_since.pop(old.metadata.name, None)
            self._busy.pop(old.metadata.name, None)
        elif old is None and new is not None:
            self._is_idle(new.metadata.name)

    def _leaves(self, node: str) -> None:
        self._busy[node] -= 1
        if self._busy[node] <= 0:
            del self._busy[node]
            self._is_idle(node)

    def _is_idle(self, node: str) -> None:
        group = self._fleet.groups.get(self._fleet.group_of.get(node, ""))
        if group is None or group.spec.autoscale is None:
            return
        since = self._idle_since[node] = self._context.now
        self._context.later(group.spec.autoscale.idle, partial(self._remove_idle, group, node, since))

    def _remove_idle(self, group: Group, node: str, since: float) -> None:
        limits = group.spec.autoscale
        assert limits is not None
        if self._idle_since.get(node) != since:
            return
        if len(group.names) <= limits.min or self._is_wanted(node):
            # It may become removable later.
            self._idle_since.pop(node)
            if len(group.names) > limits.min:
                self._is_idle(node)
            return
        self._take_away(node)

    def _take_away(self, node: str) -> None:
        self.removed += 1
        self._fleet.remove(node, REMOVED)

    def _is_wanted(self, node: str) -> bool:
        """Whether pods are assigned to the node, bound or being bound."""
        row = self._engine.state.table.row_of.get(node)
        return row is not None and any(
            eviction_outcome(info.pod) is not EvictionOutcome.BELONGS_TO_NODE
            for info in self._engine.state.row_pods[row]
        )
