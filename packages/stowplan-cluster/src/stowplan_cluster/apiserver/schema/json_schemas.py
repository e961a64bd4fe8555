"""Convert types to OpenAPI schemas, version 2 or 3.

Named structs become definitions that refer to each other, so a document contains those reachable from its roots. Merge
rules are extensions, which `kubectl apply` computes its patches from.

Upstream: k8s.io/kube-openapi/pkg/generators, staging/src/k8s.io/apiserver/pkg/endpoints/openapi.
"""

from __future__ import annotations

from typing import Any

from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.type_model import MAP, ListType, MapType, Scalar, Struct, Type

_PLAIN: dict[Scalar, JsonObject] = {
    Scalar.STRING: {"type": "string"},
    Scalar.BOOL: {"type": "boolean"},
    Scalar.INT32: {"type": "integer", "format": "int32"},
    Scalar.INT64: {"type": "integer", "format": "int64"},
    Scalar.NUMBER: {"type": "number", "format": "double"},
    Scalar.BYTES: {"type": "string", "format": "byte"},
}
_AMOUNT = "An amount, as a number with or without a suffix: 500m, 1.5Gi, 2e3."
_NUMBER_OR_TEXT = "A number, or text such as a name or a percentage."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
#: Scalars that have a named definition: its name and schema.
_NAMED: dict[Scalar, tuple[str, JsonObject]] = {
    Scalar.QUANTITY: (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"description": _AMOUNT, "oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    Scalar.INT_OR_STRING: (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {
            "description": _NUMBER_OR_TEXT,
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        },
    ),
    Scalar.TIME: (
        f"{_META}.Time",
        {"description": "A time in RFC 3339, in seconds.", "type": "string", "format": "date-time"},
    ),
    Scalar.MICRO_TIME: (
        f"{_META}.MicroTime",
        {"description": "A time in RFC 3339, in microseconds.", "type": "string", "format": "date-time"},
    ),
    Scalar.DURATION: (f"{_META}.Duration", {"description": "A length of time such as 1h30m.", "type": "string"}),
    Scalar.ANY: ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"description": "Any JSON.", "type": "object"}),
    Scalar.SCHEMA_OR_LIST: (f"{_EXTENSIONS}.JSONSchemaPropsOrArray", {"description": "A schema or a list of them."}),
    Scalar.SCHEMA_OR_BOOL: (f"{_EXTENSIONS}.JSONSchemaPropsOrBool", {"description": "A schema, true or false."}),
    Scalar.SCHEMA_OR_NAMES: (
        f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray",
        {"description": "A schema or a list of property names."},
    ),
}
_PREFIXES = {2: "#/definitions/", 3: "#/components/schemas/"}


class JsonSchemas:
    """The definitions of one document, added as they are referred to."""

    def __init__(self, version: int) -> None:
        self.definitions: dict[str, JsonObject] = {}
        self._version = version

    def reference(self, struct: Struct, *, name: str = "", kinds: tuple[tuple[str, str, str], ...] = ()) -> JsonObject:
        """Reference a struct's definition. `name` names unnamed structs; `kinds` are its (group, version, kind)s."""
        name = name or struct.name
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self._object(struct)
        if kinds:
            described = [{"group": group, "kind": kind, "version": version} for group, version, kind in kinds]
            self.definitions[name]["x-kubernetes-group-version-kind"] = described
        return self._ref(name)

    def list_of(
        self, item: Struct, *, item_name: str, name: str, kinds: tuple[tuple[str, str, str], ...]
    ) -> JsonObject:
        """Reference the definition of a custom kind's list; lists of built-in kinds have structs."""
        meta = built_in().structs["io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"]
        fields: dict[str, Type] = {"apiVersion": Scalar.STRING, "kind": Scalar.STRING, "metadata": meta}
        reference = self.reference(Struct(name, fields), kinds=kinds)
        # The items' struct is unnamed, so they are referenced separately.
        items = {"type": "array", "items": self.reference(item, name=item_name)}
        self.definitions[name]["properties"]["items"] = items
        self.definitions[name]["required"] = ["items"]
        return reference

    def _ref(self, name: str) -> JsonObject:
        return {"$ref": _PREFIXES[self._version] + name}

    def _object(self, struct: Struct) -> JsonObject:
        made: JsonObject = {"type": "object"}
        if description := struct.descriptions.get(""):
            made["description"] = description
        if struct.fields:
            made["properties"] = {name: self._property(struct, name, type) for name, type in struct.fields.items()}
        if struct.required:
            made["required"] = [name for name in struct.fields if name in struct.required]
        if struct.atomic:
            made["x-kubernetes-map-type"] = "atomic"
        if struct.preserve_unknown:
            made["x-kubernetes-preserve-unknown-fields"] = True
        return made

    def _property(self, struct: Struct, name: str, type: Type) -> JsonObject:
        made = self._type(type)
        description = struct.descriptions.get(name)
        extensions = _extensions(type)
        if (description or extensions) and "$ref" in made and self._version == 3:
            # Siblings of $ref are ignored.
            made = {"allOf": [made]}
        return {**made, **({"description": description} if description else {}), **extensions}

    def _type(self, type: Type) -> JsonObject:
        if isinstance(type, Struct):
            return self._struct(type)
        if isinstance(type, ListType):
            return {"type": "array", "items": self._type(type.element)}
        if isinstance(type, MapType):
            return {"type": "object", "additionalProperties": self._type(type.value)}
        if type in _PLAIN:
            return dict(_PLAIN[type])
        name, described = _NAMED[type]
        if self._version == 2 and "oneOf" in described:
            # OpenAPI version 2 has no oneOf; use a string.
            described = {**{key: value for key, value in described.items() if key != "oneOf"}, "type": "string"}
        self.definitions.setdefault(name, dict(described))
        return self._ref(name)

    def _struct(self, struct: Struct) -> JsonObject:
        # A field may use a variant of the struct; its merge rules go with the field (`_extensions`).
        return self.reference(built_in().structs[struct.name]) if struct.name else self._object(struct)


def _extensions(type: Type) -> dict[str, Any]:
    """Merge rules of a field, if they differ from those of its type."""
    if isinstance(type, ListType):
        return _list_extensions(type)
    if isinstance(type, MapType):
        return {"x-kubernetes-map-type": "atomic"} if type.atomic else {}
    if not isinstance(type, Struct) or not type.name:
        return {}
    made = {}
    if type.retain_keys or type.replaced:
        made["x-kubernetes-patch-strategy"] = "retainKeys" if type.retain_keys else "replace"
    if built_in().structs[type.name].atomic and not type.atomic:
        made["x-kubernetes-map-type"] = "granular"
    return made


def _list_extensions(of: ListType) -> dict[str, Any]:
    made: dict[str, Any] = {"x-kubernetes-list-type": of.kind}
    if of.kind == MAP:
        made["x-kubernetes-list-map-keys"] = list(of.keys)
    if of.merge_key:
        made["x-kubernetes-patch-merge-key"] = of.merge_key
    if of.merge_key or of.merge_values:
        made["x-kubernetes-patch-strategy"] = "merge,retainKeys" if of.retain_keys else "merge"
    return made
