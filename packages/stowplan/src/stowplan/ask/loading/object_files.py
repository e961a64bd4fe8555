"""Load a cluster's objects from files as an API server would store them.

Defaults are applied, hand-written manifests are validated, and the pods of workloads, and the claims and slices of pods
and nodes, are generated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from stowplan.ask.loading.admission import admit
from stowplan.ask.loading.generated import (
    TEMPLATE,
    claim_key,
    generated_pods,
    name_of,
    with_devices,
    with_ephemeral_claims,
)
from stowplan.ask.loading.manifest_checks import checked
from stowplan.ask.loading.workloads import WORKLOAD_RESOURCES, WorkloadName
from stowplan.kube.api.manifest_files import load_files
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.types import Node, PersistentVolumeClaim, PriorityClass, StorageClass
from stowplan.kube.structs import PlainStruct

_QUOTA = "ResourceQuota"
#: Kinds that change pods when they are created.
_POLICIES = frozenset(("LimitRange", "RuntimeClass"))


class LoadedFiles(PlainStruct, frozen=True):
    """The result."""

    objects: Sequence[ApiStruct]
    #: Notes for the user about what was skipped or generated.
    notes: tuple[str, ...]
    #: Workloads whose pods were generated.
    workloads: tuple[WorkloadName, ...] = ()
    #: All workloads.
    manifests: Mapping[WorkloadName, Mapping[str, Any]] = {}
    #: All ResourceQuotas.
    quotas: Sequence[Mapping[str, Any]] = ()
    #: All LimitRanges and RuntimeClasses.
    policies: Sequence[Mapping[str, Any]] = ()
    #: The pods that were read, by namespace and name.
    pods: Mapping[tuple[str, str], Mapping[str, Any]] = {}
    #: Objects of kinds that only plugins may read.
    skipped: Sequence[Mapping[str, Any]] = ()
    #: Of the cluster that was dumped, if it is known.
    version: str = ""


def objects_of_files(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    *,
    recursive: bool = False,
    beside: Sequence[ApiStruct] = (),
) -> LoadedFiles:
    """Load files, directories and, for `-`, `stdin`; raises LoadError.

    `beside`: existing objects; their nodes get DaemonSet pods, and their priority and storage classes apply,
    and a StatefulSet uses its claims.
    """
    loaded = load_files(paths, stdin, others={*WORKLOAD_RESOURCES, *_POLICIES, TEMPLATE, _QUOTA}, recursive=recursive)
    manifests = (*loaded.raw, *loaded.others)
    checks = checked(loaded.manifests(), loaded.unread)
    nodes = [obj for obj in (*beside, *loaded.objects) if isinstance(obj, Node)]
    made = generated_pods(manifests, loaded.objects, nodes, beside)
    kept = {claim_key(obj) for obj in (*beside, *loaded.objects) if isinstance(obj, PersistentVolumeClaim)}
    # A StatefulSet uses claims that exist.
    added = [obj for obj in made.objects if not isinstance(obj, PersistentVolumeClaim) or claim_key(obj) not in kept]
    objects, device_notes = with_devices(manifests, (*loaded.objects, *added))
    objects, claim_notes = with_ephemeral_claims(objects)
    classes = [obj for obj in beside if isinstance(obj, PriorityClass | StorageClass)]
    admitted = admit((*classes, *objects))
    notes = (*loaded.notes, *checks, *made.notes, *device_notes, *claim_notes, *admitted.notes)
    named = {name_of(manifest): manifest for manifest in manifests if manifest["kind"] in WORKLOAD_RESOURCES}
    quotas = [manifest for manifest in manifests if manifest["kind"] == _QUOTA]
    policies = [manifest for manifest in manifests if manifest["kind"] in _POLICIES]
    return LoadedFiles(
        objects=admitted.objects[len(classes) :],
        notes=notes,
        workloads=made.workloads,
        manifests=named,
        quotas=quotas,
        policies=policies,
        pods={_name_of(raw): raw for raw in loaded.raw if raw["kind"] == "Pod"},
        skipped=loaded.skipped,
        version=loaded.version,
    )


def _name_of(raw: Mapping[str, Any]) -> tuple[str, str]:
    metadata = raw["metadata"]
    return metadata.get("namespace") or "default", metadata["name"]
