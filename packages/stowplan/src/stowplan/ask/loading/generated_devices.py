"""Objects that controllers and drivers would create for devices: claims from templates, and slices from annotations.

A hand-written file has a pod that names a ResourceClaimTemplate, but no claim; its nodes may have the annotation
`stowplan.io/devices`, from which the driver of `stowplan up` creates slices. Existing objects are left alone.

Upstream: pkg/controller/resourceclaim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.kube.api.annotated_devices import DEVICES, DEVICES_OF, InvalidDevices, pools_of, slice_spec, slices_of
from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.device_claims import ResourceClaim, ResourceClaimSpec
from stowplan.kube.api.load import LoadError
from stowplan.kube.api.meta import ObjectMeta, OwnerReference
from stowplan.kube.api.pod import PodResourceClaimStatus
from stowplan.kube.api.types import Node, Pod, ResourceSlice
from stowplan.scheduler.framework.explanations.formatting import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stowplan.kube.api.meta import ApiStruct

TEMPLATE = "ResourceClaimTemplate"


def with_devices(
    manifests: Iterable[Mapping[str, Any]], objects: Sequence[ApiStruct]
) -> tuple[list[ApiStruct], list[str]]:
    """(the objects with generated ones added, notes); raises LoadError."""
    slices = [made for node in objects if isinstance(node, Node) for made in _slices(node, objects)]
    found, claims = _with_claims(claim_templates(manifests), objects)
    notes = []
    if slices:
        notes.append(f"{count(len(slices), 'ResourceSlice')} made from the annotation {DEVICES} of nodes")
    if claims:
        notes.append(f"{count(len(claims), 'ResourceClaim')} made from templates, as a controller would")
    return [*found, *claims, *slices], notes


# -- claims -----------------------------------------------------------------------------------------------------------


def claim_for(pod: Pod, entry: str, spec: ResourceClaimSpec) -> ResourceClaim:
    """The claim that is generated for an entry of a pod."""
    of_pod = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=of_pod.name, uid=of_pod.uid, controller=True)
    metadata = ObjectMeta(
        name=f"{of_pod.name}-{entry}",
        namespace=of_pod.namespace,
        uid=f"{of_pod.uid or of_pod.name}, {entry}",
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata, spec=spec)


def claim_templates(manifests: Iterable[Mapping[str, Any]]) -> dict[str, ResourceClaimSpec]:
    """`namespace/name` -> the claim spec of a template."""
    found = {}
    for manifest in manifests:
        if manifest["kind"] != TEMPLATE:
            continue
        metadata = manifest["metadata"]
        key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
        spec = manifest.get("spec")
        try:
            found[key] = convert((spec or {}).get("spec") or {}, ResourceClaimSpec)
        except (DecodeError, AttributeError) as e:
            raise LoadError([f"{TEMPLATE} {key}: {e}"]) from None
    return found


def _with_claims(
    templates: Mapping[str, ResourceClaimSpec], objects: Sequence[ApiStruct]
) -> tuple[list[ApiStruct], list[ResourceClaim]]:
    if not templates:
        return list(objects), []
    found: list[ApiStruct] = []
    claims = []
    for obj in objects:
        if isinstance(obj, Pod) and not obj.spec.node_name:
            made = [(entry, claim_for(obj, entry, spec)) for entry, spec in _missing_claims(obj, templates)]
            statuses = (PodResourceClaimStatus(name=name, resource_claim_name=c.metadata.name) for name, c in made)
            known = obj.status.resource_claim_statuses
            obj = replace(obj, status=replace(obj.status, resource_claim_statuses=(*known, *statuses))) if made else obj
            claims += [claim for _, claim in made]
        found.append(obj)
    return found, claims


def _missing_claims(pod: Pod, templates: Mapping[str, ResourceClaimSpec]) -> Iterator[tuple[str, ResourceClaimSpec]]:
    """Entries of a pod that name an existing template, and have no claim."""
    known = {status.name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        spec = templates.get(f"{pod.metadata.namespace or 'default'}/{entry.resource_claim_template_name}")
        if spec is not None and entry.name not in known:
            yield entry.name, spec


# -- slices -----------------------------------------------------------------------------------------------------------


def _slices(node: Node, objects: Sequence[ApiStruct]) -> Iterator[ResourceSlice]:
    annotation = node.metadata.annotations.get(DEVICES)
    if annotation is None:
        return
    name = node.metadata.name
    there = {obj.spec.driver for obj in objects if isinstance(obj, ResourceSlice) and _is_of(obj, name)}
    try:
        for driver, pool in pools_of(annotation).items():
            wanted = slices_of(name, driver, pool) if driver not in there else {}
            for slice_name, part in wanted.items():
                spec = slice_spec(name, driver, part, generation=1, count=len(wanted))
                metadata = {"name": slice_name, "annotations": {DEVICES_OF: name}}
                yield convert({"metadata": metadata, "spec": spec}, ResourceSlice)
    except (InvalidDevices, DecodeError) as e:
        raise LoadError([f"Node {name}: {e}"]) from None


def _is_of(obj: ResourceSlice, node: str) -> bool:
    return obj.spec.node_name == node or obj.metadata.annotations.get(DEVICES_OF) == node
