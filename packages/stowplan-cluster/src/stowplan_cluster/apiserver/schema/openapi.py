"""OpenAPI documents: version 3 per group and version, version 2 for all.

Pure functions of the catalogue and its resources' types. kubectl uses version 3 (explain, apply, whether the server
validates fields) and falls back to version 2, which it requests as protobuf: `openapi_v2_protobuf`.

Upstream: k8s.io/kube-openapi/pkg/builder, builder3, handler3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from stowplan_cluster.apiserver.discovery import subresource_of
from stowplan_cluster.apiserver.schema import schema_of as schema_of_built_in
from stowplan_cluster.apiserver.schema.json_schemas import JsonSchemas
from stowplan_cluster.apiserver.schema.operations import Operation, Subject, paths_of, subresource_path
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.types import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Catalogue, Resource

SchemaOf = Callable[["Resource"], Struct]

_INFO = {"title": "Kubernetes", "version": "v1.36.0"}
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
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.definitions.items()))},
    }


def openapi_v2(catalogue: Catalogue, *, schema_of: SchemaOf = schema_of_built_in) -> JsonObject:
    schemas = JsonSchemas(2)
    paths = {
        path: {"parameters": _parameters_v2(path), **{each.method: _operation_v2(each) for each in operations}}
        for path, operations in _paths(catalogue, schemas, schema_of)
    }
    definitions = dict(sorted(schemas.definitions.items()))
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": definitions}


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
