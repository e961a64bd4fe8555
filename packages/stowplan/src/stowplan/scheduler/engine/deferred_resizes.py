"""Pods that are to grow on their node, and wait in the queue until their kubelet has done it.

A pod on a node whose resize is deferred gets a *stand-in* in the queue: the same pod without its group, which is not to
be scheduled with it, and without a nomination. Its attempt only judges the room on its node, and may evict others; it
is never bound, gets neither events nor conditions, and waits for events again. It leaves the queue when its kubelet
takes the condition back.

Extenders, and plugins other than those that the judge asks, have no say.

Upstream: pkg/scheduler/eventhandlers.go, pkg/scheduler/schedule_one.go (isDeferredResize).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stowplan.kube.api.types import Pod
from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import PodInfo, resize_is_deferred, scheduler_name_of
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.decision.attempt_metrics import AttemptMetrics
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.framework.interface import ResizeJudge
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.queue.queued_pod import QueuedPod

_log = get_logger(__name__)


class DeferredResizes:
    def __init__(self, context: EngineContext, *, evictions: Evictions, metrics: AttemptMetrics | None) -> None:
        self._context = context
        self._queue = context.queue
        self._state = context.state
        self._profiles = context.profiles
        self._evictions = evictions
        self._metrics = metrics
        #: By `namespace/name`.
        self._stand_ins: dict[str, PodInfo] = {}

    def get(self, key: str) -> PodInfo | None:
        """The stand-in of the pod of this name, or the pending pod."""
        return self._stand_ins.get(key) or self._state.pending.get(key)

    def observe(self, pod: Pod) -> None:
        """A pod on a node was added or has changed."""
        key = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        known = self._stand_ins.get(key)
        if not self._waits(pod):
            if known is not None:
                self.gone(pod)
            return
        info = self._stand_ins[key] = self._stand_in(pod)
        if known is None:
            self._queue.add(info)
        else:
            self._queue.update(known.pod, info)

    def gone(self, pod: Pod) -> None:
        """A pod on a node was deleted, or its resize is no longer deferred."""
        info = self._stand_ins.pop(f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}", None)
        if info is not None:
            self._queue.delete(info)

    def profiles_swapped(self) -> None:
        for info in tuple(self._stand_ins.values()):
            if self._judge(info) is None:
                self.gone(info.pod)

    def restore(self) -> None:
        """Know the pods again after the cluster was loaded."""
        self._stand_ins = {
            info.key: self._stand_in(info.pod) for info in self._state.placed_pods() if self._waits(info.pod)
        }

    def run(self, queued: QueuedPod, *, started: float) -> None:
        """An attempt of a stand-in: judge the room on its node, evict others, and wait again."""
        info = queued.pod
        judge, framework = self._judge(info), self._profiles.get(info.shape.scheduler_name)
        if judge is None or framework is None:
            self._queue.done(info.uid)
            return
        _log.v(3).info("Attempting to schedule pod", pod=info)
        verdict = judge.judge_resize(info)
        if self._metrics is not None:
            self._metrics.decided(started)
            self._metrics.failed(verdict.status, profile=framework.profile_name, started=started)
        if verdict.plan is not None:
            # First: PreEnqueue must hold the pod back when it returns to the queue.
            self._evictions.carry_out(verdict.plan, framework.handle.event_recorder)
        queued.unschedulable_plugins, queued.pending_plugins = {verdict.status.plugin}, set()
        queued.gating_plugin = ""
        text = "Unable to schedule pod; no fit; waiting"
        _log.v(2).info(text, pod=info, err=f"0/1 nodes are available: {verdict.status.message}.")
        try:
            self._queue.add_unschedulable_if_not_present(queued)
        except ValueError as e:
            self._context.reporter.report(str(e))

    def _waits(self, pod: Pod) -> bool:
        # Also while it is deleted it keeps its room, and does not grow.
        if pod.metadata.deletion_timestamp is not None or not resize_is_deferred(pod):
            return False
        framework = self._profiles.get(scheduler_name_of(pod))
        return framework is not None and _judge_of(framework) is not None

    def _judge(self, info: PodInfo) -> ResizeJudge | None:
        framework = self._profiles.get(info.shape.scheduler_name)
        return None if framework is None else _judge_of(framework)

    def _stand_in(self, pod: Pod) -> PodInfo:
        spec, status = replace(pod.spec, scheduling_group=None), replace(pod.status, nominated_node_name="")
        return self._state.pod_info(replace(pod, spec=spec, status=status))

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        waiting = {key for key in self._stand_ins if self._queue.get(key) is not None}
        placed = {info.key for info in self._state.placed_pods() if self._waits(info.pod)}
        for key in sorted(self._stand_ins.keys() - waiting):
            yield f"pod {key}: its resize is deferred, and it does not wait in the queue"
        for key in sorted(self._stand_ins.keys() ^ placed):
            yield f"pod {key}: its resize is{'' if key in placed else ' not'} deferred, which the queue does not know"


def _judge_of(framework: Framework) -> ResizeJudge | None:
    return next((plugin for plugin in framework.permit if isinstance(plugin, ResizeJudge)), None)
