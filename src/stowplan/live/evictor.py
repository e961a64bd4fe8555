"""Evict a preemption's victims, beside the scheduling cycle.

The decision promises a node to a pod; making room there takes requests to the API server, and the cycle does not wait
for them. One task a preemption clears the promises of lesser pods on the node, then evicts the victims, the last one
when all others are through. Meanwhile the preemptor need not be tried again: `gates` holds it back until it can be
seen that its victims leave. Whoever is woken by a victim's deletion would otherwise find the rest of them still there,
and make room a second time on another node.

No victim shall die in vain. Before each step the task looks whether the pod still wants the node: is there, has no
node, was not outbid by a more important pod, and the node exists. And a victim is looked at anew before it is
touched: who has left the node, is leaving it, or was replaced by another pod of the same name, is spared. The reference
carries out what was decided once.

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
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from stowplan.api.port import Api
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.framework.handle import EventRecorder
    from stowplan.framework.waiting_pods import PodsInPreBind, WaitingPods
    from stowplan.live.status_writer import PodStatusWriter
    from stowplan.metrics.scheduler import SchedulerMetrics
    from stowplan.preemption.dry_run import Candidate

#: Of all preemptions together: what waits its turn can still be called off.
EVICTIONS_AT_ONCE = 16

#: Seconds from a preemption that was refused to the next try, at most.
LONGEST_REST = 10.0

#: Said to a pod that waits on Permit.
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
    TURNED_BACK = auto()
    DELETED = auto()


@dataclass(eq=False, slots=True, kw_only=True)
class Preemption:
    """A pod's claim on a node, until it can be seen that everybody leaves who has to."""

    preemptor: PodInfo
    node_name: str
    plugin: str
    #: Most important first; none whose deletion had begun when it was decided.
    victims: tuple[PodInfo, ...]
    #: The last victim, once all others are through.
    last: PodInfo | None = None
    #: Whom the API server was told to delete.
    deleted: list[PodInfo] = field(default_factory=list)
    running: bool = True
    #: A more important pod claims the node.
    outbid: bool = False
    #: The API refused an eviction, or did not answer.
    refused: bool = False
    #: Something failed, or nobody needs the room any more: evictions that have not begun will not begin.
    stopped: bool = False


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
    return f"{note} (in kube-scheduler memory)." if eviction is Eviction.TURNED_BACK else note


class Evictor:
    """A `Preemptor`; all methods are called on the event loop that runs the spawned tasks."""

    def __init__(
        self,
        *,
        api: Api,
        state: ClusterState,
        waiting_pods: WaitingPods,
        pods_in_pre_bind: PodsInPreBind,
        statuses: PodStatusWriter,
        recorder_of: Callable[[PodInfo], EventRecorder | None],
        activate: Callable[[Sequence[PodInfo]], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        sleep: Callable[[float], Awaitable[object]],
        metrics: SchedulerMetrics,
        now: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self._api = api
        self._state = state
        self._waiting_pods = waiting_pods
        self._pods_in_pre_bind = pods_in_pre_bind
        self._statuses = statuses
        #: Of the profile that a preemptor belongs to.
        self._recorder_of = recorder_of
        self._activate = activate
        self._spawn = spawn
        self._sleep = sleep
        self._metrics = metrics
        self._now = now
        self._report = report
        self._turns = asyncio.Semaphore(EVICTIONS_AT_ONCE)
        #: By the preemptor's UID: what is under way, and what is over while a deletion is still to be seen.
        self._preemptions: dict[str, Preemption] = {}
        #: Preemptor's UID -> the pod, and how many of its preemptions were refused one after the other.
        self._refused: dict[str, tuple[PodInfo, int]] = {}
        #: Tasks that wait for time to pass before the pod is tried again.
        self.resting = 0

    # -- what plugins call --------------------------------------------------------------------------------------------

    def preempt(self, preemptor: PodInfo, candidate: Candidate, *, plugin: str) -> None:
        """Begin to make room on the candidate's node; victims that are leaving anyway are left alone."""
        victims = tuple(victim for victim in candidate.victims if not victim.terminating)
        if len(victims) < len(candidate.victims):
            for victim in candidate.victims:
                if victim.terminating:
                    _log_spared(preemptor, victim, candidate.node_name)
        if not victims:
            return
        self._metrics.preemption_victims.observe(len(candidate.victims))
        self._sweep()
        promised = self._state.nominator.on(candidate.node_name)
        lesser = [info for info in promised if info.priority < preemptor.priority]
        for info in lesser:
            outbid = self._preemptions.get(info.uid)
            if outbid is not None:
                outbid.outbid = True
        preemption = Preemption(preemptor=preemptor, node_name=candidate.node_name, plugin=plugin, victims=victims)
        self._preemptions[preemptor.uid] = preemption
        self._spawn(self._carry_out(preemption, lesser))
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Start the preemption asynchronously",
                preemptor=preemptor,
                node=candidate.node_name,
                numVictims=len(candidate.victims),
                numVictimsToDelete=len(victims),
            )

    def gates(self, pod: PodInfo) -> bool:
        """Whether the pod's victims are still to be evicted, or not yet seen to leave."""
        preemption = self._preemptions.get(pod.uid)
        if preemption is None:
            return False
        if preemption.running:
            # The last one may leave, by another's hand, before it is seen that those before it do.
            awaited = (*preemption.deleted, preemption.last)
            return any(victim is None or self._stays(victim) for victim in awaited)
        return not self._drop_if_over(preemption)

    def __len__(self) -> int:
        """Preemptions that are under way, or not yet seen to have had their effect."""
        return len(self._preemptions)

    # -- the account of preemptions -----------------------------------------------------------------------------------

    def _stays(self, victim: PodInfo) -> bool:
        """Whether the pod is on a node, as far as we have heard, and nobody is deleting it."""
        here = self._state.placed(victim.uid)
        return here is not None and not here.terminating

    def _drop_if_over(self, preemption: Preemption) -> bool:
        if preemption.running or any(self._stays(victim) for victim in preemption.deleted):
            return False
        if self._preemptions.get(preemption.preemptor.uid) is preemption:
            del self._preemptions[preemption.preemptor.uid]
        return True

    def _sweep(self) -> None:
        """Look at the two oldest, so that preemptions of pods nobody asks about any more do not pile up."""
        for uid in list(islice(self._preemptions, 2)):
            if not self._drop_if_over(self._preemptions[uid]):
                self._preemptions[uid] = self._preemptions.pop(uid)
        for uid in list(islice(self._refused, 2)):
            entry = self._refused.pop(uid)
            if self._state.newest(uid) is not None:
                self._refused[uid] = entry

    # -- carrying one out ---------------------------------------------------------------------------------------------

    async def _carry_out(self, preemption: Preemption, lesser: Sequence[PodInfo]) -> None:
        started = self._now()
        try:
            cleared = await self._clear_nominations(preemption, lesser)
            last = await self._evict_all(preemption)
        finally:
            preemption.running = False
            self._drop_if_over(preemption)
        # Parity: the reference looks at both when the task begins, so that it tells of successes that took no time.
        result = "error" if preemption.stopped or not cleared else "success"
        self._metrics.preemption_goroutines_duration_seconds.with_label_values(result).observe(self._now() - started)
        self._metrics.preemption_goroutines_execution_total.with_label_values(result).inc()
        await self._rest(preemption, refused=preemption.refused or not cleared)
        if preemption.stopped or not cleared or self._went_unheard(preemption, last):
            self._activate([preemption.preemptor])
        verbose = _log.v(2)
        if verbose.enabled:
            verbose.info(
                "Async Preemption finished completely",
                preemptor=preemption.preemptor,
                node=preemption.node_name,
                result=result,
            )

    async def _rest(self, preemption: Preemption, *, refused: bool) -> None:
        """Let time pass before a pod is tried again whose preemptions are refused again and again.

        The pod is active at once then, whatever its backoff, and would only come to the same refusal. The reference is
        slowed down by its client's rate limit alone.
        """
        preemptor = preemption.preemptor
        if not refused:
            self._refused.pop(preemptor.uid, None)
            return
        _, before = self._refused.get(preemptor.uid, (preemptor, 0))
        self._refused[preemptor.uid] = preemptor, before + 1
        if before:
            self.resting += 1
            try:
                await self._sleep(min(2.0 ** (before - 1), LONGEST_REST))
            finally:
                self.resting -= 1

    def _went_unheard(self, preemption: Preemption, last: Eviction | None) -> bool:
        """Whether nothing will tell the pod to try again: its last victim was gone, and that news came too early.

        Of a victim that only the API server knows to be gone the news are yet to come; until then nothing is different.
        """
        if last is not Eviction.GONE:
            return False
        here = self._state.placed(preemption.victims[-1].uid)
        return here is None or here.node_name != preemption.node_name

    async def _clear_nominations(self, preemption: Preemption, lesser: Sequence[PodInfo]) -> bool:
        """Take the node from lesser pods that it was promised to; whether that worked for all of them."""
        cleared = True
        for info in lesser:
            pod = self._state.newest(info.uid)
            if pod is None:
                continue
            if not pod.status.nominated_node_name:
                # The API server has not heard of the promise yet: no update will take it out of our memory.
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
        """Evict the victims side by side, then the last one; how that one went, None if it was not evicted."""
        *others, last = preemption.victims
        async with asyncio.TaskGroup() as group:
            for victim in others:
                group.create_task(self._evict_in_turn(preemption, victim))
        preemption.last = last
        return await self._evict_in_turn(preemption, last)

    async def _evict_in_turn(self, preemption: Preemption, victim: PodInfo) -> Eviction | None:
        """Evict one victim, unless the preemption has stopped; a failure stops it.

        Evictions that have begun are finished: a pod that was told to go gets its event.
        """
        async with self._turns:
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
        eviction: Eviction | None = Eviction.TURNED_BACK
        if not self._turn_back(preemption, victim):
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
        if eviction in (Eviction.DELETED, Eviction.TURNED_BACK):
            self._record(preemption, pod, eviction)
        return eviction

    def _stop_if_unwanted(self, preemption: Preemption) -> bool:
        """Whether nobody is to be evicted for this preemption any more."""
        preemption.stopped = preemption.stopped or preemption.outbid or not self._wanted(preemption)
        return preemption.stopped

    def _wanted(self, preemption: Preemption) -> bool:
        """Whether the preemptor is still in need of a node, and the node is there."""
        preemptor = preemption.preemptor
        pod = self._state.newest(preemptor.uid)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return False
        return self._state.placed(preemptor.uid) is None and preemption.node_name in self._state.table.row_of

    # -- evicting one pod ---------------------------------------------------------------------------------------------

    def _turn_back(self, preemption: Preemption, victim: PodInfo) -> bool:
        """End the binding of a pod that is not bound yet; False when there is none, or it is too late."""
        keys = {"preemptorType": "pod", "preemptor": preemption.preemptor}
        waiting = self._waiting_pods.get(victim.uid)
        if waiting is not None:
            turned_back = waiting.preempt(preemption.plugin, PREEMPTED)
            if turned_back:
                text = "Preemptor preempted a waiting pod"
                _log.v(2).info(text, **keys, waitingPod=victim, node=preemption.node_name)
            return turned_back
        binding = self._pods_in_pre_bind.get(victim.uid)
        if binding is None:
            return False
        turned_back = binding.cancel(f"preempted by {preemption.plugin}")
        if turned_back:
            text = "Preemptor rejected a pod in preBind"
            _log.v(2).info(text, **keys, podInPreBind=victim, node=preemption.node_name)
        else:
            text = "Failed to reject a pod in preBind, falling back to deletion via api call"
            _log.v(5).info(text, preemptor=preemption.preemptor, podInPreBind=victim, node=preemption.node_name)
        return turned_back

    async def _delete_with_condition(self, preemption: Preemption, pod: Pod) -> Eviction | None:
        try:
            await self._statuses.patch(pod, condition=disruption_target(preemption.preemptor.pod, pod))
        except NotFound:
            return Eviction.GONE
        if self._stop_if_unwanted(preemption):
            return None
        return Eviction.DELETED if await self._delete(pod) else Eviction.GONE

    async def _delete(self, pod: Pod) -> bool:
        """Delete this very pod; False when it is gone, or another has its name."""
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
            # Trying again elsewhere for a deletion that went through would cost a second victim.
            if await self._is_there(pod):
                raise
        return True

    async def _is_there(self, pod: Pod) -> bool:
        """Ask the API server whether this very pod exists, and nobody is deleting it."""
        try:
            found = await self._api.get(Pod, pod.metadata.name, namespace=pod.metadata.namespace)
        except NotFound:
            return False
        return found.metadata.uid == pod.metadata.uid and found.metadata.deletion_timestamp is None

    def _record(self, preemption: Preemption, victim: Pod, eviction: Eviction) -> None:
        recorder = self._recorder_of(preemption.preemptor)
        if recorder is not None:
            recorder.event(
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
