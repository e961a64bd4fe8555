"""The `Api` protocol: what the scheduler requires of an API server client.

There are two implementations: `client.http_api.HttpApi` uses HTTP for a real cluster, `apiserver.embedded.EmbeddedApi`
calls the store in this process. Objects are structs of `stowplan.kube.api`, whose type determines the resource.
Refusals are `stowplan.kube.api.api_errors.ApiError`; an unreachable server is `Unreachable`.

Watching has two levels: `Api.watch` is one stream of changes that may end at any time; `list_watch.ListWatch` combines
lists and such streams into one endless stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.structs import PlainStruct

T = TypeVar("T", bound=ApiStruct)

#: A request's priority class. Binds go first, events last.
Lane = Literal["bind", "default", "status", "event"]
PatchType = Literal["json", "merge", "strategic"]


class Unreachable(Exception):
    """No response: the connection was refused, reset, timed out, or the response was not HTTP."""


class BadObject(PlainStruct, frozen=True):
    """An object that does not decode; everything else in the same response is delivered."""

    namespace: str
    name: str
    why: str


class Listing(PlainStruct, Generic[T], frozen=True):
    items: Sequence[T]
    resource_version: str
    continue_: str = ""
    bad: Sequence[BadObject] = ()


class WatchEvent(PlainStruct, Generic[T], frozen=True):
    """ADDED, MODIFIED and DELETED have the object; BOOKMARK only a version; BAD an object that does not decode."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "BAD"]
    resource_version: str
    object: T | None = None
    bad: BadObject | None = None


class Api(Protocol):
    async def list(
        self,
        kind: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
    ) -> Listing[T]: ...

    def watch(
        self,
        kind: type[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Changes after a version until the server ends the stream; raises Expired if they are no longer available."""

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T: ...

    async def create(self, obj: T, *, lane: Lane = "default") -> T: ...

    async def update(self, obj: T, *, lane: Lane = "default") -> T:
        """Replace an object; only for kinds that we decode completely (Lease), as other fields would be lost."""

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        type_: PatchType,
        namespace: str = "",
        subresource: str = "",
        lane: Lane = "default",
    ) -> T: ...

    async def delete(
        self,
        kind: type[ApiStruct],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None: ...

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None: ...

    async def serves(self, kind: type[ApiStruct]) -> bool:
        """Whether the cluster serves this kind in a supported version; older clusters lack the newest groups."""

    async def close(self) -> None: ...


class EvictingApi(Api, Protocol):
    """One that also evicts pods."""

    async def evict(
        self,
        name: str,
        *,
        namespace: str,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete a pod if its disruption budgets allow that; raises TooManyRequests if they do not now."""


# A change of one API object, as reported to watchers.


class Change(msgspec.Struct, Generic[T], frozen=True):
    """An addition if there is no old object, a deletion if there is no new one; `old` is what was delivered before."""

    old: T | None
    new: T | None
