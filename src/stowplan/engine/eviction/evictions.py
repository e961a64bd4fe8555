"""Carry out eviction plans, outside of the scheduling cycle.

A decision nominates a pod to a node and plans which pods are evicted from it. Evicting them takes requests to the API
server, and the cycle does not wait for those. There is one record per plan (`eviction_records.py` has its stages),
which is advanced here, and one per eviction under way, which `victim_evictions.py` advances.

Meanwhile the preemptor is not tried again: `under_way` holds it back until its victims have left. Otherwise a preemptor
that is woken by the first victim's deletion would still find the other victims, and evict more pods on another node. A
record is removed once its last evictions are over and their victims have left (`leaving_pods.py`).

Upstream: pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from stowplan.api.api_errors import NotFound
from stowplan.engine.dumped import DumpedEvictions, DumpedPreemption
from stowplan.engine.eviction.eviction_metrics import EvictionMetrics
from stowplan.engine.eviction.eviction_records import PlanStage, Preemption, Result
from stowplan.engine.eviction.preemptors import preemptor_of
from stowplan.engine.eviction.victim_evictions import VictimEvictions, log_spared
from stowplan.engine.written_objects import as_written
from stowplan.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan.api.types import PodGroup
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.parts import Parts
    from stowplan.engine.statuses import PodStatuses, StatusListener
    from stowplan.framework.handle import EventRecorder
    from stowplan.metrics.scheduler import SchedulerMetrics

#: Seconds between attempts of a pod whose evictions are refused again and again, at most.
MAX_RETRY_DELAY = 10.0

_log = get_logger(__name__)


class Evictions:
    """Carries eviction plans out, and knows which are under way (`Preemptions`)."""

    def __init__(
        self, parts: Parts, *, statuses: PodStatuses, metrics: SchedulerMetrics | None, now: Callable[[], float]
    ) -> None:
        # The queue is there only once the profiles are built, and those are built with us.
        self._parts = parts
        self._outbox = parts.outbox
        self._state = parts.state
        self._leaving = parts.leaving
        self._statuses = statuses
        self._metrics = EvictionMetrics(metrics)
        self._victims = VictimEvictions(parts, plans=self, statuses=statuses, metrics=self._metrics)
        #: A stopwatch: nothing depends on it but metrics.
        self._now = now
        #: By the preemptor's UID: what is under way, and what is over while a victim is still to be seen to leave.
        self._preemptions: dict[str, Preemption] = {}
        #: Plans that are not over, oldest first; a pod that plans anew may have several.
        self._plans: dict[Preemption, None] = {}
        #: Preemptor's UID -> how many of its plans in a row were refused.
        self._refusals: dict[str, int] = {}

    def carry_out(self, plan: EvictionPlan | GroupEvictionPlan, recorder: EventRecorder | None) -> None:
        """Begin to evict the plan's victims; those that are being deleted anyway are left alone."""
        preemptor = preemptor_of(plan)
        victims = tuple(victim for victim in plan.victims if not victim.terminating)
        if len(victims) < len(plan.victims):
            for victim in plan.victims:
                if victim.terminating:
                    log_spared(preemptor, victim)
        if not victims:
            return
        self._metrics.planned(len(plan.victims))
        lesser = self._superseded_by(plan)
        for info in lesser:
            superseded = self._preemptions.get(info.uid)
            if superseded is not None:
                superseded.superseded = True
        preemption = Preemption(
            owner=self, plan=plan, preemptor=preemptor, recorder=recorder, victims=victims, lesser=lesser
        )
        self._preemptions[preemptor.uid] = preemption
        self._plans[preemption] = None
        # The pod must be back in the queue before it can be activated.
        self._outbox.soon(preemption)
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Start the preemption asynchronously",
                preemptor=preemptor,
                node=preemptor.node_name,
                numVictims=len(plan.victims),
                numVictimsToDelete=len(victims),
            )

    def _superseded_by(self, plan: EvictionPlan | GroupEvictionPlan) -> deque[PodInfo]:
        """Less important pods that are nominated to the plan's node; a group's plan is for no node."""
        if not isinstance(plan, EvictionPlan):
            return deque()
        nominated = self._state.nominator.on(plan.node_name)
        return deque(info for info in nominated if info.priority < plan.preemptor.priority)

    def under_way(self, pod: PodInfo) -> bool:
        """Whether the pod's victims are still to be evicted, or not yet seen to leave."""
        return self._is_under_way(pod.uid)

    def group_under_way(self, group: PodGroup) -> bool:
        """Whether the pod group's victims are still to be evicted, or not yet seen to leave."""
        return self._is_under_way(group.metadata.uid)

    def _is_under_way(self, uid: str) -> bool:
        preemption = self._preemptions.get(uid)
        if preemption is None:
            return False
        if preemption.stage is not PlanStage.LAST:
            return True
        # Somebody else may delete the last one before those before it are seen to leave.
        return bool(preemption.leaving) or self._stays(preemption.victims[-1].uid)

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
        yield from self._victims.listeners

    @property
    def delayed_retries(self) -> int:
        """Preemptors that are activated only after a while."""
        return sum(preemption.stage is PlanStage.DELAYED for preemption in self._plans)

    # -- which preemptions are under way ------------------------------------------------------------------------------

    def _stays(self, uid: str) -> bool:
        """Whether the pod is on a node, as far as we know, and nobody is deleting it."""
        here = self._state.placed(uid)
        return here is not None and not here.terminating

    def _expect_to_leave(self, preemption: Preemption, uid: str) -> None:
        if self._stays(uid):
            preemption.leaving.add(uid)
            self._leaving.expect(uid, preemption)

    def victim_left(self, preemption: Preemption, uid: str) -> None:
        preemption.leaving.discard(uid)
        self._drop_if_over(preemption)

    def _drop_if_over(self, preemption: Preemption) -> None:
        """Let the preemptor go on, if nothing is left to be waited for; another plan of its may be under way."""
        uid = preemption.preemptor.uid
        if not preemption.running and not preemption.leaving and self._preemptions.get(uid) is preemption:
            del self._preemptions[uid]

    def pod_left(self, uid: str) -> None:
        """Forget the refusals of a preemptor that is gone."""
        self._refusals.pop(uid, None)

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
            self._parts.reporter.report(
                f"Preemption {preemption.purpose}: cannot clear nominatedNodeName of pod {info.key}: {failed}"
            )
        self._outbox.soon(preemption)

    def _evict_others(self, preemption: Preemption) -> None:
        preemption.stage = PlanStage.OTHERS
        others = preemption.victims[:-1]
        if others:
            self._evict(preemption, others)
        else:
            self._evict_last(preemption)

    def _evict_last(self, preemption: Preemption) -> None:
        preemption.stage = PlanStage.LAST
        self._evict(preemption, preemption.victims[-1:])

    def _evict(self, preemption: Preemption, victims: tuple[PodInfo, ...]) -> None:
        preemption.unfinished = len(victims)
        self._victims.line_up(preemption, victims)

    def eviction_over(self, preemption: Preemption, victim: PodInfo, result: Result | None) -> None:
        if result is Result.DELETED:
            self._expect_to_leave(preemption, victim.uid)
        preemption.unfinished -= 1
        if preemption.stage is PlanStage.LAST:
            preemption.last_result = result
            self._finish(preemption)
        elif not preemption.unfinished:
            self._evict_last(preemption)

    def _finish(self, preemption: Preemption) -> None:
        preemption.stage = PlanStage.OVER
        self._drop_if_over(preemption)
        # Unlike the reference, which evaluates both when the task begins and so reports successes that took no time.
        result = preemption.result
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
        # A group's refusals are kept as long as its first pod is there.
        uid = preemption.preemptor.pods[0].uid
        refused = preemption.refused or not preemption.cleared
        if not refused or self._state.newest(uid) is None:
            self._refusals.pop(uid, None)
            return 0.0
        self._leaving.expect(uid, self)
        before = self._refusals.get(uid, 0)
        self._refusals[uid] = before + 1
        return min(2.0 ** (before - 1), MAX_RETRY_DELAY) if before else 0.0

    def _end(self, preemption: Preemption) -> None:
        preemption.stage, preemption.alarm = PlanStage.OVER, None
        del self._plans[preemption]
        if preemption.stopped or not preemption.cleared or self._missed_deletion(preemption):
            self._parts.queue.activate(preemption.preemptor.pods)
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Async Preemption finished completely",
                preemptor=preemption.preemptor,
                node=preemption.node_name,
                result=preemption.result,
            )

    def _missed_deletion(self, preemption: Preemption) -> bool:
        """Whether no event will wake the preemptor: its last victim's deletion came while the pod was held back.

        The event of a victim that only the API server knows to be gone is still to come.
        """
        if preemption.last_result is not Result.GONE:
            return False
        here = self._state.placed(preemption.victims[-1].uid)
        return here is None or not preemption.preemptor.takes_from(here.node_name)

    # -- dump and load ------------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> Iterator[str]:
        """Plans of which something is still to be done."""
        return (f"{preemption}: {preemption.stage.value}" for preemption in self._plans)

    def dump(self) -> DumpedEvictions:
        """What is left of plans once they are over; none may be unfinished."""
        return DumpedEvictions(
            preemptions=[
                DumpedPreemption(
                    preemptor=as_written(preemption.preemptor.pods[0].pod),
                    group=preemption.plan.group if isinstance(preemption.plan, GroupEvictionPlan) else None,
                    node=preemption.node_name,
                    plugin=preemption.plugin,
                    leaving=sorted(preemption.leaving),
                )
                for preemption in self._preemptions.values()
            ],
            refusals=dict(self._refusals),
        )

    def load(self, dumped: DumpedEvictions) -> None:
        """`ClusterState` has the pods already."""
        for one in dumped.preemptions:
            plan = self._plan_of(one)
            preemption = Preemption(
                owner=self, plan=plan, preemptor=preemptor_of(plan), recorder=None, victims=(), lesser=deque()
            )
            preemption.stage = PlanStage.OVER
            self._preemptions[preemption.preemptor.uid] = preemption
            for uid in one.leaving:
                self._expect_to_leave(preemption, uid)
        for uid, times in dumped.refusals.items():
            self._refusals[uid] = times
            self._leaving.expect(uid, self)

    def _plan_of(self, dumped: DumpedPreemption) -> EvictionPlan | GroupEvictionPlan:
        pod = self._state.pod_info(dumped.preemptor)
        if dumped.group is not None:
            return GroupEvictionPlan(group=dumped.group, pods=(pod,), victims=(), plugin=dumped.plugin)
        return EvictionPlan(preemptor=pod, node_name=dumped.node, victims=(), plugin=dumped.plugin)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Invariants that do not hold between steps."""
        return [
            *self._victims.problems(),
            *self._problems_of_sums(),
            *(text for preemption in self._plans for text in self._problems_of_plan(preemption)),
            *self._problems_of_leaving(),
        ]

    def _problems_of_sums(self) -> Iterator[str]:
        unfinished = Counter(eviction.preemption for eviction in self._victims)
        for preemption in {**self._plans, **dict.fromkeys(unfinished)}:
            if preemption.unfinished != unfinished[preemption] or preemption not in self._plans:
                yield f"{preemption}: {preemption.unfinished} evictions, {unfinished[preemption]} found"
        for uid, preemption in self._preemptions.items():
            if preemption.preemptor.uid != uid:
                yield f"{preemption}: kept under the UID {uid}"
            if preemption.running and preemption not in self._plans:
                yield f"{preemption}: {preemption.stage.value}, but not among the plans"
        for alarm in self._outbox.alarms:
            if isinstance(alarm.sleeper, Preemption) and alarm.sleeper.alarm is not alarm:
                yield f"{alarm.sleeper}: {alarm.sleeper.stage.value}, but is woken at {alarm.at:.3f}"

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

    def _problems_of_leaving(self) -> Iterator[str]:
        """Who waits for a pod to leave, for no longer than it stays."""
        expected = set(self._leaving.listeners)
        for preemption in self._preemptions.values():
            if not preemption.running and not preemption.leaving:
                yield f"{preemption}: {preemption.stage.value}, waits for nothing, and is still kept"
        for preemption in {**self._plans, **dict.fromkeys(self._preemptions.values())}:
            for uid in preemption.leaving:
                if (uid, preemption) not in expected:
                    yield f"{preemption}: nobody will tell it that pod {uid} has left"
        for uid, listener in expected:
            if isinstance(listener, Preemption) and not self._stays(uid):
                yield f"{listener}: waits for pod {uid} to leave, which is on no node or is being deleted"
        for uid in self._refusals:
            if (uid, self) not in expected:
                yield f"the evictions for pod {uid} were refused, and nobody will tell that it has left"
