"""Map a change to the watch event that a selector sees: ADDED on entry, DELETED on exit.

Upstream: k8s.io/apiserver/pkg/storage/cacher/cacher.go (convertToWatchEvent).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.selection import Selection
from stowplan_cluster.apiserver.store import Event, EventType, Stored, stored_of


def visible(event: Event, selection: Selection) -> tuple[EventType, Stored] | None:
    """The event type and object for this watcher; None if its selector does not match."""
    before = event.previous is not None and selection.matches(event.previous)
    if event.type == "DELETED":
        return ("DELETED", event.stored) if before else None
    after = selection.matches(event.stored)
    if after:
        return ("MODIFIED" if before else "ADDED"), event.stored
    return ("DELETED", _as_last_seen(event)) if before else None


def _as_last_seen(event: Event) -> Stored:
    """The previous state, which matched, with the resourceVersion of the change."""
    if event.previous is None:
        return event.stored
    obj = event.previous.to_dict()
    obj["metadata"]["resourceVersion"] = str(event.stored.version)
    return stored_of(event.stored.resource, obj, version=event.stored.version)
