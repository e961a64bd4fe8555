"""Fields for `stowplan config explain` (type, default, versions, meaning), and as JSON schema for editors.

Derived from the schemas of the configuration, its older versions, policies, and the arguments that plugins declare. The
JSON schema of v1 covers single fields; cross-field checks are left to `stowplan config validate`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stowplan.kube.config.config_errors import ConfigError, did_you_mean
from stowplan.kube.config.config_loading import load_document
from stowplan.kube.config.declaration import Declarations, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.older.older_schemas import API_VERSIONS, OLDER_ARGS, POLICY, VERSIONS, configuration_schema
from stowplan.kube.config.schema import (
    API_VERSION,
    CONFIGURATION,
    DURATION,
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
from stowplan.kube.config.serialize import encode_object
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion

_ARGS = "Args"


@dataclass(frozen=True, kw_only=True)
class ExplainedField:
    """A field or a kind, with names, types and texts of its children."""

    kind: str
    #: "" for the kind itself.
    path: str
    type: str
    text: str
    versions: tuple[str, ...]
    default: str = ""
    choices: tuple[str, ...] = ()
    range: str = ""
    #: Name, type, text.
    fields: tuple[tuple[str, str, str], ...] = ()
    #: For a plugin: additional lines.
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        found = {
            "kind": self.kind,
            "path": self.path,
            "type": self.type,
            "description": self.text,
            "versions": list(self.versions),
            "default": self.default,
            "choices": list(self.choices),
            "range": self.range,
            "notes": list(self.notes),
            "fields": [{"name": name, "type": type_, "description": text} for name, type_, text in self.fields],
        }
        return {name: value for name, value in found.items() if value}


class UnknownFieldError(ConfigError):
    """There is no field at this path."""


def explain_field(path: str, plugins: Declarations, features: FeatureGates) -> ExplainedField:
    """Explain a path such as `profiles.plugins.score`, a kind, or a plugin; "" is the configuration."""
    steps = [step for step in re.sub(r"\[[^]]*\]", "", path).split(".") if step]
    kinds = _kinds(plugins, features.emulated_version)
    if steps and steps[0] in plugins and f"{steps[0]}{_ARGS}" in kinds:
        steps[0] += _ARGS
    elif steps and steps[0] in plugins:
        return _plugin(plugins[steps[0]])
    if steps[:3] == ["profiles", "pluginConfig", "args"] and len(steps) > 3:
        raise UnknownFieldError(f"{path}: the arguments depend on the plugin", "explain NodeResourcesFitArgs, as one")
    if steps and steps[0] in kinds:
        return _explained(kinds, steps[0], steps[1:], plugins, features)
    return _explained(kinds, CONFIGURATION.name, steps, plugins, features)


def known_paths(plugins: Declarations) -> Iterator[str]:
    """Every path that can be explained."""
    for name, schemas in _kinds(plugins).items():
        prefix = "" if name == CONFIGURATION.name else f"{name}."
        if prefix:
            yield name
        for schema in schemas.values():
            yield from (f"{prefix}{path}" for path in _paths(schema))
    yield from plugins


def _paths(type_: Type, path: str = "") -> Iterator[str]:
    struct = _struct(type_)
    for name, its in struct.fields.items() if struct is not None else ():
        inner = f"{path}.{name}" if path else name
        yield inner
        yield from _paths(its.type, inner)


# --- kinds and their versions


def _kinds(plugins: Declarations, version: KubernetesVersion = DEFAULT_VERSION) -> dict[str, dict[str, Struct]]:
    """Kind -> version -> its schema, the newest version first."""
    older = {name: configuration_schema(name) for name in reversed(VERSIONS)}
    versions = {"v1": configuration_at(version), **older}
    kinds: dict[str, dict[str, Struct]] = {CONFIGURATION.name: versions}
    for declaration in plugins.values():
        if declaration.own_args is not None:
            schema = declaration.own_args.schema
            its_older = ("v1beta3", "v1beta2", "v1beta1") if schema.name in OLDER_ARGS else ()
            kinds[schema.name] = dict.fromkeys(("v1", *its_older), schema)
    kinds[POLICY.name] = dict.fromkeys(API_VERSIONS, POLICY)
    return kinds


def _explained(
    kinds: Mapping[str, Mapping[str, Struct]],
    kind: str,
    steps: list[str],
    plugins: Declarations,
    features: FeatureGates,
) -> ExplainedField:
    found = {version: its for version, schema in kinds[kind].items() if (its := _find(schema, steps)) is not None}
    if not found:
        raise _unknown(kinds, kind, steps, plugins)
    newest = next(iter(found.values()))
    struct = _struct(newest.type)
    return ExplainedField(
        kind=kind,
        path=".".join(steps),
        type=shown_type(newest.type),
        text=newest.text or _KIND_TEXTS.get(kind, "Arguments of the plugin." if not steps else ""),
        versions=tuple(found),
        default=newest.default or _default(kind, steps, newest.type, plugins, features),
        choices=newest.choices,
        range=_range(newest),
        fields=tuple((name, shown_type(its.type), its.text) for name, its in struct.fields.items()) if struct else (),
        notes=tuple(_notes_of_kind(kind, plugins)) if not steps else (),
    )


_KIND_TEXTS = {
    CONFIGURATION.name: "The configuration of a scheduler.",
    POLICY.name: "Predicates and priorities of Kubernetes up to 1.22; stowplan config convert makes a profile of them.",
}


def _find(schema: Struct, steps: list[str]) -> Field | None:
    found = Field(schema)
    for step in steps:
        struct = _struct(found.type)
        if struct is None or step not in struct.fields:
            return None
        found = struct.fields[step]
    return found


def _unknown(
    kinds: Mapping[str, Mapping[str, Struct]], kind: str, steps: list[str], plugins: Declarations
) -> UnknownFieldError:
    good = len(steps)
    while not any(_find(schema, steps[:good]) for schema in kinds[kind].values()):
        good -= 1
    parents = [_struct(its.type) for schema in kinds[kind].values() if (its := _find(schema, steps[:good])) is not None]
    known = list(dict.fromkeys(name for parent in parents if parent is not None for name in parent.fields))
    where = ".".join((kind, *steps[:good]))
    others = [*kinds, *plugins] if good == 0 and kind == CONFIGURATION.name else []
    hints = list(did_you_mean(steps[good], [*known, *others]))
    if others and not hints:
        hints = ["stowplan config explain lists all fields; it also explains kinds of arguments, plugins and Policy"]
    elif known and not hints:
        hints = [f"known are {', '.join(known)}"]
    return UnknownFieldError(f"{where} has no field {steps[good]}", *hints)


def _struct(type_: Type) -> Struct | None:
    while isinstance(type_, Pointer | Slice):
        type_ = type_.item
    return type_ if isinstance(type_, Struct) else None


# --- texts


def shown_type(type_: Type) -> str:
    match type_:
        case Pointer(item=item):
            return shown_type(item)
        case Slice(item=item):
            return f"[]{shown_type(item)}"
        case Struct(name=name):
            return name
        case Scalar(kind="string"):
            return "string"
        case Scalar(kind="bytes"):
            return "base64"
        case Scalar(kind=kind):
            return kind
        case Map(item=item):
            return f"map[string]{shown_type(item)}"
        case StringMap():
            return "map[string]string"
        case Raw():
            return "object"


def _range(found: Field) -> str:
    if found.least is None and found.most is None:
        return ""
    if found.most is None:
        return f"{found.least} or more"
    return f"{found.least} to {found.most}"


def _default(kind: str, steps: list[str], type_: Type, plugins: Declarations, features: FeatureGates) -> str:
    """The default as JSON; "" if there is none, or if it takes more than a line."""
    if _struct(type_) is not None and not isinstance(type_, Slice):
        return ""
    value: Any = _defaults(kind, plugins, features)
    for step in steps:
        while isinstance(value, list):
            value = value[0] if value else None
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is None or (kind == CONFIGURATION.name and steps[:3] == ["profiles", "plugins", "multiPoint"]):
        return _zero(type_)
    return value if isinstance(value, str) and value else json.dumps(value)


def _zero(type_: Type) -> str:
    if isinstance(type_, Scalar) and type_ is not DURATION:
        return {"string": '""', "bytes": '""', "bool": "false"}.get(type_.kind, "0")
    return ""


def _defaults(kind: str, plugins: Declarations, features: FeatureGates) -> dict[str, Any]:
    if kind == CONFIGURATION.name:
        return load_document(None, plugins=plugins, features=features).configuration.to_dict()
    for declaration in plugins.values():
        if declaration.own_args is not None and declaration.own_args.schema.name == kind:
            return encode_object(declaration.own_args.schema, declaration.own_args().completed(features))
    return {}


# --- plugins


def _notes_of_kind(kind: str, plugins: Declarations) -> Iterator[str]:
    for declaration in plugins.values():
        if declaration.own_args is not None and declaration.own_args.schema.name == kind:
            yield from _notes(declaration)


def _notes(declaration: PluginDeclaration) -> Iterator[str]:
    yield f"{declaration.name} runs at: {', '.join(sorted(declaration.points))}"
    place = declaration.default
    if place is None:
        yield "by default: it does not run"
    else:
        weight = f", with weight {place.weight or 1}" if "score" in declaration.points else ""
        gate = f", if the feature gate {place.gate} is on" if place.gate else ""
        yield f"by default: it runs{weight}{gate}"
    for old, how in declaration.replaces.items():
        yield f"instead of {old}: {how}"


def _plugin(declaration: PluginDeclaration) -> ExplainedField:
    return ExplainedField(
        kind=declaration.name,
        path="",
        type="plugin",
        text="It has no arguments." if declaration.args_type is None else "Its arguments have a type of their own.",
        versions=("v1",),
        notes=tuple(_notes(declaration)),
    )


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
