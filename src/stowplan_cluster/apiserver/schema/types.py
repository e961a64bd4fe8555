"""The type model: fields of API objects, and how their lists and maps merge.

One description serves unknown-field detection, zero values, protobuf, strategic merge, server-side
apply and OpenAPI.
Built-in kinds are written down in `*.types` files, custom ones come from their definition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ATOMIC = "atomic"
SET = "set"
MAP = "map"


class Scalar(StrEnum):
    STRING = "string"
    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    NUMBER = "number"
    QUANTITY = "quantity"
    INT_OR_STRING = "intOrString"
    TIME = "time"
    MICRO_TIME = "microTime"
    DURATION = "duration"
    #: Base64 text.
    BYTES = "bytes"
    #: Any JSON, kept as it is and merged as one piece.
    ANY = "any"
    #: In definitions of custom resources, one leaf each to merges: a schema, or else a list of
    #: schemas, true or false, a list of property names.
    SCHEMA_OR_LIST = "schemaOrList"
    SCHEMA_OR_BOOL = "schemaOrBool"
    SCHEMA_OR_NAMES = "schemaOrNames"


class Zero(StrEnum):
    """What becomes of a field's zero value ("", 0, false, an empty list or map) in a stored object."""

    #: Unset and zero differ: it stays as it was (in Go a pointer).
    KEPT = "?"
    #: Always there, zero if unset.
    ALWAYS = "="
    #: The same as unset: left out.
    DROPPED = "-"


@dataclass(frozen=True, slots=True)
class WireField:
    """A field of a protobuf message."""

    #: "" if the message's fields are those of the struct around it.
    name: str
    type: Type


@dataclass(slots=True, eq=False, repr=False)
class Struct:
    #: As OpenAPI names it: `io.k8s.api.core.v1.Pod`. Custom kinds have none.
    name: str
    fields: dict[str, Type] = field(default_factory=dict)
    #: Server-side apply takes it as one piece.
    atomic: bool = False
    #: Fields that are not listed are kept, as custom resources may ask.
    preserve_unknown: bool = False
    required: frozenset[str] = frozenset()
    #: By field. Custom kinds have none: their zero values stay.
    zeros: dict[str, Zero] = field(default_factory=dict)
    #: By field number. Custom kinds have none.
    wire: dict[int, WireField] = field(default_factory=dict)
    #: By field; the struct's own is at "".
    descriptions: dict[str, str] = field(default_factory=dict)
    #: Field to strategic-merge "retainKeys": what the patch does not list is dropped (`deployment.spec.strategy`).
    retain_keys: bool = False
    #: Strategic merge replaces it as one piece (the selector of a disruption budget).
    replaced: bool = False
    #: What `conform` checks objects with: made once, when first needed.
    check: Callable[..., Any] | None = field(default=None, init=False)

    def __repr__(self) -> str:
        # Types refer to each other without end.
        return f"Struct({self.name!r})"


@dataclass(slots=True, eq=False)
class ListType:
    element: Type
    #: For server-side apply: ATOMIC, SET or MAP.
    kind: str = ATOMIC
    #: What tells the elements of a MAP apart.
    keys: tuple[str, ...] = ()
    #: Values of keys that may be left out: {"protocol": "TCP"}.
    key_defaults: dict[str, object] = field(default_factory=dict)
    #: Strategic merge: by this field of the elements; "" replaces the list.
    merge_key: str = ""
    #: Strategic merge of a list of scalars as a set (finalizers).
    merge_values: bool = False
    #: Strategic merge of each element keeps only the keys the patch lists (`$retainKeys`: volumes).
    retain_keys: bool = False


@dataclass(slots=True, eq=False)
class MapType:
    value: Type
    atomic: bool = False


Type = Scalar | Struct | ListType | MapType
