"""Serve custom resources like built-in ones.

Registering a definition adds one `Resource` per served version to the catalogue; all versions share one storage. The
schema of the version determines fields, defaults and validation of its objects: it is converted to the types that
conformance, patches and server-side apply use.

Built-in resources are never replaced: a definition with the name of one is accepted but not served.

Upstream: k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stowplan.kube.api.api_errors import FieldError
from stowplan.kube.api.merge_patches import copy_of
from stowplan_cluster.apiserver.custom.definitions import (
    accepted_names,
    is_established,
    judged_status,
    names_of,
    schema_of_version,
    versions_of,
)
from stowplan_cluster.apiserver.custom.object_checks import object_errors
from stowplan_cluster.apiserver.custom.rules.evaluation import RuleTree, rule_tree, violations
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import Catalogue, Resource
from stowplan_cluster.apiserver.schema import struct_named
from stowplan_cluster.apiserver.schema.type_model import ATOMIC, MAP, SET, ListType, MapType, Scalar, Struct, Type

#: Where definitions are kept.
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


@dataclass(frozen=True)
class _Version:
    schema: JsonObject
    struct: Struct

    @cached_property
    def rules(self) -> RuleTree | None:
        """Compiled for the first object."""
        return rule_tree(self.schema)


class CustomResources:
    """Tracks the definitions in the store; defaults and validates the objects that they define."""

    def __init__(self, catalogue: Catalogue, *, clock: Callable[[], float]) -> None:
        self._catalogue = catalogue
        self._clock = clock
        #: By name, including the computed status.
        self._definitions: dict[str, JsonObject] = {}
        self._versions: dict[tuple[str, str, str], _Version] = {}

    # Definitions

    def restore(self, definitions: Iterable[JsonObject]) -> None:
        """Register the definitions of a loaded state; none takes a name that another one already has."""
        listed = list(definitions)
        self._definitions |= {_name_of(definition): definition for definition in listed}
        for definition in listed:
            self.register(definition)

    def register(self, definition: JsonObject) -> JsonObject | None:
        """Serve the current form of a definition; return its new status, None if unchanged."""
        name = _name_of(definition)
        status = judged_status(definition, self._others(definition), self._clock())
        judged = {**copy_of(definition), "status": status}
        self._definitions[name] = judged
        self._serve(judged)
        return status if status != (definition.get("status") or {}) else None

    def unregister(self, definition: JsonObject) -> list[str]:
        """Stop serving it; return the definitions to register again because names became free."""
        gone = self._definitions.pop(_name_of(definition), definition)
        self._replace(self._served(gone), {})
        return [_name_of(other) for other in self._others(gone) if not is_established(other)]

    # Objects

    def schema_of(self, resource: Resource) -> Struct:
        return self._version_of(resource).struct

    def apply_defaults(self, resource: Resource, obj: JsonObject) -> None:
        apply_schema_defaults(self._version_of(resource).schema, obj)

    def validate(self, resource: Resource, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
        """Validation of an object by its schema and the rules there; metadata is validated as for any kind."""
        version = self._version_of(resource)
        errors = object_errors(resource, version.schema, obj, old)
        return errors + violations(version.rules, obj, old, errors)

    def _version_of(self, resource: Resource) -> _Version:
        return self._versions[resource.group, resource.version, resource.plural]

    # Serving

    def _others(self, definition: JsonObject) -> list[JsonObject]:
        """The other definitions of its group."""
        name, group = _name_of(definition), _group_of(definition)
        return [other for known, other in self._definitions.items() if known != name and _group_of(other) == group]

    def _served(self, definition: JsonObject) -> list[Resource]:
        storage = f"{names_of(definition)['plural']}.{_group_of(definition)}"
        return [resource for resource in self._catalogue if resource.custom and resource.storage == storage]

    def _serve(self, definition: JsonObject) -> None:
        wanted: dict[Resource, JsonObject] = {}
        if is_established(definition):
            # The storage version comes first, see `Catalogue.of_storage`.
            versions = sorted(versions_of(definition), key=lambda version: not version.get("storage"))
            for version in versions:
                resource = _resource_of(definition, version)
                if version.get("served") and not self._is_built_in(resource):
                    wanted[resource] = schema_of_version(version) or {}
        self._replace(self._served(definition), wanted)

    def _is_built_in(self, resource: Resource) -> bool:
        stored = self._catalogue.of_storage(resource.storage)
        return stored is not None and not stored.custom

    def _replace(self, present: list[Resource], wanted: Mapping[Resource, JsonObject]) -> None:
        """Change the catalogue only if something changed: discovery and OpenAPI are cached by its version."""
        before = {resource: self._version_of(resource).schema for resource in present}
        if list(before.items()) == list(wanted.items()):
            return
        for resource in present:
            self._catalogue.remove(resource)
            del self._versions[_key(resource)]
        for resource, schema in wanted.items():
            self._catalogue.add(resource)
            self._versions[_key(resource)] = _Version(schema, struct_of(schema))


class _Column(dict[str, "str | int"]):
    """A printer column; hashable, as resources are cache keys. Never changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def _key(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural


def _name_of(definition: JsonObject) -> str:
    name: str = (definition.get("metadata") or {}).get("name") or ""
    return name


def _group_of(definition: JsonObject) -> str:
    group: str = (definition.get("spec") or {}).get("group") or ""
    return group


def _resource_of(definition: JsonObject, version: JsonObject) -> Resource:
    names, requested = accepted_names(definition), names_of(definition)
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    return Resource(
        group=_group_of(definition),
        version=version["name"],
        plural=requested["plural"],
        kind=names.get("kind") or requested["kind"],
        namespaced=(definition.get("spec") or {}).get("scope") == "Namespaced",
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("scale", "status") if subresources.get(name) is not None),
        generation=True,
        selectable_fields=tuple(field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()),
        scale_paths=_scale_paths(scale) if scale is not None else None,
        printer_columns=tuple(_Column(column) for column in version.get("additionalPrinterColumns") or ()),
        custom=True,
    )


def _scale_paths(scale: JsonObject) -> tuple[str, str, str]:
    return scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""


_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_SCALARS = {"string": Scalar.STRING, "boolean": Scalar.BOOL, "number": Scalar.NUMBER}
_LIST_KINDS = {"set": SET, "map": MAP}
_DESCRIPTIONS = {
    "apiVersion": "The group and version of the kind.",
    "kind": "What the object is.",
    "metadata": "What every object has.",
}


def struct_of(schema: JsonObject | None) -> Struct:
    """The type of whole objects; without a schema, unknown fields are preserved."""
    return _resource(schema or {"x-kubernetes-preserve-unknown-fields": True})


def _resource(schema: JsonObject) -> Struct:
    struct = _struct(schema)
    struct.fields |= {
        "apiVersion": Scalar.STRING,
        "kind": Scalar.STRING,
        "metadata": struct_named(_OBJECT_META),
    }
    for name, description in _DESCRIPTIONS.items():
        struct.descriptions.setdefault(name, description)
    return struct


def _type(schema: JsonObject) -> Type:
    if schema.get("x-kubernetes-int-or-string"):
        return Scalar.INT_OR_STRING
    if schema.get("x-kubernetes-embedded-resource"):
        return _resource(schema)
    match schema.get("type"):
        case "object":
            return _object(schema)
        case "array":
            return _list(schema)
        case "integer":
            return Scalar.INT32 if schema.get("format") == "int32" else Scalar.INT64
        case type:
            return _SCALARS.get(type or "", Scalar.ANY)


def _object(schema: JsonObject) -> Type:
    others = schema.get("additionalProperties")
    if schema.get("properties") or not others:
        return _struct(schema)
    value = _type(others) if isinstance(others, dict) else Scalar.ANY
    return MapType(value, atomic=schema.get("x-kubernetes-map-type") == "atomic")


def _struct(schema: JsonObject) -> Struct:
    properties = schema.get("properties") or {}
    descriptions = {name: of["description"] for name, of in properties.items() if of.get("description")}
    if schema.get("description"):
        descriptions[""] = schema["description"]
    return Struct(
        name="",
        fields={name: _type(of) for name, of in properties.items()},
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        preserve_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        required=frozenset(schema.get("required") or ()),
        descriptions=descriptions,
    )


def _list(schema: JsonObject) -> ListType:
    items = schema.get("items") or {}
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    defaults = {key: (items.get("properties") or {}).get(key, {}).get("default") for key in keys}
    return ListType(
        _type(items),
        kind=_LIST_KINDS.get(schema.get("x-kubernetes-list-type") or "", ATOMIC),
        keys=keys,
        key_defaults={key: default for key, default in defaults.items() if default is not None},
    )


# Apply the defaults of a schema.
#
# Upstream: apiextensions-apiserver/pkg/apiserver/schema/defaulting.


def apply_schema_defaults(schema: JsonObject, value: Any) -> None:
    """In place: prune nulls that are neither nullable nor defaulted, then set defaults from the outside in."""
    _drop_nulls(schema, value)
    _fill(schema, value)


def _inner(schema: JsonObject, name: str) -> JsonObject | None:
    """The schema of a field."""
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    if name in properties:
        of: JsonObject = properties[name]
        return of
    return others if isinstance(others, dict) else None


def _default(schema: JsonObject | None) -> Any:
    return None if schema is None else schema.get("default")


def _drop_nulls(schema: JsonObject, value: Any) -> None:
    if isinstance(value, dict):
        for name, item in list(value.items()):
            of = _inner(schema, name)
            if of is None:
                continue
            if item is None and not of.get("nullable") and _default(of) is None:
                del value[name]
            else:
                _drop_nulls(of, item)
    elif isinstance(value, list) and schema.get("items"):
        for item in value:
            _drop_nulls(schema["items"], item)


def _fill(schema: JsonObject, value: Any) -> None:
    if isinstance(value, dict):
        for name, of in (schema.get("properties") or {}).items():
            if (default := of.get("default")) is not None and (name not in value or _is_no_null(of, value[name])):
                value[name] = copy_of(default)
        for name in value:
            of = _inner(schema, name)
            if of is not None:
                if _is_no_null(of, value[name]):
                    value[name] = copy_of(_default(of))
                _fill(of, value[name])
    elif isinstance(value, list) and schema.get("items"):
        of = schema["items"]
        for index, item in enumerate(value):
            if _is_no_null(of, item):
                value[index] = copy_of(_default(of))
            _fill(of, value[index])


def _is_no_null(schema: JsonObject, value: Any) -> bool:
    """Whether the value is null and the schema does not allow null."""
    return value is None and not schema.get("nullable")
