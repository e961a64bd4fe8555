"""The default spread selector: that of the pod's services and controller.

Upstream: pkg/scheduler/framework/plugins/helper/spread.go.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.api import types as t
from stowplan.kube.api.label_selectors import (
    NOTHING,
    Selector,
    SelectorError,
    compile_label_selector,
    selector_from_map,
)
from stowplan.scheduler.cluster.objects import ObjectDependency, ObjectStore, ObjectWatch
from stowplan.scheduler.cluster.pod_info import PodShape

#: Controllers whose selectors count.
_CONTROLLERS: dict[tuple[str, str], type[Any]] = {
    ("v1", "ReplicationController"): t.ReplicationController,
    ("apps/v1", "ReplicaSet"): t.ReplicaSet,
    ("apps/v1", "StatefulSet"): t.StatefulSet,
}


def default_selector(shape: PodShape, objects: ObjectStore) -> Selector:
    """The selector; empty if no service or controller selects the pod."""
    known: tuple[ObjectWatch, Selector] | None = shape.memo("default selector", objects)
    if known is not None and not known[0].changed():
        return known[1]
    watch = ObjectWatch(objects, _read(shape))
    found = _selector(shape, objects)
    shape.remember("default selector", objects, (watch, found))
    return found


def _read(shape: PodShape) -> list[ObjectDependency]:
    """The objects that the selector depends on."""
    read = [ObjectDependency.in_namespace(t.Service, shape.namespace)]
    owner = shape.controller
    kind = None if owner is None else _CONTROLLERS.get((owner.api_version, owner.kind))
    if owner is not None and kind is not None:
        read.append(ObjectDependency.named(kind, f"{shape.namespace}/{owner.name}"))
    return read


def _selector(shape: PodShape, objects: ObjectStore) -> Selector:
    equalities: dict[str, str] = {}
    for service in objects.in_namespace(t.Service, shape.namespace):
        selector = service.spec.selector
        if selector is not None and all(shape.labels.get(k) == v for k, v in selector.items()):
            equalities.update(selector)
    owner = shape.controller
    kind = None if owner is None else _CONTROLLERS.get((owner.api_version, owner.kind))
    controller = None if owner is None or kind is None else objects.get(kind, f"{shape.namespace}/{owner.name}")
    if isinstance(controller, t.ReplicationController):
        equalities.update(controller.spec.selector or {})
    own = selector_from_map(equalities)
    return own.merge(_of_set(controller)) if isinstance(controller, t.ReplicaSet | t.StatefulSet) else own


def _of_set(controller: t.ReplicaSet | t.StatefulSet) -> Selector:
    """The selector of the pod's ReplicaSet or StatefulSet; empty if there is none."""
    try:
        selector = compile_label_selector(controller.spec.selector)
    except SelectorError:
        return Selector()
    return Selector() if selector is NOTHING else selector
