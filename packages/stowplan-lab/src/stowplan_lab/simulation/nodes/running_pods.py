"""Kubelets start, end and stop the pods of their nodes.

Pods take a while to start, run for their time and end; one that is deleted takes a while to stop. On a node that is
down none of this happens. When it comes back, or another one has its name, its containers are lost: pods start again
from the beginning, those with restartPolicy Never fail, and those that were deleted are gone.

Upstream: pkg/kubelet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from random import Random
from typing import Any

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.pod import Pod, grace_period_of
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node
from stowplan_cluster.reconcile import kubelet
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.simulation_context import SimulationContext

#: Why pods end.
NODE_FAILED = "node failed"


class Kubelets:
    """A `simulate.cluster.Watcher`; must come after the ledger."""

    def __init__(self, context: SimulationContext) -> None:
        self._context = context
        self._startup = context.models.startup
        self._chance = context.chance("startup")
        #: Node -> since when its kubelet has worked; infinity: it is down.
        self._since: dict[str, float] = {}
        #: UID of a pod that is about to be deleted -> how long it will take to stop.
        self._stopping: dict[str, float] = {}
        #: Called when a pod becomes Ready, or is no longer.
        self.observers: list[Callable[[Entry], object]] = []

    def changed(self, change: Change[Any]) -> None:
        new, old = change.new, change.old
        if type(new) is Pod:
            node = new.spec.node_name
            if not node:
                return
            if old is None or not old.spec.node_name:
                entry = self._context.ledger.of(new.metadata.uid)
                if entry is not None and self.works(node):
                    self._run(entry)
            elif self._stopping and (seconds := self._stopping.pop(new.metadata.uid, None)) is not None:
                self._context.later(seconds, partial(self._stopped, new))
        elif old is None and type(new) is Node:
            self.resume(new.metadata.name)
        elif new is None and type(old) is Node:
            self.stop(old.metadata.name)
            del self._since[old.metadata.name]

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _run(self, entry: Entry) -> None:
        startup = self._startup.always
        if startup is None:
            startup = self._startup.draw(self._chance)
        self._run_in(entry, startup)

    def _run_in(self, entry: Entry, startup: float) -> None:
        origin, now = entry.origin, self._context.time.now
        entry.starts = starts = now + startup
        entry.unready_since = None
        if origin.on_change is not None or self.observers:
            self._context.later(startup, partial(self._start, entry, starts))
        lifetime = origin.lifetime
        if entry.restarts < origin.failures and origin.fails_after is not None:
            lifetime = origin.fails_after
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
        if entry.ends != ends:
            return
        if entry.restarts >= entry.origin.failures:
            self._context.time.end(entry.pod)
        elif entry.why or kubelet.ends_after_exit(entry.pod.spec.restart_policy or kubelet.ALWAYS, exit_code=1):
            entry.failed = True
            self._context.time.end(entry.pod)
        else:
            # Until it has started again, after a back-off, it does not run.
            again = ends + entry.back_off.after_run(ends)
            entry.back_off = entry.back_off.restarted(ends, again)
            entry.starts = entry.ends = again
            entry.has_run, entry.unready_since = True, ends
            self._notify(entry)
            self._context.time.at(again, Call(partial(self._restart, entry, again)))

    def _restart(self, entry: Entry, at: float) -> None:
        # Otherwise its node has failed in the meantime.
        if entry.ends == at:
            entry.restarts += 1
            self._run_in(entry, 0.0)

    def seconds_to_stop(self, pod: Pod, chance: Random) -> float:
        """How long a pod runs on that is deleted now, for `Latency`; infinity: it is ended here."""
        drawn = self._context.models.termination.draw(chance)
        if not self.works(pod.spec.node_name):
            return inf
        entry = self._context.ledger.of(pod.metadata.uid)
        if entry is not None and entry.starts > self._context.now:
            # It does not start any more.
            entry.starts = entry.ends = inf
        seconds = kubelet.seconds_to_stop(kubelet.Containers(stop_after=drawn), grace_period_of(pod))
        if seconds <= 0:
            return 0.0
        self._stopping[pod.metadata.uid] = seconds
        return inf

    def _stopped(self, pod: Pod) -> None:
        if self.works(pod.spec.node_name):
            entry = self._context.ledger.of(pod.metadata.uid)
            if entry is not None:
                # Its containers have ended now.
                entry.unready_since = None
            self._context.time.end(pod)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def works(self, node: str) -> bool:
        return self._since.get(node, inf) < inf

    def last_heartbeat(self, node: str) -> float:
        return kubelet.last_renewal(node, self._since[node], self._context.now)

    def stop(self, node: str) -> None:
        """The node goes down: its pods neither start nor end, and nobody notices."""
        self._since[node] = inf
        for entry in self._context.entries_on(node):
            if entry.starts > self._context.now:
                entry.starts = inf
            entry.ends = inf

    def set_not_ready(self, node: str) -> None:
        """The node counts as unhealthy, so its pods are no longer Ready."""
        for entry in self._context.entries_on(node):
            self._lose_readiness(entry)

    def _lose_readiness(self, entry: Entry) -> None:
        if entry.starts <= self._context.now:
            entry.has_run, entry.starts, entry.unready_since = True, inf, self._context.now
            self._notify(entry)

    def resume(self, node: str) -> None:
        """The node is back, or new: the containers of pods that it has are lost."""
        self._since[node] = self._context.now
        entries = self._context.entries_on(node)
        if entries:
            # At this time, but not within a change.
            self._context.soon(partial(self._start_again, node, entries))

    def _start_again(self, node: str, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if not self.works(node) or self._context.ledger.of(entry.pod.metadata.uid) is not entry:
                continue
            ends_now = kubelet.ends_after_outage(entry.pod.spec.restart_policy)
            if entry.why or ends_now:
                # Its containers count as ended now.
                entry.unready_since = None
            if entry.why:
                self._context.time.end(entry.pod)
            elif ends_now:
                self._context.delete(entry, NODE_FAILED, at_once=True)
            else:
                self._lose_readiness(entry)
                entry.back_off = kubelet.NO_BACK_OFF
                self._run(entry)
