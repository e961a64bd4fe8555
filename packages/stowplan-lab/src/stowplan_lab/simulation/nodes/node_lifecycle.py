"""Nodes that fail and return, and what the control plane does with them and their pods.

A node is down from the start of its first outage until the end of the last. `failureDetection` after its kubelet's last
sign of life, its conditions become Unknown: it is tainted and its pods are no longer Ready. NoExecute taints evict
immediately, after tolerationSeconds, or never; a pod without a toleration for unreachable nodes tolerates them for
`failureEviction`, as added by admission on a cluster. Evicted pods are only gone when the node is back, or removed:
pods of a removed node are deleted after a while. A node that never returns is removed when its failure is detected.

Upstream: pkg/controller/nodelifecycle, tainteviction, podgc; plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.affinity import Taint, Toleration
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.port import Change
from stowplan.kube.api.taints import NO_EXECUTE, NOT_READY, UNREACHABLE, eviction_due
from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.reconcile.nodes import QUARANTINE_SECONDS, UNKNOWN, unhealthy_at
from stowplan_lab.simulation.nodes.fleet import LOST, Fleet
from stowplan_lab.simulation.nodes.running_pods import NODE_FAILED, Kubelets
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.simulation_context import SimulationContext

#: Why pods are deleted.
TAINTED = "tainted"


class _Outage(PlainStruct, eq=False):
    #: Infinity: it never ends.
    until: float
    detected: bool = False


class NodeLifecycle:
    def __init__(self, context: SimulationContext, fleet: Fleet, kubelets: Kubelets) -> None:
        self._context = context
        self._fleet = fleet
        self._kubelets = kubelets
        #: Nodes that are down.
        self._outages: dict[str, _Outage] = {}

    def fail(self, node: str, seconds: float | None) -> None:
        """The node fails; None: for ever."""
        until = inf if seconds is None else self._context.now + seconds
        outage = self._outages.get(node)
        if outage is None:
            outage = self._outages[node] = _Outage(until)
            seen = self._kubelets.last_heartbeat(node)
            self._kubelets.stop(node)
            due = unhealthy_at(seen, has_status=True, grace=self._context.models.failure_detection)
            self._at(due, partial(self._detect, node, outage))
        outage.until = max(outage.until, until)
        if until < inf:
            self._at(until, partial(self._recover, node, outage))
        elif outage.detected:
            self.take_out(node, NODE_FAILED)

    def _at(self, when: float, action: Callable[[], object]) -> None:
        self._context.time.at(max(when, self._context.now), Call(action))

    def _detect(self, node: str, outage: _Outage) -> None:
        if self._outages.get(node) is not outage:
            return
        outage.detected = True
        if outage.until == inf:
            self.take_out(node, NODE_FAILED)
            return
        self._fleet.set_ready(node, UNKNOWN)
        self._kubelets.set_not_ready(node)

    def _recover(self, node: str, outage: _Outage) -> None:
        if self._outages.get(node) is outage and self._context.now >= outage.until:
            del self._outages[node]
            self._fleet.set_ready(node, "True")
            self._kubelets.resume(node)

    def take_out(self, node: str, why: str) -> None:
        """Remove the node for good; `why`: the reason recorded for the pods that are still there."""
        self._outages.pop(node, None)
        self._fleet.remove(node, why)


class OrphanedPods:
    """The pod garbage collector: deletes pods of missing nodes. A `simulate.cluster.Watcher`; must precede Kubelets."""

    def __init__(self, context: SimulationContext, fleet: Fleet) -> None:
        self._context = context
        self._fleet = fleet
        #: Since when nodes with pods are missing.
        self._since: dict[str, float] = {}

    def changed(self, change: Change[Any]) -> None:
        new, old = change.new, change.old
        if type(new) is Pod:
            node = new.spec.node_name
            if node and (old is None or not old.spec.node_name) and node not in self._fleet.nodes:
                # A binding was in progress when the node was removed, which an API server would not prevent.
                entry = self._context.ledger.of(new.metadata.uid)
                if entry is not None:
                    self._miss(node, [*self._context.missing.get(node, ()), entry])
        elif new is None and type(old) is Node:
            entries = self._context.entries_on(old.metadata.name)
            if entries:
                self._miss(old.metadata.name, entries)
        elif old is None and type(new) is Node and self._since.pop(new.metadata.name, None) is not None:
            # The scheduler knows them again when it has seen the node.
            self._context.soon(partial(self._context.missing.pop, new.metadata.name, None))

    def _miss(self, node: str, entries: list[Entry]) -> None:
        self._context.missing[node] = entries
        if node not in self._since:
            since = self._since[node] = self._context.now
            self._context.later(QUARANTINE_SECONDS, partial(self._collect, node, since))

    def _collect(self, node: str, since: float) -> None:
        if self._since.get(node) != since:
            return
        why = self._fleet.why_removed.pop(node, LOST)
        for entry in self._context.entries_on(node):
            self._context.delete(entry, entry.why or why, at_once=True)
        del self._since[node], self._context.missing[node]


class TaintEvictions:
    """A `simulate.cluster.Watcher`; must come after the ledger."""

    def __init__(self, context: SimulationContext) -> None:
        self._context = context
        #: Node -> its NoExecute taints, if any.
        self._taints: dict[str, tuple[Taint, ...]] = {}
        #: UID of a pod -> when it is to be evicted.
        self._due: dict[str, float] = {}
        # A scenario may have fractions of seconds.
        seconds: Any = context.models.failure_eviction
        self._defaults = tuple(
            Toleration(key=key, operator="Exists", effect=NO_EXECUTE, toleration_seconds=seconds)
            for key in (NOT_READY, UNREACHABLE)
        )

    def changed(self, change: Change[Any]) -> None:
        new: Any = change.new
        old: Any = change.old
        kind = type(old if new is None else new)
        if kind is Node:
            self._node_changed(old if new is None else new, gone=new is None)
        elif kind is Pod and new is None:
            self._due.pop(old.metadata.uid, None)
        elif kind is Pod and self._taints and new.spec.node_name and (old is None or not old.spec.node_name):
            entry = self._context.ledger.of(new.metadata.uid)
            if entry is not None:
                self._plan(entry)

    def _node_changed(self, node: Node, *, gone: bool) -> None:
        name = node.metadata.name
        before = self._taints.pop(name, ())
        taints = () if gone else tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)
        if taints:
            self._taints[name] = taints
        for entry in self._context.entries_on(name) if taints != before else ():
            self._plan(entry)

    def _plan(self, entry: Entry) -> None:
        uid, now = entry.pod.metadata.uid, self._context.now
        scheduled = self._due.pop(uid, None)
        tolerations = (*entry.pod.spec.tolerations, *self._defaults)
        due = eviction_due(self._taints.get(entry.node, ()), tolerations, scheduled=scheduled, now=now)
        if due is not None:
            self._due[uid] = due
            if due != scheduled:
                self._context.later(due - now, partial(self._evict, entry, due))

    def _evict(self, entry: Entry, due: float) -> None:
        uid = entry.pod.metadata.uid
        if self._due.get(uid) != due or self._context.ledger.of(uid) is not entry or entry.why:
            return
        failed = any(taint.key == UNREACHABLE for taint in self._taints.get(entry.node, ()))
        self._context.delete(entry, NODE_FAILED if failed else TAINTED)
