"""The `Api` protocol: what the scheduler requires of an API server client.

Two plugs fit: `client.http_api.HttpApi` speaks HTTP to a real cluster, `apiserver.embedded.EmbeddedApi`
calls the store in this process. Objects come as structs of `stowplan.api`, whose type says which resource is meant.
Refusals are `stowplan.api.api_errors.ApiError`; a server that cannot be reached is `Unreachable`.

Watching is two-storied: `Api.watch` is one stream of one server's changes that may end at any time;
`list_watch.ListWatch` makes of lists and such streams one account of what changed that never ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from stowplan.api.meta import ApiStruct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

T = TypeVar("T", bound=ApiStruct)

#: A request's place in the queue of requests. Binds go first, events last.
Lane = Literal["bind", "default", "status", "event"]
PatchType = Literal["json", "merge", "strategic"]


class Unreachable(Exception):
    """No answer: the connection was refused, reset, timed out, or what came was no HTTP."""


@dataclass(frozen=True, slots=True)
class BadObject:
    """An object that does not decode; everything else of the same answer is delivered."""

    namespace: str
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: Sequence[T]
    resource_version: str
    continue_: str = ""
    bad: Sequence[BadObject] = ()


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """ADDED, MODIFIED and DELETED carry the object; BOOKMARK a version only; BAD what does not decode."""

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
        """Changes after a version until the server ends the stream; raises Expired if they are forgotten."""

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T: ...

    async def create(self, obj: T, *, lane: Lane = "default") -> T: ...

    async def update(self, obj: T, *, lane: Lane = "default") -> T:
        """Replace; for kinds whose every field we know (Lease), as what we do not decode would be lost."""

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
        """Whether the cluster has this kind in a version that we read; older clusters lack the newest groups."""

    async def close(self) -> None: ...
