"""The controllers of claims (`stowplan.kube.claims`) in simulated time, on its object store.

Claims of ephemeral volumes, and others that a pod owns, are deleted with their pod, as by the garbage collector.

Left out: Events, finalizers that protect volumes and claims in use, the phase Pending.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, TypeVar

from msgspec.structs import replace

from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, PersistentVolume, PersistentVolumeClaim, Pod
from stowplan.kube.claims import writes
from stowplan.kube.claims.ephemeral_claims import EphemeralClaims, claim_name
from stowplan.kube.claims.provisioner import Provisioner
from stowplan.kube.claims.volume_binder import VolumeBinder
from stowplan.scheduler.framework.requests import Create, Delete, Request, Update

T = TypeVar("T", bound=ApiStruct)

#: Index of a controller, and a key of it.
Item = tuple[int, Hashable]


class VolumeControllers:
    def __init__(self, store: ObjectStore, *, takes: float = 0.0) -> None:
        """`takes`: seconds until a claim is bound, or a volume provisioned for it."""
        self._store = store
        self._takes = takes
        self.forget()

    def forget(self) -> None:
        """Start anew: objects have changed in other ways, as when a transaction is undone."""
        #: Whether there is anything to forget.
        self.is_used = False
        binder, provisioner = VolumeBinder(self, takes=self._takes), Provisioner(self, takes=self._takes)
        self._controllers: tuple[writes.Controller, ...] = (EphemeralClaims(self), binder, provisioner)
        self._queue: dict[Item, None] = {}
        #: Heap of times and what to look at then.
        self._later: list[tuple[float, int, Item]] = []
        self._sequence = 0
        #: Claims that are deleted because their pods are gone.
        self._orphans: list[PersistentVolumeClaim] = []

    @property
    def are_due(self) -> bool:
        """Whether there is something to do at the current time."""
        return bool(self._queue or self._orphans)

    @property
    def next(self) -> float | None:
        """When there is something to do without further changes."""
        return self._later[0][0] if self._later else None

    def follow(self, change: Change[Any]) -> None:
        """Note a change. Pods matter only if they have volumes."""
        self.is_used = True
        kind = type(change.old if change.new is None else change.new)
        for index, controller in enumerate(self._controllers):
            if kind in controller.kinds:
                self._queue.update(((index, key), None) for key in controller.keys_of(change))
        if kind is Pod and change.new is None and change.old is not None:
            self._orphans += self._owned_by(change.old)

    def requests(self, now: float) -> Iterator[Request]:
        """What they ask for; each request has to be carried out, and its changes followed, before the next."""
        while self._later and self._later[0][0] <= now:
            self._queue[heappop(self._later)[2]] = None
        while self.are_due:
            if self._orphans:
                yield _deletion(self._orphans.pop())
                continue
            item = next(iter(self._queue))
            del self._queue[item]
            for effect in self._controllers[item[0]].reconcile(item[1], now):
                if isinstance(effect, writes.LookAgain):
                    self._sequence += 1
                    heappush(self._later, (now + effect.seconds, self._sequence, item))
                elif not isinstance(effect, writes.Report):
                    yield _request(effect)

    def _owned_by(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        for volume in pod.spec.volumes:
            claim = self.find(PersistentVolumeClaim, pod.metadata.namespace, claim_name(pod, volume))
            if claim is not None and any(one.uid == pod.metadata.uid for one in claim.metadata.owner_references):
                yield claim

    # -- what they see -------------------------------------------------------------------------------------------------

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        return self._store.find(kind, namespace, name)

    def list(self, kind: type[T]) -> Iterable[T]:
        return self._store.list(kind)

    def node_labels(self) -> Iterable[tuple[str, Mapping[str, str]]]:
        return ((node.metadata.name, node.metadata.labels) for node in self._store.list(Node))


#: The kinds whose changes they follow, except for pods.
FOLLOWED = frozenset((*VolumeBinder.kinds, *Provisioner.kinds))


def _request(effect: writes.Create | writes.Write | writes.Delete) -> Request:
    if isinstance(effect, writes.Create):
        return Create(obj=effect.obj)
    if isinstance(effect, writes.Delete):
        return _deletion(effect.obj)
    return Update(obj=replace(effect.new, metadata=replace(effect.new.metadata, resource_version="")))


def _deletion(obj: PersistentVolume | PersistentVolumeClaim) -> Delete:
    metadata = obj.metadata
    return Delete(kind=type(obj), namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def settled(store: ObjectStore, known: Iterable[PersistentVolume | PersistentVolumeClaim]) -> Iterator[Change[Any]]:
    """Let the controllers do all that they would for some objects, at once; yields each change of the store."""
    controllers = VolumeControllers(store)
    for obj in known:
        controllers.follow(Change(None, obj))
    for request in controllers.requests(0.0):
        for change in store.write(request, 0.0):
            controllers.follow(change)
            yield change
