"""Carry out eviction plans, beside the scheduling cycle.

A decision nominates a pod to a node and plans which pods leave it; evicting them takes requests to the API server, and
the cycle does not wait for those. There is one record per plan, and one per victim under way:

    Preemption   begun       the scheduling cycle is still at it
                 clearing    nominations of less important pods to the node are cleared, one after the other
                 others      all victims but the last are evicted, side by side
                 last        the last one is
                 delayed     its evictions are refused again and again: time passes before the preemptor is activated
                 over        kept until the victims are seen to leave

    Eviction     waiting     for its turn: until then it can be called off
                 announcing  the victim's status says why it goes
                 deleting
                 reading     whether the deletion went through is not known: the API server is asked for the pod
                 over

Meanwhile the preemptor need not be tried again: `under_way` holds it back until its victims are seen to leave. A
preemptor that is woken by the first victim's deletion would otherwise find the other victims still there, and evict
more pods on another node.

No pod is evicted in vain. Before each step it is checked that the preemptor still needs the node: the pod exists, has
no node, was not superseded there by a more important pod, and the node exists. A victim is looked at anew before it is
touched: one that has left the node, is being deleted, or was replaced by another pod of the same name, is spared. The
reference carries out what was decided once.

Upstream: pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING

from stowplan.api.api_errors import Conflict, NotFound
from stowplan.api.types import Pod, PodCondition
from stowplan.engine.eviction_metrics import EvictionMetrics
from stowplan.framework.requests import Delete, Done, Read, Refused, Unknown
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.outbox import Alarm
    from stowplan.engine.parts import Parts
    from stowplan.engine.statuses import PodStatuses, StatusListener
    from stowplan.framework.eviction_plan import EvictionPlan
    from stowplan.framework.handle import EventRecorder
    from stowplan.framework.requests import Outcome
    from stowplan.metrics.scheduler import SchedulerMetrics

#: Of all plans together: evictions that wait for their turn can still be called off.
MAX_CONCURRENT_EVICTIONS = 16

#: Seconds between attempts of a pod whose evictions are refused again and again, at most.
MAX_RETRY_DELAY = 10.0

#: The message of the rejection of a pod that waits on Permit.
PREEMPTED = "preempted"

_log = get_logger(__name__)


class PlanStage(Enum):
    BEGUN = "begun"
    CLEARING = "clearing"
    OTHERS = "others"
    LAST = "last"
    DELAYED = "delayed"
    OVER = "over"


class EvictionStage(Enum):
    WAITING = "waiting"
    ANNOUNCING = "announcing"
    DELETING = "deleting"
    READING = "reading"
    OVER = "over"


class Result(Enum):
    """How a victim made room."""

    #: It was not on the node any more.
    GONE = auto()
    #: Somebody else is deleting it.
    LEAVING = auto()
    #: It was not bound yet: its binding ends, and it will be tried again.
    BINDING_REJECTED = auto()
    DELETED = auto()


@dataclass(eq=False, slots=True, kw_only=True)
class Preemption:
    """A plan that is being carried out, until all its victims are seen to leave."""

    owner: Evictions
    plan: EvictionPlan
    #: None where the preemptor's profile records no events.
    recorder: EventRecorder | None
    #: Most important first; without those whose deletion had begun when it was decided.
    victims: tuple[PodInfo, ...]
    #: Less important pods whose nominations to the node are still to be cleared.
    lesser: deque[PodInfo]
    stage: PlanStage = PlanStage.BEGUN
    #: When the stage after BEGUN began, by the stopwatch.
    started: float = 0.0
    #: The pod whose nomination is being cleared.
    clearing: PodInfo | None = None
    #: Whether all nominations could be cleared.
    cleared: bool = True
    #: How many evictions of this stage are not over.
    unfinished: int = 0
    #: Victims that the API server was told to delete.
    deleted: list[PodInfo] = field(default_factory=list)
    #: How the last one made room; None if it did not.
    last_result: Result | None = None
    #: Rings when the delay is over.
    alarm: Alarm | None = None
    #: A more important pod is nominated to the node.
    superseded: bool = False
    #: The API server refused an eviction, or did not answer.
    refused: bool = False
    #: Something failed, or the room is not needed any more: no further eviction begins.
    stopped: bool = False

    @property
    def preemptor(self) -> PodInfo:
        return self.plan.preemptor

    @property
    def node_name(self) -> str:
        return self.plan.node_name

    @property
    def plugin(self) -> str:
        return self.plan.plugin

    @property
    def running(self) -> bool:
        """Whether evictions are under way, or still to come."""
        return self.stage not in (PlanStage.DELAYED, PlanStage.OVER)

    def __str__(self) -> str:
        return f"preemption for pod {self.preemptor.key} on node {self.node_name}"

    def status_written(self, failed: Exception | None) -> None:
        self.owner.nomination_written(self, failed)

    def woken(self) -> None:
        self.owner.go_on(self)


@dataclass(eq=False, slots=True)
class Eviction:
    """One victim of a plan, until it is evicted or spared."""

    preemption: Preemption
    victim: PodInfo
    stage: EvictionStage = EvictionStage.WAITING
    #: The victim as it was known when its turn came.
    pod: Pod | None = None
    #: Why its status could not be written.
    failed: Exception | None = None
    #: The effect that it waits for; 0 while it waits for none.
    number: int = 0
    #: How its deletion ended, while that does not say whether it is gone.
    doubt: Refused | Unknown | None = None

    def __str__(self) -> str:
        return f"eviction of pod {self.victim.key}"

    def status_written(self, failed: Exception | None) -> None:
        self.preemption.owner.condition_written(self, failed)

    def woken(self) -> None:
        self.preemption.owner.announced(self)

    def answered(self, number: int, outcome: Outcome, /) -> None:
        self.preemption.owner.answered(self, outcome)


def disruption_target(preemptor: Pod, victim: Pod) -> PodCondition:
    """What a victim's status says of its end."""
    return PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod",
        observed_generation=victim.metadata.generation,
    )


def preempted_note(preemptor: PodInfo, node_name: str, result: Result) -> str:
    note = f"Preempted by pod {preemptor.uid} on node {node_name}"
    return f"{note} (in kube-scheduler memory)." if result is Result.BINDING_REJECTED else note


class Evictions:
    """Carries eviction plans out, and knows which are under way (`Preemptions`).

    What is written of a pod's status may end at any moment, also within the call that asks for it, or while a change is
    taken in: it is noted, and the eviction goes on at the end of the step.
    """

    def __init__(
        self, parts: Parts, *, statuses: PodStatuses, metrics: SchedulerMetrics | None, now: Callable[[], float]
    ) -> None:
        # The queue is there only once the profiles are built, and those are built with us.
        self._parts = parts
        self._outbox = parts.outbox
        self._state = parts.state
        self._statuses = statuses
        self._metrics = EvictionMetrics(metrics)
        #: A stopwatch: nothing depends on it but metrics.
        self._now = now
        #: By the preemptor's UID: what is under way, and what is over while a deletion is still to be seen.
        self._preemptions: dict[str, Preemption] = {}
        #: Plans that are not over, oldest first; a pod that plans anew may have several.
        self._plans: dict[Preemption, None] = {}
        self._waiting: deque[Eviction] = deque()
        self._at_work: dict[Eviction, None] = {}
        #: Preemptor's UID -> how many of its plans in a row were refused.
        self._refusals: dict[str, int] = {}

    def carry_out(self, plan: EvictionPlan, recorder: EventRecorder | None) -> None:
        """Begin to evict the plan's victims; those that are being deleted anyway are left alone."""
        victims = tuple(victim for victim in plan.victims if not victim.terminating)
        if len(victims) < len(plan.victims):
            for victim in plan.victims:
                if victim.terminating:
                    _log_spared(plan.preemptor, victim, plan.node_name)
        if not victims:
            return
        self._metrics.planned(len(plan.victims))
        self._sweep()
        nominated = self._state.nominator.on(plan.node_name)
        lesser = deque(info for info in nominated if info.priority < plan.preemptor.priority)
        for info in lesser:
            superseded = self._preemptions.get(info.uid)
            if superseded is not None:
                superseded.superseded = True
        preemption = Preemption(owner=self, plan=plan, recorder=recorder, victims=victims, lesser=lesser)
        self._preemptions[plan.preemptor.uid] = preemption
        self._plans[preemption] = None
        # The pod must be back in the queue before it can be activated.
        self._outbox.soon(preemption)
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Start the preemption asynchronously",
                preemptor=plan.preemptor,
                node=plan.node_name,
                numVictims=len(plan.victims),
                numVictimsToDelete=len(victims),
            )

    def under_way(self, pod: PodInfo) -> bool:
        """Whether the pod's victims are still to be evicted, or not yet seen to leave."""
        preemption = self._preemptions.get(pod.uid)
        if preemption is None:
            return False
        if not preemption.running:
            return not self._drop_if_over(preemption)
        if preemption.stage is not PlanStage.LAST:
            return True
        # Somebody else may delete the last one before those before it are seen to leave.
        return any(self._stays(victim) for victim in (*preemption.deleted, preemption.victims[-1]))

    def __len__(self) -> int:
        """Preemptions that are under way, or not yet seen to have had their effect."""
        return len(self._preemptions)

    @property
    def plans_under_way(self) -> int:
        """Plans of which something is still to be done."""
        return len(self._plans)

    @property
    def listeners(self) -> Iterator[StatusListener]:
        """Preemptions and evictions that wait until a pod's status is written."""
        yield from (preemption for preemption in self._plans if preemption.clearing is not None)
        yield from (eviction for eviction in self._at_work if eviction.stage is EvictionStage.ANNOUNCING)

    @property
    def delayed_retries(self) -> int:
        """Preemptors that are activated only after a while."""
        return sum(preemption.stage is PlanStage.DELAYED for preemption in self._plans)

    # -- which preemptions are under way ------------------------------------------------------------------------------

    def _stays(self, victim: PodInfo) -> bool:
        """Whether the pod is on a node, as far as we know, and nobody is deleting it."""
        here = self._state.placed(victim.uid)
        return here is not None and not here.terminating

    def _drop_if_over(self, preemption: Preemption) -> bool:
        if preemption.running or any(self._stays(victim) for victim in preemption.deleted):
            return False
        if self._preemptions.get(preemption.preemptor.uid) is preemption:
            del self._preemptions[preemption.preemptor.uid]
        return True

    def _sweep(self) -> None:
        """Check the two oldest, so that preemptions of pods that nobody asks about any more do not pile up."""
        for uid in list(islice(self._preemptions, 2)):
            if not self._drop_if_over(self._preemptions[uid]):
                self._preemptions[uid] = self._preemptions.pop(uid)
        for uid in list(islice(self._refusals, 2)):
            refusals = self._refusals.pop(uid)
            if self._state.newest(uid) is not None:
                self._refusals[uid] = refusals

    # -- from the beginning of a plan to its end ----------------------------------------------------------------------

    def go_on(self, preemption: Preemption) -> None:
        """The scheduling cycle is through, a nomination was cleared, or the delay is over."""
        if preemption.stage is PlanStage.DELAYED:
            self._end(preemption)
            return
        if preemption.stage is PlanStage.BEGUN:
            preemption.stage, preemption.started = PlanStage.CLEARING, self._now()
        self._clear_next(preemption)

    def _clear_next(self, preemption: Preemption) -> None:
        """Clear the nomination of the next less important pod to the node; evict when there is none."""
        while preemption.lesser:
            info = preemption.lesser.popleft()
            pod = self._state.newest(info.uid)
            if pod is None:
                continue
            if pod.status.nominated_node_name:
                preemption.clearing = info
                self._statuses.patch(pod, preemption, nominated_node_name="")
                return
            # The API server does not know of the nomination yet: no update will take it out of our memory.
            self._state.nominator.delete(info.uid)
            self._statuses.write(pod, nominated_node_name="")
        self._evict_others(preemption)

    def nomination_written(self, preemption: Preemption, failed: Exception | None) -> None:
        info, preemption.clearing = preemption.clearing, None
        assert info is not None
        if failed is not None and not isinstance(failed, NotFound):
            preemption.cleared = False
            self._parts.report(
                f"Preemption for pod {preemption.preemptor.key} on node {preemption.node_name}: "
                f"cannot clear nominatedNodeName of pod {info.key}: {failed}"
            )
        self._outbox.soon(preemption)

    def _evict_others(self, preemption: Preemption) -> None:
        preemption.stage = PlanStage.OTHERS
        others = preemption.victims[:-1]
        if others:
            self._line_up(preemption, others)
        else:
            self._evict_last(preemption)

    def _evict_last(self, preemption: Preemption) -> None:
        preemption.stage = PlanStage.LAST
        self._line_up(preemption, preemption.victims[-1:])

    def _finish(self, preemption: Preemption) -> None:
        preemption.stage = PlanStage.OVER
        self._drop_if_over(preemption)
        # Unlike the reference, which evaluates both when the task begins and so reports successes that took no time.
        result = _result_of(preemption)
        self._metrics.ended(result, self._now() - preemption.started)
        delay = self._retry_delay(preemption)
        if delay:
            preemption.stage = PlanStage.DELAYED
            preemption.alarm = self._outbox.wake(self._outbox.now + delay, preemption)
        else:
            self._end(preemption)

    def _retry_delay(self, preemption: Preemption) -> float:
        """How long to wait before a pod is activated whose evictions are refused again and again.

        Activation skips the pod's backoff, and the next plan would only be refused again. The reference is slowed down
        by its client's rate limit alone.
        """
        uid = preemption.preemptor.uid
        if not preemption.refused and preemption.cleared:
            self._refusals.pop(uid, None)
            return 0.0
        before = self._refusals.get(uid, 0)
        self._refusals[uid] = before + 1
        return min(2.0 ** (before - 1), MAX_RETRY_DELAY) if before else 0.0

    def _end(self, preemption: Preemption) -> None:
        preemption.stage, preemption.alarm = PlanStage.OVER, None
        del self._plans[preemption]
        if preemption.stopped or not preemption.cleared or self._missed_deletion(preemption):
            self._parts.queue.activate([preemption.preemptor])
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Async Preemption finished completely",
                preemptor=preemption.preemptor,
                node=preemption.node_name,
                result=_result_of(preemption),
            )

    def _missed_deletion(self, preemption: Preemption) -> bool:
        """Whether no event will wake the preemptor: its last victim's deletion came while the pod was held back.

        The event of a victim that only the API server knows to be gone is still to come.
        """
        if preemption.last_result is not Result.GONE:
            return False
        here = self._state.placed(preemption.victims[-1].uid)
        return here is None or here.node_name != preemption.node_name

    # -- taking turns -------------------------------------------------------------------------------------------------

    def _line_up(self, preemption: Preemption, victims: tuple[PodInfo, ...]) -> None:
        preemption.unfinished = len(victims)
        self._waiting.extend(Eviction(preemption, victim) for victim in victims)
        self._outbox.soon(self)

    def woken(self) -> None:
        """Begin with the evictions whose turn it is."""
        while self._waiting and len(self._at_work) < MAX_CONCURRENT_EVICTIONS:
            eviction = self._waiting.popleft()
            self._at_work[eviction] = None
            self._metrics.eviction_began(eviction.preemption.plugin)
            self._begin(eviction)

    def _fail(self, eviction: Eviction, error: Exception) -> None:
        """A failure stops the plan. Evictions that have begun are finished: a pod that was deleted gets its event."""
        preemption = eviction.preemption
        preemption.stopped = preemption.refused = True
        self._parts.report(
            f"Preemption for pod {preemption.preemptor.key} on node {preemption.node_name}: "
            f"cannot evict pod {eviction.victim.key}: {error}"
        )
        self._over(eviction, None)

    def _over(self, eviction: Eviction, result: Result | None) -> None:
        """The victim was evicted, or is spared: None."""
        preemption = eviction.preemption
        eviction.stage = EvictionStage.OVER
        del self._at_work[eviction]
        self._metrics.eviction_ended(preemption.plugin)
        preemption.unfinished -= 1
        if preemption.stage is PlanStage.LAST:
            preemption.last_result = result
            self._finish(preemption)
        elif not preemption.unfinished:
            self._evict_last(preemption)
        if self._waiting:
            self._outbox.soon(self)

    # -- evicting one pod ---------------------------------------------------------------------------------------------

    def _begin(self, eviction: Eviction) -> None:
        preemption, victim = eviction.preemption, eviction.victim
        if self._stop_if_unwanted(preemption):
            self._over(eviction, None)
            return
        here = self._state.placed(victim.uid)
        if here is None or here.node_name != preemption.node_name:
            self._over(eviction, Result.GONE)
        elif here.terminating:
            _log_spared(preemption.preemptor, victim, preemption.node_name)
            self._over(eviction, Result.LEAVING)
        elif self._reject_binding(preemption, victim):
            self._record(preemption, here.pod, Result.BINDING_REJECTED)
            self._over(eviction, Result.BINDING_REJECTED)
        else:
            eviction.stage, eviction.pod = EvictionStage.ANNOUNCING, here.pod
            condition = disruption_target(preemption.preemptor.pod, here.pod)
            self._statuses.patch(here.pod, eviction, condition=condition)

    def _stop_if_unwanted(self, preemption: Preemption) -> bool:
        """Whether no further pod is to be evicted for this preemption."""
        preemption.stopped = preemption.stopped or preemption.superseded or not self._wanted(preemption)
        return preemption.stopped

    def _wanted(self, preemption: Preemption) -> bool:
        """Whether the preemptor still needs a node, and the node exists."""
        preemptor = preemption.preemptor
        pod = self._state.newest(preemptor.uid)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return False
        return self._state.placed(preemptor.uid) is None and preemption.node_name in self._state.table.row_of

    def _reject_binding(self, preemption: Preemption, victim: PodInfo) -> bool:
        """End the binding of a pod that is not bound yet; False when there is none, or it is too late."""
        keys = {"preemptorType": "pod", "preemptor": preemption.preemptor}
        waiting = self._parts.waiting_pods.get(victim.uid)
        if waiting is not None:
            rejected = waiting.preempt(preemption.plugin, PREEMPTED)
            if rejected:
                text = "Preemptor preempted a waiting pod"
                _log.v(2).info(text, **keys, waitingPod=victim, node=preemption.node_name)
            return rejected
        binding = self._parts.pods_in_pre_bind.get(victim.uid)
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

    def condition_written(self, eviction: Eviction, failed: Exception | None) -> None:
        eviction.failed = failed
        self._outbox.soon(eviction)

    def announced(self, eviction: Eviction) -> None:
        """The victim's status says why it goes; or it cannot be told."""
        if isinstance(eviction.failed, NotFound):
            self._gone(eviction)
        elif eviction.failed is not None:
            self._fail(eviction, eviction.failed)
        elif self._stop_if_unwanted(eviction.preemption):
            self._over(eviction, None)
        else:
            eviction.stage = EvictionStage.DELETING
            metadata = _pod_of(eviction).metadata
            self._ask(eviction, Delete(kind=Pod, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid))

    def _ask(self, eviction: Eviction, request: Delete | Read) -> None:
        eviction.number = self._outbox.ask(request, eviction)

    def answered(self, eviction: Eviction, outcome: Outcome) -> None:
        eviction.number = 0
        if eviction.stage is EvictionStage.DELETING:
            self._deletion_ended(eviction, outcome)
        else:
            self._read(eviction, outcome)

    def _deletion_ended(self, eviction: Eviction, outcome: Outcome) -> None:
        if isinstance(outcome, Done):
            self._deleted(eviction)
        elif isinstance(outcome, Unknown) or isinstance(outcome.error, Conflict):
            # Planning anew after a deletion that went through would cost a second victim; and what conflicts may be
            # another pod of its name.
            eviction.stage, eviction.doubt = EvictionStage.READING, outcome
            metadata = _pod_of(eviction).metadata
            self._ask(eviction, Read(kind=Pod, namespace=metadata.namespace, name=metadata.name))
        elif isinstance(outcome.error, NotFound):
            self._gone(eviction)
        else:
            self._fail(eviction, outcome.error)

    def _read(self, eviction: Eviction, outcome: Outcome) -> None:
        """The API server has said what it has by the name of a pod whose deletion is in doubt."""
        doubt = eviction.doubt
        assert doubt is not None
        if not isinstance(outcome, Done) and not isinstance(outcome.error, NotFound):
            self._fail(eviction, outcome.error)
        elif isinstance(outcome, Done) and _is_there(_pod_of(eviction), outcome.value):
            self._fail(eviction, doubt.error)
        elif isinstance(doubt, Unknown):
            self._deleted(eviction)
        else:
            self._gone(eviction)

    def _deleted(self, eviction: Eviction) -> None:
        preemption, pod = eviction.preemption, _pod_of(eviction)
        preemption.deleted.append(eviction.victim)
        _log.v(2).info(
            "Preemptor Pod preempted victim Pod",
            preemptor=preemption.preemptor,
            victim=pod,
            node=preemption.node_name,
        )
        self._record(preemption, pod, Result.DELETED)
        self._over(eviction, Result.DELETED)

    def _gone(self, eviction: Eviction) -> None:
        """Only the API server knows yet that the pod is gone."""
        preemption, pod = eviction.preemption, _pod_of(eviction)
        _log.v(2).info(
            "Victim Pod is already deleted", preemptor=preemption.preemptor, victim=pod, node=preemption.node_name
        )
        self._over(eviction, Result.GONE)

    def _record(self, preemption: Preemption, victim: Pod, result: Result) -> None:
        if preemption.recorder is not None:
            preemption.recorder.event(
                victim,
                type_="Normal",
                reason="Preempted",
                action="Preempting",
                note=preempted_note(preemption.preemptor, preemption.node_name, result),
                related=preemption.preemptor.pod,
            )

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Invariants that do not hold between steps."""
        return [
            *self._problems_of_turns(),
            *(text for preemption in self._plans for text in self._problems_of_plan(preemption)),
            *(text for eviction in self._at_work for text in self._problems_of_eviction(eviction)),
            *self._problems_of_the_outbox(),
        ]

    def _problems_of_turns(self) -> Iterator[str]:
        at_work = len(self._at_work)
        if at_work > MAX_CONCURRENT_EVICTIONS:
            yield f"{at_work} evictions at work"
        if self._waiting and at_work < MAX_CONCURRENT_EVICTIONS:
            yield f"{len(self._waiting)} evictions wait for their turn, and only {at_work} are at work"
        for eviction in self._waiting:
            if eviction.stage is not EvictionStage.WAITING:
                yield f"{eviction} waits for its turn, but is {eviction.stage.value}"
        unfinished = Counter(eviction.preemption for eviction in (*self._waiting, *self._at_work))
        for preemption in {**self._plans, **dict.fromkeys(unfinished)}:
            if preemption.unfinished != unfinished[preemption] or preemption not in self._plans:
                yield f"{preemption}: {preemption.unfinished} evictions, {unfinished[preemption]} found"
        for uid, preemption in self._preemptions.items():
            if preemption.preemptor.uid != uid:
                yield f"{preemption}: kept under the UID {uid}"
            if preemption.running and preemption not in self._plans:
                yield f"{preemption}: {preemption.stage.value}, but not among the plans"

    def _problems_of_plan(self, preemption: Preemption) -> Iterator[str]:
        stage, name = preemption.stage, str(preemption)
        if stage in (PlanStage.BEGUN, PlanStage.OVER):
            yield f"{name}: {stage.value} at the end of a step"
        if (stage is PlanStage.CLEARING) != (preemption.clearing is not None):
            yield f"{name}: {stage.value}, clearing {preemption.clearing}"
        if (stage in (PlanStage.OTHERS, PlanStage.LAST)) != bool(preemption.unfinished):
            yield f"{name}: {stage.value} with {preemption.unfinished} evictions"
        alarm = preemption.alarm
        if (stage is PlanStage.DELAYED) != (alarm is not None and alarm.sleeper is preemption):
            yield f"{name}: {stage.value}, but its alarm is {'not ' if alarm is None else ''}set"

    def _problems_of_eviction(self, eviction: Eviction) -> Iterator[str]:
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

    def _problems_of_the_outbox(self) -> Iterator[str]:
        for number, waiter in self._outbox.awaited.items():
            if isinstance(waiter, Eviction) and (waiter not in self._at_work or waiter.number != number):
                yield f"{waiter}: {waiter.stage.value}, but gets the answer to {number}"
        for alarm in self._outbox.alarms:
            if isinstance(alarm.sleeper, Preemption) and alarm.sleeper.alarm is not alarm:
                yield f"{alarm.sleeper}: {alarm.sleeper.stage.value}, but is woken at {alarm.at:.3f}"


def _pod_of(eviction: Eviction) -> Pod:
    assert eviction.pod is not None, "its turn has come"
    return eviction.pod


def _is_there(pod: Pod, found: Pod) -> bool:
    """Whether what was found is the pod with this UID, and nobody is deleting it."""
    return found.metadata.uid == pod.metadata.uid and found.metadata.deletion_timestamp is None


def _result_of(preemption: Preemption) -> str:
    return "error" if preemption.stopped or not preemption.cleared else "success"


def _log_spared(preemptor: PodInfo, victim: PodInfo, node_name: str) -> None:
    text = "Victim Pod is already being deleted, skipping the API call for it"
    _log.v(2).info(text, preemptor=preemptor, node=node_name, victim=victim)
