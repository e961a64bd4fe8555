"""DaemonSets: which pods to create and delete on each node, and which ones an update replaces next.

What a node gets depends on its own pods, so that a change of one node looks at no other. A rolling update deletes old
pods while at most maxUnavailable nodes lack an available pod, or, with maxSurge, creates the new pod next to the old
one first. It is a second step, which waits until the first has nothing to do, and looks at the nodes that differ from
the others.

Upstream: pkg/controller/daemon (podsShouldBeOnNode, rollingUpdate).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import field

from stowplan.kube.api.reconcile_events import NORMAL, WARNING, Event
from stowplan.kube.api.whole_numbers import share
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.reconcile.pods import FAILED, SUCCEEDED
from stowplan_cluster.reconcile.views import UpdateStrategy

#: Delay before a failed pod is replaced; doubles up to the limit.
FAILED_POD_BACKOFF_SECONDS = 1.0
FAILED_POD_BACKOFF_LIMIT_SECONDS = 900.0

ROLLING = "RollingUpdate"


class DaemonPod(NamedTuple):
    """A pod of the DaemonSet; none is both finished and terminating."""

    #: Its namespace and name.
    key: str
    #: Of the newest revision.
    updated: bool = True
    ready: bool = False
    #: Ready for minReadySeconds.
    available: bool = False
    phase: str = ""
    terminating: bool = False
    #: Whether it is bound to its node.
    assigned: bool = False
    created: float = 0.0


class OnNode(NamedTuple):
    """A node's pods, and whether it should have one."""

    pods: Sequence[DaemonPod] = ()
    should_run: bool = False
    #: Whether a running pod may stay.
    may_stay: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether neither step has anything to do, nor counts the node but as one with an available, updated pod."""
        if not self.should_run:
            return not self.pods
        return len(self.pods) == 1 and self.pods[0].available and self.pods[0].updated and not self.pods[0].terminating

    def new_and_old(self) -> tuple[DaemonPod | None, DaemonPod | None]:
        there = [pod for pod in self.pods if not pod.terminating]
        new = next((pod for pod in there if pod.updated), None)
        return new, next((pod for pod in there if not pod.updated), None)


class Backoff(NamedTuple):
    """How long a node's next failed pod stays."""

    delay: float
    since: float


class Plan(PlainStruct):
    #: Names of nodes.
    create: list[str] = field(default_factory=list)
    #: Keys of pods.
    delete: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    #: Seconds until the next reconcile.
    waits: list[float] = field(default_factory=list)
    #: Node -> its new backoff.
    backoffs: dict[str, Backoff] = field(default_factory=dict)


def in_order(pods: Iterable[DaemonPod]) -> list[DaemonPod]:
    """The one to keep first."""
    return sorted(pods, key=lambda pod: (not pod.assigned, pod.created, pod.key))


def of_missing_node(pods: Iterable[DaemonPod]) -> list[str]:
    """Pods that no scheduler can place any more; those that were placed are deleted with their node."""
    return [pod.key for pod in pods if not pod.assigned and not pod.terminating]


def plan_node(
    plan: Plan, name: str, node: OnNode, strategy: UpdateStrategy, backoff: Backoff | None, now: float
) -> None:
    """The first step; `backoff`: the node's, if any."""
    if node.should_run and not node.pods:
        plan.create.append(name)
    elif not node.may_stay:
        plan.delete += [pod.key for pod in node.pods if not pod.terminating]
    else:
        there = [pod for pod in in_order(node.pods) if not pod.terminating]
        running = [pod for pod in there if not _has_ended(plan, name, pod, backoff, now)]
        if surges(strategy):
            _plan_pair(plan, name, node, running)
        else:
            plan.delete += [pod.key for pod in running[1:]]


def _has_ended(plan: Plan, node: str, pod: DaemonPod, backoff: Backoff | None, now: float) -> bool:
    """Whether the pod has ended; plans its deletion, for failed pods after a backoff."""
    where = f"daemon pod {pod.key} on node {node}"
    if pod.phase == SUCCEEDED:
        plan.events.append(Event(NORMAL, "SucceededDaemonPod", f"Found succeeded {where}, will try to delete it"))
        plan.delete.append(pod.key)
    elif pod.phase == FAILED:
        left = 0.0 if backoff is None else backoff.since + backoff.delay - now
        if left > 0:
            plan.waits.append(left)
        else:
            plan.backoffs[node] = _longer(backoff, now)
            plan.events.append(Event(WARNING, "FailedDaemonPod", f"Found failed {where}, will try to kill it"))
            plan.delete.append(pod.key)
    return pod.phase in (SUCCEEDED, FAILED)


def _longer(backoff: Backoff | None, now: float) -> Backoff:
    if backoff is None or now - backoff.since > 2 * FAILED_POD_BACKOFF_LIMIT_SECONDS:
        return Backoff(FAILED_POD_BACKOFF_SECONDS, now)
    return Backoff(min(2 * backoff.delay, FAILED_POD_BACKOFF_LIMIT_SECONDS), now)


def _plan_pair(plan: Plan, name: str, node: OnNode, running: Sequence[DaemonPod]) -> None:
    """Keep at most one old and one new pod; delete the old one when the new one is available."""
    if not running and node.should_run:
        plan.create.append(name)
    old = [pod for pod in running if not pod.updated]
    new = [pod for pod in running if pod.updated]
    plan.delete += [pod.key for pod in (*old[1:], *new[1:])]
    if old and new and (not old[0].ready or new[0].available):
        plan.delete.append(old[0].key)


def surges(strategy: UpdateStrategy) -> bool:
    return strategy.type == ROLLING and share(strategy.rolling_update.max_surge, 1, round_up=True) > 0


def plan_update(strategy: UpdateStrategy, nodes: Mapping[str, OnNode], desired: int, settled: int) -> Plan:
    """The second step. `desired`: the number of nodes that should have a pod.

    `nodes`: those that have a pod or should have one, except for a number that are `settled`.
    """
    plan, rolling = Plan(), strategy.rolling_update
    if strategy.type != ROLLING:
        return plan
    surge = share(rolling.max_surge, desired, round_up=True)
    unavailable = share(rolling.max_unavailable, desired, round_up=True)
    if surge:
        _plan_surge(plan, nodes, surge, spare=settled - desired)
    else:
        _plan_replacement(plan, nodes, max(unavailable, 1))
    return plan


def _plan_replacement(plan: Plan, nodes: Mapping[str, OnNode], max_unavailable: int) -> None:
    missing = 0
    candidates: list[str] = []
    for name in sorted(nodes):
        new, old = nodes[name].new_and_old()
        if new is not None:
            missing += old is not None or not new.available
        elif old is None:
            missing += 1
        elif not old.available:
            missing += 1
            plan.delete.append(old.key)
        else:
            candidates.append(old.key)
    plan.delete += candidates[: max(0, max_unavailable - missing)]


def _plan_surge(plan: Plan, nodes: Mapping[str, OnNode], max_surge: int, spare: int) -> None:
    """`spare`: the number of available pods on other nodes, less those desired on all."""
    surging = 0
    candidates: list[str] = []
    leaving: list[str] = []
    for name in sorted(nodes):
        new, old = nodes[name].new_and_old()
        one = old or new
        spare += one is not None and one.available
        if old is None:
            continue
        if new is not None:
            surging += not new.available
        elif not nodes[name].should_run:
            (leaving if old.available else plan.delete).append(old.key)
        elif old.available:
            candidates.append(name)
        else:
            plan.create.append(name)
    # As long as there are not enough elsewhere, pods stay on nodes that should not have one.
    plan.delete += leaving[: max(0, spare)]
    plan.create += candidates[: max(0, max_surge - surging)]
