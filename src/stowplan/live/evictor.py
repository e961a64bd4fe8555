"""Carry out eviction plans, beside the scheduling cycle.

A decision nominates a pod to a node and plans which pods leave it; evicting them takes requests to the API server, and
the cycle does not wait for those. One task per plan clears the nominations of less important pods to the node, then
evicts the victims, the last one when all others are through. Meanwhile the preemptor need not be tried again:
`under_way` holds it back until its victims are seen to leave. A preemptor that is woken by the first victim's deletion
would otherwise find the other victims still there, and evict more pods on another node.

No pod is evicted in vain. Before each step the task checks that the preemptor still needs the node: the pod exists, has
no node, was not superseded there by a more important pod, and the node exists. A victim is looked at anew before it is
touched: one that has left the node, is being deleted, or was replaced by another pod of the same name, is spared. The
reference carries out what was decided once.

Upstream: pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING, Any

from stowplan.api.api_errors import ApiError, Conflict, NotFound
from stowplan.api.decode import DecodeError
from stowplan.api.port import Unreachable
from stowplan.api.types import Pod, PodCondition
from stowplan.client.errors import OutcomeUnknown
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from stowplan.api.port import Api
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.framework.eviction_plan import EvictionPlan
    from stowplan.framework.handle import EventRecorder
    from stowplan.framework.waiting_pods import PodsInPreBind, WaitingPods
    from stowplan.live.status_writer import PodStatusWriter
    from stowplan.metrics.scheduler import SchedulerMetrics
    from stowplan.timing.times import Times

#: Of all plans together: evictions that wait for their turn can still be called off.
MAX_CONCURRENT_EVICTIONS = 16

#: Seconds between attempts of a pod whose evictions are refused again and again, at most.
MAX_RETRY_DELAY = 10.0

#: The message of the rejection of a pod that waits on Permit.
PREEMPTED = "preempted"

_log = get_logger(__name__)

_FAILURES = (ApiError, Unreachable, DecodeError)


class Eviction(Enum):
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

    plan: EvictionPlan
    #: None where the preemptor's profile records no events.
    recorder: EventRecorder | None
    #: Most important first; without those whose deletion had begun when it was decided.
    victims: tuple[PodInfo, ...]
    #: The last victim, once all others are through.
    last: PodInfo | None = None
    #: Victims that the API server was told to delete.
    deleted: list[PodInfo] = field(default_factory=list)
    running: bool = True
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


def disruption_target(preemptor: Pod, victim: Pod) -> PodCondition:
    """What a victim's status says of its end."""
    return PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod",
        observed_generation=victim.metadata.generation,
    )


def preempted_note(preemptor: PodInfo, node_name: str, eviction: Eviction) -> str:
    note = f"Preempted by pod {preemptor.uid} on node {node_name}"
    return f"{note} (in kube-scheduler memory)." if eviction is Eviction.BINDING_REJECTED else note


class Evictor:
    """Carries eviction plans out, and knows which are under way (`Preemptions`).

    All methods are called on the event loop that runs the spawned tasks.
    """

    def __init__(
        self,
        *,
        api: Api,
        state: ClusterState,
        waiting_pods: WaitingPods,
        pods_in_pre_bind: PodsInPreBind,
        statuses: PodStatusWriter,
        times: Times,
        metrics: SchedulerMetrics,
        activate: Callable[[Sequence[PodInfo]], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        report: Callable[[str], None],
    ) -> None:
        self._api = api
        self._state = state
        self._waiting_pods = waiting_pods
        self._pods_in_pre_bind = pods_in_pre_bind
        self._statuses = statuses
        self._times = times
        self._metrics = metrics
        self._activate = activate
        self._spawn = spawn
        self._report = report
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_EVICTIONS)
        #: By the preemptor's UID: what is under way, and what is over while a deletion is still to be seen.
        self._preemptions: dict[str, Preemption] = {}
        #: Preemptor's UID -> how many of its plans in a row were refused.
        self._refusals: dict[str, int] = {}
        #: Tasks that wait for time to pass before the pod is tried again.
        self.delayed_retries = 0

    def carry_out(self, plan: EvictionPlan, recorder: EventRecorder | None) -> None:
        """Begin to evict the plan's victims; those that are being deleted anyway are left alone."""
        victims = tuple(victim for victim in plan.victims if not victim.terminating)
        if len(victims) < len(plan.victims):
            for victim in plan.victims:
                if victim.terminating:
                    _log_spared(plan.preemptor, victim, plan.node_name)
        if not victims:
            return
        self._metrics.preemption_victims.observe(len(plan.victims))
        self._sweep()
        nominated = self._state.nominator.on(plan.node_name)
        lesser = [info for info in nominated if info.priority < plan.preemptor.priority]
        for info in lesser:
            superseded = self._preemptions.get(info.uid)
            if superseded is not None:
                superseded.superseded = True
        preemption = Preemption(plan=plan, recorder=recorder, victims=victims)
        self._preemptions[plan.preemptor.uid] = preemption
        self._spawn(self._run(preemption, lesser))
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
        if preemption.running:
            # Somebody else may delete the last one before those before it are seen to leave.
            awaited = (*preemption.deleted, preemption.last)
            return any(victim is None or self._stays(victim) for victim in awaited)
        return not self._drop_if_over(preemption)

    def __len__(self) -> int:
        """Preemptions that are under way, or not yet seen to have had their effect."""
        return len(self._preemptions)

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

    # -- carrying one out ---------------------------------------------------------------------------------------------

    async def _run(self, preemption: Preemption, lesser: Sequence[PodInfo]) -> None:
        started = self._times.clock()
        try:
            cleared = await self._clear_nominations(preemption, lesser)
            last = await self._evict_all(preemption)
        finally:
            preemption.running = False
            self._drop_if_over(preemption)
        # Unlike the reference, which evaluates both when the task begins and so reports successes that took no time.
        result = "error" if preemption.stopped or not cleared else "success"
        seconds = self._times.clock() - started
        self._metrics.preemption_goroutines_duration_seconds.with_label_values(result).observe(seconds)
        self._metrics.preemption_goroutines_execution_total.with_label_values(result).inc()
        await self._delay_retry(preemption, refused=preemption.refused or not cleared)
        if preemption.stopped or not cleared or self._missed_deletion(preemption, last):
            self._activate([preemption.preemptor])
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Async Preemption finished completely",
                preemptor=preemption.preemptor,
                node=preemption.node_name,
                result=result,
            )

    async def _delay_retry(self, preemption: Preemption, *, refused: bool) -> None:
        """Wait before a pod is activated whose evictions are refused again and again.

        Activation skips the pod's backoff, and the next plan would only be refused again. The reference is slowed down
        by its client's rate limit alone.
        """
        preemptor = preemption.preemptor
        if not refused:
            self._refusals.pop(preemptor.uid, None)
            return
        before = self._refusals.get(preemptor.uid, 0)
        self._refusals[preemptor.uid] = before + 1
        if before:
            self.delayed_retries += 1
            try:
                await self._times.sleep(min(2.0 ** (before - 1), MAX_RETRY_DELAY))
            finally:
                self.delayed_retries -= 1

    def _missed_deletion(self, preemption: Preemption, last: Eviction | None) -> bool:
        """Whether no event will wake the preemptor: its last victim's deletion came while the pod was held back.

        The event of a victim that only the API server knows to be gone is still to come.
        """
        if last is not Eviction.GONE:
            return False
        here = self._state.placed(preemption.victims[-1].uid)
        return here is None or here.node_name != preemption.node_name

    async def _clear_nominations(self, preemption: Preemption, lesser: Sequence[PodInfo]) -> bool:
        """Clear the nominations of less important pods to the node; whether that worked for all of them."""
        cleared = True
        for info in lesser:
            pod = self._state.newest(info.uid)
            if pod is None:
                continue
            if not pod.status.nominated_node_name:
                # The API server does not know of the nomination yet: no update will take it out of our memory.
                self._state.nominator.delete(info.uid)
                self._statuses.write(pod, nominated_node_name="")
                continue
            try:
                await self._statuses.patch(pod, nominated_node_name="")
            except NotFound:
                continue
            except _FAILURES as error:
                cleared = False
                self._report(
                    f"Preemption for pod {preemption.preemptor.key} on node {preemption.node_name}: "
                    f"cannot clear nominatedNodeName of pod {info.key}: {error}"
                )
        return cleared

    async def _evict_all(self, preemption: Preemption) -> Eviction | None:
        """Evict the victims concurrently, then the last one; how that one went, None if it was not evicted."""
        *others, last = preemption.victims
        async with asyncio.TaskGroup() as group:
            for victim in others:
                group.create_task(self._evict_in_turn(preemption, victim))
        preemption.last = last
        return await self._evict_in_turn(preemption, last)

    async def _evict_in_turn(self, preemption: Preemption, victim: PodInfo) -> Eviction | None:
        """Evict one victim, unless the preemption has stopped; a failure stops it.

        Evictions that have begun are finished: a pod that was deleted gets its event.
        """
        async with self._slots:
            at_work = self._metrics.goroutines.with_label_values(preemption.plugin)
            at_work.inc()
            try:
                return await self._evict(preemption, victim)
            except _FAILURES as error:
                preemption.stopped = preemption.refused = True
                self._report(
                    f"Preemption for pod {preemption.preemptor.key} on node {preemption.node_name}: "
                    f"cannot evict pod {victim.key}: {error}"
                )
                return None
            finally:
                at_work.dec()

    async def _evict(self, preemption: Preemption, victim: PodInfo) -> Eviction | None:
        if self._stop_if_unwanted(preemption):
            return None
        here = self._state.placed(victim.uid)
        if here is None or here.node_name != preemption.node_name:
            return Eviction.GONE
        if here.terminating:
            _log_spared(preemption.preemptor, victim, preemption.node_name)
            return Eviction.LEAVING
        pod = here.pod
        eviction: Eviction | None = Eviction.BINDING_REJECTED
        if not self._reject_binding(preemption, victim):
            eviction = await self._delete_with_condition(preemption, pod)
        if eviction is Eviction.DELETED:
            preemption.deleted.append(victim)
            _log.v(2).info(
                "Preemptor Pod preempted victim Pod",
                preemptor=preemption.preemptor,
                victim=pod,
                node=preemption.node_name,
            )
        elif eviction is Eviction.GONE:
            _log.v(2).info(
                "Victim Pod is already deleted", preemptor=preemption.preemptor, victim=pod, node=preemption.node_name
            )
        if eviction in (Eviction.DELETED, Eviction.BINDING_REJECTED):
            self._record(preemption, pod, eviction)
        return eviction

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

    # -- evicting one pod ---------------------------------------------------------------------------------------------

    def _reject_binding(self, preemption: Preemption, victim: PodInfo) -> bool:
        """End the binding of a pod that is not bound yet; False when there is none, or it is too late."""
        keys = {"preemptorType": "pod", "preemptor": preemption.preemptor}
        waiting = self._waiting_pods.get(victim.uid)
        if waiting is not None:
            rejected = waiting.preempt(preemption.plugin, PREEMPTED)
            if rejected:
                text = "Preemptor preempted a waiting pod"
                _log.v(2).info(text, **keys, waitingPod=victim, node=preemption.node_name)
            return rejected
        binding = self._pods_in_pre_bind.get(victim.uid)
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

    async def _delete_with_condition(self, preemption: Preemption, pod: Pod) -> Eviction | None:
        try:
            await self._statuses.patch(pod, condition=disruption_target(preemption.preemptor.pod, pod))
        except NotFound:
            return Eviction.GONE
        if self._stop_if_unwanted(preemption):
            return None
        return Eviction.DELETED if await self._delete(pod) else Eviction.GONE

    async def _delete(self, pod: Pod) -> bool:
        """Delete the pod with this UID; False when it is gone, or another has its name."""
        metadata = pod.metadata
        try:
            await self._api.delete(Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except NotFound:
            return False
        except Conflict:
            if await self._is_there(pod):
                raise
            return False
        except OutcomeUnknown:
            # Planning anew after a deletion that went through would cost a second victim.
            if await self._is_there(pod):
                raise
        return True

    async def _is_there(self, pod: Pod) -> bool:
        """Ask the API server whether the pod with this UID exists, and nobody is deleting it."""
        try:
            found = await self._api.get(Pod, pod.metadata.name, namespace=pod.metadata.namespace)
        except NotFound:
            return False
        return found.metadata.uid == pod.metadata.uid and found.metadata.deletion_timestamp is None

    def _record(self, preemption: Preemption, victim: Pod, eviction: Eviction) -> None:
        if preemption.recorder is not None:
            preemption.recorder.event(
                victim,
                type_="Normal",
                reason="Preempted",
                action="Preempting",
                note=preempted_note(preemption.preemptor, preemption.node_name, eviction),
                related=preemption.preemptor.pod,
            )


def _log_spared(preemptor: PodInfo, victim: PodInfo, node_name: str) -> None:
    text = "Victim Pod is already being deleted, skipping the API call for it"
    _log.v(2).info(text, preemptor=preemptor, node=node_name, victim=victim)
