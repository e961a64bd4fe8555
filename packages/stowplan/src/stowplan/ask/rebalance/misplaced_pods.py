"""Running pods whose node would not take them any more, as the scheduler's own filters judge.

What was true when a pod was placed need not be true later: nodes get other labels and taints, pods with (anti-)affinity
come and go, domains become uneven. A pod is judged as if it had no node, on the node that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from stowplan.ask.offline import Cluster
from stowplan.ask.offline.scheduling import Stop, never
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.cluster.pod_info import PodInfo


def misplaced_pods(cluster: Cluster, stop: Stop = never) -> Iterator[tuple[PodInfo, str]]:
    """Each such pod and why its node rejects it, the lowest priority first, and of equal ones the youngest.

    The cluster may be changed in between: every pod is judged when its turn comes, until `stop` returns True.
    """
    judged = _Judged(cluster)
    for info in takewhile(lambda _: not stop(), sorted(cluster.state.placed_pods(), key=_lowest_first)):
        if eviction_outcome(info.pod) is not EvictionOutcome.RECREATED or cluster.state.placed(info.uid) is not info:
            continue
        why = "" if judged.would_take_another(info) else rejection_of(cluster, info)
        if why:
            yield info, why


class _Judged:
    """Which nodes would take one more of equal pods, for as long as nothing changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version: tuple[int, ...] = ()
        self._feasible: dict[Any, Mask] = {}

    def would_take_another(self, info: PodInfo) -> bool:
        """Whether a pod's node would take one more like it: then it would take the pod itself, which is one less.

        Not so with pod affinity, for which the pod may be the one that others have to be near.
        """
        framework = self._cluster.engine.framework_for(info)
        if framework is None or info.shape.required_affinity:
            return False
        if self._version != self._cluster.state.version:
            self._version = self._cluster.state.version
            self._feasible.clear()
        pod = PodInfo(_without_node(info.pod), info.shape)
        signature = framework.signature(pod)
        if signature is None:
            return False
        feasible = self._feasible.get((framework.profile_name, signature))
        if feasible is None:
            found = self._cluster.algorithm.evaluation(framework, pod).filter(pod)
            feasible = self._feasible[framework.profile_name, signature] = found.feasible.copy()
        return bool(feasible[info.row])


def _without_node(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=""))


def _lowest_first(info: PodInfo) -> tuple[int, int, str]:
    # Of two pods that exclude each other, the younger one goes.
    return info.priority, -info.start_time, info.key


def rejection_of(cluster: Cluster, info: PodInfo) -> str:
    """Why a pod's own node would reject it now; "" if it would not, or if no node is to blame."""
    framework, row = cluster.engine.framework_for(info), cluster.state.table.row_of.get(info.node_name)
    if framework is None or row is None:
        return ""
    with cluster.transaction():
        cluster.state.remove_pod(info.uid)
        pod = cluster.state.pod_info(_without_node(info.pod))
        evaluation = cluster.algorithm.evaluation(framework, pod)
        found = evaluation.filter(pod)
        if found.error is not None or found.ended_early is not None or found.feasible[row]:
            return ""
        status = evaluation.diagnosis(found.refused).status(row)
        return "" if status is None else f"{status.plugin}: {', '.join(status.shown_reasons)}"
