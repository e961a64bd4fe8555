"""The cluster autoscaler: adds nodes for unschedulable pods, and removes unneeded ones.

In every `autoscalerInterval` in which a pod was rejected it considers the unschedulable pods; what it decides is in
`stowplan_cluster/reconcile/cluster_autoscaler.py`. Candidates for removal are only reconsidered after a pod or node was
added or removed, or a budget changed.

Upstream: kubernetes/autoscaler, cluster-autoscaler/FAQ.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from stowplan.ask.what_if.node_trials import NodeTrials
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, PodDisruptionBudget
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.engine import Engine
from stowplan_cluster.reconcile.cluster_autoscaler import (
    IdleNodes,
    Limits,
    LowNode,
    NodeGroup,
    ScaleDown,
    WaitingPod,
    keeps_its_node,
    low_nodes,
    next_look,
    node_amounts,
    nodes_to_add,
)
from stowplan_lab.simulation.nodes.drains import Drains
from stowplan_lab.simulation.nodes.fleet import Fleet, Group
from stowplan_lab.simulation.results.ledger import NO_NODE, Entry
from stowplan_lab.simulation.simulation_context import SimulationContext

REMOVED = "node removed"
#: Of a group that is not scaled.
NO_LIMITS = Limits(0, 0, inf, 0.0)


class LowNodes:
    """Those with few pods, which are emptied."""

    def __init__(
        self,
        context: SimulationContext,
        fleet: Fleet,
        trials: NodeTrials,
        drains: Drains,
        removed: Callable[[str], object],
    ) -> None:
        """`removed` removes a drained node."""
        self._context = context
        self._fleet = fleet
        self._trials = trials
        self._drains = drains
        self._removed = removed
        self._groups = [group for group in fleet.groups.values() if limits_of(group).utilization > 0]
        self._state = ScaleDown()
        self._planned = False
        #: The time of the next run.
        self._wakes_at = inf

    def added(self) -> None:
        self._state.added_at = self._context.now

    def consider(self) -> None:
        """A pod or node was added or removed: run at the next multiple of the interval."""
        if self._groups and not self._planned:
            self._planned = True
            self._context.later(seconds_to_look(self._context), self._look)

    def _look(self) -> None:
        self._planned = False
        going, again = self._state.look(self._low(), self._context.now, self._can_go)
        if going:
            self._drains.begin(
                going,
                REMOVED,
                partial(self._emptied, going),
                until=self._state.gives_up_at,
                give_up=partial(self._keep, going),
            )
        elif again is not None and again < self._wakes_at:
            self._wakes_at = again
            self._context.later(again - self._context.now, self._woken)

    def _woken(self) -> None:
        if self._context.now >= self._wakes_at:
            self._wakes_at = inf
            self.consider()

    def _low(self) -> dict[str, LowNode]:
        found: dict[str, LowNode] = {}
        for group in self._groups:
            shares = self._trials.shares(list(group.names))
            found |= low_nodes(shares, limits_of(group), len(group.names), self._is_candidate)
        return found

    def _is_candidate(self, node: str) -> bool:
        return not self._fleet.nodes[node].spec.unschedulable and bool(self._movable(node))

    def _movable(self, node: str) -> list[Entry]:
        """Pods that would have to move."""
        return [
            entry
            for entry in self._context.entries_on(node)
            if not entry.why and eviction_outcome(entry.pod) is not EvictionOutcome.BELONGS_TO_NODE
        ]

    def _can_go(self, node: str) -> bool:
        entries = self._movable(node)
        if any(keeps_its_node(entry.pod) or not self._drains.may_evict(entry) for entry in entries):
            return False
        return self._trials.fit_elsewhere(node, [entry.pod for entry in entries])

    def _keep(self, node: str) -> None:
        self._state.emptying = ""
        self._fleet.cordon(node, unschedulable=False)

    def _emptied(self, node: str) -> None:
        self._state.emptying = ""
        self._removed(node)
        self.consider()


def limits_of(group: Group) -> Limits:
    spec = group.spec.autoscale
    return NO_LIMITS if spec is None else Limits(spec.min, spec.max, spec.idle, spec.utilization)


def seconds_to_look(context: SimulationContext) -> float:
    return next_look(context.now, context.start, context.models.autoscaler_interval or 1.0)


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
        self._trials = NodeTrials(engine)
        self._idle = IdleNodes()
        self._low = LowNodes(context, fleet, self._trials, drains, self._take_away)
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
        self._context.later(seconds_to_look(self._context), self._look)

    def _look(self) -> None:
        self._planned = False
        infos = {info.uid: info for info in self._waiting()}
        waiting = [WaitingPod(info.uid, info.shape.used) for info in infos.values()]

        def accepts(name: str, pods: Sequence[WaitingPod]) -> set[str]:
            group = self._fleet.groups[name]
            node = group.named(f"{name}-hypothetical", self._fleet.zone_for(group))
            return self._trials.accepted(node, [infos[pod.uid] for pod in pods])

        for order in nodes_to_add(map(self._sized, self._groups), waiting, accepts).orders:
            self._order(self._fleet.groups[order.group], order.nodes)

    def _waiting(self) -> list[PodInfo]:
        """Rejected pods that do not wait for preemption."""
        found = []
        for queued in self._engine.queue.pending():
            entry = self._context.ledger.of(queued.pod.uid)
            if entry is not None and (entry.reasons or entry.cause == NO_NODE) and not queued.gated:
                found.append(queued.pod)
        return sorted(found, key=lambda info: info.key)

    def _sized(self, group: Group) -> NodeGroup:
        coming = self._coming[group.name].total()
        room = limits_of(group).most - len(group.names) - coming - self._fleet.away[group.name]
        return NodeGroup(group.name, node_amounts(group.template), group.price, coming, room)

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
        self._low.added()
        self._fleet.add_to(group, zone)

    # -- scale-down ----------------------------------------------------------------------------------------------------

    def changed(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        kind = type(new if old is None else old)
        if kind is Node:
            self._node_changed(old, new)
            self._low.consider()
        elif kind is PodDisruptionBudget:
            self._low.consider()
        elif kind is Pod:
            was = "" if old is None else old.spec.node_name
            now = "" if new is None else new.spec.node_name
            if was != now and eviction_outcome(old or new) is not EvictionOutcome.BELONGS_TO_NODE:
                self._low.consider()
                if was and self._idle.pod_left(was):
                    self._is_idle(was)
                if now:
                    self._idle.pod_came(now)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            self._idle.remove(old.metadata.name)
        elif old is None and new is not None:
            self._is_idle(new.metadata.name)

    def _is_idle(self, node: str) -> None:
        group = self._fleet.groups.get(self._fleet.group_of.get(node, ""))
        if group is not None and group.spec.autoscale is not None:
            self._idle.begin(node, self._context.now)
            self._check_later(group, node)

    def _check_later(self, group: Group, node: str) -> None:
        self._context.later(limits_of(group).idle, partial(self._check_idle, group, node, self._idle.since[node]))

    def _check_idle(self, group: Group, node: str, since: float) -> None:
        if self._idle.since.get(node) != since:
            return
        spare = len(group.names) > limits_of(group).least
        if self._idle.ends(node, spare=spare, wanted=self._trials.is_wanted(node), now=self._context.now):
            self._take_away(node)
        elif spare:
            self._check_later(group, node)

    def _take_away(self, node: str) -> None:
        self.removed += 1
        self._fleet.remove(node, REMOVED)
