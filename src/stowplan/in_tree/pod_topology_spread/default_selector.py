"""The selector that spreads a pod without constraints of its own: what its services and its controller select.

Upstream: pkg/scheduler/framework/plugins/helper/spread.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api import types as t
from stowplan.api.selectors import NOTHING, Selector, SelectorError, compile_label_selector, selector_from_map

if TYPE_CHECKING:
    from stowplan.cluster.objects import ObjectStore
    from stowplan.cluster.pod_info import PodShape

_READ = (t.Service, t.ReplicationController, t.ReplicaSet, t.StatefulSet)


def default_selector(shape: PodShape, objects: ObjectStore) -> Selector:
    """Empty when no service and no controller says anything about the pod."""
    version = tuple(objects.version(kind) for kind in _READ)
    found: Selector | None = shape.memo("default selector", version)
    if found is None:
        found = _worked_out(shape, objects)
        shape.remember("default selector", version, found)
    return found


def _worked_out(shape: PodShape, objects: ObjectStore) -> Selector:
    equalities: dict[str, str] = {}
    for service in objects.all(t.Service):
        selector = service.spec.selector
        here = (service.metadata.namespace or "default") == shape.namespace
        if here and selector is not None and all(shape.labels.get(k) == v for k, v in selector.items()):
            equalities.update(selector)
    owner = shape.controller
    if owner is None:
        return selector_from_map(equalities)
    key = f"{shape.namespace}/{owner.name}"
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = objects.get(t.ReplicationController, key)
        if controller is not None:
            equalities.update(controller.spec.selector or {})
        return selector_from_map(equalities)
    return selector_from_map(equalities).merge(_of_set(owner, key, objects))


def _of_set(owner: t.OwnerReference, key: str, objects: ObjectStore) -> Selector:
    """The selector of the replica set or stateful set that controls the pod; empty when there is none to be had."""
    found: t.ReplicaSet | t.StatefulSet | None = None
    if owner.api_version == "apps/v1" and owner.kind == "ReplicaSet":
        found = objects.get(t.ReplicaSet, key)
    elif owner.api_version == "apps/v1" and owner.kind == "StatefulSet":
        found = objects.get(t.StatefulSet, key)
    if found is None:
        return Selector()
    try:
        selector = compile_label_selector(found.spec.selector)
    except SelectorError:
        return Selector()
    return Selector() if selector is NOTHING else selector
