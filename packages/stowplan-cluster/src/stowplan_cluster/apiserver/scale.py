"""The scale subresource, for all kinds that have replicas.

Upstream: pkg/registry/apps/deployment/storage (ScaleREST), apiextensions-apiserver/pkg/registry/customresource.
"""

from __future__ import annotations

from stowplan.kube.api.api_errors import INVALID, BadRequest, FieldError, NotFound, invalid
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of, value_at
from stowplan_cluster.apiserver.registry import Options, Registry
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.schema import conform, struct_named
from stowplan_cluster.apiserver.selection import format_selector
from stowplan_cluster.apiserver.store import Stored

API_VERSION = "autoscaling/v1"
KIND = "Scale"

_BUILT_IN_PATHS = (".spec.replicas", ".status.replicas", "")


def scale_of(registry: Registry, resource: Resource, stored: Stored) -> JsonObject:
    obj = registry.to_dict(resource, stored)
    spec_path, status_path, selector_path = _paths(resource)
    metadata = metadata_of(obj)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status = {"replicas": value_at(obj, status_path) or 0}
    selector = value_at(obj, selector_path) if selector_path else "" if resource.custom else _selector_text(obj)
    if selector:
        status["selector"] = selector
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": value_at(obj, spec_path) or 0},
        "status": status,
    }


def set_scale(
    registry: Registry, resource: Resource, namespace: str, name: str, scale: JsonObject, *, options: Options
) -> JsonObject:
    """Apply a Scale to its object and return the resulting Scale."""
    if scale.get("kind", KIND) != KIND or scale.get("apiVersion", API_VERSION) != API_VERSION:
        raise BadRequest(f"this path takes kind {KIND} of apiVersion {API_VERSION}")
    conform(struct_named("io.k8s.api.autoscaling.v1.Scale"), scale)
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        message = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid(KIND, "autoscaling", name, [FieldError(INVALID, "spec.replicas", message)])
    obj = registry.to_dict(resource, registry.get(resource, namespace, name))
    version = metadata_of(scale).get("resourceVersion")
    if version:
        metadata_of(obj)["resourceVersion"] = version
    _put(obj, _paths(resource)[0], replicas)
    stored = registry.update(resource, namespace, name, obj, subresource="scale", options=options)
    return scale_of(registry, resource, stored)


def _paths(resource: Resource) -> tuple[str, str, str]:
    if "scale" not in resource.subresources:
        raise NotFound("the server could not find the requested resource")
    return resource.scale_paths or _BUILT_IN_PATHS


def _put(obj: JsonObject, path: str, value: object) -> None:
    *parents, last = path.split(".")[1:]
    for name in parents:
        obj = obj.setdefault(name, {})
    obj[last] = value


def _selector_text(obj: JsonObject) -> str:
    selector = (obj.get("spec") or {}).get("selector")
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        # A ReplicationController's selector is a plain map.
        selector = {"matchLabels": selector}
    return format_selector(selector)
