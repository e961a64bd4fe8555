"""Evict pods that do not tolerate a NoExecute taint.

A pod that does not tolerate a taint of its node is deleted at once. If it tolerates all taints, some only for
tolerationSeconds, it is deleted when the shortest of these times is over. Neither further taints nor fewer change this
time, unless there is one that the pod does not tolerate, or none that it tolerates for a time only.

Upstream: pkg/controller/tainteviction.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.node import Node
from stowplan.kube.api.taints import NO_EXECUTE, eviction_due
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import NORMAL
from stowplan_cluster.controllers.pods_by_node import NODES, PodsByNode, key_of, node_of
from stowplan_cluster.reconcile.pods import PODS, decode_pod
from stowplan_cluster.reconcile.views import Key

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
