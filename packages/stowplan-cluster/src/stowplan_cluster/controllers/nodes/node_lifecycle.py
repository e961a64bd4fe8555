"""Detect unhealthy nodes, taint them and mark their pods not ready.

A node is healthy while its lease is renewed or its Ready condition gets new heartbeats. If neither happens for 50
seconds (a minute for a node that never had a status), its conditions become Unknown. Taints follow conditions:
NoSchedule for each problem, also NoExecute if the node is not ready; a cordoned node has a taint of its own. When a
node becomes not ready, its pods do, too.

A lease renewal only records the time: a node is reconciled when it changes and when its grace period would end.

Left out: zones (no rate limit on NoExecute taints, no reduced eviction when a whole zone is down), the events
RegisteredNode and RemovingNode, the beta labels.

Upstream: pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api import taints
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, is_true
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import NORMAL, WARNING
from stowplan_cluster.controllers.kubelet.kubelet_node import LEASE_NAMESPACE, LEASES
from stowplan_cluster.controllers.pods_by_node import NODES, NodeKey, PodsByNode
from stowplan_cluster.reconcile.pods import PODS

MONITOR_GRACE_SECONDS = 50.0
STARTUP_GRACE_SECONDS = 60.0

#: (condition, status) -> taint key.
_TAINTS = {
    ("Ready", "False"): taints.NOT_READY,
    ("Ready", "Unknown"): taints.UNREACHABLE,
    ("MemoryPressure", "True"): taints.MEMORY_PRESSURE,
    ("DiskPressure", "True"): taints.DISK_PRESSURE,
    ("PIDPressure", "True"): taints.PID_PRESSURE,
    ("NetworkUnavailable", "True"): taints.NETWORK_UNAVAILABLE,
}
_OWN_NO_SCHEDULE = frozenset({*_TAINTS.values(), taints.UNSCHEDULABLE})
_OWN_NO_EXECUTE = frozenset({taints.NOT_READY, taints.UNREACHABLE})
_MONITORED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


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
        if heartbeat != health.heartbeat and (ready or {}).get("status") != "Unknown":
            health.heartbeat, health.probed = heartbeat, self._client.now
        grace = MONITOR_GRACE_SECONDS if ready is not None else STARTUP_GRACE_SECONDS
        return health.probed + grace - self._client.now

    def _set_unknown(self, node: JsonObject) -> bool:
        """Set the conditions to Unknown; return whether that changed anything."""
        status = node.setdefault("status", {})
        conditions = status.setdefault("conditions", [])
        ready = condition_of(status, "Ready")
        if ready is not None and ready.get("status") == "Unknown":
            return False
        now = self._client.timestamp
        for type_ in _MONITORED:
            known = condition_of(status, type_)
            if known is None:
                created = node["metadata"]["creationTimestamp"]
                reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
                known = {"type": type_, "status": "", "lastHeartbeatTime": created}
                conditions.append(known)
            else:
                reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            if known["status"] != "Unknown":
                known.update(status="Unknown", reason=reason, message=message, lastTransitionTime=now)
        return True

    def _set_taints(self, stored: Stored, node: JsonObject) -> None:
        spec = node.setdefault("spec", {})
        have = spec.get("taints") or []
        wanted = _wanted_taints(node)
        kept = [taint for taint in have if not _is_own(taint) or (taint["key"], taint["effect"]) in wanted]
        there = {(taint["key"], taint["effect"]) for taint in kept}
        now = self._client.timestamp
        added = [
            {"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted if (key, effect) not in there
        ]
        if added or len(kept) < len(have):
            spec["taints"] = [*kept, *added]
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


def _is_own(taint: JsonObject) -> bool:
    keys = {taints.NO_SCHEDULE: _OWN_NO_SCHEDULE, taints.NO_EXECUTE: _OWN_NO_EXECUTE}
    return taint.get("key") in keys.get(taint.get("effect", ""), ())


def _wanted_taints(node: JsonObject) -> list[tuple[str, str]]:
    """The (key, effect) of all taints that this controller should set."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    keys = [_TAINTS.get((condition.get("type"), condition.get("status"))) for condition in conditions]
    wanted = [(key, taints.NO_SCHEDULE) for key in keys if key is not None]
    if node["spec"].get("unschedulable"):
        wanted.append((taints.UNSCHEDULABLE, taints.NO_SCHEDULE))
    return [*wanted, *((key, taints.NO_EXECUTE) for key, _ in wanted if key in _OWN_NO_EXECUTE)]
