"""OpenAPI paths and operations of a resource.

kubectl reads three things: the kind of a path, whether PATCH supports strategic merge, and whether it supports
`fieldValidation`; the rest is for people and other tools.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

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
    return Operation(
        method="post",
        action="post",
        id=_id("create", subject, part),
        kind=subject.kind,
        query=_WRITE,
        body=subject.schema,
        answer=subject.schema,
        codes=(200, 201, 202),
    )


def _replace(subject: Subject, *, part: str = "") -> Operation:
    return Operation(
        method="put",
        action="put",
        id=_id("replace", subject, part),
        kind=subject.kind,
        query=_WRITE,
        body=subject.schema,
        answer=subject.schema,
        codes=(200, 201),
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
