"""An API with scripted answers to writes, which records the requests."""

import asyncio
from collections import deque
from copy import deepcopy

from stowplan.kube.api.decode import convert, to_dict


class WritingApi:
    """Each write takes the next of `answers`: an exception to raise, an object to return, or None for the usual
    answer."""

    def __init__(self, *, serves=True):
        #: (verb, kind, namespace/name, body, lane)
        self.calls = []
        self.answers = deque()
        self.served = serves
        #: While this event is not set, no request is answered.
        self.open = asyncio.Event()
        self.open.set()
        self.in_flight = self.most_in_flight = 0

    async def serves(self, kind):
        if isinstance(self.served, Exception):
            raise self.served
        return self.served

    async def create(self, obj, *, lane="default"):
        body = to_dict(obj)
        return await self._answer(("create", type(obj), _key(body["metadata"]), body, lane), obj)

    async def patch(self, kind, name, patch, *, type_, namespace="", subresource="", lane="default"):
        verb = f"patch {type_}" + (f" {subresource}" if subresource else "")
        metadata = {"namespace": namespace, "name": name}
        return await self._answer(
            (verb, kind, _key(metadata), deepcopy(patch), lane), convert({"metadata": metadata}, kind)
        )

    async def _answer(self, call, usual):
        self.calls.append(call)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.open.wait()
        finally:
            self.in_flight -= 1
        answer = self.answers.popleft() if self.answers else None
        if isinstance(answer, Exception):
            raise answer.with_traceback(None)
        return usual if answer is None else answer

    @property
    def verbs(self):
        return [call[0] for call in self.calls]

    @property
    def bodies(self):
        return [call[3] for call in self.calls]


def _key(metadata):
    return f"{metadata['namespace']}/{metadata['name']}"
