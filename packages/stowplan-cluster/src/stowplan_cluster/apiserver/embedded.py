"""The `Api` of an in-process cluster: store and registry, without HTTP.

A caller sees what it would see of a real cluster: the same admission and validation, the same exceptions, watches that
end with Expired when their reader is too slow. Objects are decoded from the stored bytes for each caller, so none is
shared.

Upstream has no counterpart; its integration tests start an API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.decode import DecodeError, convert, decode_json, namespace_of, to_dict
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import BadObject, Lane, Listing, PatchType, WatchEvent
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.users import SubjectAccessReview, TokenReview, UserInfo
from stowplan_cluster.apiserver.authorization import Authorizer
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.eviction import evict
from stowplan_cluster.apiserver.listing import ListOptions, parse_version
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.reviews import Authenticate, answer_review
from stowplan_cluster.apiserver.selection import selection_of, visible
from stowplan_cluster.apiserver.store import Cursor, Event, EventType, Stored

if TYPE_CHECKING:
    from stowplan.kube.api.documents import Documents
    from stowplan_cluster.apiserver.api_server import ApiServer

T = TypeVar("T", bound=ApiStruct)

#: The user of in-process calls: system:masters.
_SELF = UserInfo("system:kube-scheduler", groups=("system:masters",))


class EmbeddedApi:
    """The in-process `Api`. All lanes are the same, as no request waits."""

    def __init__(
        self,
        server: ApiServer,
        *,
        field_manager: str = "kube-scheduler",
        authenticate: Authenticate | None = None,
        documents: Documents | None = None,
    ) -> None:
        """`documents` is offered the stored bytes of listed and watched objects."""
        self._documents = documents
        self._server = server
        self._registry = server.registry
        self._manager = field_manager
        #: Authenticates bearer tokens, for TokenReviews; without it, no token is valid.
        self._authenticate = authenticate
        self._authorizer = Authorizer(server.store.list)

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
        options = ListOptions(
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
        )
        page = self._registry.list(self._resource(kind), namespace, options)
        items: list[T] = []
        bad: list[BadObject] = []
        for stored in page.items:
            decoded = _decode(stored, kind)
            if isinstance(decoded, BadObject):
                bad.append(decoded)
            else:
                self._keep(decoded, stored)
                items.append(decoded)
        return Listing(items, str(page.version), page.continue_, bad)

    async def watch(
        self,
        kind: type[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[WatchEvent[T]]:
        resource = self._resource(kind)
        selection = selection_of(resource, namespace, label_selector, field_selector)
        cursor = self._server.store.watch(resource.storage, since=parse_version(resource_version))
        deadline = asyncio.get_running_loop().time() + timeout_seconds if timeout_seconds else None
        try:
            while True:
                for event in await _next(cursor, deadline):
                    seen = visible(event, selection)
                    if seen is not None:
                        found = _event(*seen, kind)
                        if found.object is not None and found.type != "DELETED":
                            self._keep(found.object, seen[1])
                        yield found
        except TimeoutError:
            return
        finally:
            cursor.close()

    def _keep(self, obj: ApiStruct, stored: Stored) -> None:
        if self._documents is not None:
            self._documents.keep(obj, stored.data)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return _decoded(self._registry.get(self._resource(kind), namespace, name), kind)

    async def create(self, obj: T, *, lane: Lane = "default") -> T:
        resource = self._resource(type(obj))
        if isinstance(obj, TokenReview | SubjectAccessReview):
            return convert(self._answered(resource, obj), type(obj))
        stored = self._registry.create(resource, namespace_of(obj), to_dict(obj), options=self._options())
        return _decoded(stored, type(obj))

    def _answered(self, resource: Resource, review: TokenReview | SubjectAccessReview) -> JsonObject:
        return answer_review(
            resource, to_dict(review), user=_SELF, authorizer=self._authorizer, authenticate=self._authenticate
        )

    async def update(self, obj: T, *, lane: Lane = "default") -> T:
        name: str = cast("Any", obj).metadata.name
        stored = self._registry.update(
            self._resource(type(obj)), namespace_of(obj), name, to_dict(obj), options=self._options()
        )
        return _decoded(stored, type(obj))

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
        stored, _ = self._registry.patch(
            self._resource(kind),
            namespace,
            name,
            patch,
            kind=type_,
            subresource=subresource,
            options=self._options(),
        )
        return _decoded(stored, kind)

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
        options = DeleteOptions(
            uid=uid or None, resource_version=resource_version or None, grace_period_seconds=grace_period_seconds
        )
        self._registry.delete(self._resource(kind), namespace, name, options=options)

    async def evict(
        self,
        name: str,
        *,
        namespace: str,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        options = DeleteOptions(
            uid=uid or None, resource_version=resource_version or None, grace_period_seconds=grace_period_seconds
        )
        evict(self._registry, namespace, name, {"metadata": {"name": name, "namespace": namespace}}, options)

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"kind": "Node", "name": node},
        }
        self._registry.bind(namespace, name, binding, options=self._options())

    async def serves(self, kind: type[ApiStruct]) -> bool:
        return self._found(kind) is not None

    async def close(self) -> None:
        """Does not close the server."""

    def _resource(self, kind: type[ApiStruct]) -> Resource:
        resource = self._found(kind)
        if resource is None:
            raise NotFound("the server could not find the requested resource")
        return resource

    def _found(self, kind: type[ApiStruct]) -> Resource | None:
        wanted = resource_of(kind)
        served = (self._server.catalogue.find(wanted.group, version, wanted.plural) for version in wanted.versions)
        return next((resource for resource in served if resource is not None), None)

    def _options(self) -> Options:
        return Options(field_manager=self._manager, field_validation="Ignore")


async def _next(cursor: Cursor, deadline: float | None) -> Sequence[Event]:
    """Wait for the next changes; raise TimeoutError at the deadline."""
    while not (events := cursor.take()):
        woken = asyncio.Event()
        cursor.wake = woken.set
        # The timeout covers this wait only: it must not cancel what the reader does between changes.
        async with asyncio.timeout_at(deadline):
            await woken.wait()
    return events


def _decode(stored: Stored, kind: type[T]) -> T | BadObject:
    try:
        return decode_json(stored.data, kind)
    except DecodeError as error:
        return BadObject(stored.namespace, stored.name, str(error))


def _decoded(stored: Stored, kind: type[T]) -> T:
    return decode_json(stored.data, kind)


def _event(type_: EventType, stored: Stored, kind: type[T]) -> WatchEvent[T]:
    decoded = _decode(stored, kind)
    if isinstance(decoded, BadObject):
        return WatchEvent("BAD", str(stored.version), bad=decoded)
    return WatchEvent(type_, str(stored.version), decoded)
