"""Reschedule pods that lost their node, and those they preempt.

Pending pods are scheduled in queue order. They may preempt others, which are recreated and scheduled in turn. As a live
scheduler is woken by it, a rejected pod is tried again once a later one has found a node, until nothing changes.

StatefulSets may create and delete one pod after the other (OrderedReady): none is created while an earlier one waits,
and of those beyond their replicas, the last first, none is deleted. What a question adds or recreates is created so;
pods that exist already are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache, cached_property

from stowplan.ask.offline import Cluster
from stowplan.ask.offline.assumptions import Provision
from stowplan.ask.offline.scheduling import Stop, never
from stowplan.ask.what_if.budgets import AllowedDisruptions
from stowplan.ask.what_if.hypothetical_claims import (
    LostVolumes,
    bind_claims_of,
    release_claims,
    uses_claims,
    with_own_claims,
)
from stowplan.ask.what_if.hypothetical_pods import compiled_copies, ordinal_of, recreated
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.meta import MAX_INT32, controller_of
from stowplan.kube.api.stateful_pods import ORDERED_READY, first_unavailable, waits_for
from stowplan.kube.api.types import Pod, StatefulSet
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.pod_table import PodsBefore
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.framework.events import ASSIGNED_POD_ADD
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.preemption.victims import lower_priority_pods


class FirstWaiting:
    """The waiting pods of each StatefulSet; valid while pending pods do not change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._are_sets = any(True for _ in cluster.state.objects.all(StatefulSet))
        #: The first of each set, once asked for.
        self._first: dict[str, int | None] = {}

    @cached_property
    def _ordinals(self) -> dict[str, set[int]]:
        """Those of each set, once asked about a pod that may have to wait: there may be many pending pods."""
        found: dict[str, set[int]] = {}
        for info in self._cluster.state.pending.values():
            if name := set_of(info.pod):
                found.setdefault(f"{info.namespace}/{name}", set()).add(ordinal_of(info.pod))
        return found

    def before(self, info: PodInfo) -> str:
        """The pod that must run before this one is created; "" if there is none, or the pod's set is not known."""
        name = set_of(info.pod) if self._are_sets else ""
        found = self._cluster.state.objects.get(StatefulSet, f"{info.namespace}/{name}") if name else None
        return self.pod_before(info.pod, found) if found is not None and is_ordered(found) else ""

    def pod_before(self, pod: Pod, stateful_set: StatefulSet) -> str:
        """The same for a pod of this set, to be created, or deleted if it is beyond the replicas."""
        name, ordinal, kept = stateful_set.metadata.name, ordinal_of(pod), ordinals(stateful_set)
        key = f"{stateful_set.metadata.namespace}/{name}"
        waiting = self._ordinals.get(key, set())
        if key not in self._first:
            self._first[key] = first_unavailable(waiting, kept)
        first = waits_for(ordinal, self._first[key], kept, available=ordinal not in waiting)
        return "" if first is None else f"{name}-{first}"


def is_ordered(stateful_set: StatefulSet) -> bool:
    return stateful_set.spec.pod_management_policy == ORDERED_READY


def ordinals(stateful_set: StatefulSet) -> range:
    """Those of its replicas; all, if their number is not given."""
    start, replicas = stateful_set.spec.ordinals.start, stateful_set.spec.replicas
    return range(start, MAX_INT32 if replicas is None else start + replicas)


def not_created(first: str) -> str:
    return f"not created before {first} runs (OrderedReady)"


def set_of(pod: Pod) -> str:
    """The StatefulSet of a pod; "" if it has none."""
    owner = controller_of(pod.metadata)
    return owner.name if owner is not None and owner.kind == "StatefulSet" else ""


class NotCreatedYet(PlainStruct):
    """Pending pods that are not created, kept out of the cluster until it is their turn."""

    cluster: Cluster
    #: Pod -> the one that it waits for.
    pods: dict[str, tuple[Pod, str]]

    @classmethod
    def among(cls, cluster: Cluster, made: Collection[str]) -> NotCreatedYet:
        """`made`: the pods that a change added."""
        first = FirstWaiting(cluster)
        waiting = [(key, first.before(cluster.pod(key))) for key in made if key in cluster.state.pending]
        found = {key: (cluster.pod(key).pod, earlier) for key, earlier in waiting if earlier}
        for pod, _ in found.values():
            cluster.remove(pod)
        return cls(cluster, found)

    def go_on(self) -> bool:
        """Create those whose turn it is; whether there are any."""
        before = len(self.pods)
        self._put_back()
        self.pods = NotCreatedYet.among(self.cluster, list(self.pods)).pods
        return len(self.pods) < before

    def give_up(self) -> dict[str, str]:
        """Pod -> why it is not created."""
        self._put_back()
        return {key: not_created(first) for key, (_, first) in self.pods.items()}

    def _put_back(self) -> None:
        for pod, _ in self.pods.values():
            self.cluster.add(pod)


class NotDeletedYet(PlainStruct):
    """Pods beyond the replicas of their sets, which stay until it is their turn."""

    cluster: Cluster
    #: Those of each set, the last to be created last.
    pods: list[tuple[StatefulSet, list[str]]]

    @classmethod
    def among(cls, cluster: Cluster) -> NotDeletedYet:
        ordered = [one for one in cluster.state.objects.all(StatefulSet) if is_ordered(one)]
        mine = _by_set(cluster) if ordered else {}
        found = [(one, _beyond(one, mine.get((one.metadata.namespace, one.metadata.name), ()))) for one in ordered]
        return cls(cluster, [(one, keys) for one, keys in found if keys])

    def go_on(self) -> bool:
        """Delete those whose turn it is; whether there are any."""
        if not self.pods:
            return False
        # One that waits is only deleted if it is the first of its set, and then the last that waits.
        first, gone = FirstWaiting(self.cluster), list[Pod]()
        for stateful_set, keys in self.pods:
            while keys and not first.pod_before(self.cluster.pod(keys[-1]).pod, stateful_set):
                gone.append(self.cluster.pod(keys.pop()).pod)
                self.cluster.remove(gone[-1])
        release_claims(self.cluster, gone)
        return bool(gone)

    def notes(self) -> list[str]:
        if not self.pods:
            return []
        first = FirstWaiting(self.cluster)
        return [
            f"pod {keys[-1]} is not deleted before {before} runs ({ORDERED_READY})"
            for stateful_set, keys in self.pods
            if keys and (before := first.pod_before(self.cluster.pod(keys[-1]).pod, stateful_set))
        ]


def _by_set(cluster: Cluster) -> dict[tuple[str, str], list[Pod]]:
    found: dict[tuple[str, str], list[Pod]] = {}
    for info in (*cluster.state.placed_pods(), *cluster.state.pending.values()):
        if name := set_of(info.pod):
            found.setdefault((info.namespace, name), []).append(info.pod)
    return found


def _beyond(stateful_set: StatefulSet, pods: Iterable[Pod]) -> list[str]:
    """The keys of those beyond its replicas, by ordinal."""
    kept = ordinals(stateful_set)
    found = sorted((ordinal_of(pod), pod.metadata.name) for pod in pods if ordinal_of(pod) not in kept)
    return [f"{stateful_set.metadata.namespace}/{name}" for _, name in found]


#: Limit for chains of preemptions.
_ROUNDS = 100


class Settling:
    """Works within the caller's transaction."""

    def __init__(self, cluster: Cluster, budgets: AllowedDisruptions, stop: Stop = never) -> None:
        """`budgets`: as they were before the question's changes. Once `stop` returns True, no more pods are decided."""
        self._cluster = cluster
        self._budgets = budgets
        self._stop = stop
        #: Pod -> its new node.
        self.found: dict[str, str] = {}
        #: Pod -> why it has none.
        self.stranded: dict[str, str] = {}
        #: Preempted pods.
        self.displaced: dict[str, None] = {}
        #: Pods that were left when the question was stopped: whether they find a node is not known.
        self.undecided: dict[str, None] = {}
        self._lost_volumes = LostVolumes(cluster)
        #: Volumes that provisioners have to create.
        self.provisions: set[Provision] = set()
        self.notes: list[str] = []

    def settle(self, pods: Sequence[Pod]) -> None:
        """Schedule the recreated copies of pods that lost their nodes; other pending pods are not tried."""
        self.settle_pending(put_back(self._cluster, pods))

    def settle_pending(self, keys: list[str]) -> None:
        """The same for pods that have been recreated before."""
        for _ in range(_ROUNDS):
            ours, later, waiting = [], [], FirstWaiting(self._cluster)
            for key in keys:
                pod = self._cluster.pod(key)
                if first := waiting.before(pod):
                    self.stranded[key] = not_created(first)
                    later.append(key)
                elif self._cluster.engine.framework_for(pod) is None:
                    self.stranded[key] = no_scheduler_for(pod.pod)
                else:
                    ours.append(pod)
            if not ours:
                return
            self.provisions |= bind_claims_of(self._cluster, [pod.pod for pod in ours])
            before = self._placed([pod.pod for pod in ours])
            ours = _in_order(ours)
            decisions = self._cluster.places([pod.key for pod in ours], stop=self._stop)
            self._note(decisions)
            keys = [*(one.pod.key for one in self._woken(decisions)), *later, *self._evicted(before)]
            if self._stop():
                self._leave([*(pod.key for pod in ours[len(decisions) :]), *keys])
                return

    def foresee(self, pods: Sequence[PodInfo]) -> bool:
        """Like `settle` for pods of removed nodes, without changing anything; False if that is not possible."""
        with self._cluster.transaction():
            if self._foresee(pods):
                return True
        for known in (self.found, self.stranded, self.displaced, self.undecided):
            known.clear()
        return False

    def _foresee(self, pods: Sequence[PodInfo]) -> bool:
        for _ in range(_ROUNDS):
            waiting = FirstWaiting(self._cluster)
            if any(uses_claims(info.pod) or waiting.before(info) for info in pods):
                return False
            before = self._placed([info.pod for info in pods])
            copies = _in_order(compiled_copies(self._cluster.state, pods))
            decisions = self._cluster.foreseen(copies, stop=self._stop)
            if decisions is None or any(set_of(one.pod.pod) for one in decisions if not one.node_name):
                return False
            woken, stopped = self._woken(decisions), self._stop()
            if woken and not stopped:
                return False
            self._note(decisions)
            pods = [info for info in self._gone(before) if eviction_outcome(info.pod) is EvictionOutcome.RECREATED]
            if stopped:
                self._leave(info.key for info in (*copies[len(decisions) :], *(one.pod for one in woken), *pods))
            if stopped or not pods:
                return True
        return True

    def is_stopped_before(self, pods: Iterable[PodInfo]) -> bool:
        """Whether these cannot be decided any more."""
        if self._stop():
            self._leave(info.key for info in pods)
        return bool(self.undecided)

    def _leave(self, keys: Iterable[str]) -> None:
        """The question is stopped before it is the turn of these pods."""
        for key in keys:
            self.undecided[key] = None
            self.found.pop(key, None)
            self.stranded.pop(key, None)

    def settle_all(self, made: Collection[str] = ()) -> None:
        """Schedule all pending pods. `made`: those that a change has added."""
        later, beyond = NotCreatedYet.among(self._cluster, made), NotDeletedYet.among(self._cluster)
        beyond.go_on()
        for _ in range(_ROUNDS):
            waiting = [info.pod for info in self._cluster.state.pending.values()]
            # The claims of those to come are there, and are bound at the same time.
            self.provisions |= bind_claims_of(self._cluster, [*waiting, *(pod for pod, _ in later.pods.values())])
            before = self._placed(waiting)
            decisions = self._cluster.schedule(stop=self._stop)
            self._note(decisions)
            evicted = self._evicted(before)
            if self._stop():
                known = {one.pod.key for one in decisions if not one.nominated_node_name} - {*evicted}
                self._leave(key for key in self._cluster.pending() if key not in known)
                break
            if not any([later.go_on(), beyond.go_on(), evicted]):
                break
        self.stranded |= later.give_up()
        self.notes += beyond.notes()
        for key in self._cluster.pending():
            if key not in self.undecided:
                self.stranded.setdefault(key, no_scheduler_for(self._cluster.pod(key).pod))

    def _woken(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Rejected pods that a later one, which found a node, may help, as with pod affinity or spread."""
        last = max((number for number, one in enumerate(decisions) if one.node_name), default=0)
        # Many are rejected alike.
        may_follow = cache(self._may_follow)
        return [
            one
            for one in decisions[:last]
            if not one.node_name and may_follow(self._cluster.framework_of(one.pod), one.unschedulable_plugins)
        ]

    @staticmethod
    def _may_follow(framework: Framework, plugins: Collection[str]) -> bool:
        registered = framework.registered_events(implied=False)
        events = (one.event for plugin in plugins for one in registered.get(plugin, ()))
        return any(event.covers(ASSIGNED_POD_ADD) for event in events)

    def _note(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            key = decision.pod.key
            if decision.node_name:
                self.found[key] = decision.node_name
                self.stranded.pop(key, None)
            else:
                self.stranded[key] = self._lost_volumes.reason(decision.pod.pod) or decision.message
                self.found.pop(key, None)

    def _placed(self, waiting: Iterable[Pod]) -> PodsBefore | None:
        """Placed pods, before waiting ones preempt some; None if none of them may."""
        state = self._cluster.state
        priorities = [pod.spec.priority or 0 for pod in waiting if pod.spec.preemption_policy != "Never"]
        everywhere = state.table.valid[: state.table.n]
        if not priorities or not len(lower_priority_pods(state.pods, max(priorities), everywhere)):
            return None
        self._budgets.follow()
        return state.pods.snapshot()

    def _evicted(self, before: PodsBefore | None) -> list[str]:
        """Record pods evicted since; return the recreated ones."""
        gone = [info.pod for info in self._gone(before)]
        back = [pod for pod in gone if eviction_outcome(pod) is EvictionOutcome.RECREATED]
        release_claims(self._cluster, (pod for pod in gone if pod not in back))
        return put_back(self._cluster, back)

    def _gone(self, before: PodsBefore | None) -> list[PodInfo]:
        """Record pods evicted since, and return them."""
        if before is None:
            return []
        state = self._cluster.state
        gone = [info for info in state.pods.replaced_since(before) if state.placed(info.uid) is None]
        self.displaced |= dict.fromkeys(info.key for info in gone)
        return gone


def _in_order(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """By priority; equal pods together, controller by controller: their decisions share results."""
    templates: dict[object, int] = {}
    controllers: dict[str, int] = {}

    def place(info: PodInfo) -> tuple[int, int, int]:
        owner = controller_of(info.pod.metadata)
        template = templates.setdefault(info.shape.template, len(templates))
        return -info.priority, template, controllers.setdefault("" if owner is None else owner.uid, len(controllers))

    return sorted(pods, key=place)


def put_back(cluster: Cluster, pods: Iterable[Pod]) -> list[str]:
    """Recreate pods as pending and return their keys."""
    keys = []
    for pod in pods:
        fresh = with_own_claims(cluster, recreated(pod), pod)
        release_claims(cluster, [pod])
        cluster.add(fresh)
        keys.append(f"{fresh.metadata.namespace or 'default'}/{fresh.metadata.name}")
    return keys


def no_scheduler_for(pod: Pod) -> str:
    return f'no profile schedules for "{pod.spec.scheduler_name}"'
