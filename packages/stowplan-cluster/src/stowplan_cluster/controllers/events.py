"""Record Events on the objects that controllers act on, as `kubectl describe` shows them.

A repeated event increments the count of the first one. As in upstream's recorder, a source may record 25 events per
object and then one more every five minutes; the rest is dropped, so scaling to 10,000 pods does not leave 10,000
events.

Left out: aggregation of events that differ only in their message.

Upstream: k8s.io/client-go/tools/record.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

from stowplan.kube.api.api_errors import ApiError, NotFound
from stowplan.kube.api.reconcile_events import NORMAL, WARNING
from stowplan.kube.api.timestamps import timestamp
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Options, Registry
from stowplan_cluster.apiserver.resources import Resource

__all__ = ["FIELD_MANAGER", "NORMAL", "WARNING", "EventRecorder"]

#: The field manager of all controllers.
FIELD_MANAGER = "kube-controller-manager"

BURST = 25
REFILL_SECONDS = 300.0
#: Maximum number of objects, and of events, that a recorder remembers.
REMEMBERED = 4096

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class _Allowance(PlainStruct):
    tokens: float
    since: float


class _Recorded(PlainStruct):
    namespace: str
    name: str
    count: int = 1


class EventRecorder:
    """Records events for one component."""

    def __init__(self, registry: Registry, component: str) -> None:
        self._registry = registry
        self._component = component
        self._events = self._resource()
        self._allowances: OrderedDict[str, _Allowance] = OrderedDict()
        self._recorded: OrderedDict[tuple[str, str, str, str], _Recorded] = OrderedDict()

    def record(self, obj: JsonObject, event_type: str, reason: str, message: str) -> None:
        """Record an event about a stored object (by apiVersion, kind and uid)."""
        uid = obj["metadata"]["uid"]
        recorded = self._recorded.get((uid, event_type, reason, message))
        if not self._allowed(f"{uid}/{event_type}"):
            return
        try:
            if recorded is not None and self._count(recorded):
                return
            name, namespace = self._create(obj, event_type, reason, message)
        except ApiError:
            # Parity: a rejected event (of a terminating namespace, for instance) is dropped.
            return
        _remember(self._recorded, (uid, event_type, reason, message), _Recorded(namespace, name))

    def _resource(self) -> Resource:
        resource = self._registry.catalogue.find("", "v1", "events")
        if resource is None:
            raise LookupError("the catalogue has no events")
        return resource

    def _allowed(self, key: str) -> bool:
        now = self._registry.clock()
        allowance = self._allowances.get(key) or _Allowance(BURST, now)
        _remember(self._allowances, key, allowance)
        allowance.tokens = min(BURST, allowance.tokens + (now - allowance.since) / REFILL_SECONDS)
        allowance.since = now
        if allowance.tokens < 1:
            return False
        allowance.tokens -= 1
        return True

    def _count(self, recorded: _Recorded) -> bool:
        patch = {"count": recorded.count + 1, "lastTimestamp": timestamp(self._registry.clock())}
        try:
            self._registry.patch(
                self._events,
                recorded.namespace,
                recorded.name,
                patch,
                kind="merge",
                options=Options(field_manager=FIELD_MANAGER),
            )
        except NotFound:
            return False
        recorded.count += 1
        return True

    def _create(self, obj: JsonObject, event_type: str, reason: str, message: str) -> tuple[str, str]:
        metadata = obj["metadata"]
        now = self._registry.clock()
        # The store's version makes the names of simultaneous events unique.
        name = f"{metadata['name']}.{int(now * 1e9) + self._registry.store.version:x}"
        namespace = metadata.get("namespace") or "default"
        regarded = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if "namespace" in metadata:
            regarded["namespace"] = metadata["namespace"]
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": regarded,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
            "type": event_type,
        }
        self._registry.create(self._events, namespace, event, options=Options(field_manager=FIELD_MANAGER))
        return name, namespace


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    """Keep the newest entries only."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)
