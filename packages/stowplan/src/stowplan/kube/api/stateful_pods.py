"""Pods of StatefulSets with OrderedReady: which one another has to wait for.

A pod is created when all pods with lower ordinals are available. Pods beyond the replicas are deleted one at a time,
the highest ordinal first, when all pods to keep are available. One that is not available itself is deleted only if it
is the first such pod.

Upstream: pkg/controller/statefulset (processReplica, processCondemned).
"""

from __future__ import annotations

from collections.abc import Iterable

#: The `podManagementPolicy` of such sets.
ORDERED_READY = "OrderedReady"


def first_unavailable(ordinals: Iterable[int], kept: range) -> int | None:
    """The first of the unavailable pods; those beyond the replicas come last."""
    return min(ordinals, key=lambda ordinal: (ordinal not in kept, ordinal), default=None)


def waits_for(ordinal: int, first: int | None, kept: range, *, available: bool = False) -> int | None:
    """Which pod must be available before this one is created, or deleted if it is beyond the replicas; None: no one.

    `first`: the first unavailable pod; `available`: this one.
    """
    if first is None or first == ordinal:
        return None
    if ordinal in kept:
        return first if first in kept and first < ordinal else None
    return first if first in kept or not available else None
