"""The scale subresource: one form for how many replicas something has, whatever its kind.

Upstream: pkg/registry/apps/deployment/storage (ScaleREST), apiextensions-apiserver/pkg/registry/customresource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.api.api_errors import INVALID, BadRequest, FieldError, NotFound, invalid
from stowplan.api.decode import convert
from stowplan.api.label_selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Selector, compile_label_selector
from stowplan.api.meta import LabelSelector
from stowplan.apiserver.objects import metadata_of
from stowplan.apiserver.schema import conform, struct_named

if TYPE_CHECKING:
    from stowplan.apiserver.objects import JsonObject
    from stowplan.apiserver.registry import Options, Registry
    from stowplan.apiserver.resources import Resource
    from stowplan.apiserver.store import Stored

API_VERSION = "autoscaling/v1"
KIND = "Scale"

_BUILT_IN_PATHS = (".spec.replicas", ".status.replicas", "")


def scale_of(registry: Registry, resource: Resource, stored: Stored) -> JsonObject:
    obj = registry.to_dict(resource, stored)
    spec_path, status_path, selector_path = _paths(resource)
    metadata = metadata_of(obj)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status = {"replicas": _at(obj, status_path) or 0}
    selector = _at(obj, selector_path) if selector_path else "" if resource.custom else _selector_text(obj)
    if selector:
        status["selector"] = selector
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": _at(obj, spec_path) or 0},
        "status": status,
    }


def set_scale(
    registry: Registry, resource: Resource, namespace: str, name: str, scale: JsonObject, *, options: Options
) -> JsonObject:
    """Write what a Scale wants into its object; the Scale that comes of it."""
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


def _at(obj: JsonObject, path: str) -> Any:
    value: Any = obj
    for name in path.split(".")[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


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
        # A ReplicationController selects by a plain map.
        selector = {"matchLabels": selector}
    return format_selector(compile_label_selector(convert(selector, LabelSelector)))


def format_selector(selector: Selector) -> str:
    """As requests spell it."""
    texts = []
    for requirement in selector.requirements:
        key, values = requirement.key, requirement.values
        if requirement.operator == IN:
            texts.append(f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})")
        elif requirement.operator == NOT_IN:
            texts.append(f"{key}!={values[0]}" if len(values) == 1 else f"{key} notin ({','.join(values)})")
        elif requirement.operator == EXISTS:
            texts.append(key)
        elif requirement.operator == DOES_NOT_EXIST:
            texts.append(f"!{key}")
    return ",".join(texts)
