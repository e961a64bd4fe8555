"""The recent changes of one storage, bounded in number and bytes.

The oldest changes are dropped first; a watcher that still needs them gets `Expired` and has to list again.

Upstream: k8s.io/apiserver/pkg/storage/cacher/watch_cache.go.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from stowplan.kube.api.api_errors import Expired

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.store import Cursor, Event


class History:
    def __init__(self, forgotten: int, *, max_changes: int, max_bytes: int) -> None:
        self.events: list[Event] = []
        #: Number of changes dropped so far: the absolute position of the first remembered change.
        self.start = 0
        #: Version of the last dropped change.
        self.forgotten = forgotten
        self.asleep: dict[Cursor, None] = {}
        self._bytes = 0
        self._max_changes = max_changes
        self._max_bytes = max_bytes

    def append(self, event: Event) -> None:
        self.events.append(event)
        self._bytes += len(event.stored.data)
        # Drop an eighth at a time: removing from the front moves all remaining elements.
        if len(self.events) > self._max_changes * 9 // 8 or self._bytes > self._max_bytes * 9 // 8:
            self._trim()
        if self.asleep:
            self._wake()

    def _trim(self) -> None:
        count = max(len(self.events) - self._max_changes, 0)
        size = self._bytes - sum(len(event.stored.data) for event in self.events[:count])
        while size > self._max_bytes and count < len(self.events) - 1:
            size -= len(self.events[count].stored.data)
            count += 1
        self.forgotten = self.events[count - 1].stored.version
        del self.events[:count]
        self.start += count
        self._bytes = size

    def _wake(self) -> None:
        asleep, self.asleep = self.asleep, {}
        for cursor in asleep:
            if cursor.wake is not None:
                cursor.wake()

    def after(self, version: int) -> int:
        """Index of the first remembered change after `version`; raise Expired if some of those were dropped."""
        if version < self.forgotten:
            raise Expired(f"too old resource version: {version} ({self.forgotten})")
        return bisect_right(self.events, version, key=lambda event: event.stored.version)
