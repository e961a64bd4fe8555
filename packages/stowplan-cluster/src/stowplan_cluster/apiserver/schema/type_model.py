"""The type model: fields of API objects, and how their lists and maps merge.

One description serves unknown-field detection, zero values, protobuf, strategic merge, server-side apply and OpenAPI.
Built-in kinds are declared in `*.types` files, custom ones by their CustomResourceDefinition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stowplan.kube.kubernetes_versions import KubernetesVersion

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
    #: Any JSON, kept as it is, atomic.
    ANY = "any"
    #: Unions in CustomResourceDefinitions, atomic: a schema, or a list of schemas, a boolean, a list of property names.
    SCHEMA_OR_LIST = "schemaOrList"
    SCHEMA_OR_BOOL = "schemaOrBool"
    SCHEMA_OR_NAMES = "schemaOrNames"


class Zero(StrEnum):
    """How a field's zero value ("", 0, false, empty list or map) is encoded in a stored object."""

    #: Kept as it is: unset and zero differ (a pointer in Go).
    KEPT = "?"
    #: Always present; zero if unset.
    ALWAYS = "="
    #: Omitted, as if unset.
    DROPPED = "-"


@dataclass(frozen=True, slots=True)
class WireField:
    """A field of a protobuf message."""

    #: "" if the message's fields belong to the enclosing struct.
    name: str
    type: Type


@dataclass(slots=True, eq=False, repr=False)
class Struct:
    #: OpenAPI name: `io.k8s.api.core.v1.Pod`; "" for custom kinds.
    name: str
    fields: dict[str, Type] = field(default_factory=dict)
    #: Atomic in server-side apply.
    atomic: bool = False
    #: Keep unknown fields (x-kubernetes-preserve-unknown-fields).
    preserve_unknown: bool = False
    required: frozenset[str] = frozenset()
    #: By field. Empty for custom kinds: their zero values are kept.
    zeros: dict[str, Zero] = field(default_factory=dict)
    #: By field number. Empty for custom kinds.
    wire: dict[int, WireField] = field(default_factory=dict)
    #: Fields that came with a version of Kubernetes.
    since: dict[str, KubernetesVersion] = field(default_factory=dict)
    #: By field; the struct's own description is at "".
    descriptions: dict[str, str] = field(default_factory=dict)
    #: Strategic merge with `$retainKeys` drops fields that the patch does not list (`deployment.spec.strategy`).
    retain_keys: bool = False
    #: Strategic merge replaces it (the selector of a PodDisruptionBudget).
    replaced: bool = False
    #: The compiled check of `conform`, built on first use.
    check: Callable[..., Any] | None = field(default=None, init=False)

    def __repr__(self) -> str:
        # Short, as types can be recursive.
        return f"Struct({self.name!r})"


#: The type of objects without a schema: merged field by field, with atomic lists.
UNTYPED = Struct(name="", preserve_unknown=True)


@dataclass(slots=True, eq=False)
class ListType:
    element: Type
    #: For server-side apply: ATOMIC, SET or MAP.
    kind: str = ATOMIC
    #: The keys that identify the elements of a MAP.
    keys: tuple[str, ...] = ()
    #: Defaults of optional keys: {"protocol": "TCP"}.
    key_defaults: dict[str, object] = field(default_factory=dict)
    #: Merge key of strategic merge; "" replaces the list.
    merge_key: str = ""
    #: Strategic merge unites a list of scalars as a set (finalizers).
    merge_values: bool = False
    #: Strategic merge keeps only the keys of an element that the patch lists (`$retainKeys`: volumes).
    retain_keys: bool = False


@dataclass(slots=True, eq=False)
class MapType:
    value: Type
    atomic: bool = False


Type = Scalar | Struct | ListType | MapType
