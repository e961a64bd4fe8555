"""DaemonSets: one pod per eligible node.

Each pod is created for a node by a required affinity to the node's name; the scheduler binds it. A rolling update
deletes old pods while at most maxUnavailable nodes lack an available pod, or, with maxSurge, creates the new pod next
to the old one first.

A reconcile iterates over all nodes, but answers per node are cached (`daemon_nodes.py`), and heartbeats do not trigger
it.

Left out: the deprecated template generation.

Upstream: pkg/controller/daemon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import field

from stowplan.kube.api.whole_numbers import share
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import NORMAL, WARNING
from stowplan_cluster.controllers.workloads.daemon_nodes import (
    NODES,
    Demands,
    Nodes,
    target_node,
)
from stowplan_cluster.controllers.workloads.ownership import Ownership, owner_reference
from stowplan_cluster.controllers.workloads.pod_templates import (
    PodControl,
    generate_name_of,
    pod_from_template,
    subject_of,
)
from stowplan_cluster.controllers.workloads.revisions import REVISION_HASH, RevisionHistory
from stowplan_cluster.reconcile.pods import FAILED, PODS, SUCCEEDED, Pod, decode_pod, next_availability
from stowplan_cluster.reconcile.views import DAEMON_SETS, DaemonSet, Key

#: Maximum number of pods created, and of pods deleted, per reconcile.
BURST = 50

#: Delay before a failed pod is replaced; doubles up to the limit.
FAILED_POD_BACKOFF_SECONDS = 1.0
FAILED_POD_BACKOFF_LIMIT_SECONDS = 900.0

#: Status fields that are present even if 0.
_KEPT = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


class _Backoff(PlainStruct):
    delay: float
    since: float


class _Memory(PlainStruct):
    """State of a DaemonSet between reconciles, reset when its spec changes."""

    generation: int
    demands: Demands
    #: By name of the node on which daemon pods fail.
    backoff: dict[str, _Backoff] = field(default_factory=dict)


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
        known = self._history.of(daemon_set)
        revision, collisions = self._history.update(
            daemon_set, daemon_set.spec.template, known, collisions=daemon_set.status.get("collisionCount", 0)
        )
        hashed = revision.metadata.labels.get(REVISION_HASH, "")
        rollout = _Rollout(daemon_set, pods, hashed, self._nodes, self._memory_of(daemon_set), self._client.now)
        plan = rollout.plan()
        try:
            self._carry_out(daemon_set, plan, hashed)
        finally:
            # Update the status even if creates or deletes failed.
            self._client.update_status(stored, rollout.status(collisions))
        in_use = {hashed, *(pod.labels.get(REVISION_HASH, "") for pod in pods)}
        limit = daemon_set.spec.revision_history_limit
        self._history.truncate(
            known, live=lambda one: one.metadata.labels.get(REVISION_HASH, "") in in_use, limit=limit
        )
        waits = [*plan.waits, next_availability(pods, daemon_set.spec.min_ready_seconds, self._client.now)]
        return min((wait for wait in waits if wait is not None), default=None)

    def _memory_of(self, daemon_set: DaemonSet) -> _Memory:
        memory = self._memories.get(daemon_set.key)
        if memory is None or memory.generation != daemon_set.metadata.generation:
            memory = _Memory(daemon_set.metadata.generation, Demands(daemon_set.spec.template))
            self._memories[daemon_set.key] = memory
        memory.demands.forget_others(self._nodes.known)
        return memory

    def _carry_out(self, daemon_set: DaemonSet, plan: _Plan, hashed: str) -> None:
        for event_type, reason, message in plan.events:
            self._client.events.record(subject_of(daemon_set), event_type, reason, message)
        for node in plan.create[:BURST]:
            self._control.create(daemon_set, _pod_for(daemon_set, self._memories[daemon_set.key].demands, node, hashed))
        for pod in plan.delete[:BURST]:
            self._control.delete(daemon_set, pod)


class _Plan(PlainStruct):
    #: Names of nodes.
    create: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    #: (type, reason, message)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    #: Seconds until the next reconcile.
    waits: list[float] = field(default_factory=list)


class _Rollout:
    """One reconcile of a DaemonSet's pods on all nodes."""

    def __init__(
        self, daemon_set: DaemonSet, pods: Sequence[Pod], hashed: str, nodes: Nodes, memory: _Memory, now: float
    ) -> None:
        self._set = daemon_set
        self._hash = hashed
        self._nodes = nodes
        self._memory = memory
        self._now = now
        self._plan = _Plan()
        self._pods: dict[str, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: (not pod.spec.node_name, pod.created, pod.name)):
            node = target_node(pod)
            if node and not (pod.finished and pod.terminating):
                self._pods.setdefault(node, []).append(pod)

    def plan(self) -> _Plan:
        for name, node in self._nodes.known.items():
            should_run, may_stay = self._memory.demands.on(node)
            self._plan_node(name, should_run, may_stay)
        for name in self._pods.keys() - self._nodes.known.keys():
            # Unscheduled pods of deleted nodes, which no scheduler can place; scheduled ones are deleted with their
            # node.
            self._plan.delete += [one for one in self._pods[name] if not one.spec.node_name and not one.terminating]
        settled = not self._plan.create and not self._plan.delete
        if settled and self._set.spec.update_strategy.type == "RollingUpdate":
            self._plan_update()
        return self._plan

    def _plan_node(self, name: str, should_run: bool, may_stay: bool) -> None:
        pods = self._pods.get(name)
        if should_run and not pods:
            self._plan.create.append(name)
        elif pods and not may_stay:
            self._plan.delete += [pod for pod in pods if not pod.terminating]
        elif pods:
            running = [pod for pod in pods if not pod.terminating and not self._is_over(name, pod)]
            if self._surges:
                self._plan_surging_node(name, should_run, running)
            else:
                self._plan.delete += running[1:]

    def _is_over(self, node: str, pod: Pod) -> bool:
        """Whether the pod has ended; plans its deletion, for failed pods after a backoff."""
        where = f"daemon pod {pod.metadata.namespace}/{pod.name} on node {node}"
        if pod.phase == SUCCEEDED:
            message = f"Found succeeded {where}, will try to delete it"
            self._plan.events.append((NORMAL, "SucceededDaemonPod", message))
            self._plan.delete.append(pod)
        elif pod.phase == FAILED and self._may_replace_failed(node):
            self._plan.events.append((WARNING, "FailedDaemonPod", f"Found failed {where}, will try to kill it"))
            self._plan.delete.append(pod)
        return pod.finished

    def _may_replace_failed(self, node: str) -> bool:
        backoff = self._memory.backoff.get(node)
        if backoff is None or self._now - backoff.since > 2 * FAILED_POD_BACKOFF_LIMIT_SECONDS:
            self._memory.backoff[node] = _Backoff(FAILED_POD_BACKOFF_SECONDS, self._now)
            return True
        left = backoff.since + backoff.delay - self._now
        if left > 0:
            self._plan.waits.append(left)
            return False
        delay = min(2 * backoff.delay, FAILED_POD_BACKOFF_LIMIT_SECONDS)
        self._memory.backoff[node] = _Backoff(delay, self._now)
        return True

    def _plan_surging_node(self, name: str, should_run: bool, running: Sequence[Pod]) -> None:
        """Keep at most one old and one new pod; delete the old one when the new one is available."""
        if not running and should_run:
            self._plan.create.append(name)
        old = [pod for pod in running if not self._is_updated(pod)]
        new = [pod for pod in running if self._is_updated(pod)]
        self._plan.delete += [*old[1:], *new[1:]]
        if old and new and (not old[0].ready or self._available(new[0])):
            self._plan.delete.append(old[0])

    # Updates

    def _plan_update(self) -> None:
        desired = [name for name, node in self._nodes.known.items() if self._memory.demands.on(node).should_run]
        rolling = self._set.spec.update_strategy.rolling_update
        surge = share(rolling.max_surge, len(desired), round_up=True)
        unavailable = share(rolling.max_unavailable, len(desired), round_up=True)
        if surge:
            self._plan_surge(surge, frozenset(desired))
        else:
            self._plan_replacement(max(unavailable, 1), desired)

    def _plan_replacement(self, max_unavailable: int, desired: Sequence[str]) -> None:
        missing = 0
        candidates: list[Pod] = []
        for name in dict.fromkeys([*desired, *self._pods]):
            new, old = self._new_and_old(name)
            if new is not None:
                missing += not self._available(new)
            elif old is None:
                missing += 1
            elif not self._available(old):
                missing += 1
                self._plan.delete.append(old)
            else:
                candidates.append(old)
        self._plan.delete += candidates[: max(0, max_unavailable - missing)]

    def _plan_surge(self, max_surge: int, desired: frozenset[str]) -> None:
        surging = 0
        candidates: list[str] = []
        for name in self._pods:
            new, old = self._new_and_old(name)
            if old is None or name not in desired:
                continue
            if new is not None:
                surging += not self._available(new)
            elif self._available(old):
                candidates.append(name)
            else:
                self._plan.create.append(name)
        self._plan.create += candidates[: max(0, max_surge - surging)]

    def _new_and_old(self, node: str) -> tuple[Pod | None, Pod | None]:
        pods = [pod for pod in self._pods.get(node, ()) if not pod.terminating]
        new = next((pod for pod in pods if self._is_updated(pod)), None)
        old = next((pod for pod in pods if not self._is_updated(pod)), None)
        return new, old

    @property
    def _surges(self) -> bool:
        strategy = self._set.spec.update_strategy
        return strategy.type == "RollingUpdate" and share(strategy.rolling_update.max_surge, 1, round_up=True) > 0

    def _is_updated(self, pod: Pod) -> bool:
        return pod.labels.get(REVISION_HASH) == self._hash

    def _available(self, pod: Pod) -> bool:
        return pod.available(self._set.spec.min_ready_seconds, self._now)

    def status(self, collisions: int) -> JsonObject:
        """The status as observed before the plan was executed."""
        counts = dict.fromkeys((*_KEPT, "updatedNumberScheduled", "numberAvailable"), 0)
        for name, node in self._nodes.known.items():
            pods = self._pods.get(name)
            if not self._memory.demands.on(node).should_run:
                counts["numberMisscheduled"] += bool(pods)
                continue
            counts["desiredNumberScheduled"] += 1
            if pods:
                counts["currentNumberScheduled"] += 1
                counts["numberReady"] += pods[0].ready
                counts["numberAvailable"] += self._available(pods[0])
                counts["updatedNumberScheduled"] += self._is_updated(pods[0])
        status = {
            "observedGeneration": self._set.metadata.generation,
            **counts,
            "numberUnavailable": counts["desiredNumberScheduled"] - counts["numberAvailable"],
            "collisionCount": collisions,
        }
        return {name: value for name, value in status.items() if value or name in _KEPT}


def _pod_for(daemon_set: DaemonSet, demands: Demands, node: str, hashed: str) -> JsonObject:
    pod = pod_from_template(
        daemon_set.spec.template,
        namespace=daemon_set.metadata.namespace,
        owner=owner_reference(daemon_set),
        generate_name=generate_name_of(daemon_set.metadata.name),
    )
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), REVISION_HASH: hashed}
    pod["spec"] |= demands.tied_to(node)
    return pod
