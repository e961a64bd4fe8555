"""Keep pods with scheduling gates out of the active queue.

Upstream: pkg/scheduler/framework/plugins/schedulinggates.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import Action, ClusterEventWithHint, Hint, on, pod_events, queue_if
from stowplan.scheduler.framework.interface import EnqueueExtensions, PreEnqueuePlugin
from stowplan.scheduler.framework.status import Reason, Status, unresolvable
from stowplan.scheduler.in_tree.common.pod_hints import same_pod
from stowplan.scheduler.in_tree.scheduling_gates.declaration import DECLARATION

GATED = Reason("SchedulingGated", "waiting for scheduling gates: [{gates}]")


class SchedulingGates(PreEnqueuePlugin, EnqueueExtensions):
    declaration = DECLARATION

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.pod.spec.scheduling_gates
        return unresolvable(GATED.of(gates=" ".join(gate.name for gate in gates))) if gates else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = pod_events(self.handle.features.emulated_version)
        return (on(pods.own, Action.UpdatePodSchedulingGatesEliminated, _after_gates_eliminated, by_shape=True),)


def _after_gates_eliminated(pod: PodInfo, old: Pod, new: Pod) -> Hint:
    return queue_if(same_pod(pod, new))
