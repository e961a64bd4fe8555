"""Pods on their nodes: kubelets start and end them, NoExecute taints evict them.

Pods take a while to start, run for their time and end; on a failed node they do neither. Taints evict immediately,
after tolerationSeconds, or never. A pod without a toleration for unreachable nodes tolerates them for
`failureEviction`, as added by admission on a cluster. On a failed node there is no kubelet to terminate a pod, so it is
deleted without a grace period.

Upstream: pkg/controller/tainteviction, plugin/pkg/admission/defaulttolerationseconds.
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
from stowplan.kube.api.taints import NO_EXECUTE, UNREACHABLE, eviction_due
from stowplan.kube.api.types import Node
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.simulation_context import SimulationContext


class Kubelets:
    """A `simulate.cluster.Watcher`; must come after the ledger."""

    def __init__(self, context: SimulationContext) -> None:
        self._context = context
        self._startup = context.models.startup
        self._chance = context.chance("startup")
        #: Failed nodes.
        self._stopped: set[str] = set()
        #: Called when a pod becomes Ready, or is no longer.
        self.observers: list[Callable[[Entry], object]] = []

    def changed(self, change: Change[Any]) -> None:
        new, old = change.new, change.old
        if type(new) is not Pod or not new.spec.node_name or (old is not None and old.spec.node_name):
            return
        entry = self._context.ledger.of(new.metadata.uid)
        if entry is not None and new.spec.node_name not in self._stopped:
            self._run(entry)

    def _run(self, entry: Entry) -> None:
        startup = self._startup.always
        if startup is None:
            startup = self._startup.draw(self._chance)
        now = self._context.time.now
        entry.starts = starts = now + startup
        if entry.origin.on_change is not None or self.observers:
            self._context.later(startup, partial(self._start, entry, starts))
        lifetime = entry.origin.lifetime
        if lifetime is None:
            return
        entry.ends = ends = now + startup + lifetime
        self._context.time.at(now + (startup + lifetime), Call(partial(self._end, entry, ends)))

    def _start(self, entry: Entry, starts: float) -> None:
        if entry.starts == starts:
            self._notify(entry)

    def _notify(self, entry: Entry) -> None:
        if entry.origin.on_change is not None:
            entry.origin.on_change(entry)
        for observer in self.observers:
            observer(entry)

    def _end(self, entry: Entry, ends: float) -> None:
        # Otherwise it was stopped, and possibly restarted, in the meantime.
        if entry.ends == ends:
            self._context.time.end(entry.pod)

    def stop(self, node: str) -> None:
        """The node fails: its pods neither start nor end."""
        self._stopped.add(node)
        for entry in self._context.entries_on(node):
            entry.has_run |= entry.starts <= self._context.now
            entry.starts = entry.ends = inf
            self._notify(entry)

    def resume(self, node: str) -> None:
        """The node returns: its remaining pods start again."""
        self._stopped.discard(node)
        for entry in self._context.entries_on(node):
            self._run(entry)

    def forget(self, node: str) -> None:
        self._stopped.discard(node)


#: Why pods are deleted.
NODE_FAILED, TAINTED = "node failed", "tainted"


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
        self._default = Toleration(key=UNREACHABLE, operator="Exists", effect=NO_EXECUTE, toleration_seconds=seconds)

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
        tolerations = (*entry.pod.spec.tolerations, self._default)
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
        self._context.delete(entry, NODE_FAILED if failed else TAINTED, at_once=failed)
