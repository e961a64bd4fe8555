"""The `Api` of a real cluster: every call is one request, every response a struct or a typed error.

What happens after a lost response depends on the call:

- reads are retried by the transport;
- an event is created again under the same name; if it already exists, that is success;
- after a bind the pod is read, so that the result is success, a Conflict or NotFound that says what happened to the
  pod, or `OutcomeUnknown` if the pod still has no node or cannot be read;
- everything else raises `OutcomeUnknown`, as only the caller knows what to check.

Only JSON is used, whatever content type is configured: structs decode a part of each object, which needs no schema
then. The exception are claims that cannot be changed in JSON (`binary_claims`).

Upstream: staging/src/k8s.io/client-go/rest, kubernetes/typed/core/v1/pod_expansion.go (Bind).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.api_errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, conflict
from stowplan.kube.api.decode import DecodeError, namespace_of, to_dict
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.port import Lane, Listing, PatchType, Unreachable, WatchEvent
from stowplan.kube.api.resources import ApiResource, resource_of
from stowplan.kube.api.types import Event, Pod, ResourceClaim
from stowplan.kube.config import ClientConnection
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.net.client.binary_claims import MEDIA_TYPE, UnknownEncodingError, can_change, changed
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.net.client.connection import Connection
from stowplan.net.client.http.decoding import LineSplitter, WatchDecoder, decode_one, decode_page
from stowplan.net.client.http.discovery import Discovery
from stowplan.net.client.http.lanes import Lanes, RateLimitedLanes
from stowplan.net.client.http.responses import Answer, Subject
from stowplan.net.client.http.transport import Limits, Request, Transport
from stowplan.net.client.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from stowplan.kube.metrics.client_metrics import ClientMetrics

T = TypeVar("T", bound=ApiStruct)

#: Servers send a bookmark about every minute, so a watch without a byte for three minutes may be dead. Resources that
#: the server does not cache (events) have no bookmarks: this is how often a quiet watch of them is renewed.
WATCH_SILENCE = 180.0
#: Seconds without a byte of a claim that is read.
_READING_SILENCE = 60.0

_PATCH_TYPES: dict[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


_VERSION = "/version"


class _VersionInfo(msgspec.Struct):
    major: str
    minor: str


class HttpApi:
    """Must be created within a running event loop, and closed, or use `open`. `agent` is the result of `user_agent`."""

    def __init__(
        self,
        connection: Connection,
        *,
        client_settings: ClientConnection,
        agent: str,
        times: Times = REAL_TIMES,
        limits: Limits | None = None,
        watch_silence: float = WATCH_SILENCE,
        metrics: ClientMetrics | None = None,
        may_change: Callable[[], bool] | None = None,
        documents: Documents | None = None,
    ) -> None:
        """`may_change` returns whether more than statuses and events may be written at the moment.

        `documents` stores the original listed and watched objects, as far as needed.
        """
        self._documents = documents
        lanes = Lanes(qps=client_settings.qps, burst=client_settings.burst, now=times.clock())
        self.lanes = lanes
        self._watch_silence = watch_silence
        self._turns = RateLimitedLanes(lanes, clock=times.clock, sleep=times.sleep)
        self._transport = Transport(
            connection,
            turns=self._turns,
            times=times,
            agent=agent,
            limits=limits,
            metrics=None if metrics is None else RequestMetrics(metrics, server=connection.server),
        )
        self._transport.may_change = may_change
        self._discovery = Discovery(self._transport, clock=times.clock)

    @classmethod
    @asynccontextmanager
    async def open(cls, connection: Connection, **options: Any) -> AsyncIterator[HttpApi]:
        api = cls(connection, **options)
        try:
            yield api
        finally:
            await api.close()

    async def close(self) -> None:
        await self._transport.close()

    def give_up_waiting(self) -> None:
        """At shutdown: cancel the tasks of binds that wait for their turn, and send the rest without a limit.

        A server that cannot be reached is not waited for.
        """
        self._turns.give_up("bind")
        self._transport.hurry()

    async def serves(self, kind: type[ApiStruct]) -> bool:
        return await self._discovery.served_version(resource_of(kind)) is not None

    # --- reads

    async def server_version(self) -> str:
        """MAJOR.MINOR; providers may add a +. Empty if the answer does not tell."""
        subject = Subject("GET", name=_VERSION)
        answer = await self._send(Request(method="GET", path=_VERSION, subject=subject))
        try:
            found = msgspec.json.decode(answer.body, type=_VersionInfo)
        except msgspec.DecodeError:
            return ""
        return f"{found.major}.{found.minor}"

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
        resource = resource_of(kind)
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit or ""),
            resourceVersion=resource_version,
            **{"continue": continue_},
        )
        version = await self._discovery.version(resource)
        path = resource.collection(version, namespace)
        answer = await self._send(Request(method="GET", path=path, query=query, subject=Subject("LIST", resource)))
        found = decode_page(answer.body, kind, self._documents)
        # Objects in a list do not say their version, and are decoded with the preferred one.
        return found if version == resource.versions[0] else _of_version(found, resource.api_version(version))

    async def watch(
        self,
        kind: type[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        resource = resource_of(kind)
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=str(timeout_seconds or ""),
        )
        path = resource.collection(await self._discovery.version(resource), namespace)
        request = Request(method="GET", path=path, query=query, subject=Subject("WATCH", resource))
        decoder, lines = WatchDecoder(kind, self._documents), LineSplitter()
        async with aclosing(self._transport.chunks(request, silence=self._watch_silence)) as chunks:
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    yield decoder.event(line)
        rest = lines.end()
        if rest.strip():
            yield decoder.event(rest)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return await self._get(kind, name, namespace=namespace, lane="default")

    async def _get(self, kind: type[T], name: str, *, namespace: str, lane: Lane) -> T:
        resource = resource_of(kind)
        path = resource.item(await self._discovery.version(resource), name, namespace=namespace)
        answer = await self._send(Request(method="GET", path=path, subject=Subject("GET", resource, name), lane=lane))
        return decode_one(answer.body, kind)

    # --- writes

    async def create(self, obj: T, *, lane: Lane = "default") -> T:
        resource, version = await self._place_of(obj)
        name = _metadata(obj).name
        request = Request(
            method="POST",
            path=resource.collection(version, namespace_of(obj)),
            body=_encoded(obj, resource, version),
            subject=Subject("POST", resource, name),
            lane=lane,
            # Event names are unique to us; another object that exists may be somebody else's.
            repeatable=isinstance(obj, Event) and bool(name),
        )
        answer = await self._transport.send(request)
        if answer.ok:
            return decode_one(self._json(answer, request), type(obj))
        error = self._transport.error_of(answer, request.subject)
        if isinstance(error, AlreadyExists) and request.repeatable and answer.tries > 1:
            return obj
        raise error

    async def update(self, obj: T, *, lane: Lane = "default") -> T:
        resource, version = await self._place_of(obj)
        name = _metadata(obj).name
        request = Request(
            method="PUT",
            path=resource.item(version, name, namespace=namespace_of(obj)),
            body=_encoded(obj, resource, version),
            subject=Subject("PUT", resource, name),
            lane=lane,
        )
        return decode_one((await self._send(request)).body, type(obj))

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
        resource = resource_of(kind)
        version = await self._discovery.version(resource)
        request = Request(
            method="PATCH",
            path=resource.item(version, name, namespace=namespace, subresource=subresource),
            body=msgspec.json.encode(patch),
            content_type=_PATCH_TYPES[type_],
            subject=Subject("PATCH", resource, name),
            lane=lane,
        )
        try:
            answer = await self._send(request)
        except Invalid as refused:
            if kind is not ResourceClaim or not isinstance(patch, Mapping) or not can_change(patch, type_):
                raise
            answer = await self._put_claim(request, patch, refused, adds=type_ == "strategic")
        return decode_one(answer.body, kind)

    async def _put_claim(self, refused: Request, patch: Mapping[str, Any], error: Invalid, *, adds: bool) -> Answer:
        """Make a change that was refused in JSON: see `binary_claims`."""
        # Without its subresource, which only has to be served for writing.
        reading = replace(
            refused, method="GET", path=refused.path.removesuffix("/status"), body=None, answers=MEDIA_TYPE
        )
        try:
            chunks = self._transport.chunks(reading, silence=_READING_SILENCE)
            async with aclosing(chunks):
                document = changed(b"".join([chunk async for chunk in chunks]), patch, adds=adds)
        except (ApiError, Unreachable, UnknownEncodingError):
            raise error from None
        return await self._send(replace(refused, method="PUT", body=document, content_type=MEDIA_TYPE))

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
        resource = resource_of(kind)
        options = _delete_options(uid, resource_version, grace_period_seconds)
        request = Request(
            method="DELETE",
            path=resource.item(await self._discovery.version(resource), name, namespace=namespace),
            body=msgspec.json.encode(options),
            subject=Subject("DELETE", resource, name),
        )
        await self._send(request)

    async def evict(
        self,
        name: str,
        *,
        namespace: str,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, resource_version, grace_period_seconds),
        }
        pods = resource_of(Pod)
        request = Request(
            method="POST",
            path=pods.item("v1", name, namespace=namespace, subresource="eviction"),
            body=msgspec.json.encode(eviction),
            subject=Subject("POST", pods, name),
        )
        await self._send(request)

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        metadata: dict[str, Any] = {"name": name, "namespace": namespace, **_query(uid=uid)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"kind": "Node", "name": node},
        }
        pods = resource_of(Pod)
        request = Request(
            method="POST",
            path=pods.item("v1", name, namespace=namespace, subresource="binding"),
            body=msgspec.json.encode(binding),
            subject=Subject("POST", pods, name),
            lane="bind",
        )
        try:
            answer = await self._transport.send(request)
            if answer.ok:
                self._json(answer, request)
                return
        except OutcomeUnknown as error:
            return await self._settle_bind(error, namespace=namespace, name=name, uid=uid, node=node)
        refusal = self._transport.error_of(answer, request.subject)
        if answer.code < 500 and not (isinstance(refusal, Conflict) and answer.tries > 1):
            raise refusal
        await self._settle_bind(refusal, namespace=namespace, name=name, uid=uid, node=node)

    async def _settle_bind(
        self, doubt: ApiError | OutcomeUnknown, *, namespace: str, name: str, uid: str, node: str
    ) -> None:
        """Return if the pod is bound to the node after all; otherwise raise what happened to it."""
        try:
            pod = await self._get(Pod, name, namespace=namespace, lane="bind")
        except NotFound as error:
            raise error from doubt
        except (ApiError, Unreachable, DecodeError) as error:
            raise OutcomeUnknown(f"binding pod {namespace}/{name} to {node}: {doubt}; reading it: {error}") from doubt
        if uid and pod.metadata.uid != uid:
            raise conflict("pods/binding", "", name, f"the pod with uid {uid} is gone, another has its name") from doubt
        assigned = pod.spec.node_name
        if assigned == node:
            return
        if assigned:
            why = f"pod {name} is already assigned to node {go_quote(assigned)}"
            raise conflict("pods/binding", "", name, why) from doubt
        if isinstance(doubt, ApiError):
            raise doubt
        raise OutcomeUnknown(f"binding pod {namespace}/{name} to {node}: {doubt}; it is on no node so far") from doubt

    # --- shared

    async def _place_of(self, obj: ApiStruct) -> tuple[ApiResource, str]:
        resource = resource_of(type(obj))
        return resource, await self._discovery.version(resource)

    async def _send(self, request: Request) -> Answer:
        """The body of a successful JSON response; raises ApiError or Unreachable."""
        answer = await self._transport.send(request)
        if not answer.ok:
            raise self._transport.error_of(answer, request.subject)
        self._json(answer, request)
        return answer

    def _json(self, answer: Answer, request: Request) -> bytes:
        if answer.is_json:
            return answer.body
        why = f"{self._transport.server}: {answer.not_json()}"
        raise Unreachable(why) if request.method == "GET" else OutcomeUnknown(why)


def _of_version(found: Listing[T], api_version: str) -> Listing[T]:
    items: list[Any] = [replace(obj, api_version=api_version) for obj in found.items]
    return replace(found, items=items)


def _delete_options(uid: str, resource_version: str, grace_period_seconds: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    preconditions = _query(uid=uid, resourceVersion=resource_version)
    if preconditions:
        options["preconditions"] = preconditions
    return options


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _metadata(obj: ApiStruct) -> ObjectMeta:
    return cast("ObjectMeta", cast("Any", obj).metadata)


def _encoded(obj: ApiStruct, resource: ApiResource, version: str) -> bytes:
    api_version = resource.api_version(version)
    top = cast("Any", obj)
    if top.kind != resource.kind or top.api_version != resource.api_version(resource.versions[0]):
        return msgspec.json.encode({**to_dict(obj), "apiVersion": api_version})
    # Defaults are omitted by the encoder, so these fields are prepended instead of decoding the result again.
    fields = msgspec.json.encode(obj)
    head = msgspec.json.encode({"apiVersion": api_version, "kind": resource.kind})
    return head if fields == b"{}" else b"%b,%b" % (head[:-1], fields[1:])
