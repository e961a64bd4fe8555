"""JSON schema of KubeSchedulerConfiguration v1, for editors.

Covers single fields. Cross-field checks are left to `stowplan config validate`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.schema import (
    API_VERSION,
    POINTS,
    Field,
    Map,
    Pointer,
    Raw,
    Scalar,
    Slice,
    StringMap,
    Struct,
    Type,
    configuration_at,
)
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion

_DIALECT = "http://json-schema.org/draft-07/schema#"
_DURATION = r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
_INTEGERS = {"int32": 2**31, "int64": 2**63}

Json = dict[str, Any]


def json_schema(plugins: Declarations, version: KubernetesVersion = DEFAULT_VERSION) -> Json:
    definitions = _Definitions(plugins)
    top = definitions.struct(configuration_at(version))
    return {
        "$schema": _DIALECT,
        "title": "KubeSchedulerConfiguration",
        "description": f"The configuration of a Kubernetes scheduler, {API_VERSION}.",
        **top,
        "required": ["apiVersion", "kind"],
        "definitions": dict(sorted(definitions.found.items())),
    }


class _Definitions:
    def __init__(self, plugins: Declarations) -> None:
        self.found: dict[str, Json] = {}
        self._plugins = plugins

    def struct(self, struct: Struct) -> Json:
        properties = {name: self._property(struct, name, field) for name, field in struct.fields.items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}

    def _property(self, struct: Struct, name: str, field: Field) -> Json:
        if name == "apiVersion":
            found: Json = {"const": API_VERSION}
        elif struct.name == "Plugins" and name in POINTS:
            found = self._point(name, field.type)
        elif struct.name == "KubeSchedulerProfile" and name == "pluginConfig":
            found = {"type": "array", "items": self._plugin_config()}
        else:
            found = self._value(field.type)
        if field.choices:
            found = {"enum": list(field.choices)}
        if field.least is not None:
            found["minimum"] = field.least
        if field.most is not None:
            found["maximum"] = field.most
        return {"description": field.text, **_or_null(found, name)} if field.text else found

    def _value(self, type_: Type) -> Json:
        match type_:
            case Pointer(item=item):
                return self._value(item)
            case Slice(item=item):
                return {"type": "array", "items": self._value(item)}
            case Struct(name=name):
                if name not in self.found:
                    self.found[name] = {}
                    self.found[name] = self.struct(type_)
                return {"allOf": [{"$ref": f"#/definitions/{name}"}]}
            case Map(item=item):
                return {"type": "object", "additionalProperties": self._value(item)}
            case StringMap():
                return {"type": "object", "additionalProperties": {"type": "string"}}
            case Raw():
                return {}
            case Scalar():
                return _scalar(type_)

    # -- plugins ------------------------------------------------------------------------------------------------------

    def _point(self, point: str, type_: Type) -> Json:
        """A set of plugins, with the names of those that can run at the point."""
        names = [name for name, declared in self._plugins.items() if point in declared.points or point == "multiPoint"]
        return {
            "allOf": [self._value(type_), {"properties": {"enabled": _named(names), "disabled": _named(["*", *names])}}]
        }

    def _plugin_config(self) -> Json:
        """An entry whose arguments have the plugin's kind."""
        entry: Json = {
            "type": "object",
            "properties": {"name": _one_of_or_other(self._plugins), "args": {"type": ["object", "null"]}},
            "required": ["name"],
            "additionalProperties": False,
        }
        kinds = {
            name: declared.own_args.schema for name, declared in self._plugins.items() if declared.own_args is not None
        }
        entry["allOf"] = [
            {
                "if": {"properties": {"name": {"const": name}}},
                "then": {"properties": {"args": {"anyOf": [self._value(schema), {"type": "null"}]}}},
            }
            for name, schema in kinds.items()
        ]
        return entry


def _named(names: Iterable[str]) -> Json:
    return {"items": {"properties": {"name": _one_of_or_other(names)}}}


def _one_of_or_other(names: Iterable[str]) -> Json:
    """Completions; other names are allowed for out-of-tree plugins."""
    return {"anyOf": [{"enum": list(names)}, {"type": "string"}]}


def _or_null(found: Json, name: str) -> Json:
    """Null means unset, except for the kind."""
    if name in ("apiVersion", "kind", "name"):
        return found
    if "type" in found:
        return {**found, "type": [found["type"], "null"] if isinstance(found["type"], str) else found["type"]}
    if "enum" in found:
        return {**found, "enum": [*found["enum"], None]}
    return {"anyOf": [found, {"type": "null"}]} if found else found


def _scalar(type_: Scalar) -> Json:
    match type_.kind:
        case "duration":
            return {"type": "string", "pattern": _DURATION}
        case "bytes":
            return {"type": "string", "contentEncoding": "base64"}
        case "bool":
            return {"type": "boolean"}
        case "float32" | "float64":
            return {"type": "number"}
        case "quantity":
            return {"type": ["string", "number"]}
        case "string":
            return {"type": "string"}
    bound = _INTEGERS[type_.kind]
    return {"type": "integer", "minimum": -bound, "maximum": bound - 1}
