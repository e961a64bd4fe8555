"""StatefulSets: which pods to create and delete next, by ordinal.

OrderedReady creates one pod at a time, lowest ordinal first, each after all lower ones are available; scaling down and
updates start at the highest ordinal. Parallel does not wait. An update deletes pods of other revisions and recreates
them; with a partition, ordinals below it stay at, and are recreated at, the current revision.

A set is described by its exceptions, so that the change of one pod among thousands does not look at the others.

Upstream: pkg/controller/statefulset (stateful_set_control.go).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stowplan.kube.api.stateful_pods import ORDERED_READY, first_unavailable, waits_for
from stowplan.kube.api.whole_numbers import share
from stowplan_cluster.reconcile.views import StatefulSet

ROLLING = "RollingUpdate"


class Seen(NamedTuple):
    """A pod of a StatefulSet."""

    #: Not of the update revision.
    outdated: bool = False
    ready: bool = False
    #: Ready for minReadySeconds, and not terminating.
    available: bool = False
    finished: bool = False
    terminating: bool = False


#: By ordinal, None: it does not exist. Ordinals within the replicas that are missing here have an available, updated
#: pod; others have none.
Pods = Mapping[int, Seen | None]


class Moves(NamedTuple):
    """What to do next, in order."""

    create: Sequence[int] = ()
    #: Finished, or beyond the replicas.
    delete: Sequence[int] = ()
    #: Outdated.
    update: Sequence[int] = ()
    #: The pod that all others wait for, if any.
    stops_at: int | None = None

    def is_beyond(self, ordinal: int) -> bool:
        """Whether a pod with this ordinal waits for another one."""
        return self.stops_at is not None and ordinal > self.stops_at


def ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start
    return range(start, start + stateful_set.spec.replicas)


def is_ordered(stateful_set: StatefulSet) -> bool:
    return stateful_set.spec.pod_management_policy == ORDERED_READY


def has_current_revision(stateful_set: StatefulSet, ordinal: int) -> bool:
    """Whether a pod with this ordinal is created at the current revision, not at the update revision."""
    strategy = stateful_set.spec.update_strategy
    return strategy.type == ROLLING and ordinal < stateful_set.spec.ordinals.start + strategy.rolling_update.partition


def is_complete(stateful_set: StatefulSet, pods: Pods) -> bool:
    """Whether all pods are of the update revision and ready, so that it becomes the current one."""
    kept = ordinals(stateful_set)
    there = [pod for pod in pods.values() if pod is not None]
    return (
        stateful_set.spec.update_strategy.type == ROLLING
        # Parity: pods are counted, whatever their ordinals.
        and len(there) == sum(ordinal in kept for ordinal in pods)
        and all(pod.ready and not pod.outdated and not pod.terminating for pod in there)
    )


def next_moves(stateful_set: StatefulSet, pods: Pods) -> Moves:
    kept = ordinals(stateful_set)
    mine = {ordinal: pods[ordinal] for ordinal in sorted(pods) if ordinal in kept}
    beyond = {ordinal: pod for ordinal in sorted(pods, reverse=True) if ordinal not in kept and (pod := pods[ordinal])}
    if is_ordered(stateful_set):
        return _one_move(stateful_set, mine, beyond)
    ended = [ordinal for ordinal, pod in mine.items() if pod is not None and pod.finished and not pod.terminating]
    return Moves(
        create=[ordinal for ordinal, pod in mine.items() if pod is None],
        delete=[*ended, *(ordinal for ordinal, pod in beyond.items() if not pod.terminating)],
        update=_updates(stateful_set, mine),
    )


def _one_move(stateful_set: StatefulSet, mine: Pods, beyond: Mapping[int, Seen]) -> Moves:
    kept = ordinals(stateful_set)
    first = first_unavailable(
        (ordinal for ordinal, pod in (*mine.items(), *beyond.items()) if pod is None or not pod.available), kept
    )
    if first is not None and first in mine:
        pod = mine[first]
        if pod is None:
            return Moves(create=(first,), stops_at=first)
        return Moves(delete=(first,) if pod.finished and not pod.terminating else (), stops_at=first)
    for ordinal, pod in beyond.items():
        # Unlike upstream, do not wait for finished pods, which never become available: two would block for ever.
        waits = waits_for(ordinal, first, kept, available=pod.available or pod.finished) is not None
        return Moves(delete=() if pod.terminating or waits else (ordinal,))
    return Moves(update=_updates(stateful_set, mine))


def _updates(stateful_set: StatefulSet, mine: Pods) -> Sequence[int]:
    strategy = stateful_set.spec.update_strategy
    if strategy.type != ROLLING:
        return ()
    last_first = sorted(mine, reverse=True)
    from_the_end = [(one, mine[one]) for one in last_first if not has_current_revision(stateful_set, one)]
    if strategy.rolling_update.max_unavailable is not None:
        most = share(strategy.rolling_update.max_unavailable, stateful_set.spec.replicas, round_up=False)
        # Parity: a percentage that rounds to zero counts as one.
        allowed = max(1, most) - sum(pod is None or not pod.available for pod in mine.values())
        outdated = [ordinal for ordinal, pod in from_the_end if pod is not None and _is_replaced(pod)]
        return outdated[: max(0, allowed)]
    for ordinal, pod in from_the_end:
        if pod is not None and _is_replaced(pod):
            return (ordinal,)
        if pod is None or not pod.available:
            break
    return ()


def _is_replaced(pod: Seen) -> bool:
    return pod.outdated and not pod.terminating
