"""A DaemonSet in virtual time: which pods it creates and deletes is decided by `reconcile.daemon_sets`.

A change of a node, or of a pod, looks at this node alone. A lost pod is recreated once it is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.daemon_pods import may_stay, node_of, tied_to, tolerating, wanted_on
from stowplan.kube.api.meta import OwnerReference
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod
from stowplan_cluster.reconcile.daemon_sets import DaemonPod, OnNode, Plan, of_missing_node, plan_node, plan_update
from stowplan_cluster.reconcile.views import UpdateStrategy
from stowplan_lab.simulation.results.ledger import Entry, Origin
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.owners import REVISION, SCALED_DOWN, UPDATED, Revisions, Template, named_pod

#: A pod whose node was removed while it was pending.
NODE_GONE = "deleted"


class DaemonSetController:
    """A `simulate.cluster.Watcher`."""

    def __init__(self, context: SimulationContext, template: Template, owner: OwnerReference | None = None) -> None:
        """`owner`: the reference of its existing pods, if there are any."""
        self._context = context
        self._revisions = Revisions(template, REVISION)
        #: Node -> (should run, may stay).
        self._eligible: dict[str, tuple[bool, bool]] = {}
        #: The number of nodes that should run a pod.
        self._desired = 0
        #: Node -> UIDs of its pods.
        self._pods: dict[str, dict[str, None]] = {}
        #: As seen last: nodes that do not have just what they should, and those of them with outdated pods.
        self._unsettled: dict[str, OnNode] = {}
        self._outdated: set[str] = set()
        #: When to look again -> at which nodes.
        self._due: dict[float, set[str]] = {}
        self._turn_to(template)
        self._owner = owner or template.owner_named(template.pod.metadata.name)
        self._made = 0

    def begin(self) -> None:
        self._judge_all()
        self._context.time.watch(self)

    def roll_out(self, template: Template | None) -> None:
        """Switch to another template; None: restart the current one."""
        self._turn_to(self._revisions.roll_out(template, self._context.now))
        for pods in self._pods.values():
            for entry, when in self._context.available_later(pods, self._template.min_ready):
                self._look_at(when, _node(entry.pod))
        self._judge_all()

    def _judge_all(self) -> None:
        nodes = self._context.store.list(Node)
        for node in nodes:
            self._judge(node)
        self._reconcile({node.metadata.name for node in nodes} | self._pods.keys())

    def _turn_to(self, template: Template) -> None:
        self._template = template
        self._strategy = template.update or UpdateStrategy()
        self._pod = tolerating(self._revisions.pod(self._revisions.current))

    # -- changes ------------------------------------------------------------------------------------------------------

    def changed(self, change: Change[Any]) -> None:
        new: Any = change.new
        old: Any = change.old
        if type(old if new is None else new) is not Node:
            return
        if new is None:
            self._desired -= self._eligible.pop(old.metadata.name, (False, False))[0]
        elif old is None or (old.spec.taints, old.metadata.labels) != (new.spec.taints, new.metadata.labels):
            self._judge(new)
        else:
            return
        self._look_at(self._context.now, (old if new is None else new).metadata.name)

    def _judge(self, node: Node) -> None:
        """Whether the node should have a pod."""
        name = node.metadata.name
        before = self._eligible.get(name, (False, False))
        self._eligible[name] = wanted_on(self._pod, node), may_stay(self._pod, node)
        self._desired += self._eligible[name][0] - before[0]

    def lost(self, entry: Entry) -> None:
        """It is about to be deleted."""
        self._look_later(_node(entry.pod))

    def finished(self, entry: Entry) -> None:
        """Never happens without a lifetime."""

    def _changed(self, entry: Entry) -> None:
        """The pod has started or stopped, or is gone."""
        node, uid, context = _node(entry.pod), entry.pod.metadata.uid, self._context
        if uid not in self._pods.get(node, ()):
            # It would have started now.
            return
        if context.ledger.of(uid) is not None:
            if not self._template.rolls:
                return
        elif context.models.controllers:
            self._forget(node, uid)
        self._look_later(node)
        if self._template.min_ready and entry.starts <= context.now:
            self._look_later(node, self._template.min_ready)

    def _forget(self, node: str, uid: str) -> None:
        del self._pods[node][uid]
        if not self._pods[node]:
            del self._pods[node]

    def _look_later(self, node: str, seconds: float = 0.0) -> None:
        self._look_at(self._context.now + self._context.models.controller_delay + seconds, node)

    def _look_at(self, at: float, node: str) -> None:
        if at not in self._due:
            self._due[at] = set()
            self._context.time.at(at, Call(partial(self._look, at)))
        self._due[at].add(node)

    def _look(self, at: float) -> None:
        self._reconcile(self._due.pop(at))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _reconcile(self, nodes: Collection[str]) -> None:
        plan = Plan()
        for name in sorted(nodes):
            node = self._see(name)
            if name in self._eligible:
                plan_node(plan, name, node, self._strategy, None, self._context.now)
            else:
                plan.delete += of_missing_node(node.pods)
                self._context.refused.drop(self._pods.get(name, ()))
        if self._outdated and not plan.create and not plan.delete:
            settled = len(self._pods) - sum(name in self._pods for name in self._unsettled)
            plan = plan_update(self._strategy, self._unsettled, self._desired, settled)
        for name in plan.create:
            self._make(name)
        for uid in plan.delete:
            self._delete(uid)

    def _see(self, name: str) -> OnNode:
        """The node as it is now; remembers what an update has to know of it."""
        node = self._on_node(name)
        self._unsettled.pop(name, None)
        self._outdated.discard(name)
        if not self._is_settled(node):
            self._unsettled[name] = node
            if node.new_and_old()[1] is not None:
                self._outdated.add(name)
        return node

    def _is_settled(self, node: OnNode) -> bool:
        if not self._template.rolls and len(node.pods) == 1:
            # Nothing follows from whether it is available.
            return node.may_stay and not node.pods[0].terminating
        return node.is_settled

    def _on_node(self, name: str) -> OnNode:
        should_run, stays = self._eligible.get(name, (False, False))
        pods = [pod for uid in self._pods.get(name, ()) if (pod := self._seen(uid)) is not None]
        if stays and not pods and name in self._pods:
            # The API server has rejected it, or it is gone and is not replaced.
            pods = [DaemonPod(key="")]
        return OnNode(pods, should_run, stays)

    def _seen(self, uid: str) -> DaemonPod | None:
        entry, now = self._context.ledger.of(uid), self._context.now
        if entry is None:
            return None
        return DaemonPod(
            key=uid,
            updated=self._revisions.of(entry) == self._revisions.current,
            ready=entry.starts <= now,
            available=entry.starts + self._template.min_ready <= now,
            terminating=bool(entry.why),
            assigned=bool(entry.node),
            created=entry.arrived,
        )

    def _make(self, node: str) -> None:
        self._made += 1
        name = f"{self._pod.metadata.name}-{self._made}"
        pod = tied_to(named_pod(self._pod, self._template.workload, name, owner=self._owner), node)
        self._context.arrive(pod, self.adopt(pod))
        self._see(node)
        self._look_later(node)

    def adopt(self, pod: Pod) -> Origin:
        """A pod that is to arrive is one of its own."""
        self._pods.setdefault(_node(pod), {})[pod.metadata.uid] = None
        return Origin(workload=self._template.workload, owner=self, on_change=self._changed)

    def _delete(self, uid: str) -> None:
        entry = self._context.ledger.of(uid)
        if entry is None or entry.why:
            return
        node = _node(entry.pod)
        missing, should_run = node not in self._eligible, self._eligible.get(node, (False, False))[0]
        is_update = should_run and self._revisions.of(entry) != self._revisions.current
        self._context.delete(entry, NODE_GONE if missing else UPDATED if is_update else SCALED_DOWN, at_once=missing)
        self._see(node)


def _node(pod: Pod) -> str:
    return node_of(pod.spec.affinity) or pod.spec.node_name
