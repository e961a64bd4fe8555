"""Response bodies: objects, lists and Status.

Objects are stored as JSON, so a response usually consists of the stored bytes, joined by commas in a list: it takes no
memory of its own. Objects are decoded only for Tables, metadata, YAML or another version.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go, responsewriters/writers.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stowplan.kube.api.api_errors import ApiError, BadRequest, NotAcceptable, Status
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.requests.forms import YAML, Form, as_yaml, error_headers, status_object
from stowplan.net.serving.requests.messages import JSON
from stowplan_cluster.apiserver.listing import Page
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.store import Stored
from stowplan_cluster.apiserver.tables import table_of

Headers = tuple[tuple[str, str], ...]

#: Warning headers: total number of characters, and maximum length of each if the total exceeds it.
_MAX_WARNINGS = 4096
_MAX_WARNING = 256
_INCLUDE = ("", "Metadata", "Object", "None")

encode = msgspec.json.Encoder().encode


class Answer(PlainStruct, frozen=True):
    #: For a list, the stored objects themselves: it is never copied as a whole.
    pieces: Sequence[bytes]
    status: int = 200
    content_type: str = JSON
    headers: Headers = ()

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


class ObjectForm(PlainStruct, frozen=True):
    """The form of objects in a response."""

    #: The negotiated media type and kind.
    accepted: Form
    include_object: str
    pretty: bool

    @property
    def plain(self) -> bool:
        """Whether stored bytes can be sent as they are."""
        return not self.accepted.kind and self.accepted.media_type == JSON and not self.pretty


PLAIN = ObjectForm(Form(), "", False)


def form_of(accepted: Form, include_object: str, *, pretty: bool) -> ObjectForm:
    if accepted.kind == "Table" and include_object not in _INCLUDE:
        listed = ", ".join(go_quote(value) for value in _INCLUDE)
        raise BadRequest(
            f"Unable to convert to Table as requested: includeObject: Unsupported value: "
            f"{go_quote(include_object)}: supported values: {listed}"
        )
    if not (accepted.kind or include_object or pretty or accepted.pretty) and accepted.media_type == JSON:
        return PLAIN
    return ObjectForm(accepted, include_object or "Metadata", pretty or accepted.pretty)


class Renderer:
    """Renders the registry's results as responses."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: Whether stored bytes can be sent as they are, by (apiVersion, plural).
        self._kept_as_is: dict[tuple[str, str], bool] = {}
        self._catalogue_version = -1

    def data(self, resource: Resource, stored: Stored) -> bytes:
        """The object as JSON in the version of this resource."""
        if self._is_kept_as_is(resource):
            return stored.data
        return encode(self._registry.to_dict(resource, stored))

    def _is_kept_as_is(self, resource: Resource) -> bool:
        catalogue = self._registry.catalogue
        if self._catalogue_version != catalogue.version:
            self._kept_as_is.clear()
            self._catalogue_version = catalogue.version
        key = (resource.api_version, resource.plural)
        kept = self._kept_as_is.get(key)
        if kept is None:
            # Events are stored without some fields that are always encoded in responses.
            own = resource.storage != "events" and catalogue.of_storage(resource.storage) == resource
            kept = self._kept_as_is[key] = own
        return kept

    def one(
        self, resource: Resource, stored: Stored, form: ObjectForm, *, status: int = 200, headers: Headers = ()
    ) -> Answer:
        if form.plain:
            return Answer((self.data(resource, stored),), status, JSON, headers)
        obj = self._registry.to_dict(resource, stored)
        return document(self.in_form(resource, obj, form), form, status=status, headers=headers)

    def in_form(self, resource: Resource, obj: JsonObject, form: ObjectForm) -> JsonObject:
        """One object in the requested form; a Table includes column definitions."""
        kind, version = form.accepted.kind, form.accepted.version
        if kind == "Table":
            resource_version = obj.get("metadata", {}).get("resourceVersion", "")
            return self._table(resource, [obj], form, version=resource_version)
        if kind == "PartialObjectMetadata":
            return _partial(obj, version)
        if kind:
            raise NotAcceptable(f"you requested {kind}, but the requested object is not a list ({resource.kind})")
        return obj

    def page(self, resource: Resource, page: Page, form: ObjectForm) -> Answer:
        if form.plain:
            return Answer(self._page_pieces(resource, page))
        objects = [self._registry.to_dict(resource, stored) for stored in page.items]
        kind, version = form.accepted.kind, form.accepted.version
        if kind == "Table":
            table = self._table(
                resource,
                objects,
                form,
                version=str(page.version),
                continue_=page.continue_,
                remaining=page.remaining,
            )
            return document(table, form)
        if kind == "PartialObjectMetadata":
            raise NotAcceptable(f"you requested {kind}, but the requested object is a list ({resource.list_kind})")
        head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": _list_metadata(page)}
        if kind:
            head |= {"kind": kind, "apiVersion": f"meta.k8s.io/{version}"}
            objects = [_partial(obj, version) for obj in objects]
        return document({**head, "items": objects}, form)

    def _page_pieces(self, resource: Resource, page: Page) -> list[bytes]:
        head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": _list_metadata(page)}
        if self._is_kept_as_is(resource):
            items = [stored.data for stored in page.items]
        else:
            items = [self.data(resource, stored) for stored in page.items]
        pieces = [encode(head)[:-1] + b',"items":[']
        for item in items:
            pieces += (item, b",")
        if items:
            pieces.pop()
        return [*pieces, b"]}\n"]

    def _table(
        self,
        resource: Resource,
        objects: list[JsonObject],
        form: ObjectForm,
        *,
        version: str,
        continue_: str = "",
        remaining: int | None = None,
    ) -> JsonObject:
        table = table_of(
            resource,
            objects,
            now=self._registry.clock(),
            include_object=form.include_object,
            version=version,
            continue_=continue_,
            remaining=remaining,
        )
        table["apiVersion"] = f"meta.k8s.io/{form.accepted.version}"
        return table


def _list_metadata(page: Page) -> JsonObject:
    metadata: JsonObject = {"resourceVersion": str(page.version)}
    if page.continue_:
        metadata["continue"] = page.continue_
        if page.remaining:
            metadata["remainingItemCount"] = page.remaining
    return metadata


def _partial(obj: JsonObject, version: str) -> JsonObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }


def document(obj: Any, form: ObjectForm, *, status: int = 200, headers: Headers = ()) -> Answer:
    """Any JSON value as JSON or YAML."""
    if form.accepted.media_type == YAML:
        return Answer((as_yaml(obj),), status, YAML, headers)
    body = encode(obj)
    if form.pretty:
        body = msgspec.json.format(body, indent=2)
    return Answer((body + b"\n",), status, JSON, headers)


def status_body(status: Status) -> bytes:
    return encode(status_object(status)) + b"\n"


def success(status: int, details: JsonObject | None = None) -> JsonObject:
    fields = {"details": details} if details is not None else {"code": status}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **fields}


def error_answer(error: ApiError, form: ObjectForm = PLAIN, *, headers: Headers = ()) -> Answer:
    return document(
        status_object(error.status), form, status=error.status.code, headers=(*headers, *error_headers(error))
    )


def warning_headers(warnings: Sequence[str]) -> Headers:
    """Warning headers of a response, without duplicates, truncated if there are too many."""
    texts = [text for text in dict.fromkeys(warnings) if text and text.isprintable()]
    if sum(map(len, texts)) > _MAX_WARNINGS:
        texts = [text[:_MAX_WARNING] for text in texts][: _MAX_WARNINGS // _MAX_WARNING]
    return tuple(("Warning", f'299 - "{_quoted(text)}"') for text in texts)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
