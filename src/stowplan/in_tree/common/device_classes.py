"""Which DeviceClass stands behind an extended resource.

A class serves `deviceclass.resource.kubernetes.io/<its name>`, and the extended resource that it names, if it names
one. Where several classes name the same, the newest wins, then the lower name. The mapping is kept until a class
changes.

Upstream: k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache. There the mapping depends on the order
in which classes were seen, and a class that loses a name may lose its own, too; here it depends on the classes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from stowplan.api.resource_names import DEVICE_CLASS_PREFIX, is_dra_extended
from stowplan.api.timestamps import parse_timestamp
from stowplan.api.types import DeviceClass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.cluster.objects import ObjectStore
    from stowplan.cluster.state import ClusterState

#: Store -> (version of its classes, resource name -> class).
_MAPPINGS: WeakKeyDictionary[ObjectStore, tuple[int, dict[str, DeviceClass]]] = WeakKeyDictionary()


def device_class_of(resource: str, state: ClusterState) -> DeviceClass | None:
    """The class that devices for the resource come from; None if the resource is not mapped to one."""
    objects = state.objects
    if not objects.count(DeviceClass) or not is_dra_extended(resource):
        return None
    version = objects.version(DeviceClass)
    known = _MAPPINGS.get(objects)
    if known is None or known[0] != version:
        known = _MAPPINGS[objects] = (version, _mapping(objects.all(DeviceClass)))
    return known[1].get(resource)


def _mapping(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    found: dict[str, DeviceClass] = {}
    # Of classes with the same resource the last one stays: oldest first, then names backwards.
    by_name = sorted(classes, key=lambda c: c.metadata.name, reverse=True)
    for device_class in sorted(by_name, key=_created):
        found[DEVICE_CLASS_PREFIX + device_class.metadata.name] = device_class
        resource = device_class.spec.get("extendedResourceName")
        if resource:
            found[resource] = device_class
    return found


def _created(device_class: DeviceClass) -> float:
    timestamp = device_class.metadata.creation_timestamp
    return parse_timestamp(timestamp) if timestamp else 0.0
