"""An Api between a scheduler and its cluster that records requests, and replaces some of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    verb: str
    #: Name of the kind; "" for bind.
    kind: str
    name: str
    namespace: str = ""
    subresource: str = ""
    body: Any = None
    options: dict = field(default_factory=dict)


class Tampered:
    """`instead["bind"] = action`: binds call `await action(call, go_on)`, where `go_on()` sends the real request."""

    def __init__(self, api):
        self._api = api
        self.calls = []
        self.instead = {}

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def _do(self, call, go_on):
        self.calls.append(call)
        action = self.instead.get(call.verb)
        return await go_on() if action is None else await action(call, go_on)

    async def create(self, obj, **options):
        call = Call("create", type(obj).__name__, obj.metadata.name, obj.metadata.namespace, "", obj, options)
        return await self._do(call, lambda: self._api.create(obj, **options))

    async def patch(self, kind, name, patch, *, namespace="", subresource="", **options):
        call = Call("patch", kind.__name__, name, namespace, subresource, patch, options)
        return await self._do(
            call, lambda: self._api.patch(kind, name, patch, namespace=namespace, subresource=subresource, **options)
        )

    async def delete(self, kind, name, *, namespace="", **options):
        call = Call("delete", kind.__name__, name, namespace, options=options)
        return await self._do(call, lambda: self._api.delete(kind, name, namespace=namespace, **options))

    async def bind(self, *, namespace, name, **options):
        call = Call("bind", "", name, namespace, "binding", options=options)
        return await self._do(call, lambda: self._api.bind(namespace=namespace, name=name, **options))

    # -- recorded requests

    def status_patches(self, name):
        """Bodies of the patches of a pod's status."""
        wanted = ("patch", "Pod", name, "status")
        return [c.body for c in self.calls if (c.verb, c.kind, c.name, c.subresource) == wanted]

    def names(self, verb):
        """Names of the objects of its requests, in order."""
        return [c.name for c in self.calls if c.verb == verb]

    def verbs(self, name):
        """Verbs of the requests about a pod, in order: bind, patch, delete."""
        return [c.verb for c in self.calls if c.name == name and c.kind in ("Pod", "")]


def tampered(**instead):
    """As `wrap` of a live scheduler: its Api with these actions in place of requests."""

    def wrap(api):
        made = Tampered(api)
        made.instead = instead
        return made

    return wrap


def raising(error, *, times=None, after=False):
    """An action that raises, always by default; `after`: once the request has been carried out."""
    left = times

    async def act(call, go_on):
        nonlocal left
        if left == 0:
            return await go_on()
        left = None if left is None else left - 1
        if after:
            await go_on()
        raise error

    return act


class Held:
    """An action that blocks until the test lets it go on."""

    def __init__(self):
        self.waiting = asyncio.Event()
        self._go = asyncio.Event()

    def let_go(self):
        self._go.set()

    async def __call__(self, call, go_on):
        self.waiting.set()
        await self._go.wait()
        return await go_on()
