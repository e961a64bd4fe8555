"""Delete orphaned pods: on missing nodes, or terminating without a node.

Left out: the limit on finished pods, and the out-of-service taint.

Upstream: pkg/controller/podgc.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api.pod import FINISHED
from stowplan_cluster.apiserver.objects import JsonObject, set_condition
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.pods_by_node import NODES, NodeKey, PodsByNode, key_of, node_of
from stowplan_cluster.reconcile.nodes import QUARANTINE_SECONDS
from stowplan_cluster.reconcile.pods import FAILED, PODS

_ORPHANED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}
_BEING_DELETED = b'"deletionTimestamp":'


class PodGCController:
    def __init__(self, registry: Registry) -> None:
        self.name = "pod-garbage-collector-controller"
        self.watches = (NODES, PODS)
        self._client = ControllerClient(registry, "pod-garbage-collector")
        self._pods = PodsByNode()
        #: When each missing node that has pods was first missed.
        self._missing: dict[str, float] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == NODES:
            return [NodeKey(stored.name)] if event.type != "MODIFIED" else ()
        self._pods.follow(event)
        node = node_of(stored)
        if event.type == "DELETED":
            return ()
        if not node:
            return [key_of(stored)] if _BEING_DELETED in stored.data else ()
        came = event.previous is None or not node_of(event.previous)
        return [NodeKey(node)] if came and self._client.store.get(NODES, "", node) is None else ()

    def reconcile(self, key: Any) -> float | None:
        if not isinstance(key, NodeKey):
            self._remove_unscheduled(key)
            return None
        pods = self._pods.on(key.name)
        if not pods or self._client.store.get(NODES, "", key.name) is not None:
            self._missing.pop(key.name, None)
            return None
        left = self._missing.setdefault(key.name, self._client.now) + QUARANTINE_SECONDS - self._client.now
        if left > 0:
            return left
        for pod in pods:
            stored = self._client.find(PODS, pod)
            if stored is not None:
                self._remove(stored, _ORPHANED)
        return None

    def _remove_unscheduled(self, key: Any) -> None:
        stored = self._client.find(PODS, key)
        if stored is None or node_of(stored) or stored.field("status.phase") in FINISHED:
            return
        if "deletionTimestamp" in stored.to_dict()["metadata"]:
            self._remove(stored, None)

    def _remove(self, stored: Stored, condition: JsonObject | None) -> None:
        """Set the pod to Failed, then delete it with grace period 0."""
        if stored.field("status.phase") not in FINISHED:
            pod = stored.to_dict()
            status = pod.setdefault("status", {})
            status["phase"] = FAILED
            generation = status["observedGeneration"] = pod["metadata"].get("generation", 0)
            if condition is not None:
                condition = {**condition, "observedGeneration": generation}
                set_condition(status, condition, now=self._client.timestamp, probed=True)
            self._client.update(stored, pod, subresource="status")
        self._client.delete(PODS, stored.namespace, stored.name, uid=stored.uid, grace=0)
