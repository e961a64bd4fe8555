"""DaemonSets: one pod per eligible node (`reconcile.daemon_sets`).

Each pod is created for a node by a required affinity to the node's name; the scheduler binds it.

A reconcile iterates over all nodes. They report their status often, but rarely change in what matters to a DaemonSet.
So the part of a node that does is one object for as long as it is equal, answers about the node are cached by it, and
heartbeats trigger no reconcile.

Left out: the deprecated template generation.

Upstream: pkg/controller/daemon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import field

from stowplan.kube.api.daemon_pods import may_stay, node_of, tied_to, tolerating, wanted_on
from stowplan.kube.api.decode import convert, decode_json, to_dict
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.node import Node, NodeSpec
from stowplan.kube.api.pod import Pod as SchedulablePod
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.workloads.ownership import Ownership
from stowplan_cluster.controllers.workloads.pod_templates import PodControl, new_pod, subject_of
from stowplan_cluster.controllers.workloads.revisions import REVISION_HASH, RevisionHistory
from stowplan_cluster.reconcile.daemon_sets import (
    Backoff,
    DaemonPod,
    OnNode,
    Plan,
    in_order,
    of_missing_node,
    plan_node,
    plan_update,
)
from stowplan_cluster.reconcile.pods import PODS, Pod, decode_pod, next_availability
from stowplan_cluster.reconcile.views import DAEMON_SETS, DaemonSet, Key

#: Maximum number of pods created, and of pods deleted, per reconcile.
BURST = 50

#: Status fields that are present even if 0.
_KEPT = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


class _Memory(PlainStruct):
    """State of a DaemonSet between reconciles, reset when its spec changes."""

    generation: int
    demands: Demands
    #: By name of the node on which daemon pods fail.
    backoff: dict[str, Backoff] = field(default_factory=dict)


class DaemonSetController:
    def __init__(self, registry: Registry) -> None:
        self.name = "daemonset-controller"
        self.watches = (DAEMON_SETS.storage, PODS, NODES)
        self._client = ControllerClient(registry, "daemonset-controller")
        self._control = PodControl(self._client)
        self._history = RevisionHistory(self._client, hash_label=REVISION_HASH)
        self._pods: Ownership[DaemonSet, Pod] = Ownership(self._client, DAEMON_SETS, PODS, decode_pod)
        self._nodes = Nodes()
        self._memories: dict[Key, _Memory] = {}

    def keys_of(self, event: Event) -> Sequence[Key]:
        if event.stored.resource == NODES:
            return self._pods.owner_keys() if self._nodes.follow(event) else ()
        return self._pods.keys_of(event)

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(DAEMON_SETS.storage, key)
        if stored is None:
            self._memories.pop(key, None)
            return None
        daemon_set = DAEMON_SETS.decode(stored)
        if daemon_set.deleting:
            return None
        pods = self._pods.claim(daemon_set)
        known, revision, collisions = self._history.follow(daemon_set, daemon_set.spec.template)
        hashed = revision.label
        memory = self._memory_of(daemon_set)
        nodes = self._on_nodes(daemon_set, memory.demands, pods, hashed)
        plan = self._plan(daemon_set, memory, nodes)
        try:
            self._carry_out(daemon_set, plan, pods, hashed)
        finally:
            # Update the status even if creates or deletes failed.
            existing = [node for name, node in nodes.items() if name in self._nodes.known]
            self._client.update_status(stored, _status(daemon_set, existing, collisions), kept=_KEPT)
        in_use = {hashed, *(pod.labels.get(REVISION_HASH, "") for pod in pods)}
        self._history.truncate(known, in_use, daemon_set.spec.revision_history_limit)
        waits = [*plan.waits, next_availability(pods, daemon_set.spec.min_ready_seconds, self._client.now)]
        return min((wait for wait in waits if wait is not None), default=None)

    def _memory_of(self, daemon_set: DaemonSet) -> _Memory:
        memory = self._memories.get(daemon_set.key)
        if memory is None or memory.generation != daemon_set.metadata.generation:
            memory = _Memory(daemon_set.metadata.generation, Demands(daemon_set.spec.template))
            self._memories[daemon_set.key] = memory
        memory.demands.forget_others(self._nodes.known)
        return memory

    def _on_nodes(self, daemon_set: DaemonSet, demands: Demands, pods: Sequence[Pod], hashed: str) -> dict[str, OnNode]:
        """Nodes that have a pod or should have one; deleted nodes should have none."""
        seconds, now = daemon_set.spec.min_ready_seconds, self._client.now
        mine: dict[str, list[DaemonPod]] = {}
        for pod in pods:
            node = target_node(pod)
            if node and not (pod.finished and pod.terminating):
                one = DaemonPod(
                    key=_key(pod),
                    updated=pod.labels.get(REVISION_HASH) == hashed,
                    ready=pod.ready,
                    available=pod.available(seconds, now),
                    phase=pod.phase,
                    terminating=pod.terminating,
                    assigned=bool(pod.spec.node_name),
                    created=pod.created,
                )
                mine.setdefault(node, []).append(one)
        found = {}
        known = self._nodes.known
        for name in dict.fromkeys([*known, *mine]):
            should_run, may_stay = demands.on(known[name]) if name in known else (False, False)
            if should_run or name in mine:
                found[name] = OnNode(in_order(mine.get(name, ())), should_run, may_stay)
        return found

    def _plan(self, daemon_set: DaemonSet, memory: _Memory, nodes: Mapping[str, OnNode]) -> Plan:
        plan, strategy = Plan(), daemon_set.spec.update_strategy
        for name, node in nodes.items():
            if name in self._nodes.known:
                plan_node(plan, name, node, strategy, memory.backoff.get(name), self._client.now)
            else:
                plan.delete += of_missing_node(node.pods)
        memory.backoff |= plan.backoffs
        if not plan.create and not plan.delete:
            update = plan_update(strategy, nodes, sum(node.should_run for node in nodes.values()), 0)
            plan.create, plan.delete = update.create, update.delete
        return plan

    def _carry_out(self, daemon_set: DaemonSet, plan: Plan, pods: Sequence[Pod], hashed: str) -> None:
        for event in plan.events:
            self._client.events.record(subject_of(daemon_set), *event)
        for node in plan.create[:BURST]:
            self._control.create(daemon_set, _pod_for(daemon_set, self._memories[daemon_set.key].demands, node, hashed))
        by_key = {_key(pod): pod for pod in pods} if plan.delete else {}
        for key in plan.delete[:BURST]:
            self._control.delete(daemon_set, by_key[key])


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.name}"


def _status(daemon_set: DaemonSet, nodes: Sequence[OnNode], collisions: int) -> JsonObject:
    """The status as observed before the plan was executed."""
    counts = dict.fromkeys((*_KEPT, "updatedNumberScheduled", "numberAvailable"), 0)
    for node in nodes:
        if not node.should_run:
            counts["numberMisscheduled"] += bool(node.pods)
            continue
        counts["desiredNumberScheduled"] += 1
        if node.pods:
            first = node.pods[0]
            counts["currentNumberScheduled"] += 1
            counts["numberReady"] += first.ready
            counts["numberAvailable"] += first.available
            counts["updatedNumberScheduled"] += first.updated
    return {
        "observedGeneration": daemon_set.metadata.generation,
        **counts,
        "numberUnavailable": counts["desiredNumberScheduled"] - counts["numberAvailable"],
        "collisionCount": collisions,
    }


def _pod_for(daemon_set: DaemonSet, demands: Demands, node: str, hashed: str) -> JsonObject:
    pod = new_pod(daemon_set, daemon_set.spec.template)
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), REVISION_HASH: hashed}
    pod["spec"] |= demands.tied_to(node)
    return pod


NODES = "nodes"


class Nodes:
    """All nodes, with name, labels and taints only, updated by events."""

    def __init__(self) -> None:
        self.known: dict[str, Node] = {}

    def follow(self, event: Event) -> bool:
        """Apply an event; return whether it can change a DaemonSet's answer."""
        stored = event.stored
        if event.type == "DELETED":
            return self.known.pop(stored.name, None) is not None
        taints = decode_json(stored.data, Node).spec.taints
        node = Node(metadata=ObjectMeta(name=stored.name, labels=dict(stored.labels)), spec=NodeSpec(taints=taints))
        if self.known.get(stored.name) == node:
            return False
        self.known[stored.name] = node
        return True


class Eligibility(NamedTuple):
    should_run: bool
    #: Whether a running pod may stay.
    may_stay: bool


class Demands:
    """The node requirements of one revision of a DaemonSet's template."""

    def __init__(self, template: JsonObject) -> None:
        self._template = tolerating(convert({"spec": template.get("spec") or {}}, SchedulablePod))
        self._answers: dict[str, tuple[Node, Eligibility]] = {}

    def on(self, node: Node) -> Eligibility:
        name = node.metadata.name
        known = self._answers.get(name)
        if known is not None and known[0] is node:
            return known[1]
        answer = Eligibility(wanted_on(self._template, node), may_stay(self._template, node))
        self._answers[name] = (node, answer)
        return answer

    def forget_others(self, nodes: Mapping[str, Node]) -> None:
        """Drop the answers for deleted nodes."""
        if len(self._answers) > len(nodes):
            self._answers = {name: answer for name, answer in self._answers.items() if name in nodes}

    def tied_to(self, node: str) -> JsonObject:
        """The fields of a pod's spec that restrict it to its node, and keep it there."""
        spec: JsonObject = to_dict(tied_to(self._template, node))["spec"]
        return {"tolerations": spec["tolerations"], "affinity": spec["affinity"]}


def target_node(pod: Pod) -> str:
    """The node that a daemon pod is on or was created for; "" if there is none."""
    return pod.spec.node_name or node_of(pod.spec.affinity)
