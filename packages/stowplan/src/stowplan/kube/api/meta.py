"""Types shared by all Kubernetes objects: metadata, label selectors, references, timestamps.

Only fields that the scheduler reads are declared; unknown ones are dropped on decoding. Attribute names are the JSON
names in snake case. Absent (`None`) and empty are only distinguished where scheduling does.

Structs are frozen, so one decoded object may be shared by cache, queue and plugins. They cannot form reference cycles,
hence `gc=False`: a cluster has hundreds of thousands of small structs, and excluding them keeps garbage collection
pauses short.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any

import msgspec

# Integer types with Kubernetes' ranges; larger values fail to decode.
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=MAX_INT32)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=MAX_INT64)]

# A quantity as in JSON; parsed by `quantity.parse_quantity`.
QuantityValue = str | int | float

ResourceList = dict[str, QuantityValue]


class ApiStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all API structs, with the msgspec options."""


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The controller owner reference; there is at most one."""
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None


class ListMeta(ApiStruct, frozen=True, kw_only=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class LabelSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ObjectReference(ApiStruct, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


def reference_to(obj: Any) -> ObjectReference:
    """A reference to this version of the object."""
    metadata = obj.metadata
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


#: 9999-12-31T23:59:59Z: RFC 3339 has no later year, but a grace period may be of 292 billion.
_LATEST = 253_402_300_799


def timestamp(seconds: float) -> str:
    """metav1.Time, an RFC 3339 time in UTC, of seconds since the epoch, at most the end of the year 9999."""
    return _whole_seconds(min(int(seconds), _LATEST))


# Most writes within a second use the same one.
@lru_cache(maxsize=64)
def _whole_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """metav1.MicroTime of seconds since the epoch."""
    whole, micros = divmod(round(seconds * 1e6), 1_000_000)
    return f"{_whole_seconds(whole)[:-1]}.{micros:06}Z"


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch; ValueError if it is not an RFC 3339 time."""
    return datetime.fromisoformat(text).timestamp()


def seconds_of(text: str | None) -> float:
    """A timestamp in epoch seconds; 0 if there is none."""
    return parse_timestamp(text) if text else 0.0
