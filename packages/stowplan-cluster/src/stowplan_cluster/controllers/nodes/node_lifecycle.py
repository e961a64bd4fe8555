"""Detect unhealthy nodes, taint them, mark their pods not ready, and evict those that do not tolerate the taints.

Signs of life are renewals of the node's lease and new heartbeats of its Ready condition. A lease renewal only records
the time: a node is reconciled when it changes and when its grace period would end. When a node becomes not ready, its
pods do, too.

Left out: what `reconcile.nodes` leaves out, the events RegisteredNode and RemovingNode, the beta labels.

A pod that does not tolerate a NoExecute taint of its node is deleted at once. If it tolerates all, some only for
tolerationSeconds, it is deleted when the shortest of these times is over. Neither further taints nor fewer change this
time, unless there is one that the pod does not tolerate, or none that it tolerates for a time only.

Upstream: pkg/controller/nodelifecycle, pkg/controller/tainteviction.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.decode import convert, decode_json, to_dict
from stowplan.kube.api.node import Node
from stowplan.kube.api.taints import NO_EXECUTE, eviction_due
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, is_true
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import NORMAL, WARNING, ControllerClient
from stowplan_cluster.controllers.kubelet.kubelet_node import LEASE_NAMESPACE, LEASES
from stowplan_cluster.controllers.pods_by_node import NODES, NodeKey, PodsByNode, key_of, node_of
from stowplan_cluster.reconcile.nodes import MONITORED, UNKNOWN, unhealthy_at, with_taints
from stowplan_cluster.reconcile.pods import PODS, decode_pod
from stowplan_cluster.reconcile.views import Key


class _Health:
    """The last observation of a node."""

    __slots__ = ("heartbeat", "probed", "ready")

    def __init__(self, now: float) -> None:
        #: Time of the last sign of life.
        self.probed = now
        self.heartbeat: object = None
        #: Whether the node was ready; None before the first reconcile.
        self.ready: bool | None = None


class NodeLifecycleController:
    def __init__(self, registry: Registry) -> None:
        self.name = "node-lifecycle-controller"
        self.watches = (NODES, LEASES, PODS)
        self._client = ControllerClient(registry, "node-controller")
        self._pods = PodsByNode()
        self._health: dict[str, _Health] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == PODS:
            self._pods.follow(event)
            return ()
        if stored.resource == LEASES:
            return self._follow_lease(event)
        if event.type == "DELETED":
            self._health.pop(stored.name, None)
            return ()
        if stored.name not in self._health:
            self._health[stored.name] = _Health(self._client.now)
        return [NodeKey(stored.name)]

    def _follow_lease(self, event: Event) -> Sequence[Hashable]:
        health = self._health.get(event.stored.name)
        if event.stored.namespace == LEASE_NAMESPACE and event.type != "DELETED" and health is not None:
            health.probed = self._client.now
        return ()

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.store.get(NODES, "", key.name)
        if stored is None:
            return None
        health = self._health[key.name]
        node = stored.to_dict()
        left = self._seconds_left(node, health)
        if left <= 0 and self._set_unknown(node):
            stored = self._client.update(stored, node, subresource="status")
            node = stored.to_dict()
        self._set_taints(stored, node)
        self._follow_readiness(node, health)
        return left if left > 0 else None

    def _seconds_left(self, node: JsonObject, health: _Health) -> float:
        """Seconds until the node counts as unhealthy."""
        ready = condition_of(node.get("status") or {}, "Ready")
        heartbeat = ready.get("lastHeartbeatTime") if ready is not None else None
        if heartbeat != health.heartbeat and (ready or {}).get("status") != UNKNOWN:
            health.heartbeat, health.probed = heartbeat, self._client.now
        return unhealthy_at(health.probed, has_status=ready is not None) - self._client.now

    def _set_unknown(self, node: JsonObject) -> bool:
        """Set the conditions to Unknown; return whether that changed anything."""
        status = node.setdefault("status", {})
        conditions = status.setdefault("conditions", [])
        ready = condition_of(status, "Ready")
        if ready is not None and ready.get("status") == UNKNOWN:
            return False
        now = self._client.timestamp
        for type_ in MONITORED:
            known = condition_of(status, type_)
            if known is None:
                created = node["metadata"]["creationTimestamp"]
                reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
                known = {"type": type_, "status": "", "lastHeartbeatTime": created}
                conditions.append(known)
            else:
                reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            if known["status"] != UNKNOWN:
                known.update(status=UNKNOWN, reason=reason, message=message, lastTransitionTime=now)
        return True

    def _set_taints(self, stored: Stored, node: JsonObject) -> None:
        typed = convert(node, Node)
        have = typed.spec.taints
        wanted = with_taints(
            have, typed.status.conditions, unschedulable=typed.spec.unschedulable, now=self._client.timestamp
        )
        if wanted != have:
            node.setdefault("spec", {})["taints"] = [to_dict(taint) for taint in wanted]
            self._client.update(stored, node)

    def _follow_readiness(self, node: JsonObject, health: _Health) -> None:
        ready = is_true(node.get("status") or {}, "Ready")
        before, health.ready = health.ready, ready
        if ready or before is False or condition_of(node.get("status") or {}, "Ready") is None:
            return
        name = node["metadata"]["name"]
        if before:
            self._client.events.record(node, NORMAL, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        for key in self._pods.on(name):
            pod = self._client.find(PODS, key)
            if pod is not None:
                self._set_not_ready(pod)

    def _set_not_ready(self, stored: Stored) -> None:
        pod = stored.to_dict()
        condition = condition_of(pod.get("status") or {}, "Ready")
        if condition is None or condition.get("status") == "False":
            return
        condition.update(status="False", lastTransitionTime=self._client.timestamp)
        self._client.update(stored, pod, subresource="status")
        self._client.events.record(pod, WARNING, "NodeNotReady", "Node is not ready")


_REASON = "TaintManagerEviction"


class TaintEvictionController:
    def __init__(self, registry: Registry) -> None:
        self.name = "taint-eviction-controller"
        self.watches = (NODES, PODS)
        self._client = ControllerClient(registry, "taint-eviction-controller")
        self._pods = PodsByNode()
        #: Node -> NoExecute taints, if any.
        self._taints: dict[str, tuple[Taint, ...]] = {}
        #: When pods are to be evicted.
        self._due: dict[Key, float] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        if event.stored.resource == NODES:
            return self._follow_node(event)
        self._pods.follow(event)
        key, node = key_of(event.stored), node_of(event.stored)
        if event.type == "DELETED":
            self._due.pop(key, None)
            return ()
        return [key] if node in self._taints else ()

    def _follow_node(self, event: Event) -> Sequence[Hashable]:
        name = event.stored.name
        before = self._taints.pop(name, ())
        if event.type == "DELETED":
            return ()
        node = decode_json(event.stored.data, Node)
        taints = tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)
        if taints:
            self._taints[name] = taints
        return self._pods.on(name) if taints != before else ()

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(PODS, key)
        if stored is None:
            return None
        pod = decode_pod(stored)
        scheduled, now = self._due.pop(key, None), self._client.now
        if pod.metadata.deletion_timestamp is not None:
            return None
        taints = self._taints.get(node_of(stored), ())
        due = eviction_due(taints, pod.spec.tolerations, scheduled=scheduled, now=now)
        if due is None:
            if scheduled is not None:
                self._record(stored, f"Cancelling deletion of Pod {key}")
            return None
        self._due[key] = due
        if due > now:
            return due - now
        self._evict(stored)
        return None

    def _evict(self, stored: Stored) -> None:
        key = key_of(stored)
        self._record(stored, f"Marking for deletion Pod {key}")
        message = "Taint manager: deleting due to NoExecute taint"
        self._client.evict(stored, reason="DeletionByTaintManager", message=message)

    def _record(self, stored: Stored, message: str) -> None:
        self._client.events.record(stored.to_dict(), NORMAL, _REASON, message)
