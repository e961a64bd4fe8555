"""Map extended resources to DeviceClasses.

A class serves `deviceclass.resource.kubernetes.io/<its name>`, and the extended resource that it names, if any. If
several classes name the same resource, the newest wins, then the lower name. Classes are indexed by what they serve.

Upstream: k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache. There the mapping depends on the order
in which classes were seen, and a class that loses a resource name may lose its own, too; here it depends on the classes
alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.resource_names import DEVICE_CLASS_PREFIX, is_dra_extended
from stowplan.kube.api.types import DeviceClass
from stowplan.scheduler.cluster.objects import ObjectDependency, ObjectIndex
from stowplan.scheduler.cluster.pod_info import PodShape
from stowplan.scheduler.cluster.state import ClusterState


def _resources(device_class: DeviceClass) -> Iterable[str]:
    """The resources that a class serves."""
    own = DEVICE_CLASS_PREFIX + device_class.metadata.name
    named = device_class.spec.extended_resource_name
    return (own, named) if named else (own,)


BY_RESOURCE = ObjectIndex("extended resource", _resources)


def device_class_of(resource: str, state: ClusterState) -> DeviceClass | None:
    """The class for devices that provide the resource; None if there is none."""
    objects = state.objects
    if not objects.count(DeviceClass) or not is_dra_extended(resource):
        return None
    serving = objects.indexed(DeviceClass, BY_RESOURCE, resource)
    return min(serving, key=lambda found: (-_created(found), found.metadata.name), default=None)


def device_classes_read(shape: PodShape) -> Collection[ObjectDependency]:
    """The classes that `device_class_of` reads for a pod's requests."""
    found: tuple[ObjectDependency, ...] | None = shape.template.memo("device classes read", 0)
    if found is None:
        wanted = (name for name, amount in shape.requests.items() if amount and is_dra_extended(name))
        found = tuple(ObjectDependency.indexed(DeviceClass, BY_RESOURCE, name) for name in wanted)
        shape.template.remember("device classes read", 0, found)
    return found


def _created(device_class: DeviceClass) -> float:
    timestamp = device_class.metadata.creation_timestamp
    return parse_timestamp(timestamp) if timestamp else 0.0
