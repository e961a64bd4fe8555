"""Extended resources backed by devices: a claim is generated for the pod, and stored once it has a node.

Whether a resource is served by devices depends on the node: if the node lists the resource, a device plugin serves it.
So the generated claim depends on which of the resources the node lacks, and nodes are distinguished by that.

Upstream: extendeddynamicresources.go of pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stowplan.kube.api.device_claims import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from stowplan.kube.api.meta import ObjectMeta, OwnerReference, controller_of
from stowplan.kube.api.pod import Container, ContainerExtendedResourceRequest
from stowplan.kube.api.pod_requests import is_sidecar
from stowplan.kube.api.quantity import parse_quantity, value
from stowplan.kube.api.resource_names import is_dra_extended
from stowplan.scheduler.cluster.objects import ObjectIndex
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.in_tree.common.device_classes import device_class_of

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
#: Name of a claim that is not stored; deliberately not a valid object name.
IN_MEMORY = "<extended-resources>"


class ExtendedDemand(NamedTuple):
    """The extended resources of a pod that devices may serve."""

    #: Resources with a class, and the class.
    classes: tuple[tuple[str, str], ...]
    #: Resources that only a device plugin can serve.
    others: tuple[str, ...]
    #: Whether a claim is left from an earlier attempt, and has to be deleted first.
    stale: bool


class Variant(NamedTuple):
    """The claim for nodes that lack certain resources."""

    devices: DeviceClaim
    mappings: tuple[ContainerExtendedResourceRequest, ...]


def _pods_served(claim: ResourceClaim) -> tuple[str, ...]:
    owner = controller_of(claim.metadata)
    if owner is None or claim.metadata.annotations.get(ANNOTATION) != "true":
        return ()
    return (owner.uid,)


BY_POD = ObjectIndex("pod, of claims for extended resources", _pods_served)


def stored_claim(pod: PodInfo, cluster: ClusterState) -> ResourceClaim | None:
    """The claim that an earlier attempt stored."""
    for claim in cluster.objects.indexed(ResourceClaim, BY_POD, pod.uid):
        owner = controller_of(claim.metadata)
        if claim.metadata.namespace == pod.namespace and owner is not None and owner.name == pod.pod.metadata.name:
            return claim
    return None


def extended_names(shape: PodShape) -> tuple[str, ...]:
    found: tuple[str, ...] | None = shape.template.memo("extended names", 0)
    if found is None:
        found = tuple(name for name, amount in shape.requests.items() if amount and is_dra_extended(name))
        shape.template.remember("extended names", 0, found)
    return found


def extended_demand(pod: PodInfo, cluster: ClusterState) -> ExtendedDemand | None:
    """None: the pod has no extended resource backed by devices."""
    names = extended_names(pod.shape)
    if not names:
        return None
    classes = {name: found.metadata.name for name in names if (found := device_class_of(name, cluster)) is not None}
    if not classes:
        return None
    others = tuple(name for name in names if name not in classes)
    return ExtendedDemand(tuple(sorted(classes.items())), others, stored_claim(pod, cluster) is not None)


def variant(pod: PodInfo, classes: Mapping[str, str]) -> Variant:
    """The requests of a claim for these resources, and which request serves which container."""
    key = "extended variant", tuple(sorted(classes.items()))
    found: Variant | None = pod.shape.template.memo(key, 0)
    if found is None:
        found = _variant(pod, classes)
        pod.shape.template.remember(key, 0, found)
    return found


def _variant(pod: PodInfo, classes: Mapping[str, str]) -> Variant:
    requests: dict[str, DeviceRequest] = {}
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        for container, name, amount in _served(list(_wanting(pod, resource)), resource):
            if amount:
                wanted = ExactDeviceRequest(device_class_name=classes[resource], count=amount)
                requests[name] = DeviceRequest(name=name, exactly=wanted)
            mappings.append(
                ContainerExtendedResourceRequest(container_name=container, resource_name=resource, request_name=name)
            )
    ordered = tuple(requests[name] for name in sorted(requests))
    return Variant(DeviceClaim(requests=ordered), tuple(mappings))


class _Wanting(NamedTuple):
    place: int
    container: Container
    long_lived: bool
    amount: int


def _wanting(pod: PodInfo, resource: str) -> Iterator[_Wanting]:
    spec = pod.pod.spec
    for place, container in enumerate((*spec.init_containers, *spec.containers)):
        amount = value(parse_quantity(container.resources.requests.get(resource, 0)))
        if amount > 0:
            long_lived = place >= len(spec.init_containers) or is_sidecar(container)
            yield _Wanting(place, container, long_lived, amount)


def _served(wanting: list[_Wanting], resource: str) -> Iterator[tuple[str, str, int]]:
    """(container, serving request, number of devices); 0: the request is listed already.

    Init containers use the devices of containers that start after them.
    """
    lasting = [w for w in wanting if w.long_lived]
    for w in lasting:
        yield w.container.name, _request_name(w, resource), w.amount
    own: list[tuple[_Wanting, int]] = []
    for w in wanting:
        if w.long_lived:
            continue
        missing = w.amount
        for other in lasting:
            if other.place >= w.place and missing > 0:
                yield w.container.name, _request_name(other, resource), 0
                missing -= other.amount
        if missing > 0:
            own.append((w, missing))
    if own:
        # They run one after the other: the largest request serves all.
        largest, amount = max(own, key=lambda entry: entry[1])
        name = _request_name(largest, resource)
        for w, _ in own:
            yield w.container.name, name, amount if w is largest else 0


def _request_name(wanting: _Wanting, resource: str) -> str:
    number = sorted(wanting.container.resources.requests).index(resource)
    return f"container-{wanting.place}-request-{number}"


def in_memory_key(pod: PodInfo) -> str:
    """Key under which the claim is held in flight until it is stored."""
    return f"{pod.namespace}/{IN_MEMORY}/{pod.uid}"


def in_memory_claim(pod: PodInfo, devices: DeviceClaim) -> ResourceClaim:
    metadata = pod.pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=metadata.name, uid=metadata.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            name=IN_MEMORY,
            generate_name=f"{metadata.name}-extended-resources-",
            namespace=pod.namespace,
            uid=f"{pod.uid}-extended-resources",
            annotations={ANNOTATION: "true"},
            owner_references=(owner,),
        ),
        spec=ResourceClaimSpec(devices=devices),
    )
