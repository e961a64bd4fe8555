"""Changes of ResourceClaims in Kubernetes' binary encoding (protobuf).

An API server stores the opaque parameters of a driver as the bytes that it received, and compares them byte by byte:
the spec and the allocation of a claim are immutable. In JSON it serves parameters without spaces and with escapes. If
a claim was created with spaces (`json.dumps` writes some) or with a `<`, every JSON request that changes it is refused
as "field is immutable", whatever it changes. Protobuf has the bytes as they are stored. So the metadata and the
reservations, which are all that the scheduler changes besides the allocation itself, are edited there, and everything
else is copied.

Upstream: client-go sends protobuf to begin with. staging/src/k8s.io/api/resource/v1/generated.proto,
apimachinery/pkg/apis/meta/v1/generated.proto, apimachinery/pkg/runtime/serializer/protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Field numbers of messages: of runtime.Unknown, ResourceClaim, its status, ObjectMeta and a consumer.
_RAW = 2
_METADATA, _STATUS = 1, 3
_RESERVED_FOR = 2
_UID, _RESOURCE_VERSION, _FINALIZERS = 5, 6, 14
_CONSUMER = {"apiGroup": 1, "resource": 3, "name": 4, "uid": 5}


class UnknownEncodingError(Exception):
    """The document is not a ResourceClaim as this module knows it."""


def can_change(patch: Mapping[str, Any], type_: str) -> bool:
    """Whether `changed` supports a patch, which must be a merge patch or a strategic one."""
    if type_ not in ("merge", "strategic"):
        return False
    # A strategic one would add finalizers.
    replaced = {"finalizers"} if type_ == "merge" else set()
    return (
        patch.keys() <= {"metadata", "status"}
        and patch.get("metadata", {}).keys() <= {"uid", "resourceVersion", *replaced}
        and patch.get("status", {}).keys() <= {"reservedFor"}
        and all(consumer.keys() <= _CONSUMER.keys() for consumer in patch.get("status", {}).get("reservedFor") or ())
    )


def changed(document: bytes, patch: Mapping[str, Any], *, adds: bool = False) -> bytes:
    """The encoded claim with a patch applied that `can_change` accepts.

    `adds`: it is a strategic merge patch, which keeps the other reservations; else a merge patch.
    """
    if not document.startswith(_MAGIC):
        raise UnknownEncodingError("not Kubernetes' protobuf")
    unknown = document[len(_MAGIC) :]
    claim = _message(unknown, _RAW)
    if not claim:
        raise UnknownEncodingError("no object")
    metadata, status = patch.get("metadata", {}), patch.get("status", {})
    written: dict[int, list[bytes]] = {}
    for name, number in (("uid", _UID), ("resourceVersion", _RESOURCE_VERSION)):
        if name in metadata:
            written[number] = [metadata[name].encode()]
    if "finalizers" in metadata:
        written[_FINALIZERS] = [finalizer.encode() for finalizer in metadata["finalizers"] or ()]
    claim = _with(claim, {_METADATA: [_with(_message(claim, _METADATA), written)]})
    if "reservedFor" in status:
        before = _message(claim, _STATUS)
        consumers = _all(before, _RESERVED_FOR) if adds else []
        consumers += [new for new in map(_consumer, status["reservedFor"] or ()) if new not in consumers]
        claim = _with(claim, {_STATUS: [_with(before, {_RESERVED_FOR: consumers})]})
    return _MAGIC + _with(unknown, {_RAW: [claim]})


def _consumer(consumer: Mapping[str, str]) -> bytes:
    return b"".join(_field(number, consumer.get(name, "").encode()) for name, number in _CONSUMER.items())


def _with(message: bytes, written: Mapping[int, list[bytes]]) -> bytes:
    """The message with these fields instead of its own of the same numbers."""
    kept = b"".join(message[start:end] for number, start, _, end in _fields(message) if number not in written)
    return kept + b"".join(_field(number, value) for number, values in written.items() for value in values)


def _message(message: bytes, number: int) -> bytes:
    """The last field of this number, empty if there is none."""
    return (_all(message, number) or [b""])[-1]


def _all(message: bytes, number: int) -> list[bytes]:
    return [message[content:end] for each, _, content, end in _fields(message) if each == number]


def _fields(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """The number of each field, where it starts, where its content starts, and where it ends."""
    at = 0
    while at < len(message):
        tag, content = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            _, end = _varint(message, content)
        elif kind == _BYTES:
            size, content = _varint(message, content)
            end = content + size
        elif kind in (_FIXED64, _FIXED32):
            end = content + (8 if kind == _FIXED64 else 4)
        else:
            raise UnknownEncodingError(f"a field of wire type {kind}")
        if end > len(message):
            raise UnknownEncodingError("a field that is cut off")
        yield tag >> 3, at, content, end
        at = end


def _field(number: int, value: bytes) -> bytes:
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(value)) + value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at a position, and the position after it."""
    found = shift = 0
    while at < len(message):
        found |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return found, at
        shift += 7
    raise UnknownEncodingError("a number that is cut off")


def _as_varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
