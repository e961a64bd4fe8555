"""A controller's client: reads from the store directly, writes through the registry.

Every write carries the resourceVersion it is based on, so concurrent changes are never overwritten: the reconcile fails
with a Conflict and is retried on the new state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stowplan.kube.api.api_errors import NotFound, not_found
from stowplan.kube.api.timestamps import timestamp
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.objects import JsonObject, set_condition
from stowplan_cluster.apiserver.registry import Options, Registry
from stowplan_cluster.apiserver.store import Store, Stored
from stowplan_cluster.controllers.events import FIELD_MANAGER, EventRecorder
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
