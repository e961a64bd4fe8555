"""Namespace deletion: first pods, then all other objects, then the namespace.

All namespaced kinds are deleted, including custom resources. Remaining objects (pods in their grace period, objects
with finalizers) are counted in the namespace's conditions, and checked again every second. A reconcile deletes a
bounded number of objects, so that it does not block for long.

Unlike upstream, the conditions also report remaining content while pods remain; upstream reports it as deleted at that
stage.

Upstream: pkg/controller/namespace/deletion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import ObjectMeta
from stowplan_cluster.apiserver.objects import JsonObject, set_condition
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.pods_by_node import key_of
from stowplan_cluster.reconcile.pods import PODS
from stowplan_cluster.reconcile.views import AnyObject

NAMESPACES = "namespaces"
FINALIZER = "kubernetes"

#: Maximum number of objects deleted per reconcile.
BURST = 200
RECHECK_SECONDS = 1.0

#: An object without any of these need not be decoded.
_DELETION = b'"deletionTimestamp":'
_FINALIZERS = b'"finalizers":'

#: Condition type -> (reason, message) if there is no problem.
_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class _Remains:
    """The objects that remain after one pass of deletions."""

    def __init__(self) -> None:
        self.deletions_left = BURST
        self.resources: Counter[str] = Counter()
        self.finalizers: Counter[str] = Counter()
        self.errors: list[str] = []

    def problems(self) -> dict[str, tuple[str, str]]:
        """Condition type -> (reason, message) of all problems."""
        found = {}
        if self.errors:
            text = (
                f"Failed to delete all resource types, {len(self.errors)} remaining: {', '.join(sorted(self.errors))}"
            )
            found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
        if self.resources:
            counts = sorted(f"{name} has {count} resource instances" for name, count in self.resources.items())
            text = f"Some resources are remaining: {', '.join(counts)}"
            found["NamespaceContentRemaining"] = ("SomeResourcesRemain", text)
        if self.finalizers:
            counts = sorted(f"{name} in {count} resource instances" for name, count in self.finalizers.items())
            text = f"Some content in the namespace has finalizers remaining: {', '.join(counts)}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
        return found


class NamespaceController:
    def __init__(self, registry: Registry) -> None:
        self.name = "namespace-controller"
        self.watches = (NAMESPACES,)
        self._registry = registry
        self._client = ControllerClient(registry, "namespace-controller")

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        return [key_of(event.stored)] if event.type != "DELETED" else ()

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(NAMESPACES, key)
        if stored is None:
            return None
        namespace = stored.to_dict()
        if "deletionTimestamp" not in namespace["metadata"] or FINALIZER not in _finalizers(namespace):
            return None
        remains = self._delete_content(stored.name)
        stored = self._update_conditions(stored, namespace, remains)
        if remains.resources or remains.errors:
            return RECHECK_SECONDS if remains.deletions_left > 0 else 0.0
        namespace = stored.to_dict()
        namespace["spec"]["finalizers"] = [name for name in _finalizers(namespace) if name != FINALIZER]
        self._client.update(stored, namespace, subresource="finalize")
        return None

    def _delete_content(self, namespace: str) -> _Remains:
        remains = _Remains()
        self._delete_all(self._registry.of_storage(PODS), namespace, remains)
        if not remains.resources:
            for resource in self._resources():
                self._delete_all(resource, namespace, remains)
        return remains

    def _resources(self) -> Iterable[Resource]:
        """One namespaced resource per storage."""
        catalogue = self._registry.catalogue
        for resource in list(catalogue):
            deletable = resource.namespaced and "delete" in resource.verbs
            if deletable and catalogue.of_storage(resource.storage) is resource:
                yield resource

    def _delete_all(self, resource: Resource, namespace: str, remains: _Remains) -> None:
        for stored in self._client.store.list(resource.storage, namespace):
            if remains.deletions_left <= 0:
                break
            if _DELETION not in stored.data or _metadata(stored).deletion_timestamp is None:
                remains.deletions_left -= 1
                self._delete(resource, stored, remains)
        left = self._client.store.list(resource.storage, namespace)
        if left:
            remains.resources[f"{resource.plural}.{resource.group}"] += len(left)
        for stored in left:
            if _FINALIZERS in stored.data:
                remains.finalizers.update(_metadata(stored).finalizers)

    def _delete(self, resource: Resource, stored: Stored, remains: _Remains) -> None:
        try:
            self._client.delete(
                resource.storage, stored.namespace, stored.name, uid=stored.uid, propagation="Background"
            )
        except ApiError as error:
            remains.errors.append(str(error))

    def _update_conditions(self, stored: Stored, namespace: JsonObject, remains: _Remains) -> Stored:
        status = namespace.setdefault("status", {})
        problems = remains.problems()
        for type_, fine in _FINE.items():
            reason, message = problems.get(type_, fine)
            truth = "True" if type_ in problems else "False"
            condition = {"type": type_, "status": truth, "reason": reason, "message": message}
            set_condition(status, condition, now=self._client.timestamp)
        return self._client.update_status(stored, status)


def _metadata(stored: Stored) -> ObjectMeta:
    return decode_json(stored.data, AnyObject).metadata


def _finalizers(namespace: JsonObject) -> list[str]:
    return (namespace.get("spec") or {}).get("finalizers") or []
