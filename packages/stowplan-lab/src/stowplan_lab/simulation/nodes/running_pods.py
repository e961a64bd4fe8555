"""Pods on their nodes: kubelets start and end them, NoExecute taints evict them.

Pods take a while to start, run for their time and end; on a failed node they do neither. Taints evict immediately,
after tolerationSeconds, or never: the time runs from when the taint or the pod was added, whichever is later, and stops
when the taint is removed. A pod without a toleration for unreachable nodes tolerates them for `failureEviction`, as
added by admission on a cluster. On a failed node there is no kubelet to terminate a pod, so it is deleted without a
grace period.

Upstream: pkg/controller/tainteviction, plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

from stowplan.ask.what_if.hypothetical_pods import EvictionOutcome, eviction_outcome
from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.port import Change
from stowplan.kube.api.taints import NO_EXECUTE, UNREACHABLE, tolerated_seconds, tolerates
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
        if entry.origin.on_start is not None:
            self._context.later(startup, partial(self._start, entry, starts))
        lifetime = entry.origin.lifetime
        if lifetime is None:
            return
        entry.ends = ends = now + startup + lifetime
        self._context.time.at(now + (startup + lifetime), Call(partial(self._end, entry, ends)))

    @staticmethod
    def _start(entry: Entry, starts: float) -> None:
        if entry.starts == starts and entry.origin.on_start is not None:
            entry.origin.on_start()

    def _end(self, entry: Entry, ends: float) -> None:
        # Otherwise it was stopped, and possibly restarted, in the meantime.
        if entry.ends == ends:
            self._context.time.end(entry.pod)

    def stop(self, node: str) -> None:
        """The node fails: its pods neither start nor end."""
        self._stopped.add(node)
        for entry in self._context.entries_on(node):
            entry.starts = entry.ends = inf

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
        #: Node -> its NoExecute taints -> a number that is unique per addition of a taint.
        self._taints: dict[str, dict[Taint, int]] = {}
        self._came = 0

    def changed(self, change: Change[Any]) -> None:
        new, old = change.new, change.old
        kind = type(old if new is None else new)
        if kind is Node:
            self._node_changed(old, new)
        elif kind is Pod and self._taints and new is not None:
            bound = new.spec.node_name and (old is None or not old.spec.node_name)
            entry = self._context.ledger.of(new.metadata.uid) if bound else None
            if entry is not None:
                self._will_go(entry, self._taints.get(entry.node, {}))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None, "something has changed"
            self._taints.pop(old.metadata.name, None)
            return
        name = new.metadata.name
        before = self._taints.pop(name, {})
        taints = [taint for taint in new.spec.taints if taint.effect == NO_EXECUTE]
        added = {}
        for taint in taints:
            if taint not in before:
                self._came += 1
                added[taint] = self._came
        if taints:
            self._taints[name] = {taint: before.get(taint) or added[taint] for taint in taints}
        for entry in self._context.entries_on(name) if added else ():
            self._will_go(entry, added)

    def _will_go(self, entry: Entry, taints: Mapping[Taint, int]) -> None:
        """Schedule the eviction of a pod for newly added taints."""
        if eviction_outcome(entry.pod) is EvictionOutcome.BELONGS_TO_NODE:
            return
        tolerations = entry.pod.spec.tolerations
        for taint, number in taints.items():
            if taint.key == UNREACHABLE and not any(tolerates(one, taint) for one in tolerations):
                seconds: float | None = self._context.models.failure_eviction
            else:
                seconds = tolerated_seconds((taint,), tolerations)
            if seconds is not None:
                self._context.later(seconds, partial(self._evict, entry, taint, number))

    def _evict(self, entry: Entry, taint: Taint, number: int) -> None:
        is_there = self._context.ledger.of(entry.pod.metadata.uid) is entry and not entry.why
        if not is_there or self._taints.get(entry.node, {}).get(taint) != number:
            return
        failed = taint.key == UNREACHABLE
        self._context.delete(entry, NODE_FAILED if failed else TAINTED, at_once=failed)
