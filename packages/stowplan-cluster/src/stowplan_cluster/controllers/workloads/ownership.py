"""Owner references, adoption and release of pods and ReplicaSets.

A dependent belongs to the owner in its controller reference. An owner adopts orphans that match its selector, and
releases dependents that no longer match.

`Ownership` watches both kinds. It caches the decoded dependents of each owner, and orphans by namespace. So a reconcile
decodes only what changed since the last one, and only considers orphans that newly match its selector. Owners with
thousands of pods can count them incrementally with `tally`.

Left out: an object whose owner references are all without `controller: true` is not adopted, nor is
one that is finished or being deleted.

Upstream: pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from stowplan.kube.api.label_selectors import Selector, SelectorError
from stowplan.kube.api.meta import ObjectMeta, controller_of
from stowplan.kube.api.pod import FINISHED
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.reconcile.views import Key, Workload, WorkloadKind


class Dependent(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


D = TypeVar("D", bound=Dependent)
W = TypeVar("W", bound=Workload)


def owner_reference(owner: Workload) -> JsonObject:
    """The controller reference to an owner."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


class Members(Generic[D]):
    """The dependents of one owner, as of its last reconcile."""

    def __init__(self, selector: Selector, tally_of: Callable[[D], Hashable] | None) -> None:
        self.selector = selector
        self.mine: dict[str, D] = {}
        #: Owned, but not matched by the selector.
        self.strangers: dict[str, D] = {}
        #: Number of `mine` by the result of `tally_of`.
        self.tally: Counter[Any] = Counter()
        #: uid -> name of dependents that changed since.
        self.changed: dict[str, str] = {}
        self._tally_of = tally_of

    def put(self, uid: str, dependent: D | None, *, matches: bool) -> None:
        before = self.mine.get(uid)
        if dependent is not None and matches:
            # A replaced entry keeps its position, so the order is that of creation.
            self.mine[uid] = dependent
        else:
            self.mine.pop(uid, None)
        if dependent is not None and not matches:
            self.strangers[uid] = dependent
        else:
            self.strangers.pop(uid, None)
        if self._tally_of is not None:
            self._count(before, -1)
            self._count(self.mine.get(uid), 1)

    def _count(self, dependent: D | None, number: int) -> None:
        if dependent is not None and self._tally_of is not None:
            sort = self._tally_of(dependent)
            self.tally[sort] += number
            if not self.tally[sort]:
                del self.tally[sort]


class Ownership(Generic[W, D]):
    """The dependents (in one storage) of workloads of one kind."""

    def __init__(
        self,
        client: ControllerClient,
        owners: WorkloadKind[W],
        storage: str,
        decode: Callable[[Stored], D],
        *,
        fits_name: Callable[[W, str], bool] = lambda owner, name: True,
        finalizer: str = "",
        tally: Callable[[D], Hashable] | None = None,
    ) -> None:
        """`fits_name` is a further condition for adoption; `finalizer` is added to adopted objects."""
        self._client = client
        self._owners = owners
        self._storage = storage
        self._decode = decode
        self._fits_name = fits_name
        self._finalizer = finalizer
        #: uid -> key of each existing owner.
        self._keys: dict[str, Key] = {}
        #: By namespace: selectors of owners, and labels of orphans.
        self._selectors: dict[str, dict[Key, Selector]] = {}
        self._orphans: dict[str, dict[str, Mapping[str, str]]] = {}
        #: Names of orphans that match an owner's selector; some may have been adopted by others since.
        self._candidates: dict[Key, set[str]] = {}
        self._tally = tally
        self._members: dict[Key, Members[D]] = {}

    def keys_of(self, event: Event) -> Sequence[Key]:
        """The owners affected by a change of an owner or a dependent."""
        if event.stored.resource == self._owners.storage:
            return [self._follow_owner(event)]
        if event.stored.resource == self._storage:
            keys = self.owners_of(event)
            for key in keys:
                if key in self._members:
                    self._members[key].changed[event.stored.uid] = event.stored.name
            return [*keys, *self._follow_orphan(event)]
        return ()

    def owners_of(self, event: Event) -> Sequence[Key]:
        """The owners of the event's object, before and after it."""
        uids = event.stored.owners
        if event.previous is not None and event.previous.owners != uids:
            uids = (*uids, *event.previous.owners)
        return [self._keys[uid] for uid in uids if uid in self._keys]

    def owner_keys(self) -> Sequence[Key]:
        return list(self._keys.values())

    def dependents(self, owner: W) -> list[D]:
        """The matching dependents, without adopting or releasing."""
        return list(self._current(owner).mine.values())

    def claim(self, owner: W) -> list[D]:
        """The dependents, after adopting matching orphans and releasing what no longer matches."""
        return list(self.claim_members(owner).mine.values())

    def claim_members(self, owner: W) -> Members[D]:
        if owner.deleting:
            return self._current(owner)
        for stored in self._adoptable(owner):
            self._adopt(owner, stored)
        self._candidates.pop(owner.key, None)
        members = self._current(owner)
        for stranger in list(members.strangers.values()):
            if stranger.metadata.deletion_timestamp is None:
                self._release(owner, stranger.metadata)
        return members

    def _current(self, owner: W) -> Members[D]:
        """The owner's members, updated with the changes since the last call."""
        key, selector = owner.key, owner.selector
        members = self._members.get(key)
        if members is None or members.selector != selector:
            members = self._members[key] = Members(selector, self._tally)
            found = self._client.store.dependents(key.uid)
            members.changed = {
                one.uid: one.name for one in found if one.resource == self._storage and one.namespace == key.namespace
            }
        changed, members.changed = members.changed, {}
        for uid, name in changed.items():
            dependent = self._owned(owner, uid, name)
            metadata = dependent.metadata if dependent is not None else None
            matches = metadata is not None and self._matches(owner, selector, metadata.labels, name)
            members.put(uid, dependent, matches=matches)
        return members

    def _owned(self, owner: W, uid: str, name: str) -> D | None:
        stored = self._client.store.get(self._storage, owner.metadata.namespace, name)
        if stored is None or stored.uid != uid:
            return None
        dependent = self._decode(stored)
        return dependent if _controlled_by(dependent, owner) else None

    def _matches(self, owner: W, selector: Selector, labels: Mapping[str, str], name: str) -> bool:
        return selector.matches(labels) and self._fits_name(owner, name)

    def _follow_owner(self, event: Event) -> Key:
        stored = event.stored
        key = Key(stored.namespace, stored.name, stored.uid)
        if event.type == "DELETED":
            self._keys.pop(stored.uid, None)
            self._selectors.get(stored.namespace, {}).pop(key, None)
            self._candidates.pop(key, None)
            self._members.pop(key, None)
            return key
        self._keys[stored.uid] = key
        try:
            selector = self._owners.decode(stored).selector
        except SelectorError:
            # The reconcile hits the same error and reports it.
            return key
        selectors = self._selectors.setdefault(stored.namespace, {})
        if selectors.get(key) != selector:
            selectors[key] = selector
            orphans = self._orphans.get(stored.namespace, {})
            self._candidates[key] = {name for name, labels in orphans.items() if selector.matches(labels)}
        return key

    def _follow_orphan(self, event: Event) -> Sequence[Key]:
        stored = event.stored
        orphans = self._orphans.setdefault(stored.namespace, {})
        if event.type == "DELETED" or stored.owners:
            orphans.pop(stored.name, None)
            return ()
        orphans[stored.name] = stored.labels
        selectors = self._selectors.get(stored.namespace, {})
        keys = [key for key, selector in selectors.items() if selector.matches(stored.labels)]
        for key in keys:
            self._candidates.setdefault(key, set()).add(stored.name)
        return keys

    def _adoptable(self, owner: W) -> list[Stored]:
        names = sorted(self._candidates.get(owner.key, ()))
        selector = owner.selector
        found = (self._client.store.get(self._storage, owner.metadata.namespace, name) for name in names)
        return [
            stored
            for stored in found
            if stored and not stored.owners and self._matches(owner, selector, stored.labels, stored.name)
        ]

    def _adopt(self, owner: W, stored: Stored) -> None:
        obj = stored.to_dict()
        metadata = obj["metadata"]
        if "deletionTimestamp" in metadata or (obj.get("status") or {}).get("phase") in FINISHED:
            return
        metadata["ownerReferences"] = [owner_reference(owner)]
        if self._finalizer:
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), self._finalizer]
        self._client.update(stored, obj)

    def _release(self, owner: W, metadata: ObjectMeta) -> None:
        stored = self._client.find(self._storage, Key(metadata.namespace, metadata.name, metadata.uid))
        if stored is None:
            return
        obj = stored.to_dict()
        references = obj["metadata"].get("ownerReferences") or ()
        obj["metadata"]["ownerReferences"] = [one for one in references if one.get("uid") != owner.metadata.uid]
        self._client.update(stored, obj)


def _controlled_by(dependent: Dependent, owner: Workload) -> bool:
    reference = controller_of(dependent.metadata)
    return reference is not None and reference.uid == owner.metadata.uid
