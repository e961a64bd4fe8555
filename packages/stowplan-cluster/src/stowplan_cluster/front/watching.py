"""Watch streams: newline-delimited JSON events until the client leaves or the timeout expires.

`WatchSource` produces the events and never waits: the initial state if requested, then the changes after a cursor in
the store's history, as seen by the request's selectors. It buffers no events: a reader that falls behind loses its
position in the history and gets an ERROR event.

`WatchStream` waits: it is woken by the store, by a ticker for bookmarks and the timeout, or by shutdown. Unread output
is bounded by the connection's buffer; if that does not drain in time, the connection is aborted.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go, storage/cacher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from stowplan.kube.api.api_errors import Expired
from stowplan.net.serving.requests.forms import status_object
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.selection import Selection, visible
from stowplan_cluster.apiserver.store import Cursor, Stored
from stowplan_cluster.front.request_options import WatchOptions
from stowplan_cluster.front.responses import PLAIN, ObjectForm, Renderer, encode

#: Bytes written before yielding to the event loop, plus or minus a few large objects.
_CHUNK = 64 * 1024
_FEW = 4
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchSource:
    """Produces the events of a watch."""

    def __init__(
        self,
        *,
        registry: Registry,
        renderer: Renderer,
        resource: Resource,
        selection: Selection,
        form: ObjectForm,
        options: WatchOptions,
        since: int,
    ) -> None:
        self._registry = registry
        self._renderer = renderer
        self._resource = resource
        self._selection = selection
        self._form = form
        self._end_due = options.initial_events_end
        self._columns_sent = False
        #: Whether the stream must end.
        self.ended = False
        #: Number of events sent.
        self.count = 0
        self._initial = iter(self._present()) if options.initial_events else iter(())
        self._cursor: Cursor | None = None
        self._first: list[bytes] = []
        try:
            # Changes start after the snapshot, whatever version the client requested.
            begin = registry.store.version if options.initial_events else since
            self._cursor = registry.store.watch(resource.storage, since=begin)
        except Expired as error:
            self._first.append(self._fail(error))
            self._initial = iter(())

    def _present(self) -> list[Stored]:
        selection = self._selection
        found = self._registry.store.list(self._resource.storage, selection.namespace)
        return list(found) if selection.everything else [stored for stored in found if selection.matches(stored)]

    def _fail(self, error: Expired) -> bytes:
        self.ended = True
        return _event("ERROR", encode(status_object(error.status)))

    def on_wake(self, wake: Callable[[], None]) -> None:
        if self._cursor is not None:
            self._cursor.wake = wake

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()

    def take(self) -> bytes:
        """The next lines, bounded in size; if there are none, `wake` will be called or the watch has ended."""
        lines, size = self._first, 0
        self._first = []
        for stored in self._initial:
            lines.append(self._line("ADDED", stored))
            size += len(lines[-1])
            if size > _CHUNK:
                break
        else:
            if self._end_due and not self.ended:
                self._end_due = False
                lines.append(self.bookmark(initial_events_end=True))
        if not lines:
            lines = self._changes()
        self.count += len(lines)
        return b"".join(lines)

    def _changes(self) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        while size < _CHUNK and not self.ended and self._cursor is not None:
            try:
                events = self._cursor.take(_FEW)
            except Expired as error:
                lines.append(self._fail(error))
                break
            if not events:
                break
            for event in events:
                change = visible(event, self._selection)
                if change is not None:
                    lines.append(self._line(*change))
                    size += len(lines[-1])
        return lines

    def _line(self, type_: str, stored: Stored) -> bytes:
        if self._form.plain:
            return _event(type_, self._renderer.data(self._resource, stored))
        obj = self._renderer.in_form(self._resource, self._registry.to_dict(self._resource, stored), self._form)
        if self._form.accepted.kind == "Table":
            # Column definitions are sent once.
            if self._columns_sent:
                obj["columnDefinitions"] = None
            self._columns_sent = True
        return _event(type_, encode(obj))

    def bookmark(self, *, initial_events_end: bool = False) -> bytes:
        """A bookmark; must be sent after all earlier events."""
        metadata: JsonObject = {"resourceVersion": str(self._registry.store.version)}
        if initial_events_end:
            metadata["annotations"] = {_INITIAL_EVENTS_END: "true"}
        obj: JsonObject = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        if self._form is not PLAIN and self._form.accepted.kind:
            version = f"meta.k8s.io/{self._form.accepted.version}"
            obj |= {"kind": "PartialObjectMetadata", "apiVersion": version}
            if self._form.accepted.kind == "Table":
                row = {"cells": [], "object": obj}
                table_metadata = {"resourceVersion": metadata["resourceVersion"]}
                obj = {"kind": "Table", "apiVersion": version, "metadata": table_metadata, "columnDefinitions": None}
                obj["rows"] = [row]
        return _event("BOOKMARK", encode(obj))


def _event(type_: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), obj)


class WatchStream:
    """Streams one watch. `run` returns when it has ended; cancel it when the reader is gone."""

    def __init__(
        self,
        source: WatchSource,
        *,
        write: Callable[[bytes], Awaitable[None]],
        sleep: Callable[[float], Awaitable[Any]],
        timeout: float,
        bookmark_interval: float,
    ) -> None:
        """An interval of 0 means no bookmarks. `write` raises ConnectionError if the reader is gone or too slow."""
        self._source = source
        self._write = write
        self._sleep = sleep
        self._timeout = timeout
        self._bookmark_interval = bookmark_interval
        self._bookmark_due = False
        self._stopped = False
        self._woken = asyncio.Event()

    def stop(self) -> None:
        self._stopped = True
        self._woken.set()

    async def run(self) -> None:
        ticker = asyncio.create_task(self._tick())
        self._source.on_wake(self._woken.set)
        try:
            while not self._stopped:
                lines = self._source.take()
                if lines:
                    await self._write(lines)
                elif self._source.ended:
                    return
                elif self._bookmark_due:
                    self._bookmark_due = False
                    await self._write(self._source.bookmark())
                else:
                    await self._woken.wait()
                    self._woken.clear()
            await self._finish()
        finally:
            self._source.close()
            ticker.cancel()
            await asyncio.gather(ticker, return_exceptions=True)

    async def _finish(self) -> None:
        """Send a final bookmark, so that the next watch can resume from it."""
        if self._bookmark_interval and not self._source.ended:
            lines = self._source.take()
            await self._write(lines or self._source.bookmark())

    async def _tick(self) -> None:
        left = self._timeout
        while left > 0:
            pause = min(left, self._bookmark_interval or left)
            await self._sleep(pause)
            left -= pause
            if self._bookmark_interval and left > 0:
                self._bookmark_due = True
                self._woken.set()
        self.stop()
