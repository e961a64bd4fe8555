"""Detect unhealthy nodes, taint them and mark their pods not ready.

Signs of life are renewals of the node's lease and new heartbeats of its Ready condition. A lease renewal only records
the time: a node is reconciled when it changes and when its grace period would end. When a node becomes not ready, its
pods do, too.

Left out: what `reconcile.nodes` leaves out, the events RegisteredNode and RemovingNode, the beta labels.

Upstream: pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api.decode import convert, to_dict
from stowplan.kube.api.node import Node
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, is_true
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import NORMAL, WARNING
from stowplan_cluster.controllers.kubelet.kubelet_node import LEASE_NAMESPACE, LEASES
from stowplan_cluster.controllers.pods_by_node import NODES, NodeKey, PodsByNode
from stowplan_cluster.reconcile.nodes import MONITORED, UNKNOWN, unhealthy_at, with_taints
from stowplan_cluster.reconcile.pods import PODS


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
