"""The controllers of claims (`stowplan.kube.claims`) on the registry: binder, provisioner and ephemeral volumes.

Binding is up to four writes: the volume's claimRef and phase, the claim's volumeName and phase; missing ones are
written by the next reconcile. Only fields that a controller knows and changes are written, others stay as they are.

Upstream: pkg/controller/volume/persistentvolume, pkg/controller/volume/ephemeral.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from stowplan.kube.api.decode import decode_json, to_dict
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import CSINode, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from stowplan.kube.claims import ephemeral_claims, provisioner, volume_binder, writes
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.pods_by_node import NODES
from stowplan_cluster.reconcile.pods import PODS

T = TypeVar("T", bound=ApiStruct)

_STORAGES: dict[type[ApiStruct], str] = {
    CSINode: "csinodes.storage.k8s.io",
    Node: NODES,
    PersistentVolume: "persistentvolumes",
    PersistentVolumeClaim: "persistentvolumeclaims",
    Pod: PODS,
    StorageClass: "storageclasses.storage.k8s.io",
}


class _Controller:
    name: ClassVar[str]
    component: ClassVar[str]
    #: What decides.
    decides: ClassVar[Callable[..., writes.Controller]]

    def __init__(self, registry: Registry) -> None:
        self._client = ControllerClient(registry, self.component)
        self._decider = type(self).decides(self)
        self._kinds = {_STORAGES[kind]: kind for kind in self._decider.kinds}
        self.watches = tuple(self._kinds)

    def keys_of(self, event: Event) -> Iterable[Hashable]:
        kind, stored = self._kinds[event.stored.resource], event.stored
        if event.type == "DELETED":
            return self._decider.keys_of(Change(decode_json(stored.data, kind), None))
        before = None if event.previous is None else decode_json(event.previous.data, kind)
        return self._decider.keys_of(Change(before, decode_json(stored.data, kind)))

    def reconcile(self, key: Any) -> float | None:
        delays: list[float] = []

        def do(effect: writes.Effect) -> None:
            if isinstance(effect, writes.LookAgain):
                delays.append(effect.seconds)
            else:
                self._do(effect)

        writes.carry_out(self._decider.reconcile(key, self._client.now), do)
        return min(delays, default=None)

    def _do(self, effect: writes.Create | writes.Write | writes.Delete | writes.Report) -> None:
        if isinstance(effect, writes.Create):
            self._client.create(_STORAGES[type(effect.obj)], to_dict(effect.obj))
        elif isinstance(effect, writes.Write):
            self._write(effect.old, effect.new)
        elif isinstance(effect, writes.Delete):
            metadata = effect.obj.metadata
            storage = _STORAGES[type(effect.obj)]
            self._client.delete(storage, metadata.namespace, metadata.name, uid=metadata.uid)
        else:
            self._client.events.record(to_dict(effect.obj), effect.type, effect.reason, effect.message)

    def _write(self, old: ApiStruct, new: ApiStruct) -> None:
        """Write what differs: status by itself, after the rest."""
        stored = self._stored(old)
        before, after = to_dict(old), to_dict(new)
        status = before.pop("status", {}), after.pop("status", {})
        if before != after:
            stored = self._client.update(stored, _changed(stored.to_dict(), before, after))
        if status[0] != status[1]:
            self._client.update_status(stored, _changed(stored.to_dict().get("status") or {}, *status))

    def _stored(self, obj: Any) -> Stored:
        storage, metadata = _STORAGES[type(obj)], obj.metadata
        stored = self._client.store.get(storage, metadata.namespace, metadata.name)
        assert stored is not None, "it was read just now"
        return stored

    # -- what it sees --------------------------------------------------------------------------------------------------

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        stored = self._client.store.get(_STORAGES[kind], namespace, name)
        return None if stored is None else decode_json(stored.data, kind)

    def list(self, kind: type[T]) -> Iterable[T]:
        return [decode_json(stored.data, kind) for stored in self._client.store.list(_STORAGES[kind])]

    def node_labels(self) -> Iterable[tuple[str, Mapping[str, str]]]:
        return ((node.name, node.labels) for node in self._client.store.list(NODES))


class VolumeBinder(_Controller):
    name = "persistentvolume-binder-controller"
    component = "persistentvolume-controller"
    decides = volume_binder.VolumeBinder


class Provisioner(_Controller):
    name = component = "external-provisioner"
    decides = provisioner.Provisioner


class EphemeralVolumeController(_Controller):
    name = "ephemeral-volume-controller"
    component = "ephemeral_volume"
    decides = ephemeral_claims.EphemeralClaims

    def keys_of(self, event: Event) -> Iterable[Hashable]:
        # Runs for every pod: decode only those that can have such volumes.
        if event.stored.resource == PODS and b'"ephemeral":' not in event.stored.data:
            return ()
        return super().keys_of(event)


def _changed(obj: JsonObject, old: JsonObject, new: JsonObject) -> JsonObject:
    """The object, with the differences between two of its partial views."""
    changed = dict(obj)
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if after is None:
            changed.pop(name, None)
        elif isinstance(before, dict) and isinstance(after, dict):
            changed[name] = _changed(changed.get(name) or {}, before, after)
        else:
            changed[name] = after
    return changed
