"""The `Api` for plugins in simulated time.

Each call awaits a value that describes it. The driver of the coroutine carries it out, when it is due, and resumes the
coroutine with the outcome. It cannot be awaited on an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from stowplan.kube.api.api_errors import BadRequest, MethodNotAllowed
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Lane, Listing, PatchType, WatchEvent
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Done, Outcome, Patch, Read, Request, Update

T = TypeVar("T", bound=ApiStruct)

_NO_SELECTORS = "in simulated time a plugin can list by namespace only, not by selectors"
_NO_WATCH = "a plugin cannot watch in simulated time: register for events of the kind instead"


class ListObjects(NamedTuple):
    """List all objects of a kind, optionally in one namespace; there is no `Request` for this."""

    kind: type[ApiStruct]
    namespace: str


class PendingCall:
    """What a coroutine awaits; it is resumed with the outcome."""

    __slots__ = ("annotations", "grace", "request")

    def __init__(
        self,
        request: Request | ListObjects,
        *,
        annotations: Mapping[str, str] | None = None,
        grace: int | None = None,
    ) -> None:
        self.request = request
        #: For a `Bind`: annotations to set on the pod.
        self.annotations = annotations
        #: For a `Delete`: the grace period in seconds, instead of the default.
        self.grace = grace

    def __await__(self) -> Generator[PendingCall, Outcome, Any]:
        outcome = yield self
        if isinstance(outcome, Done):
            return outcome.value
        raise outcome.error


class VirtualApi:
    """An `Api`; its lanes are all the same."""

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
    ) -> Listing[T]:
        if label_selector or field_selector:
            raise BadRequest(_NO_SELECTORS)
        return cast("Listing[T]", await PendingCall(ListObjects(kind, namespace)))

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
        raise MethodNotAllowed(_NO_WATCH)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return cast("T", await PendingCall(Read(kind=kind, namespace=namespace, name=name)))

    async def create(self, obj: T, *, lane: Lane = "default") -> T:
        return cast("T", await PendingCall(Create(obj=obj)))

    async def update(self, obj: T, *, lane: Lane = "default") -> T:
        return cast("T", await PendingCall(Update(obj=obj)))

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
    ) -> T:
        request = Patch(
            kind=kind,
            namespace=namespace,
            name=name,
            body=cast("dict[str, Any] | list[dict[str, Any]]", patch),
            type_=type_,
            subresource=subresource,
            lane=lane,
        )
        return cast("T", await PendingCall(request))

    async def delete(
        self,
        kind: type[ApiStruct],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        request = Delete(kind=kind, namespace=namespace, name=name, uid=uid, resource_version=resource_version)
        await PendingCall(request, grace=grace_period_seconds)

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        await PendingCall(Bind(namespace=namespace, name=name, uid=uid, node=node), annotations=annotations)

    async def serves(self, kind: type[ApiStruct]) -> bool:
        """True for every kind: the store accepts all of them."""
        return True

    async def close(self) -> None:
        """No-op."""
