"""OpenAPI documents: version 3 per group and version, version 2 for all.

Pure functions of the catalogue and its resources' types. kubectl uses version 3 (explain, apply, whether the server
validates fields) and falls back to version 2, which it requests as protobuf: `openapi_v2_protobuf`.

Upstream: k8s.io/kube-openapi/pkg/builder, builder3, handler3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.discovery import subresource_of
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import Catalogue, Resource
from stowplan_cluster.apiserver.schema import schema_of as schema_of_built_in
from stowplan_cluster.apiserver.schema.json_schemas import JsonSchemas
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.type_model import Struct

# OpenAPI paths and operations of a resource.
#
# kubectl reads three things: the kind of a path, whether PATCH supports strategic merge, and whether it supports
# `fieldValidation`; the rest is for people and other tools.
#
# Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go.

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"

#: Query parameters and their types.
_WRITE = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_FORCE = {"force": "boolean"}
_DELETE = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "boolean",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}
_LIST = {
    "allowWatchBookmarks": "boolean",
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_DELETE_COLLECTION = {
    **_DELETE,
    **{name: type for name, type in _LIST.items() if name not in ("allowWatchBookmarks", "watch")},
}
_LOG = {
    "container": "string",
    "follow": "boolean",
    "limitBytes": "integer",
    "previous": "boolean",
    "sinceSeconds": "integer",
    "tailLines": "integer",
    "timestamps": "boolean",
}


class Operation(PlainStruct, frozen=True, kw_only=True):
    method: str
    #: `x-kubernetes-action`.
    action: str
    id: str
    #: Group, version and kind of the object that is read or written.
    kind: tuple[str, str, str]
    query: dict[str, str] = field(default_factory=dict)
    #: Schema references; None means plain text.
    body: JsonObject | None = None
    consumes: tuple[str, ...] = ("*/*",)
    answer: JsonObject | None = None
    #: HTTP codes of success.
    codes: tuple[int, ...] = (200,)


class Subject(PlainStruct, frozen=True, kw_only=True):
    """A resource or subresource, and the schemas that describe it."""

    resource: Resource
    kind: tuple[str, str, str]
    schema: JsonObject
    list_schema: JsonObject
    #: OpenAPI name -> schema reference.
    reference: Callable[[str], JsonObject]
    #: Whether kubectl may compute strategic merge patches from the schema: it has all fields.
    merges: bool


def paths_of(subject: Subject) -> Iterator[tuple[str, list[Operation]]]:
    """Paths and operations of the resource itself."""
    resource, verbs = subject.resource, subject.resource.verbs
    scoped = f"{resource.path}/namespaces/{{namespace}}" if resource.namespaced else resource.path
    collection = [_create(subject)] if "create" in verbs else []
    if "list" in verbs:
        collection.append(_list(subject))
    if "deletecollection" in verbs:
        collection.append(_delete(subject, collection=True))
    yield f"{scoped}/{resource.plural}", collection
    if resource.namespaced and "list" in verbs:
        yield f"{resource.path}/{resource.plural}", [_list(subject, everywhere=True)]
    one = [_get(subject)] if "get" in verbs else []
    one += [_replace(subject)] if "update" in verbs else []
    one += [_patch(subject)] if "patch" in verbs else []
    one += [_delete(subject)] if "delete" in verbs else []
    if one:
        yield f"{scoped}/{resource.plural}/{{name}}", one


def subresource_path(subject: Subject, name: str) -> tuple[str, list[Operation]]:
    resource = subject.resource
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    path = f"{resource.path}{scope}/{resource.plural}/{{name}}/{name}"
    if name in ("binding", "eviction"):
        return path, [_create(subject, part=name)]
    if name == "log":
        return path, [
            Operation(method="get", action="get", id=_id("read", subject, name), kind=subject.kind, query=_LOG)
        ]
    if name == "finalize":
        return path, [_replace(subject, part=name)]
    return path, [_get(subject, part=name), _replace(subject, part=name), _patch(subject, part=name)]


def _id(verb: str, subject: Subject, part: str = "", *, everywhere: bool = False) -> str:
    resource = subject.resource
    group = "Core" if not resource.group else "".join(word.title() for word in resource.group.split(".")[:-2] or ())
    group = group or resource.group.partition(".")[0].title()
    scope = "Namespaced" if resource.namespaced and not everywhere else ""
    where = "ForAllNamespaces" if everywhere else ""
    return f"{verb}{group}{resource.version.title()}{scope}{resource.kind}{part.title()}{where}"


def _get(subject: Subject, *, part: str = "") -> Operation:
    return Operation(
        method="get", action="get", id=_id("read", subject, part), kind=subject.kind, answer=subject.schema
    )


def _list(subject: Subject, *, everywhere: bool = False) -> Operation:
    return Operation(
        method="get",
        action="list",
        id=_id("list", subject, everywhere=everywhere),
        kind=subject.kind,
        query=_LIST,
        answer=subject.list_schema,
    )


def _create(subject: Subject, *, part: str = "") -> Operation:
    return _write("create", "post", subject, part, codes=(200, 201, 202))


def _replace(subject: Subject, *, part: str = "") -> Operation:
    return _write("replace", "put", subject, part, codes=(200, 201))


def _write(verb: str, method: str, subject: Subject, part: str, *, codes: tuple[int, ...]) -> Operation:
    return Operation(
        method=method,
        action=method,
        id=_id(verb, subject, part),
        kind=subject.kind,
        query=_WRITE,
        body=subject.schema,
        answer=subject.schema,
        codes=codes,
    )


def _patch(subject: Subject, *, part: str = "") -> Operation:
    strategic = (STRATEGIC_MERGE_PATCH,) if subject.merges else ()
    return Operation(
        method="patch",
        action="patch",
        id=_id("patch", subject, part),
        kind=subject.kind,
        query={**_WRITE, **_FORCE},
        body={"type": "object"},
        consumes=(JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH),
        answer=subject.schema,
        codes=(200, 201),
    )


def _delete(subject: Subject, *, collection: bool = False) -> Operation:
    return Operation(
        method="delete",
        action="deletecollection" if collection else "delete",
        id=_id("deleteCollection" if collection else "delete", subject),
        kind=subject.kind,
        query=_DELETE_COLLECTION if collection else _DELETE,
        body=subject.reference(DELETE_OPTIONS),
        answer=subject.reference(STATUS),
        codes=(200,) if collection else (200, 202),
    )


SchemaOf = Callable[["Resource"], Struct]

_JSON = "application/json"
_YAML = "application/yaml"
_TEXT = "text/plain"
#: Streaming subresources are not described; kubectl does not need it.
_STREAMED = ("attach", "exec", "portforward", "proxy")


def openapi_v3_index(catalogue: Catalogue, *, schema_of: SchemaOf = schema_of_built_in) -> JsonObject:
    """The index of documents. URLs contain a hash of the content, as clients cache documents forever."""
    paths = {}
    for group, version in dict.fromkeys((known.group, known.version) for known in catalogue):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        document = openapi_v3(catalogue, group, version, schema_of=schema_of)
        digest = hashlib.sha512(msgspec.json.encode(document)).hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def openapi_v3(
    catalogue: Catalogue, group: str, version: str, *, schema_of: SchemaOf = schema_of_built_in
) -> JsonObject | None:
    """The document of one group and version; None if it has no served resource."""
    resources = [known for known in catalogue if (known.group, known.version) == (group, version)]
    if not resources:
        return None
    schemas = JsonSchemas(3)
    paths = {
        path: {"parameters": _parameters_v3(path), **{each.method: _operation_v3(each) for each in operations}}
        for path, operations in _paths(resources, schemas, schema_of)
    }
    return {
        "openapi": "3.0.0",
        "info": _info(catalogue),
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.definitions.items()))},
    }


def _info(catalogue: Catalogue) -> JsonObject:
    return {"title": "Kubernetes", "version": f"v{catalogue.kubernetes}.0"}


def openapi_v2(catalogue: Catalogue, *, schema_of: SchemaOf = schema_of_built_in) -> JsonObject:
    schemas = JsonSchemas(2)
    paths = {
        path: {"parameters": _parameters_v2(path), **{each.method: _operation_v2(each) for each in operations}}
        for path, operations in _paths(catalogue, schemas, schema_of)
    }
    definitions = dict(sorted(schemas.definitions.items()))
    return {"swagger": "2.0", "info": _info(catalogue), "paths": paths, "definitions": definitions}


def _paths(
    resources: Iterable[Resource], schemas: JsonSchemas, schema_of: SchemaOf
) -> Iterator[tuple[str, list[Operation]]]:
    for resource in resources:
        subject = _subject(resource, schemas, schema_of(resource))
        yield from paths_of(subject)
        for name in resource.subresources:
            if name not in _STREAMED:
                yield subresource_path(_part(subject, name, schemas), name)


def _subject(resource: Resource, schemas: JsonSchemas, struct: Struct) -> Subject:
    kind = (resource.group, resource.version, resource.kind)
    list_kind = (resource.group, resource.version, resource.list_kind)
    name = struct.name or _custom_name(resource, resource.kind)
    listed = "list" in resource.verbs
    list_schema: JsonObject = {}
    if listed and struct.name:
        list_schema = schemas.reference(built_in().structs[f"{struct.name}List"], kinds=(list_kind,))
    elif listed:
        list_name = _custom_name(resource, resource.list_kind)
        list_schema = schemas.list_of(struct, item_name=name, name=list_name, kinds=(list_kind,))
    return Subject(
        resource=resource,
        kind=kind,
        schema=schemas.reference(struct, name=name, kinds=(kind,)),
        list_schema=list_schema,
        reference=lambda each: schemas.reference(built_in().structs[each]),
        merges=bool(struct.name) and not struct.preserve_unknown,
    )


def _custom_name(resource: Resource, kind: str) -> str:
    return ".".join((*reversed(resource.group.split(".")), resource.version, kind))


def _part(subject: Subject, name: str, schemas: JsonSchemas) -> Subject:
    """The subresource, which may have a kind of its own."""
    described = subresource_of(name)
    if not described.kind:
        return subject
    api_version = f"{described.group}/{described.version}" if described.group else "v1"
    struct = built_in().kinds[api_version, described.kind]
    kind = (described.group, described.version or "v1", described.kind)
    return Subject(
        resource=subject.resource,
        kind=kind,
        schema=schemas.reference(struct, kinds=(kind,)),
        list_schema={},
        reference=subject.reference,
        merges=subject.merges,
    )


def _operation(operation: Operation) -> JsonObject:
    group, version, kind = operation.kind
    return {
        "operationId": operation.id,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
    }


def _parameters_v3(path: str) -> list[JsonObject]:
    return [
        *(
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in ("name", "namespace")
            if f"{{{name}}}" in path
        ),
        {"name": "pretty", "in": "query", "schema": {"type": "string"}},
    ]


def _operation_v3(operation: Operation) -> JsonObject:
    made = _operation(operation)
    made["parameters"] = [
        {"name": name, "in": "query", "schema": {"type": type}} for name, type in operation.query.items()
    ]
    if operation.body is not None:
        made["requestBody"] = {
            "content": {each: {"schema": operation.body} for each in operation.consumes},
            "required": operation.method != "delete",
        }
    schema = operation.answer or {"type": "string"}
    content = {each: {"schema": schema} for each in ((_JSON, _YAML) if operation.answer else (_TEXT,))}
    made["responses"] = {str(code): {"description": _SAID[code], "content": content} for code in operation.codes}
    made["responses"]["401"] = {"description": _SAID[401]}
    return made


def _parameters_v2(path: str) -> list[JsonObject]:
    return [
        *(
            {"name": name, "in": "path", "required": True, "type": "string"}
            for name in ("name", "namespace")
            if f"{{{name}}}" in path
        ),
        {"name": "pretty", "in": "query", "type": "string"},
    ]


def _operation_v2(operation: Operation) -> JsonObject:
    made = _operation(operation)
    made["consumes"] = list(operation.consumes)
    made["produces"] = [_JSON, _YAML] if operation.answer else [_TEXT]
    made["parameters"] = [{"name": name, "in": "query", "type": type} for name, type in operation.query.items()]
    if operation.body is not None:
        body = {"name": "body", "in": "body", "schema": operation.body}
        made["parameters"].insert(0, body if operation.method == "delete" else {**body, "required": True})
    schema = operation.answer or {"type": "string"}
    made["responses"] = {str(code): {"description": _SAID[code], "schema": schema} for code in operation.codes}
    made["responses"]["401"] = {"description": _SAID[401]}
    return made


_SAID = {200: "OK", 201: "Created", 202: "Accepted", 401: "Unauthorized"}
