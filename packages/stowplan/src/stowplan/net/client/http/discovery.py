"""Discover which version of a kind the cluster serves.

Found versions are cached; that a cluster does not serve a kind is cached for a few minutes, as the cluster may be
upgraded. Kinds of one group share a request: concurrent callers share its response, and it is cancelled when the last
of them is.

Upstream: staging/src/k8s.io/client-go/discovery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stowplan.kube.api.api_errors import Forbidden, NotFound
from stowplan.kube.api.resources import ApiResource
from stowplan.kube.structs import PlainStruct
from stowplan.net.client.http.decoding import decode_resource_names
from stowplan.net.client.http.responses import Subject
from stowplan.net.client.http.transport import Request, Transport

ABSENCE_KEPT = 300.0


class _Question(PlainStruct, eq=False):
    """A request in progress."""

    asking: asyncio.Task[frozenset[str]]
    waiting: int = 0


class Discovery:
    def __init__(self, transport: Transport, *, clock: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock
        self._served: dict[ApiResource, str] = {}
        #: When a resource was last found not to be served.
        self._absent: dict[ApiResource, float] = {}
        #: By path.
        self._under_way: dict[str, _Question] = {}

    async def version(self, resource: ApiResource) -> str:
        """The version to use in requests; the preferred one if the cluster serves none that we support."""
        if len(resource.versions) == 1:
            return resource.versions[0]
        return await self.served_version(resource) or resource.versions[0]

    async def served_version(self, resource: ApiResource) -> str | None:
        """The first version that the cluster serves and we support; raises the errors of the request."""
        if resource in self._served:
            return self._served[resource]
        since = self._absent.get(resource)
        if since is not None and self._clock() - since < ABSENCE_KEPT:
            return None
        found = await self._look_up(resource)
        if found is None:
            self._absent[resource] = self._clock()
        else:
            self._served[resource] = found
        return found

    async def _look_up(self, resource: ApiResource) -> str | None:
        try:
            for version in resource.versions:
                if resource.plural in await self._names(resource, version):
                    return version
        except Forbidden:
            # Permission to read a kind does not imply permission to discover.
            return resource.versions[0]
        return None

    async def _names(self, resource: ApiResource, version: str) -> frozenset[str]:
        path = resource.root(version)
        question = self._under_way.get(path)
        if question is None:
            question = self._under_way[path] = _Question(asyncio.create_task(self._ask(path)))
        question.waiting += 1
        try:
            # A cancelled caller does not cancel the others' request.
            return await asyncio.shield(question.asking)
        finally:
            question.waiting -= 1
            if self._under_way.get(path) is question and (question.asking.done() or not question.waiting):
                del self._under_way[path]
            if not question.waiting:
                question.asking.cancel()

    async def _ask(self, path: str) -> frozenset[str]:
        subject = Subject("GET", name=path)
        answer = await self._transport.send(Request(method="GET", path=path, subject=subject))
        if not answer.ok:
            error = self._transport.error_of(answer, subject)
            if isinstance(error, NotFound):
                return frozenset()
            raise error
        return decode_resource_names(answer.body)
