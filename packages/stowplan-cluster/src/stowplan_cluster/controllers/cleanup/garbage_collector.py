"""Delete dependents of deleted objects, by the requested propagation policy.

Background (the default): an object is deleted once all its owners are gone. Foreground: an owner that is being deleted
stays until its blocking dependents are gone. Orphan: dependents are kept, and the owner reference is removed. Owners
are identified by uid, not by name. If some owners are gone and others are not, the references to the former are
removed.

The store indexes dependents by owner uid, so the cost of a change is proportional to the objects it concerns.

Left out: a dependent whose owner is of a kind that is not served is kept, without a retry; a cluster-scoped object with
a namespaced owner is kept, without upstream's event.

Upstream: pkg/controller/garbagecollector.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import ObjectMeta, OwnerReference
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.deletion import FOREGROUND, ORPHAN, DeleteOptions
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.loop import EVERYTHING
from stowplan_cluster.reconcile.views import AnyObject

#: Events have no owners, and there are many of them.
_IGNORED = ("events",)
_MARKS = (f'"{ORPHAN}"'.encode(), f'"{FOREGROUND}"'.encode())
_BEING_DELETED = b'"deletionTimestamp":'
_BLOCKING = b'"blockOwnerDeletion":true'


class ObjectKey(NamedTuple):
    storage: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return "/".join(part for part in self[:3] if part)


class _Waiting(PlainStruct):
    key: ObjectKey
    #: uids of the dependents that it waits for.
    blocking: set[str]


class GarbageCollector:
    def __init__(self, registry: Registry) -> None:
        self.name = "garbage-collector-controller"
        self.watches = (EVERYTHING,)
        self._registry = registry
        self._client = ControllerClient(registry, "garbage-collector")
        #: Owners that wait for their dependents, by uid.
        self._waiting: dict[str, _Waiting] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        return () if event.stored.resource in _IGNORED else self._concerned(event)

    def reconcile(self, key: Any) -> None:
        self._look_at(key)

    # Events

    def _concerned(self, event: Event) -> list[ObjectKey]:
        stored = event.stored
        before = event.previous.owners if event.previous is not None else ()
        keys = self._no_longer_awaited(event)
        if event.type == "DELETED":
            self._waiting.pop(stored.uid, None)
            return [*keys, *(_key_of(one) for one in self._client.store.dependents(stored.uid))]
        has_new_owners = bool(stored.owners) and stored.owners != before
        if has_new_owners or _is_marked(stored):
            keys.append(_key_of(stored))
        return keys

    def _no_longer_awaited(self, event: Event) -> list[ObjectKey]:
        """The owners whose last blocking dependent is gone with this change."""
        if event.previous is None or not self._waiting:
            return []
        kept = event.stored.owners if event.type != "DELETED" and _BLOCKING in event.stored.data else ()
        keys = []
        for uid in event.previous.owners:
            waiting = self._waiting.get(uid)
            if waiting is not None and uid not in kept:
                waiting.blocking.discard(event.stored.uid)
                if not waiting.blocking:
                    keys.append(waiting.key)
        return keys

    # Reconciling

    def _look_at(self, key: ObjectKey) -> None:
        stored = self._client.store.get(key.storage, key.namespace, key.name)
        if stored is None or stored.uid != key.uid:
            return
        metadata = decode_json(stored.data, AnyObject).metadata
        if metadata.deletion_timestamp is None:
            self._collect(stored, metadata)
        elif ORPHAN in metadata.finalizers:
            self._orphan_dependents(stored)
        elif FOREGROUND in metadata.finalizers:
            self._delete_dependents(stored)

    def _collect(self, stored: Stored, metadata: ObjectMeta) -> None:
        """Delete an object that has lost its owners."""
        if not metadata.owner_references:
            return
        solid, dangling, waiting = self._classify(stored, metadata.owner_references)
        if solid:
            # Remove waiting owners, too: they would wait forever for an object that stays.
            self._strike(stored, {*dangling, *waiting})
        elif waiting and (dependents := self._client.store.dependents(stored.uid)):
            if any(_waits_for_dependents(decode_json(one.data, AnyObject).metadata) for one in dependents):
                # Break cycles: their objects would wait for each other.
                stored = self._unblock(stored)
            self._delete(stored, "Foreground")
        else:
            self._delete(stored, _propagation_of(metadata.finalizers))

    def _classify(self, stored: Stored, references: Iterable[OwnerReference]) -> tuple[list[str], list[str], list[str]]:
        """uids of the owners that exist, that are gone, and that wait for their dependents."""
        solid, dangling, waiting = [], [], []
        for reference in references:
            resource = self._registry.catalogue.of_kind(reference.api_version, reference.kind)
            if resource is None or (resource.namespaced and not stored.namespace):
                solid.append(reference.uid)
                continue
            namespace = stored.namespace if resource.namespaced else ""
            owner = self._client.store.get(resource.storage, namespace, reference.name)
            if owner is None or owner.uid != reference.uid:
                dangling.append(reference.uid)
            elif _waits_for_dependents(decode_json(owner.data, AnyObject).metadata):
                waiting.append(reference.uid)
            else:
                solid.append(reference.uid)
        return solid, dangling, waiting

    def _delete(self, stored: Stored, propagation: str) -> None:
        resource = self._registry.of_storage(stored.resource)
        options = DeleteOptions(propagation=propagation, uid=stored.uid, resource_version=str(stored.version))
        try:
            self._registry.delete(resource, stored.namespace, stored.name, options=options)
        except NotFound:
            return

    def _delete_dependents(self, owner: Stored) -> None:
        known = self._waiting.get(owner.uid)
        if known is not None and known.blocking:
            return
        for dependent in self._client.store.dependents(owner.uid):
            self._look_at(_key_of(dependent))
        blocking = {one.uid for one in self._client.store.dependents(owner.uid) if _blocks(one, owner.uid)}
        if blocking:
            self._waiting[owner.uid] = _Waiting(_key_of(owner), blocking)
        else:
            self._remove_finalizer(owner, FOREGROUND)

    def _orphan_dependents(self, owner: Stored) -> None:
        for dependent in self._client.store.dependents(owner.uid):
            self._strike(dependent, {owner.uid})
        self._remove_finalizer(owner, ORPHAN)

    def _strike(self, stored: Stored, uids: Collection[str]) -> None:
        """Remove owner references from an object."""
        obj = stored.to_dict()
        references = obj["metadata"]["ownerReferences"]
        left = [one for one in references if one.get("uid") not in uids]
        if len(left) < len(references):
            obj["metadata"]["ownerReferences"] = left
            self._client.update(stored, obj)

    def _unblock(self, stored: Stored) -> Stored:
        obj = stored.to_dict()
        for reference in obj["metadata"]["ownerReferences"]:
            if reference.get("blockOwnerDeletion"):
                reference["blockOwnerDeletion"] = False
        return self._client.update(stored, obj)

    def _remove_finalizer(self, stored: Stored, finalizer: str) -> None:
        current = self._client.store.get(stored.resource, stored.namespace, stored.name)
        if current is not None and current.uid == stored.uid:
            self._client.remove_finalizer(current, finalizer)


def _key_of(stored: Stored) -> ObjectKey:
    return ObjectKey(stored.resource, stored.namespace, stored.name, stored.uid)


def _is_marked(stored: Stored) -> bool:
    """Whether it may be waiting for its dependents, judging by its bytes without decoding."""
    return _BEING_DELETED in stored.data and any(mark in stored.data for mark in _MARKS)


def _waits_for_dependents(metadata: ObjectMeta) -> bool:
    return metadata.deletion_timestamp is not None and FOREGROUND in metadata.finalizers


def _blocks(dependent: Stored, owner: str) -> bool:
    references = decode_json(dependent.data, AnyObject).metadata.owner_references
    return any(one.uid == owner and one.block_owner_deletion for one in references)


def _propagation_of(finalizers: Collection[str]) -> str:
    """The propagation policy that an earlier deletion requested."""
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
