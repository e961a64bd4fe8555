"""Decode lists and watch events into structs; an invalid object does not affect the others.

A page or line is decoded as a whole. Only if that fails it is taken apart: nulls, which the fast path rejects, are
removed, and what still does not decode becomes a `BadObject` that names the object and the field.

Upstream: staging/src/k8s.io/apimachinery/pkg/watch/streamwatcher.go, client-go/rest/watch/decoder.go.
"""

# No postponed annotations: msgspec reads them at run time.

from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from stowplan.kube.api.api_errors import Status, error_of
from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.decode import DecodeError, decode_custom, decode_json, expected
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.meta import ApiStruct, ListMeta
from stowplan.kube.api.port import BadObject, Listing, Unreachable, WatchEvent

T = TypeVar("T", bound=ApiStruct)

#: A line of a watch is one object; etcd limits these to a few MiB.
LONGEST_LINE = 64 << 20

#: What decoders raise besides ValidationError, which is a DecodeError, too. Nesting can be too deep.
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_CHANGES = ("ADDED", "MODIFIED", "DELETED")


class _Page(msgspec.Struct, Generic[T], gc=False):
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class _RawPage(msgspec.Struct, gc=False):
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _NamedResource(msgspec.Struct, gc=False):
    name: str


class _ResourceList(msgspec.Struct, gc=False):
    resources: list[_NamedResource]


class _Line(msgspec.Struct, Generic[T], gc=False):
    type: str
    object: T


class _RawLine(msgspec.Struct, gc=False):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


@lru_cache(maxsize=256)
def _line_decoder(kind: type[ApiStruct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Line[expected(kind)], dec_hook=decode_custom)  # type: ignore[misc]


@lru_cache(maxsize=256)
def _page_decoder(kind: type[ApiStruct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Page[expected(kind)], dec_hook=decode_custom)  # type: ignore[misc]


_raw_page_decoder = msgspec.json.Decoder(_RawPage)
_resource_list_decoder = msgspec.json.Decoder(_ResourceList)
_raw_line_decoder = msgspec.json.Decoder(_RawLine)


def decode_page(data: bytes, kind: type[T], documents: Documents | None = None) -> Listing[T]:
    """Decode a list; raises Unreachable if it is none. `documents` stores the whole objects, if needed."""
    page, listing = _decode_page_by_item(data, kind, documents) if _keeps(documents, kind) else _at_once(data, kind)
    if not page.kind.endswith("List") or not page.metadata.resource_version:
        # Taken for an empty list, this would delete everything.
        raise _no_list(f"kind {page.kind!r}, resourceVersion {page.metadata.resource_version!r}")
    return listing


def _at_once(data: bytes, kind: type[T]) -> tuple[_Page[T] | _RawPage, Listing[T]]:
    try:
        page: _Page[T] = _page_decoder(kind).decode(data)
    except msgspec.ValidationError:
        return _decode_page_by_item(data, kind)
    except _NO_JSON as error:
        raise _no_list(str(error)) from None
    items = page.items or ()
    if not all(_is_one(obj, kind) for obj in items):
        return _decode_page_by_item(data, kind)
    return page, Listing(items, page.metadata.resource_version, page.metadata.continue_)


def _no_list(why: str) -> Unreachable:
    return Unreachable(f"the response is not a list of objects: {why}")


def _keeps(documents: Documents | None, kind: type[ApiStruct]) -> bool:
    return documents is not None and kind in documents.kinds


def _decode_page_by_item(data: bytes, kind: type[T], documents: Documents | None = None) -> tuple[_RawPage, Listing[T]]:
    try:
        return _decode_items(data, kind, documents)
    except _NO_JSON as error:
        # This applies within an object, too: in invalid JSON, neither its end nor its name can be trusted.
        raise _no_list(str(error)) from None


def _decode_items(data: bytes, kind: type[T], documents: Documents | None) -> tuple[_RawPage, Listing[T]]:
    page = _raw_page_decoder.decode(data)
    items: list[T] = []
    bad: list[BadObject] = []
    for raw in page.items or ():
        try:
            items.append(_decode_object(raw, kind, documents))
        except DecodeError as error:
            bad.append(_bad_object(_decode_untyped(raw), error))
    return page, Listing(items, page.metadata.resource_version, page.metadata.continue_, bad)


def _is_one(obj: ApiStruct, kind: type[ApiStruct]) -> bool:
    """Whether it has this kind and a name: missing fields have their defaults."""
    found = cast("Any", obj)
    wanted = _kind_named(kind)
    return bool(found.metadata.name) and (not wanted or found.kind == wanted)


@lru_cache(maxsize=256)
def _kind_named(kind: type[ApiStruct]) -> str:
    """ "" if only its objects have it."""
    return "" if issubclass(kind, CustomObject) else cast("str", cast("Any", kind()).kind)


def _decode_object(raw: msgspec.Raw, kind: type[T], documents: Documents | None = None) -> T:
    data = bytes(raw)
    obj = decode_json(data, kind)
    if _is_one(obj, kind):
        if documents is not None:
            documents.keep(obj, data)
        return obj
    found = cast("Any", obj)
    if found.metadata.name:
        raise DecodeError(field="kind", message=f"expected {_kind_named(kind)}, got {go_quote(found.kind)}")
    raise DecodeError(field="metadata.name", message="missing")


def decode_one(data: bytes, kind: type[T]) -> T:
    """Decode a single object; raises Unreachable if it is none, DecodeError if it has an invalid field."""
    try:
        return decode_json(data, kind)
    except DecodeError as error:
        if error.field:
            raise
        raise _no_object(str(error)) from None
    except _NO_JSON as error:
        raise _no_object(str(error)) from None


def _no_object(why: str) -> Unreachable:
    return Unreachable(f"the response is not an object: {why}")


def decode_resource_names(data: bytes) -> frozenset[str]:
    """Decode the names of an APIResourceList; raises Unreachable if it is none."""
    try:
        return frozenset(resource.name for resource in _resource_list_decoder.decode(data).resources)
    except _NO_JSON as error:
        raise Unreachable(f"the response is not a list of resources: {error}") from None


class WatchDecoder(Generic[T]):
    def __init__(self, kind: type[T], documents: Documents | None = None) -> None:
        self._kind = kind
        self._documents = documents if _keeps(documents, kind) else None
        self._decode = _line_decoder(kind).decode

    def event(self, line: bytes) -> WatchEvent[T]:
        """Decode a line; raises ApiError if it is an error event, Unreachable if it is no event."""
        if self._documents is not None:
            return self._by_parts(line)
        try:
            event = self._decode(line)
        except msgspec.ValidationError:
            return self._by_parts(line)
        except _NO_JSON as error:
            raise _no_event(str(error)) from None
        obj = event.object
        if event.type in _CHANGES and _is_one(obj, self._kind):
            return WatchEvent(event.type, obj.metadata.resource_version, obj)
        return self._by_parts(line)

    def _by_parts(self, line: bytes) -> WatchEvent[T]:
        try:
            return self._decode_raw(line)
        except (*_NO_JSON, DecodeError) as error:
            raise _no_event(str(error)) from None

    def _decode_raw(self, line: bytes) -> WatchEvent[T]:
        event = _raw_line_decoder.decode(line)
        if event.type == "ERROR":
            raise error_of(decode_json(bytes(event.object), Status))
        content = _decode_untyped(event.object)
        version = _text(_metadata_of(content), "resourceVersion")
        if event.type == "BOOKMARK":
            return WatchEvent("BOOKMARK", version)
        if event.type not in _CHANGES:
            raise _no_event(f"its type is {event.type!r}")
        documents = None if event.type == "DELETED" else self._documents
        try:
            return WatchEvent(cast("Any", event.type), version, _decode_object(event.object, self._kind, documents))
        except DecodeError as error:
            # A deletion matters more than the content of the object.
            type_ = "DELETED" if event.type == "DELETED" else "BAD"
            return WatchEvent(cast("Any", type_), version, bad=_bad_object(content, error))


def _no_event(why: str) -> Unreachable:
    return Unreachable(f"the line is not a watch event: {why}")


def _decode_untyped(raw: msgspec.Raw) -> object:
    return msgspec.json.decode(raw)


def _metadata_of(content: object) -> dict[str, Any]:
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _bad_object(content: object, error: DecodeError) -> BadObject:
    metadata = _metadata_of(content)
    return BadObject(_text(metadata, "namespace"), _text(metadata, "name"), str(error))


class LineSplitter:
    """Joins arbitrary pieces into lines."""

    def __init__(self, *, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are complete now, without empty ones; raises Unreachable if one is too long."""
        lines = piece.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = self._finish(lines[0])
        if rest:
            self._begun.append(rest)
            self._length += len(rest)
        if self._length > self._longest:
            raise Unreachable(f"a watch event is longer than {self._longest} bytes")
        return [line for line in lines if line and not line.isspace()]

    def end(self) -> bytes:
        """The rest after the last line end."""
        return self._finish(b"")

    def _finish(self, tail: bytes) -> bytes:
        if not self._begun:
            return tail
        line = b"".join((*self._begun, tail))
        self._begun.clear()
        self._length = 0
        return line
