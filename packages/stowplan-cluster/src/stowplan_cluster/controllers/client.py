"""A controller's client: reads from the store directly, writes through the registry, records Events.

Every write carries the resourceVersion it is based on, so concurrent changes are never overwritten: the reconcile fails
with a Conflict and is retried on the new state.

Events are what `kubectl describe` shows of an object. A repeated one increments the count of the first. As in
upstream's recorder, a source may record 25 events per object and then one more every five minutes; the rest is dropped,
so scaling to 10,000 pods does not leave 10,000 events. Left out: aggregation of events that differ only in their
message.

Upstream: k8s.io/client-go/tools/record.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

from stowplan.kube.api.api_errors import ApiError, NotFound, not_found
from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.reconcile_events import NORMAL, WARNING
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.objects import JsonObject, set_condition
from stowplan_cluster.apiserver.registry import Options, Registry
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.store import Store, Stored
from stowplan_cluster.reconcile.views import Key


class ControllerClient:
    def __init__(self, registry: Registry, component: str) -> None:
        self.store: Store = registry.store
        self.events = EventRecorder(registry, component)
        self._registry = registry

    @property
    def now(self) -> float:
        return self._registry.clock()

    @property
    def timestamp(self) -> str:
        return timestamp(self.now)

    def find(self, storage: str, key: Key) -> Stored | None:
        """The object; None if it was deleted or recreated."""
        stored = self.store.get(storage, key.namespace, key.name)
        return stored if stored is not None and stored.uid == key.uid else None

    def fetch(self, storage: str, key: Key) -> Stored:
        """The object; raise NotFound if it was deleted or recreated."""
        stored = self.find(storage, key)
        if stored is None:
            resource = self._registry.of_storage(storage)
            raise not_found(resource.plural, resource.group, key.name)
        return stored

    def create(self, storage: str, obj: JsonObject) -> Stored:
        namespace = obj["metadata"].get("namespace", "")
        return self._registry.create(self._registry.of_storage(storage), namespace, obj, options=_options())

    def update(self, stored: Stored, obj: JsonObject, *, subresource: str = "") -> Stored:
        """Update the object."""
        resource = self._registry.of_storage(stored.resource)
        return self._registry.update(
            resource, stored.namespace, stored.name, obj, subresource=subresource, options=_options()
        )

    def update_status(
        self,
        stored: Stored,
        status: JsonObject,
        *,
        kept: Collection[str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Stored:
        """Update the status, and annotations if the kind's status endpoint accepts them; no-op if nothing changes.

        `kept`: the only fields that stay if they are 0 or empty; None: all.
        """
        if kept is not None:
            status = {name: value for name, value in status.items() if value or name in kept}
        obj = stored.to_dict()
        present = obj["metadata"].get("annotations") or {}
        added = annotations or {}
        if obj.get("status") == status and added.items() <= present.items():
            return stored
        obj["status"] = status
        if added:
            obj["metadata"]["annotations"] = {**present, **added}
        return self.update(stored, obj, subresource="status")

    def evict(self, stored: Stored, *, reason: str, message: str) -> None:
        """Delete a pod after recording why in its DisruptionTarget condition; budgets are not asked."""
        pod = stored.to_dict()
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "observedGeneration": pod["metadata"].get("generation", 0),
        }
        if set_condition(pod.setdefault("status", {}), condition, now=self.timestamp, probed=True):
            self.update(stored, pod, subresource="status")
        self.delete(stored.resource, stored.namespace, stored.name, uid=stored.uid)

    def delete(
        self, storage: str, namespace: str, name: str, *, uid: str, grace: int | None = None, propagation: str = ""
    ) -> bool:
        """Delete the object with this uid; False if it is already gone."""
        options = DeleteOptions(uid=uid, grace_period_seconds=grace, propagation=propagation)
        try:
            self._registry.delete(self._registry.of_storage(storage), namespace, name, options=options)
        except NotFound:
            return False
        return True

    def remove_finalizer(self, stored: Stored, finalizer: str) -> None:
        """No-op if it is not there."""
        obj = stored.to_dict()
        finalizers = obj["metadata"].get("finalizers") or ()
        if finalizer in finalizers:
            obj["metadata"]["finalizers"] = [one for one in finalizers if one != finalizer]
            self.update(stored, obj)


def _options() -> Options:
    return Options(field_manager=FIELD_MANAGER, field_validation="Ignore")


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
