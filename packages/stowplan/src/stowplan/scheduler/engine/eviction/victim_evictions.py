"""Evict the victims of all plans, with bounded concurrency.

The state of each is its `VictimRecord` (`eviction_records.py`). At most `MAX_CONCURRENT_EVICTIONS` are in progress over
all plans; the others wait, and can still be cancelled.

No pod is evicted in vain. Before each step, the preemptor is checked to still need the room: a pod exists, has no node,
was not superseded there by a more important pod, and the node exists; a group exists, and is large enough. The victim
is checked as well: one that has left the node, is being deleted, or was replaced by another pod of the same name, is
spared. The reference carries out the plan without these checks.

Upstream: pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stowplan.kube.api.api_errors import Conflict, NotFound
from stowplan.kube.api.types import Pod, PodCondition
from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.eviction.eviction_records import (
    EvictionMetrics,
    EvictionStage,
    PlanRecord,
    PlanStage,
    Preemptor,
    Result,
    VictimRecord,
)
from stowplan.scheduler.engine.statuses import StatusListener
from stowplan.scheduler.framework.requests import Delete, Done, Outcome, Read, Unknown

if TYPE_CHECKING:
    from stowplan.scheduler.engine.eviction.evictions import Evictions

#: Over all plans: evictions that wait for their turn can still be cancelled.
MAX_CONCURRENT_EVICTIONS = 16

#: Rejection message for a pod that waits on Permit.
PREEMPTED = "preempted"

_log = get_logger(__name__)


class VictimEvictions:
    """Evictions that wait for their turn, and those in progress.

    A status write may end at any time, even within the call that requests it, or while a change is being applied. It is
    recorded, and the eviction continues at the end of the step.
    """

    def __init__(self, context: EngineContext, *, plans: Evictions, metrics: EvictionMetrics) -> None:
        self._context = context
        self._outbox = context.outbox
        self._state = context.state
        self._plans = plans
        self._statuses = context.statuses
        self._metrics = metrics
        self._waiting: deque[VictimRecord] = deque()
        self._at_work: dict[VictimRecord, None] = {}

    def __iter__(self) -> Iterator[VictimRecord]:
        yield from self._waiting
        yield from self._at_work

    @property
    def listeners(self) -> Iterator[StatusListener]:
        """Evictions that wait for a pod status write."""
        return (eviction for eviction in self._at_work if eviction.stage is EvictionStage.ANNOUNCING)

    # -- concurrency ---------------------------------------------------------------------------------------------------

    def enqueue(self, preemption: PlanRecord, victims: Iterable[PodInfo]) -> None:
        self._waiting.extend(VictimRecord(self, preemption, victim) for victim in victims)
        # Not at once: a plan's last victim is enqueued from within `_over` of another one, which is not complete yet.
        self._outbox.at_step_end(self)

    def on_wake(self) -> None:
        """Start the next evictions in line."""
        # Both are read anew in each round: an eviction that is over at once frees its slot.
        while self._waiting and len(self._at_work) < MAX_CONCURRENT_EVICTIONS:
            # At work before it begins, as it may be over within the call.
            eviction = self._waiting.popleft()
            self._at_work[eviction] = None
            self._metrics.eviction_began(eviction.preemption.plugin)
            self._begin(eviction)

    def _fail(self, eviction: VictimRecord, error: Exception) -> None:
        """A failure stops the plan. Evictions in progress are completed, so that every deleted pod gets its event."""
        preemption = eviction.preemption
        # Before it is over, after which the plan looks at this.
        preemption.stopped = preemption.refused = True
        self._context.reporter.report(
            f"Preemption {preemption.purpose}: cannot evict pod {eviction.victim.key}: {error}"
        )
        self._over(eviction, None)

    def _over(self, eviction: VictimRecord, result: Result | None) -> None:
        """The victim was evicted, or spared (None)."""
        preemption = eviction.preemption
        # Off the list before the plan is told: it may be over by this, and nothing of it may be left here.
        eviction.stage = EvictionStage.OVER
        del self._at_work[eviction]
        self._metrics.eviction_ended(preemption.plugin)
        self._plans.eviction_over(preemption, eviction.victim, result)
        if self._waiting:
            self._outbox.at_step_end(self)

    # -- evicting a pod ------------------------------------------------------------------------------------------------

    def _begin(self, eviction: VictimRecord) -> None:
        preemption, victim = eviction.preemption, eviction.victim
        if self._stop_if_unwanted(preemption):
            self._over(eviction, None)
            return
        # Looked at anew: the victim has waited for its turn, and may have moved, left, or be on its way.
        here = self._state.placed(victim.uid)
        if here is None or not preemption.preemptor.takes_from(here.node_name):
            self._over(eviction, Result.GONE)
        elif here.terminating:
            log_reprieved(preemption.preemptor, victim)
            self._over(eviction, Result.LEAVING)
        elif self._reject_binding(preemption, victim):
            # Before anything is written: a pod that is not bound yet only loses its reservation, and is not deleted.
            self._record(preemption, here.pod, Result.BINDING_REJECTED)
            self._over(eviction, Result.BINDING_REJECTED)
        elif self._is_refused(victim):
            # By its gang, or for another preemptor: it only holds its room until its binding has ended.
            self._over(eviction, Result.BINDING_REJECTED)
        else:
            # Before the write, which may end within the call.
            eviction.stage, eviction.pod = EvictionStage.ANNOUNCING, here.pod
            condition = disruption_target(preemption.preemptor, here.pod)
            self._statuses.patch(here.pod, eviction, condition=condition)

    def _stop_if_unwanted(self, preemption: PlanRecord) -> bool:
        """Stop the plan if its room is no longer needed; return whether it is stopped."""
        # Once stopped, a plan stays stopped, even if its room is needed again: victims were spared, so the room that it
        # was to make would not be enough.
        preemption.stopped = preemption.stopped or preemption.superseded
        if not preemption.stopped:
            preemption.stopped = not preemption.preemptor.needs_room(self._state)
        return preemption.stopped

    def _reject_binding(self, preemption: PlanRecord, victim: PodInfo) -> bool:
        """Reject the binding of a pod that is not bound yet; False if there is none, or it is too late."""
        keys = {"preemptorType": preemption.preemptor.type, "preemptor": preemption.preemptor}
        waiting = self._context.waiting_pods.get(victim.uid)
        if waiting is not None:
            # False if it was decided before. A pod that was refused then is left to `_is_refused`; one that was allowed
            # is going to be bound, so it is deleted like a bound pod.
            rejected = waiting.preempt(preemption.plugin, PREEMPTED)
            if rejected:
                text = "Preemptor preempted a waiting pod"
                _log.v(2).info(text, **keys, waitingPod=victim, node=preemption.node_name)
            return rejected
        binding = self._context.pods_in_pre_bind.get(victim.uid)
        if binding is None:
            return False
        rejected = binding.cancel(f"preempted by {preemption.plugin}")
        if rejected:
            text = "Preemptor rejected a pod in preBind"
            _log.v(2).info(text, **keys, podInPreBind=victim, node=preemption.node_name)
        else:
            text = "Failed to reject a pod in preBind, falling back to deletion via api call"
            _log.v(5).info(text, preemptor=preemption.preemptor, podInPreBind=victim, node=preemption.node_name)
        return rejected

    def _is_refused(self, victim: PodInfo) -> bool:
        waiting = self._context.waiting_pods.get(victim.uid)
        return waiting is not None and waiting.is_refused

    def condition_written(self, eviction: VictimRecord, failed: Exception | None) -> None:
        # Only noted: the caller may be `patch` itself, or in the midst of a change of the cluster.
        eviction.failed = failed
        self._outbox.at_step_end(eviction)

    def announced(self, eviction: VictimRecord) -> None:
        """The victim's status was written, or writing it failed."""
        if isinstance(eviction.failed, NotFound):
            self._gone(eviction)
        elif eviction.failed is not None:
            self._fail(eviction, eviction.failed)
        # Asked again: the preemptor may have gone, or found room, while the status was written.
        elif self._stop_if_unwanted(eviction.preemption):
            self._over(eviction, None)
        else:
            eviction.stage = EvictionStage.DELETING
            metadata = eviction.known_pod.metadata
            # By UID: the name may belong to another pod by the time that the request arrives.
            self._ask(eviction, Delete(kind=Pod, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid))

    def _ask(self, eviction: VictimRecord, request: Delete | Read) -> None:
        eviction.number = self._outbox.ask(request, eviction)

    def answered(self, eviction: VictimRecord, outcome: Outcome) -> None:
        # Before the answer is handled, which may ask the next thing and set another number.
        eviction.number = 0
        if eviction.stage is EvictionStage.DELETING:
            self._deletion_ended(eviction, outcome)
        else:
            self._read(eviction, outcome)

    def _deletion_ended(self, eviction: VictimRecord, outcome: Outcome) -> None:
        if isinstance(outcome, Done):
            self._deleted(eviction)
        elif isinstance(outcome, Unknown) or isinstance(outcome.error, Conflict):
            # A new plan after a successful deletion would cost a second victim; and after a conflict, the name may
            # belong to another pod.
            eviction.stage, eviction.doubt = EvictionStage.READING, outcome
            metadata = eviction.known_pod.metadata
            self._ask(eviction, Read(kind=Pod, namespace=metadata.namespace, name=metadata.name))
        elif isinstance(outcome.error, NotFound):
            self._gone(eviction)
        else:
            self._fail(eviction, outcome.error)

    def _read(self, eviction: VictimRecord, outcome: Outcome) -> None:
        """The API server returned what it has under the name of a pod whose deletion is in doubt."""
        doubt = eviction.doubt
        assert doubt is not None
        if not isinstance(outcome, Done) and not isinstance(outcome.error, NotFound):
            self._fail(eviction, outcome.error)
        elif isinstance(outcome, Done) and _is_there(eviction.known_pod, outcome.value):
            # Still there: the deletion was refused, or has not arrived.
            self._fail(eviction, doubt.error)
        elif isinstance(doubt, Unknown):
            # Gone after a request without an answer: by this request as far as anybody can tell, so the pod gets its
            # event.
            self._deleted(eviction)
        else:
            self._gone(eviction)

    def _deleted(self, eviction: VictimRecord) -> None:
        preemption, pod = eviction.preemption, eviction.known_pod
        _log.v(2).info(
            "Preemptor Pod preempted victim Pod",
            preemptor=preemption.preemptor,
            victim=pod,
            node=preemption.node_name,
        )
        self._record(preemption, pod, Result.DELETED)
        self._over(eviction, Result.DELETED)

    def _gone(self, eviction: VictimRecord) -> None:
        """Only the API server knows yet that the pod is gone."""
        preemption, pod = eviction.preemption, eviction.known_pod
        _log.v(2).info(
            "Victim Pod is already deleted", preemptor=preemption.preemptor, victim=pod, node=preemption.node_name
        )
        self._over(eviction, Result.GONE)

    def _record(self, preemption: PlanRecord, victim: Pod, result: Result) -> None:
        if preemption.recorder is not None:
            preemption.recorder.event(
                victim,
                type_="Normal",
                reason="Preempted",
                action="Preempting",
                note=preempted_note(preemption.preemptor, result),
                related=preemption.preemptor.object,
            )

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants between steps."""
        yield from self._problems_of_turns()
        for eviction in self._at_work:
            yield from self._problems_of_eviction(eviction)
        for number, waiter in self._outbox.awaited.items():
            if isinstance(waiter, VictimRecord) and (waiter not in self._at_work or waiter.number != number):
                yield f"{waiter}: {waiter.stage.value}, but gets the answer to {number}"

    def _problems_of_turns(self) -> Iterator[str]:
        at_work = len(self._at_work)
        if at_work > MAX_CONCURRENT_EVICTIONS:
            yield f"{at_work} evictions at work"
        if self._waiting and at_work < MAX_CONCURRENT_EVICTIONS:
            yield f"{len(self._waiting)} evictions wait for their turn, and only {at_work} are at work"
        for eviction in self._waiting:
            if eviction.stage is not EvictionStage.WAITING:
                yield f"{eviction} waits for its turn, but is {eviction.stage.value}"

    def _problems_of_eviction(self, eviction: VictimRecord) -> Iterator[str]:
        stage, name = eviction.stage, str(eviction)
        if stage in (EvictionStage.WAITING, EvictionStage.OVER):
            yield f"{name}: {stage.value}, but at work"
        asks = stage in (EvictionStage.DELETING, EvictionStage.READING)
        if asks and self._outbox.awaited.get(eviction.number) is not eviction:
            yield f"{name}: {stage.value}, but waits for no answer"
        if not asks and eviction.number:
            yield f"{name}: {stage.value}, but waits for the answer to {eviction.number}"
        if (stage is EvictionStage.READING) != (eviction.doubt is not None):
            yield f"{name}: {stage.value}, in doubt about {eviction.doubt}"
        is_last = eviction.victim is eviction.preemption.victims[-1]
        if is_last != (eviction.preemption.stage is PlanStage.LAST):
            yield f"{name}: {stage.value} while {eviction.preemption} is {eviction.preemption.stage.value}"


def disruption_target(preemptor: Preemptor, victim: Pod) -> PodCondition:
    """The victim's DisruptionTarget condition."""
    return PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=f"{preemptor.pods[0].pod.spec.scheduler_name}: "
        f"preempting to accommodate a higher priority {preemptor.type}",
        observed_generation=victim.metadata.generation,
    )


def preempted_note(preemptor: Preemptor, result: Result) -> str:
    note = f"Preempted by {preemptor.type} {preemptor.uid} on node {preemptor.node_name}"
    return f"{note} (in kube-scheduler memory)." if result is Result.BINDING_REJECTED else note


def _is_there(pod: Pod, found: Pod) -> bool:
    """Whether the object is the pod with this UID, and is not being deleted."""
    return found.metadata.uid == pod.metadata.uid and found.metadata.deletion_timestamp is None


def log_reprieved(preemptor: Preemptor, victim: PodInfo) -> None:
    text = "Victim Pod is already being deleted, skipping the API call for it"
    _log.v(2).info(text, preemptor=preemptor, node=preemptor.node_name, victim=victim)
