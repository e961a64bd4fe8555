"""Objects that controllers and drivers would create for manifests: pods of workloads, claims, and slices of devices.

A hand-written file has a Deployment, but no pods; the question is where its pods would go. So its pods are generated,
and pending. A workload that was read from a cluster has its pods there, or none for a reason; and a workload with any
pod in the files is left alone.

Likewise, it has a pod that names a ResourceClaimTemplate, or a generic ephemeral volume, but no claim; its nodes may
have the annotation `stowplan.io/devices`, from which the driver of `stowplan up` creates slices. Existing objects are
left alone.

Upstream: pkg/controller (deployment, statefulset, job, replicaset, daemon, resourceclaim, volume/ephemeral).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stowplan.ask.loading.workloads import WorkloadName, belongs_to, pod_of
from stowplan.kube.api.annotated_devices import DEVICES, DEVICES_OF, InvalidDevices, pools_of, slice_spec, slices_of
from stowplan.kube.api.daemon_pods import tied_to, tolerating, wanted_on
from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.device_claims import ResourceClaim, ResourceClaimSpec
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.meta import ApiStruct, ObjectMeta, OwnerReference
from stowplan.kube.api.pod import PodResourceClaimStatus
from stowplan.kube.api.types import Node, PersistentVolumeClaim, Pod, ReplicaSet, ResourceSlice
from stowplan.kube.api.volumes import PersistentVolumeClaimTemplate
from stowplan.kube.claims.ephemeral_claims import ephemeral_claim, is_ephemeral
from stowplan.kube.claims.stateful_claims import claims_for, identity, with_claims
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.explanations.formatting import count


def ephemeral_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    """The claim of each generic ephemeral volume, owned by the pod."""
    for volume in pod.spec.volumes:
        if is_ephemeral(volume):
            claim = ephemeral_claim(pod, volume)
            uid = f"{pod.metadata.uid or pod.metadata.name}, {volume.name}"
            yield replace(claim, metadata=replace(claim.metadata, uid=uid))


def with_ephemeral_claims(objects: Sequence[ApiStruct]) -> tuple[list[ApiStruct], list[str]]:
    """(the objects with missing claims of pending pods added, notes)."""
    there = {claim_key(obj) for obj in objects if isinstance(obj, PersistentVolumeClaim)}
    pods = (obj for obj in objects if isinstance(obj, Pod) and not obj.spec.node_name)
    claims = [claim for pod in pods for claim in ephemeral_claims(pod) if claim_key(claim) not in there]
    note = f"{count(len(claims), 'PersistentVolumeClaim')} made for ephemeral volumes, as a controller would"
    return [*objects, *claims], [note] if claims else []


def claim_key(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.namespace or "default", claim.metadata.name


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


#: Maximum number of pods of one workload.
MOST_PODS = 100_000
#: Maximum number of workloads with a note each.
_MAX_NOTES = 3
#: Kinds whose pods are generated. Those of a CronJob depend on the time.
WORKLOADS = frozenset(("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "DaemonSet"))


class GeneratedPods(PlainStruct, frozen=True):
    """Generated pods and related objects."""

    objects: tuple[ApiStruct, ...]
    #: Notes about them.
    notes: tuple[str, ...]
    #: Their workloads: kind, namespace, name; including those with zero replicas.
    workloads: tuple[WorkloadName, ...]


def generated_pods(
    manifests: Iterable[Mapping[str, Any]],
    objects: Sequence[ApiStruct],
    nodes: Sequence[Node],
    beside: Sequence[ApiStruct] = (),
) -> GeneratedPods:
    """Generate pods of workloads without any, and of DaemonSets for the nodes; raises LoadError.

    Workloads that have pods `beside` the objects get new ones, without a note.
    """
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    older = [obj for obj in beside if isinstance(obj, Pod)]
    made: list[ApiStruct] = []
    notes = []
    workloads = []
    for manifest in manifests:
        if not _is_written_by_hand(manifest) or _has_pods(manifest, pods):
            continue
        spec = manifest.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("template"), dict):
            notes.append(f"{_name(manifest)} has no template of pods, and is left out")
            continue
        found = list(_made(manifest, nodes))
        made += found
        workloads.append((manifest, sum(isinstance(obj, Pod) for obj in found)))
    without_pods = [(manifest, number) for manifest, number in workloads if number and not _has_pods(manifest, older)]
    if len(without_pods) > _MAX_NOTES:
        asked = f"using their templates: {count(sum(number for _, number in without_pods), 'pod')}"
        notes.append(f"{len(without_pods)} workloads ({_name(without_pods[0][0])}, …) have no pods yet: {asked}")
    else:
        notes += (_asking(*each) for each in without_pods)
    return GeneratedPods(tuple(made), tuple(notes), tuple(name_of(manifest) for manifest, _ in workloads))


def name_of(manifest: Mapping[str, Any]) -> WorkloadName:
    return manifest["kind"], _namespace(manifest), manifest["metadata"].get("name") or ""


def _asking(manifest: Mapping[str, Any], number: int) -> str:
    first = f"{_namespace(manifest)}/{_pod_name(manifest, 0)}"
    return f"{_name(manifest)} has no pods yet; using its template: {count(number, 'pod')} ({first}…)"


def _is_written_by_hand(manifest: Mapping[str, Any]) -> bool:
    metadata = manifest["metadata"]
    owned = any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
    return manifest["kind"] in WORKLOADS and not metadata.get("uid") and not owned


def _has_pods(manifest: Mapping[str, Any], pods: Iterable[Pod]) -> bool:
    namespace, name = _namespace(manifest), manifest["metadata"].get("name")
    return any(
        (pod.metadata.namespace or "default") == namespace and belongs_to(pod, manifest["kind"], name) for pod in pods
    )


def _replicas(manifest: Mapping[str, Any]) -> int:
    spec = manifest.get("spec") or {}
    if manifest["kind"] != "Job":
        wanted = spec.get("replicas", 1)
    else:
        completions = spec.get("completions")
        parallel = spec.get("parallelism", 1)
        wanted = 0 if spec.get("suspend") else parallel if completions is None else min(parallel, completions)
    if not isinstance(wanted, int) or wanted < 0:
        raise LoadError([f"{_name(manifest)}: want a number of pods, got {wanted!r}"])
    if wanted > MOST_PODS:
        raise LoadError([f"{_name(manifest)}: want at most {MOST_PODS:,} pods, got {wanted:,}"])
    return wanted


def _made(manifest: Mapping[str, Any], nodes: Iterable[Node]) -> Iterator[ApiStruct]:
    """The pods, of a DaemonSet for each node that matches its template, and what belongs to them."""
    kind, template, owner = manifest["kind"], pod_of(manifest), convert(owner_of(manifest), OwnerReference)
    if kind == "DaemonSet":
        template = tolerating(template)
        targets = [node.metadata.name for node in nodes if wanted_on(template, node)]
    else:
        targets = [""] * _replicas(manifest)
    if targets and owner.kind != kind:
        yield _replica_set(manifest, owner.name)
    claims, about = volume_claim_templates(manifest), template.metadata
    for index, node in enumerate(targets):
        name = _pod_name(manifest, index)
        labels = {**about.labels, **identity(name, index)} if kind == "StatefulSet" else about.labels
        metadata = replace(about, name=name, labels=labels, owner_references=(owner,))
        pod = replace(template, metadata=metadata, spec=with_claims(template.spec, claims, name))
        yield tied_to(pod, node) if node else pod
        yield from claims_for(claims, name, _namespace(manifest))


def volume_claim_templates(manifest: Mapping[str, Any]) -> list[PersistentVolumeClaimTemplate]:
    """The volumeClaimTemplates of a workload; raises LoadError."""
    given = (manifest.get("spec") or {}).get("volumeClaimTemplates") or ()
    return [_converted(manifest, claim, PersistentVolumeClaimTemplate) for claim in given]


def owner_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A Deployment owns its pods through a ReplicaSet named after it."""
    kind, name = manifest["kind"], manifest["metadata"].get("name") or ""
    if kind == "Deployment":
        kind, name = "ReplicaSet", f"{name}-0"
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"{kind}/{name}", "controller": True}


def _replica_set(manifest: Mapping[str, Any], name: str) -> ReplicaSet:
    spec = {"selector": (manifest.get("spec") or {}).get("selector") or {}}
    about = {"name": name, "namespace": _namespace(manifest)}
    found = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": about, "spec": spec}
    replica_set: ReplicaSet = _converted(manifest, found, ReplicaSet)
    return replica_set


def _converted(manifest: Mapping[str, Any], found: Mapping[str, Any], kind: type[Any]) -> Any:
    try:
        return convert(found, kind)
    except DecodeError as error:
        raise LoadError([f"{_name(manifest)}: {error}"]) from error


def _pod_name(manifest: Mapping[str, Any], index: int) -> str:
    return f"{manifest['metadata'].get('name')}-{index}"


def _namespace(manifest: Mapping[str, Any]) -> str:
    return manifest["metadata"].get("namespace") or "default"


def _name(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']} {_namespace(manifest)}/{manifest['metadata'].get('name')}"
