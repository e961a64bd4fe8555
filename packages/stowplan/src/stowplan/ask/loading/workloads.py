"""Workloads: their pod templates, and the pods that belong to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stowplan.kube.api.decode import DecodeError, convert, validation_errors
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import Pod

#: Kind, namespace, name.
WorkloadName = tuple[str, str, str]
#: Kind -> its resource, as `custom_resource` takes it.
WORKLOAD_RESOURCES = {
    "Deployment": "deployments.v1.apps",
    "StatefulSet": "statefulsets.v1.apps",
    "DaemonSet": "daemonsets.v1.apps",
    "ReplicaSet": "replicasets.v1.apps",
    "ReplicationController": "replicationcontrollers.v1.",
    "Job": "jobs.v1.batch",
    "CronJob": "cronjobs.v1.batch",
}
QUOTA_RESOURCE = "resourcequotas.v1."
#: Kind -> the kind through which it manages pods.
_THROUGH = {"Deployment": "ReplicaSet", "CronJob": "Job"}


def pod_of(manifest: Mapping[str, Any]) -> Pod:
    """The pod template of an object, or the pod itself; raises LoadError."""
    kind, metadata = manifest.get("kind"), _part(manifest, "metadata")
    name = f"{kind} {metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    if kind == "Pod":
        obj: Any = manifest
    else:
        template = _template(manifest, name)
        labels = _part(template, "metadata").get("labels") or {}
        about = {"name": metadata.get("name"), "namespace": metadata.get("namespace") or "default", "labels": labels}
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": template.get("spec") or {}}
    try:
        pod = convert(obj, Pod)
    except DecodeError as error:
        raise LoadError([f"{name}: {error}"]) from error
    problems = validation_errors(pod)
    if problems:
        raise LoadError([f"{name}: {problem}" for problem in problems])
    return pod


def _template(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    path = {"PodTemplate": (), "CronJob": ("spec", "jobTemplate", "spec")}.get(manifest.get("kind", ""), ("spec",))
    template = _part(manifest, *path).get("template")
    if not isinstance(template, dict):
        raise LoadError([f"{name}: has no pod template"])
    return template


def _part(manifest: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    found = manifest
    for depth, name in enumerate(path, start=1):
        found = found.get(name) or {}
        if not isinstance(found, dict):
            raise LoadError([f"{'.'.join(path[:depth])}: expected an object, got {found!r}"])
    return found


def workload_of(pod: Pod) -> tuple[str, str] | None:
    """Kind and name of the workload as in `belongs_to`: a Deployment rather than its ReplicaSet."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return None
    name, hyphen, _ = owner.name.rpartition("-")
    return ("Deployment", name) if owner.kind == "ReplicaSet" and hyphen else (owner.kind, owner.name)


def belongs_to(pod: Pod, kind: str, name: str) -> bool:
    """Whether a controller manages the pod; a Deployment and a CronJob do so through others, named after them."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return False
    if kind in _THROUGH:
        return owner.kind == _THROUGH[kind] and owner.name.rpartition("-")[0] == name
    return (owner.kind, owner.name) == (kind, name)
