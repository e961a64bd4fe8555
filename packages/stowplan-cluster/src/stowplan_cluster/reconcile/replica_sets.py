"""ReplicaSets and ReplicationControllers: how many pods to create, or which ones to delete.

Finished and terminating pods do not count. Pods are looked at only if there are too many.

Upstream: pkg/controller/replicaset (manageReplicas).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stowplan_cluster.reconcile.pods import Pod, by_deletion_order


class Change(NamedTuple):
    create: int = 0
    #: In order.
    delete: Sequence[Pod] = ()


def next_change(
    replicas: int, active: int, pods: Callable[[], Iterable[Pod]], related: Callable[[], Iterable[Pod]]
) -> Change:
    """`active`: the number of active pods; `related`: the pods of all sets with the same controller."""
    if active <= replicas:
        return Change(create=replicas - active)
    candidates = [pod for pod in pods() if pod.active]
    return Change(delete=by_deletion_order(candidates, related())[: active - replicas])
