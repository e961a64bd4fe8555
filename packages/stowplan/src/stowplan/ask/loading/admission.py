"""Apply the API server's defaults to manifests.

Only absent fields are set: the namespace, a priority from the PriorityClass (or the global default), requests from
limits, host ports of pods with host networking, the default StorageClass of unbound claims.

Upstream: plugin/pkg/admission/priority, plugin/pkg/admission/storage/storageclass, pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import field

from stowplan.kube.api.container_totals import JsonObject
from stowplan.kube.api.decode import convert, is_namespaced, to_dict
from stowplan.kube.api.limit_ranges import add_defaults, default_limit_range, problems_of_pod
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.merge_patches import copy_of
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.policy import SYSTEM_PRIORITIES
from stowplan.kube.api.runtime_classes import apply_class, name_of_class
from stowplan.kube.api.storage import default_class
from stowplan.kube.api.types import Container, PersistentVolumeClaim, Pod, PodSpec, PriorityClass, StorageClass
from stowplan.kube.claims.claim_terms import is_fully_bound, names_class
from stowplan.kube.structs import PlainStruct

replace = msgspec.structs.replace


class Admitted(PlainStruct):
    """Objects as the API server would store them, and notes for the user."""

    objects: list[ApiStruct] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def admit(objects: Iterable[ApiStruct]) -> Admitted:
    """Set absent fields."""
    given = [with_namespace(obj) for obj in objects]
    classes = {name: PriorityClass(metadata=_named(name), value=value) for name, value in SYSTEM_PRIORITIES.items()}
    classes |= {obj.metadata.name: obj for obj in given if isinstance(obj, PriorityClass)}
    storage_class = default_class(obj for obj in given if isinstance(obj, StorageClass))
    found = Admitted()
    unknown: dict[str, list[str]] = {}
    for obj in given:
        if isinstance(obj, Pod):
            obj = _admitted(obj, classes, unknown)
        elif isinstance(obj, PersistentVolumeClaim):
            obj = with_storage_class(obj, storage_class)
        found.objects.append(obj)
    for name, pods in unknown.items():
        who = pods[0] if len(pods) == 1 else f"{pods[0]} and {len(pods) - 1} more"
        found.notes.append(f'priority class "{name}" is not in the files: {who} taken to have priority 0')
    return found


def with_storage_class(claim: PersistentVolumeClaim, default: str | None) -> PersistentVolumeClaim:
    """The claim, with the default class if it names none and is not bound."""
    spec = claim.spec
    if default is None or names_class(claim) or is_fully_bound(claim):
        return claim
    return replace(claim, spec=replace(spec, storage_class_name=default))


class PodPolicies:
    """LimitRanges and RuntimeClasses, as decoded JSON; raises LoadError."""

    def __init__(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        self._ranges: dict[str, list[JsonObject]] = {}
        self._classes: dict[str, JsonObject] = {}
        for manifest in manifests:
            try:
                self._add(copy_of(manifest))
            except (AttributeError, TypeError, ValueError) as error:
                # Nobody has validated it.
                name = f"{manifest['kind']} {(manifest.get('metadata') or {}).get('name')}"
                raise LoadError([f"{name} cannot be understood: {error}"]) from None

    def _add(self, obj: JsonObject) -> None:
        metadata, empty = obj["metadata"], {"spec": {"runtimeClassName": "any", "containers": [{}]}}
        if obj["kind"] == "RuntimeClass":
            apply_class(obj, empty)
            self._classes[metadata["name"]] = obj
            return
        default_limit_range(obj)
        add_defaults([obj], empty)
        problems_of_pod([obj], empty)
        self._ranges.setdefault(metadata.get("namespace") or "default", []).append(obj)

    def applied(self, pod: Pod) -> tuple[Pod, str]:
        """(the pod with what they add, why it may not be created; "": it may)."""
        ranges = self._ranges.get(pod.metadata.namespace or "default", ())
        if not ranges and not pod.spec.runtime_class_name:
            return pod, ""
        obj = to_dict(pod)
        add_defaults(ranges, obj)
        why = problems_of_pod(ranges, obj) or apply_class(self._classes.get(name_of_class(obj)), obj)
        return pod if why else replace(pod, spec=convert(obj["spec"], PodSpec)), why


def _named(name: str) -> Any:
    return replace(PriorityClass().metadata, name=name)


def with_namespace(obj: ApiStruct) -> ApiStruct:
    """The object, in namespace default if it has to be in one and names none."""
    metadata = cast("Any", obj).metadata
    if metadata.namespace or not is_namespaced(obj):
        return obj
    return replace(obj, metadata=replace(metadata, namespace="default"))


def _admitted(pod: Pod, classes: dict[str, PriorityClass], unknown: dict[str, list[str]]) -> Pod:
    spec = pod.spec
    if spec.priority is None:
        chosen = classes.get(spec.priority_class_name) if spec.priority_class_name else _default(classes)
        if chosen is not None:
            policy = spec.preemption_policy or chosen.preemption_policy
            spec = replace(spec, priority=chosen.value, preemption_policy=policy)
        elif spec.priority_class_name:
            unknown.setdefault(spec.priority_class_name, []).append(f"{pod.metadata.namespace}/{pod.metadata.name}")
    spec = _with_containers(spec)
    return pod if spec is pod.spec else replace(pod, spec=spec)


def _default(classes: dict[str, PriorityClass]) -> PriorityClass | None:
    """Of several global defaults the lowest value wins."""
    return min((c for c in classes.values() if c.global_default), key=lambda c: c.value, default=None)


def _with_containers(spec: PodSpec) -> PodSpec:
    containers = tuple(_completed(c, spec.host_network) for c in spec.containers)
    inits = tuple(_completed(c, spec.host_network) for c in spec.init_containers)
    if containers == spec.containers and inits == spec.init_containers:
        return spec
    return replace(spec, containers=containers, init_containers=inits)


def _completed(container: Container, host_network: bool) -> Container:
    resources, ports = container.resources, container.ports
    missing = {name: limit for name, limit in resources.limits.items() if name not in resources.requests}
    if missing:
        resources = replace(resources, requests={**missing, **resources.requests})
    if host_network:
        ports = tuple(p if p.host_port else replace(p, host_port=p.container_port) for p in ports)
    if not missing and ports == container.ports:
        return container
    return replace(container, resources=resources, ports=ports)
