"""Pod templates of workloads, and templates of the claims that pods name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, BinaryIO

from msgspec.structs import replace

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.sources.cluster_source import ClusterSource, note
from stowplan.app.sources.object_references import WORKLOADS, Reference
from stowplan.ask.loading.admission import admit
from stowplan.ask.loading.generated import TEMPLATE, claim_templates, owner_of, volume_claim_templates
from stowplan.ask.loading.manifest_checks import checked
from stowplan.ask.loading.workloads import belongs_to, pod_of
from stowplan.kube.api.decode import convert
from stowplan.kube.api.device_claims import ResourceClaimSpec
from stowplan.kube.api.manifest_files import Loaded, load_files, load_manifests
from stowplan.kube.api.meta import OwnerReference
from stowplan.kube.api.types import Pod, StatefulSet
from stowplan.kube.claims.stateful_claims import with_claims


def read_checked(path: str, stdin: BinaryIO | None = None, *, others: Collection[str] = ()) -> Loaded:
    """A file, or `stdin` for "-", with what an API server would refuse noted; raises LoadError where that misleads."""
    loaded = load_files([path], stdin, others=others)
    note(*loaded.notes, *checked(loaded.manifests(), loaded.unread))
    return loaded


def pod_in(about: ClusterSource, path: str, stdin: BinaryIO | None = None) -> Pod:
    """The pod of a file, which must contain one object with a pod template; a StatefulSet is added to the cluster."""
    kinds = (*WORKLOADS, "PodTemplate")
    found = [raw for raw, _ in read_checked(path, stdin, others=(*kinds, TEMPLATE)).manifests() if raw["kind"] in kinds]
    if len(found) != 1:
        raise InputError(f"{path}: want one Pod, Deployment or the like, got {len(found)}{_one_of(path, found)}")
    if found[0]["kind"] == "StatefulSet":
        (owning,) = admit([convert(found[0], StatefulSet)]).objects
        about.cluster.add(owning)
    return _template_of(found[0])


def _one_of(path: str, found: Sequence[Mapping[str, Any]]) -> str:
    """How to select the first of several."""
    if not found:
        return ""
    first, metadata = found[0], found[0]["metadata"]
    name = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    return f"; name one of them, as in `-f {path} {first['kind'].lower()}/{name}`"


def _template_of(manifest: Mapping[str, Any]) -> Pod:
    """A pod to copy, with claims named after it for volumeClaimTemplates."""
    pod = pod_of(manifest)
    if manifest["kind"] == "Pod":
        return pod
    owners = (convert(owner_of(manifest), OwnerReference),)
    spec = with_claims(pod.spec, volume_claim_templates(manifest), pod.metadata.name)
    return replace(pod, metadata=replace(pod.metadata, owner_references=owners), spec=spec)


def template_named(
    about: ClusterSource, files: Sequence[str], kind: str, key: str, *, recursive: bool = False
) -> Pod | None:
    """The pod of a controller's template; None if the controller is not in the files, or was not read."""
    namespace, _, name = key.partition("/")
    manifest = about.workloads.get((kind, namespace, name))
    if manifest is None and kind == "CronJob":
        # Its pods are not generated, so it is not loaded with the other objects of the files.
        manifest = _cron_job_in(files, key, recursive=recursive)
    return None if manifest is None else _template_of(manifest)


def _cron_job_in(files: Sequence[str], key: str, *, recursive: bool) -> Mapping[str, Any] | None:
    for _, manifest in load_manifests([path for path in files if path != "-"], recursive=recursive):
        metadata = manifest["metadata"]
        if manifest["kind"] == "CronJob" and f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}" == key:
            return manifest
    return None


def pod_named(about: ClusterSource, files: Sequence[str], wanted: Reference, *, recursive: bool = False) -> Pod:
    """The pod that is named, that of a controller's template, or one of a controller's pods; raises InputError.

    Pods of a live cluster come before the template, as they also have what admission added.
    """
    key = wanted.in_namespace(about.namespace)
    if wanted.kind in ("", "Pod"):
        return about.find(key).pod
    namespace, _, name = key.partition("/")
    template = template_named(about, files, wanted.kind, key, recursive=recursive)
    if template is not None and not about.live:
        return template
    for info in about.pods():
        if info.namespace == namespace and belongs_to(info.pod, wanted.kind, name):
            return info.pod
    if template is not None:
        return template
    raise InputError(f'{wanted.kind} "{key}" not found, and no pod of it{about.hint_about(wanted.kind, key)}')


def claim_templates_of(pod: Pod, files: Sequence[str], *, recursive: bool) -> dict[str, ResourceClaimSpec]:
    """The specs of ResourceClaimTemplates in files, by `namespace/name`; only read if the pod refers to any."""
    if all(entry.resource_claim_template_name is None for entry in pod.spec.resource_claims):
        return {}
    given = [path for path in files if path != "-"]
    return claim_templates(manifest for _, manifest in load_manifests(given, recursive=recursive))
