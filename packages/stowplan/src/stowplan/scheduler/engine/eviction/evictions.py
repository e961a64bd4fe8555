"""Carry out eviction plans, outside of the scheduling cycle.

A decision nominates a pod to a node and plans which pods are evicted from it. The evictions are API requests, and the
cycle does not wait for them. There is one record per plan (`eviction_records.py` lists its stages), which is advanced
here, and one per eviction in progress, which `victim_evictions.py` advances.

In the meantime the preemptor is not retried: `under_way` holds it back until its victims have left. Otherwise a
preemptor that is woken by the first victim's deletion would still find the other victims, and evict more pods on
another node. A record is removed after its last evictions are over and their victims have left (`leaving_pods.py`).

Upstream: pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator

from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.types import CompositePodGroup
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.cluster.pod_groups import AnyGroup
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.dumped import DumpedEvictions, DumpedPreemption
from stowplan.scheduler.engine.eviction.eviction_records import (
    EvictionMetrics,
    PlanRecord,
    PlanStage,
    Result,
    preemptor_of,
)
from stowplan.scheduler.engine.eviction.victim_evictions import VictimEvictions, log_reprieved
from stowplan.scheduler.engine.statuses import StatusListener
from stowplan.scheduler.engine.written_objects import as_written
from stowplan.scheduler.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
from stowplan.scheduler.framework.handle import EventRecorder

#: Maximum delay in seconds between attempts of a pod whose evictions are refused repeatedly.
MAX_RETRY_DELAY = 10.0

_log = get_logger(__name__)


class Evictions:
    """Carries out eviction plans, and knows which are in progress (`Preemptions`)."""

    def __init__(
        self,
        context: EngineContext,
        *,
        metrics: SchedulerMetrics | None,
        now: Callable[[], float],
        version: KubernetesVersion = DEFAULT_VERSION,
    ) -> None:
        self._context = context
        self._outbox = context.outbox
        self._state = context.state
        self._leaving = context.leaving
        self._statuses = context.statuses
        self._metrics = EvictionMetrics(metrics, version=version)
        self._victims = VictimEvictions(context, plans=self, metrics=self._metrics)
        #: A stopwatch, for metrics only.
        self._now = now
        #: By the preemptor's UID: plans in progress, and finished ones while a victim has not left yet.
        self._preemptions: dict[str, PlanRecord] = {}
        #: Unfinished plans, oldest first; a pod that preempts again may have several.
        self._plans: dict[PlanRecord, None] = {}
        #: Preemptor's UID -> number of its plans in a row that were refused.
        self._refusals: dict[str, int] = {}

    def carry_out(self, plan: EvictionPlan | GroupEvictionPlan, recorder: EventRecorder | None) -> None:
        """Start evicting the plan's victims, except for those that are already being deleted."""
        preemptor = preemptor_of(plan)
        victims = tuple(victim for victim in plan.victims if not victim.terminating)
        if len(victims) < len(plan.victims):
            for victim in plan.victims:
                if victim.terminating:
                    log_reprieved(preemptor, victim)
        if not victims:
            return
        self._metrics.planned(plan, preemptor.type, self._disrupted_by(plan))
        lesser = self._superseded_by(plan)
        for info in lesser:
            superseded = self._preemptions.get(info.uid)
            if superseded is not None:
                superseded.superseded = True
        preemption = PlanRecord(
            owner=self, plan=plan, preemptor=preemptor, recorder=recorder, victims=victims, lesser=lesser
        )
        # The newer plan of a preemptor holds it back from now on; an older one is carried out all the same.
        self._preemptions[preemptor.uid] = preemption
        self._plans[preemption] = None
        # The pod must be back in the queue before it can be activated.
        self._outbox.at_step_end(preemption)
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Start the preemption asynchronously",
                preemptor=preemptor,
                node=preemptor.node_name,
                numVictims=len(plan.victims),
                numVictimsToDelete=len(victims),
            )

    def _disrupted_by(self, plan: EvictionPlan | GroupEvictionPlan) -> int:
        """The number of victims that are groups as a whole, or single pods of groups."""
        units = set()
        for victim in plan.victims:
            if key := group_key(victim.pod):
                units.add(self._state.group_trees.disrupted_with(key) or victim.uid)
        return len(units)

    def _superseded_by(self, plan: EvictionPlan | GroupEvictionPlan) -> deque[PodInfo]:
        """Less important pods that are nominated to the plan's node; none for a group's plan."""
        if not isinstance(plan, EvictionPlan):
            return deque()
        nominated = self._state.nominator.on(plan.node_name)
        return deque(info for info in nominated if info.priority < plan.preemptor.priority)

    def under_way(self, pod: PodInfo) -> bool:
        """Whether the pod has victims that are not evicted, or have not left yet."""
        # Called by PreEnqueue for every new pod.
        return bool(self._preemptions) and self._is_under_way(pod.uid)

    def group_under_way(self, group: AnyGroup) -> bool:
        """Whether the pod group has victims that are not evicted, or have not left yet."""
        return self._is_under_way(group.metadata.uid)

    def _is_under_way(self, uid: str) -> bool:
        preemption = self._preemptions.get(uid)
        if preemption is None:
            return False
        if preemption.stage is not PlanStage.LAST:
            return True
        # Another client may delete the last victim before the others have left.
        return bool(preemption.leaving) or self._stays(preemption.victims[-1].uid)

    def __len__(self) -> int:
        """Number of preemptions in progress, or with victims that have not left yet."""
        return len(self._preemptions)

    def __bool__(self) -> bool:
        return bool(self._preemptions)

    @property
    def plans_under_way(self) -> int:
        """Unfinished plans."""
        return len(self._plans)

    @property
    def listeners(self) -> Iterator[StatusListener]:
        """Preemptions and evictions that wait for a pod status write."""
        yield from (preemption for preemption in self._plans if preemption.clearing is not None)
        yield from self._victims.listeners

    @property
    def delayed_retries(self) -> int:
        """Preemptors that are activated after a delay."""
        return sum(preemption.stage is PlanStage.DELAYED for preemption in self._plans)

    # -- preemptions in progress ---------------------------------------------------------------------------------------

    def _stays(self, uid: str) -> bool:
        """Whether the pod is known to be on a node, and is not being deleted."""
        here = self._state.placed(uid)
        return here is not None and not here.terminating

    def _expect_to_leave(self, preemption: PlanRecord, uid: str) -> None:
        if self._stays(uid):
            preemption.leaving.add(uid)
            self._leaving.expect(uid, preemption)

    def victim_left(self, preemption: PlanRecord, uid: str) -> None:
        preemption.leaving.discard(uid)
        self._drop_if_over(preemption)

    def _drop_if_over(self, preemption: PlanRecord) -> None:
        """Release the preemptor if nothing is left to wait for; it may have another plan in progress."""
        uid = preemption.preemptor.uid
        if not preemption.running and not preemption.leaving and self._preemptions.get(uid) is preemption:
            del self._preemptions[uid]

    def pod_left(self, uid: str) -> None:
        """Drop the refusal count of a preemptor that is gone."""
        self._refusals.pop(uid, None)

    # -- stages of a plan ----------------------------------------------------------------------------------------------

    def go_on(self, preemption: PlanRecord) -> None:
        """Continue after the scheduling cycle, a cleared nomination, or the delay."""
        if preemption.stage is PlanStage.DELAYED:
            self._end(preemption)
            return
        if preemption.stage is PlanStage.BEGUN:
            preemption.stage, preemption.started = PlanStage.CLEARING, self._now()
        self._clear_next(preemption)

    def _clear_next(self, preemption: PlanRecord) -> None:
        """Clear the nomination of the next less important pod to the node; start evicting when there is none."""
        while preemption.lesser:
            info = preemption.lesser.popleft()
            pod = self._state.newest(info.uid)
            # Steps may have passed since the plan was made.
            if pod is None:
                continue
            if pod.status.nominated_node_name:
                preemption.clearing = info
                self._statuses.patch(pod, preemption, nominated_node_name="")
                return
            # The API server does not have the nomination yet, so no update will remove it from memory.
            self._state.nominator.delete(info.uid)
            self._statuses.write(pod, nominated_node_name="")
        self._evict_others(preemption)

    def nomination_written(self, preemption: PlanRecord, failed: Exception | None) -> None:
        info, preemption.clearing = preemption.clearing, None
        assert info is not None
        if failed is not None and not isinstance(failed, NotFound):
            preemption.cleared = False
            self._context.reporter.report(
                f"Preemption {preemption.purpose}: cannot clear nominatedNodeName of pod {info.key}: {failed}"
            )
        # Not at once: the listener may be called within the call that sends the patch.
        self._outbox.at_step_end(preemption)

    def _evict_others(self, preemption: PlanRecord) -> None:
        preemption.stage = PlanStage.OTHERS
        others = preemption.victims[:-1]
        if others:
            self._evict(preemption, others)
        else:
            self._evict_last(preemption)

    def _evict_last(self, preemption: PlanRecord) -> None:
        preemption.stage = PlanStage.LAST
        self._evict(preemption, preemption.victims[-1:])

    def _evict(self, preemption: PlanRecord, victims: tuple[PodInfo, ...]) -> None:
        preemption.unfinished = len(victims)
        self._victims.enqueue(preemption, victims)

    def eviction_over(self, preemption: PlanRecord, victim: PodInfo, result: Result | None) -> None:
        # First: the preemptor is released as soon as nothing is left to wait for.
        if result is Result.DELETED:
            self._expect_to_leave(preemption, victim.uid)
        preemption.unfinished -= 1
        if preemption.stage is PlanStage.LAST:
            preemption.last_result = result
            self._finish(preemption)
        elif not preemption.unfinished:
            self._evict_last(preemption)

    def _finish(self, preemption: PlanRecord) -> None:
        preemption.stage = PlanStage.OVER
        # Before the preemptor is activated: PreEnqueue would still hold it back.
        self._drop_if_over(preemption)
        # The reference computes both when the task begins, and so reports successes with zero duration.
        result = preemption.result
        self._metrics.ended(result, self._now() - preemption.started, preemption.preemptor.type)
        delay = self._retry_delay(preemption)
        if delay:
            preemption.stage = PlanStage.DELAYED
            preemption.alarm = self._outbox.wake(self._outbox.now + delay, preemption)
        else:
            self._end(preemption)

    def _retry_delay(self, preemption: PlanRecord) -> float:
        """The delay before activating a pod whose evictions are refused repeatedly.

        Activation skips the pod's backoff, and the next plan would just be refused again. In the reference, only the
        client's rate limit slows this down.
        """
        # A group's refusals are kept as long as its first pod exists.
        uid = preemption.preemptor.pods[0].uid
        refused = preemption.refused or not preemption.cleared
        if not refused or self._state.newest(uid) is None:
            self._refusals.pop(uid, None)
            return 0.0
        self._leaving.expect(uid, self)
        before = self._refusals.get(uid, 0)
        self._refusals[uid] = before + 1
        # The exponent is limited, as refusals may go on for days, and a float would overflow.
        return min(2.0 ** min(before - 1, 10), MAX_RETRY_DELAY) if before else 0.0

    def _end(self, preemption: PlanRecord) -> None:
        preemption.stage, preemption.alarm = PlanStage.OVER, None
        del self._plans[preemption]
        if preemption.stopped or not preemption.cleared or self._missed_deletion(preemption):
            self._context.queue.activate(preemption.preemptor.pods)
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Async Preemption finished completely",
                preemptor=preemption.preemptor,
                node=preemption.node_name,
                result=preemption.result,
            )

    def _missed_deletion(self, preemption: PlanRecord) -> bool:
        """Whether no event will wake the preemptor: its last victim was deleted while it was held back.

        For a victim that only the API server knows to be gone, the event is still to come.
        """
        if preemption.last_result is not Result.GONE:
            return False
        here = self._state.placed(preemption.victims[-1].uid)
        return here is None or not preemption.preemptor.takes_from(here.node_name)

    # -- dump and load ------------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> Iterator[str]:
        """Unfinished plans."""
        return (f"{preemption}: {preemption.stage.value}" for preemption in self._plans)

    def dump(self) -> DumpedEvictions:
        """The remaining state of finished plans; there must be no unfinished ones."""
        preemptions = [self._dumped(preemption) for preemption in self._preemptions.values()]
        return DumpedEvictions(preemptions=preemptions, refusals=dict(self._refusals))

    def _dumped(self, preemption: PlanRecord) -> DumpedPreemption:
        group = preemption.plan.group if isinstance(preemption.plan, GroupEvictionPlan) else None
        return DumpedPreemption(
            preemptor=as_written(preemption.preemptor.pods[0].pod),
            group=None if isinstance(group, CompositePodGroup) else group,
            composite_group=group if isinstance(group, CompositePodGroup) else None,
            node=preemption.node_name,
            plugin=preemption.plugin,
            leaving=sorted(preemption.leaving),
        )

    def load(self, dumped: DumpedEvictions) -> None:
        """Restore; `ClusterState` must be loaded first."""
        for one in dumped.preemptions:
            plan = self._plan_of(one)
            preemption = PlanRecord(
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
        group = dumped.composite_group or dumped.group
        if group is not None:
            return GroupEvictionPlan(group=group, pods=(pod,), victims=(), plugin=dumped.plugin)
        return EvictionPlan(preemptor=pod, node_name=dumped.node, victims=(), plugin=dumped.plugin)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Violated invariants between steps."""
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
            if isinstance(alarm.target, PlanRecord) and alarm.target.alarm is not alarm:
                yield f"{alarm.target}: {alarm.target.stage.value}, but is woken at {alarm.at:.3f}"

    def _problems_of_plan(self, preemption: PlanRecord) -> Iterator[str]:
        stage, name = preemption.stage, str(preemption)
        if stage in (PlanStage.BEGUN, PlanStage.OVER):
            yield f"{name}: {stage.value} at the end of a step"
        if (stage is PlanStage.CLEARING) != (preemption.clearing is not None):
            yield f"{name}: {stage.value}, clearing {preemption.clearing}"
        if (stage in (PlanStage.OTHERS, PlanStage.LAST)) != bool(preemption.unfinished):
            yield f"{name}: {stage.value} with {preemption.unfinished} evictions"
        alarm = preemption.alarm
        if (stage is PlanStage.DELAYED) != (alarm is not None and alarm.target is preemption):
            yield f"{name}: {stage.value}, but its alarm is {'not ' if alarm is None else ''}set"

    def _problems_of_leaving(self) -> Iterator[str]:
        """Preemptors wait exactly for pods that have not left."""
        expected = set(self._leaving.listeners)
        for preemption in self._preemptions.values():
            if not preemption.running and not preemption.leaving:
                yield f"{preemption}: {preemption.stage.value}, waits for nothing, and is still kept"
        for preemption in {**self._plans, **dict.fromkeys(self._preemptions.values())}:
            for uid in preemption.leaving:
                if (uid, preemption) not in expected:
                    yield f"{preemption}: it will not be notified that pod {uid} has left"
        for uid, listener in expected:
            if isinstance(listener, PlanRecord) and not self._stays(uid):
                yield f"{listener}: waits for pod {uid} to leave, which is on no node or is being deleted"
        for uid in self._refusals:
            if (uid, self) not in expected:
                yield f"the evictions for pod {uid} were refused, and its departure will not be reported"
