"""Delete Events one hour after their last update.

Events expire in the order in which they were written, so one queue and one timer suffice. Events of a loaded state
expire one hour after loading.

Upstream: the `--event-ttl` of kube-apiserver, which etcd's leases carry out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event
from stowplan_cluster.controllers.client import ControllerClient

EVENTS = "events"
TTL_SECONDS = 3600.0
#: Maximum number of events deleted per reconcile.
BURST = 500


class _Expiry(NamedTuple):
    when: float
    namespace: str
    name: str
    version: int


class EventTTLController:
    def __init__(self, registry: Registry) -> None:
        self.name = "event-ttl-controller"
        self.watches = (EVENTS,)
        self._client = ControllerClient(registry, self.name)
        #: Expiry of each version of an event; ignored if the event was written again.
        self._expiries: deque[_Expiry] = deque()

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        if event.type == "DELETED":
            return ()
        stored = event.stored
        expiry = _Expiry(self._client.now + TTL_SECONDS, stored.namespace, stored.name, stored.version)
        self._expiries.append(expiry)
        return [EVENTS] if len(self._expiries) == 1 else ()

    def reconcile(self, key: Hashable) -> float | None:
        for _ in range(BURST):
            if not self._expiries:
                return None
            left = self._expiries[0].when - self._client.now
            if left > 0:
                return left
            self._expire(self._expiries.popleft())
        return 0.0

    def _expire(self, expiry: _Expiry) -> None:
        stored = self._client.store.get(EVENTS, expiry.namespace, expiry.name)
        if stored is not None and stored.version == expiry.version:
            self._client.delete(EVENTS, stored.namespace, stored.name, uid=stored.uid)
