"""Strategies that select pods by their own state: their age, restarts, and how they failed.

Upstream: descheduler's pkg/framework/plugins/{podlifetime,removefailedpods,removepodshavingtoomanyrestarts}.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stowplan.ask.rebalance.policy.arguments import (
    ConditionFilter,
    PodLifeTime,
    RemoveFailedPods,
    RemovePodsHavingTooManyRestarts,
)
from stowplan.ask.rebalance.policy.evictor import Eviction, Evictor
from stowplan.ask.rebalance.policy.pods_in_full import ContainerStatus
from stowplan.ask.rebalance.policy.snapshot import PolicyPod, Snapshot
from stowplan.kube.api.meta import seconds_of
from stowplan.kube.api.pod import PodCondition
from stowplan.kube.api.types import Node
from stowplan.scheduler.framework.explanations.formatting import count


def evict_all(pods: Iterable[tuple[PolicyPod, str]], evictor: Evictor) -> Eviction:
    """The pods of a node, in order and with reasons, until a limit is reached."""
    for pod, reason in pods:
        outcome = evictor.evict(pod, reason)
        if outcome in (Eviction.NODE_LIMIT, Eviction.TOTAL_LIMIT):
            return outcome
    return Eviction.DONE


# -- age --------------------------------------------------------------------------------------------------------------


def pod_life_time(snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: PodLifeTime) -> None:
    pods = [
        pod
        for node in nodes
        for pod in snapshot.all_pods_on(node.metadata.name)
        if arguments.takes(pod.namespace, pod.labels) and evictor.takes_at_once(pod)
    ]
    aged = [pod for pod in pods if _is_old(pod, snapshot.now, arguments) and _is_meant(pod, snapshot.now, arguments)]
    for pod in sorted(aged, key=lambda pod: pod.created):
        age = f"{max(0, int(snapshot.now - pod.created))} s old"
        if evictor.evict(pod, f"PodLifeTime: {age}") is Eviction.TOTAL_LIMIT:
            return


def _is_old(pod: PolicyPod, now: float, arguments: PodLifeTime) -> bool:
    most, age = arguments.max_pod_life_time_seconds, now - pod.created
    return most is None or (age >= 0 and int(age) > most)


def _is_meant(pod: PolicyPod, now: float, arguments: PodLifeTime) -> bool:
    """Whether its state, owners, conditions and exit codes are those to look for."""
    status = pod.in_full.status
    statuses = [
        *status.container_statuses,
        *(status.init_container_statuses if arguments.including_init_containers else ()),
        *(status.ephemeral_container_statuses if arguments.including_ephemeral_containers else ()),
    ]
    if arguments.states:
        states = {pod.pod.status.phase, pod.pod.status.reason, *_waiting(statuses), *_ended(statuses)}
        if not states.intersection(arguments.states):
            return False
    kinds = arguments.owner_kinds
    if kinds.include and not set(kinds.include).intersection(pod.owner_kinds):
        return False
    if set(kinds.exclude).intersection(pod.owner_kinds):
        return False
    if arguments.conditions and not any(
        _satisfies(condition, wanted, now) for wanted in arguments.conditions for condition in pod.pod.status.conditions
    ):
        return False
    # Ephemeral containers do not count here.
    own = [*status.container_statuses, *(status.init_container_statuses if arguments.including_init_containers else ())]
    return not arguments.exit_codes or bool(set(arguments.exit_codes).intersection(_exit_codes(own)))


def _satisfies(condition: PodCondition, wanted: ConditionFilter, now: float) -> bool:
    if any(getattr(wanted, name) not in ("", getattr(condition, name)) for name in ("type", "status", "reason")):
        return False
    least = wanted.min_time_since_last_transition_seconds
    if least is None:
        return True
    since = condition.last_transition_time
    return bool(since) and int(now - seconds_of(since)) >= least


# -- restarts ---------------------------------------------------------------------------------------------------------


def too_many_restarts(
    snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: RemovePodsHavingTooManyRestarts
) -> None:
    for node in nodes:
        found = []
        for pod in snapshot.all_pods_on(node.metadata.name):
            restarts = _restarts(pod, arguments)
            selected = restarts >= arguments.pod_restart_threshold and arguments.takes(pod.namespace, pod.labels)
            if selected and evictor.takes_at_once(pod) and _is_in_state(pod, arguments):
                found.append((restarts, pod))
        found.sort(key=lambda item: -item[0])
        reasons = ((pod, f"RemovePodsHavingTooManyRestarts: {count(restarts, 'restart')}") for restarts, pod in found)
        if evict_all(reasons, evictor) is Eviction.TOTAL_LIMIT:
            return


def _restarts(pod: PolicyPod, arguments: RemovePodsHavingTooManyRestarts) -> int:
    status = pod.in_full.status
    inits = status.init_container_statuses if arguments.including_init_containers else ()
    return sum(one.restart_count for one in (*status.container_statuses, *inits))


def _is_in_state(pod: PolicyPod, arguments: RemovePodsHavingTooManyRestarts) -> bool:
    status = pod.in_full.status
    inits = status.init_container_statuses if arguments.including_init_containers else ()
    states = {pod.pod.status.phase, *_waiting((*status.container_statuses, *inits))}
    return not arguments.states or bool(states.intersection(arguments.states))


# -- failures ---------------------------------------------------------------------------------------------------------


def failed_pods(snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: RemoveFailedPods) -> None:
    for node in nodes:
        found = [
            pod
            for pod in snapshot.all_pods_on(node.metadata.name)
            if pod.pod.status.phase == "Failed"
            and arguments.takes(pod.namespace, pod.labels)
            and _is_failure_meant(pod, snapshot.now, arguments)
            and evictor.takes_at_once(pod)
        ]
        reasons = ((pod, f"RemoveFailedPods: {pod.pod.status.reason or 'it failed'}") for pod in found)
        if evict_all(reasons, evictor) is Eviction.TOTAL_LIMIT:
            return


def _is_failure_meant(pod: PolicyPod, now: float, arguments: RemoveFailedPods) -> bool:
    if int(now - pod.created) < (arguments.min_pod_lifetime_seconds or 0):
        return False
    if set(arguments.exclude_owner_kinds).intersection(pod.owner_kinds):
        return False
    status = pod.in_full.status
    inits = status.init_container_statuses if arguments.including_init_containers else ()
    statuses = (*status.container_statuses, *inits)
    reasons = {pod.pod.status.reason, *_waiting(statuses), *_ended(statuses)}
    if arguments.reasons and not reasons.intersection(arguments.reasons):
        return False
    return not arguments.exit_codes or bool(set(arguments.exit_codes).intersection(_exit_codes(statuses)))


# -- states of containers ---------------------------------------------------------------------------------------------


def _waiting(statuses: Iterable[ContainerStatus]) -> Iterator[str]:
    return (one.state.waiting.reason for one in statuses if one.state.waiting is not None)


def _ended(statuses: Iterable[ContainerStatus]) -> Iterator[str]:
    return (one.state.terminated.reason for one in statuses if one.state.terminated is not None)


def _exit_codes(statuses: Iterable[ContainerStatus]) -> Iterator[int]:
    return (one.state.terminated.exit_code for one in statuses if one.state.terminated is not None)
