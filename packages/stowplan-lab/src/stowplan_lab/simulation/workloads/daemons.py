"""Model the DaemonSet controller: one pod for each node that matches its template, which cannot go to another node.

A lost pod is recreated once it is gone, and a node that becomes eligible gets its pod then. A rollout replaces pods
node by node: with `maxUnavailable`, at most that many nodes have no available pod; with `maxSurge`, that many have the
new pod in addition to the old one, which is deleted when the new one is available. Pods that are not available are
replaced first, and immediately.

Upstream: pkg/controller/daemon (daemon_controller.go, update.go).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from stowplan.kube.api.daemon_pods import node_of, tied_to, tolerating, wanted_on
from stowplan.kube.api.meta import OwnerReference
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.api.whole_numbers import share
from stowplan_lab.simulation.results.ledger import Entry, Origin
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.owners import UPDATED, Template, named_pod
from stowplan_lab.simulation.workloads.revisions import ON_DELETE, REVISION, Revisions

#: A pod whose node was removed while it was pending.
NODE_GONE = "deleted"
#: Seconds between checks whether an old pod is gone.
_AGAIN = 1.0


class DaemonSetController:
    """A `simulate.cluster.Watcher`."""

    def __init__(self, context: SimulationContext, template: Template) -> None:
        self._context = context
        self._revisions = Revisions(template, REVISION)
        self._turn_to(template)
        name = template.pod.metadata.name
        self._owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name=name, uid=name, controller=True)
        self._made = 0
        #: Node -> UID of its pod, and of the one that will replace it.
        self._pods: dict[str, str] = {}
        self._surging: dict[str, str] = {}

    def begin(self) -> None:
        for node in self._context.store.list(Node):
            self._look_at(node.metadata.name)
        self._context.time.watch(self)

    def roll_out(self, template: Template | None) -> None:
        """Switch to another template; None: restart the current one."""
        revisions = self._revisions
        self._turn_to(revisions.turn_to(template) if template else revisions.restart(self._context.now))
        self._advance()

    def _turn_to(self, template: Template) -> None:
        self._template = template
        self._pod = tolerating(self._revisions.pod(self._revisions.current))

    # -- nodes --------------------------------------------------------------------------------------------------------

    def changed(self, change: Change[Any]) -> None:
        new: Any = change.new
        old: Any = change.old
        if type(old if new is None else new) is not Node:
            return
        if new is None:
            self._context.soon(partial(self._forget, old.metadata.name))
        elif old is None or (old.spec.taints, old.metadata.labels) != (new.spec.taints, new.metadata.labels):
            self._context.soon(partial(self._look_at, new.metadata.name))

    def _look_at(self, name: str) -> None:
        """Create the node's pod, if it is eligible and has none."""
        if name in self._pods:
            return
        node = self._context.store.find(Node, "", name)
        if node is not None and wanted_on(self._pod, node):
            self._pods[name] = self._make(name)

    def _forget(self, node: str) -> None:
        """The node was removed: its pods, if they were pending, cannot be scheduled."""
        for pods in (self._pods, self._surging):
            entry = self._context.ledger.of(pods.pop(node, ""))
            if entry is not None:
                self._context.delete(entry, NODE_GONE, at_once=True)
        self._advance()

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _make(self, node: str) -> str:
        self._made += 1
        name = f"{self._pod.metadata.name}-{self._made}"
        pod = tied_to(named_pod(self._pod, self._template.workload, name, owner=self._owner), node)
        on_change = None if self._template.update is None else self._changed
        self._context.arrive(pod, Origin(workload=self._template.workload, owner=self, on_change=on_change))
        return pod.metadata.uid

    def _changed(self, entry: Entry) -> None:
        self._context.later(self._context.models.controller_delay + self._template.min_ready, self._advance)

    def finished(self, entry: Entry) -> None:
        """Never happens without a lifetime."""

    def lost(self, entry: Entry) -> None:
        if self._context.models.controllers:
            self._context.later(self._context.models.controller_delay, partial(self._replace, entry.pod))

    def _replace(self, pod: Pod) -> None:
        """Recreate the node's pod when the old one is gone."""
        uid, node = pod.metadata.uid, node_of(pod.spec.affinity)
        if self._surging.get(node) == uid:
            del self._surging[node]
        elif self._pods.get(node) == uid:
            if self._context.ledger.of(uid) is not None:
                self._context.later(_AGAIN, partial(self._replace, pod))
                return
            del self._pods[node]
            if node in self._surging:
                self._pods[node] = self._surging.pop(node)
            self._look_at(node)
        self._advance()

    # -- rollouts ------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        strategy = self._template.update
        if strategy is None or strategy.type == ON_DELETE:
            return
        revisions, ledger = self._revisions, self._context.ledger
        old = [node for node, uid in self._pods.items() if revisions.of(ledger.of(uid)) != revisions.current]
        if not old:
            return
        rolling = strategy.rolling_update
        surge = share(rolling.max_surge, len(self._pods), round_up=True)
        if surge:
            self._surge(old, surge)
        else:
            self._take_away(old, max(1, share(rolling.max_unavailable, len(self._pods), round_up=True)))

    def _is_available(self, uid: str) -> bool:
        return self._context.is_available(uid, self._template.min_ready)

    def _take_away(self, old: list[str], most: int) -> None:
        missing = [node for node, uid in self._pods.items() if not self._is_available(uid)]
        useless, useful = _split(old, set(missing))
        for node in (*useless, *useful[: max(0, most - len(missing))]):
            entry = self._context.ledger.of(self._pods[node])
            # Its node gets the new one when it is gone.
            if entry is not None and not entry.why:
                self._context.delete(entry, UPDATED)

    def _surge(self, old: list[str], most: int) -> None:
        for node in [node for node in old if self._is_available(self._surging.get(node, ""))]:
            entry = self._context.ledger.of(self._pods[node])
            self._pods[node] = self._surging.pop(node)
            if entry is not None and not entry.why:
                entry.origin = Origin(workload=self._template.workload)
                self._context.delete(entry, UPDATED)
            old.remove(node)
        waiting = [node for node in old if node not in self._surging]
        useless, useful = _split(waiting, {node for node in waiting if not self._is_available(self._pods[node])})
        for node in (*useless, *useful[: max(0, most - len(self._surging) - len(useless))]):
            self._surging[node] = self._make(node)


def _split(nodes: list[str], apart: set[str]) -> tuple[list[str], list[str]]:
    return [node for node in nodes if node in apart], [node for node in nodes if node not in apart]
