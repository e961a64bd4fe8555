"""Make room for a pod that is to grow on its node: its kubelet has deferred the resize, as too little is free.

Such a pod returns to the queue. It is only tried on its node, for room; if there is none, less important pods are
evicted as by DefaultPreemption. A pod that fits is rejected all the same: its kubelet has to act now.

Upstream: pkg/scheduler/framework/plugins/deferredpodscheduling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.pod_info import PodInfo, resize_is_deferred
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, Hint, on, queue_if
from stowplan.scheduler.framework.eviction_plan import EvictionPlan
from stowplan.scheduler.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    PreFilterPlugin,
    ResizeJudge,
    ResizeVerdict,
)
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, unresolvable
from stowplan.scheduler.in_tree.deferred_pod_scheduling.declaration import DECLARATION
from stowplan.scheduler.preemption.disruption_budgets import violating_units
from stowplan.scheduler.preemption.workloads import Unit, units_of

FITS = "pod resize fits, waiting for Kubelet actuation"
OTHER_NODE = Reason("NodeNameMismatch", "pod assigned to different node")
DISABLED = Reason("ResizePreemptionDisabled", "node had resize preemption disabled")

_FIT, _PREEMPTION = "NodeResourcesFit", "DefaultPreemption"
_NO_NODE = "node(s) didn't match the requested node name"


class _JudgesRoom(Protocol):
    """NodeResourcesFit."""

    def judge_resize(self, pod: PodInfo, row: int, without: Sequence[PodInfo], /) -> Status | None: ...


class DeferredPodScheduling(
    PreFilterPlugin, FilterPlugin, PermitPlugin, ReadsNoObjects, EnqueueExtensions, ResizeJudge
):
    declaration = DECLARATION
    reads = Reads.NODES
    pods_only_take_room = True

    def _acts_on(self, pod: PodInfo) -> bool:
        # Questions take a pod off its node: then it is judged like any other.
        on = self.handle.features.enabled("InPlacePodVerticalScalingSchedulerPreemption")
        return on and bool(pod.pod.spec.node_name) and resize_is_deferred(pod.pod)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None if self._acts_on(pod) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        if not self._acts_on(pod):
            return None
        row = nodes.table.row_of.get(pod.pod.spec.node_name, -1)
        rows = np.arange(len(nodes)) if nodes.rows is None else nodes.rows
        node = nodes.table.nodes[row] if row >= 0 else None
        if node is not None and _disables(node):
            other, code = rows != row, Code.UnschedulableAndUnresolvable
            everywhere = np.ones(len(other), np.bool_)
            return Rejections(everywhere, (Entry(other, code, OTHER_NODE), Entry(~other, code, DISABLED)))
        other = rows != row
        return Rejections.where(other, OTHER_NODE, Code.UnschedulableAndUnresolvable) if other.any() else None

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        return (unresolvable(FITS) if self._acts_on(pod) else None), 0.0

    # -- a pod that is to grow ----------------------------------------------------------------------------------------

    def judge_resize(self, pod: PodInfo, *, asking: bool = False) -> ResizeVerdict:
        cluster = self.handle.cluster
        row = cluster.table.row_of.get(pod.pod.spec.node_name)
        node = None if row is None else cluster.table.nodes[row]
        if row is None or node is None:
            return ResizeVerdict(unresolvable(_NO_NODE).with_plugin("NodeName"))
        if _disables(node):
            return ResizeVerdict(unresolvable(DISABLED).with_plugin(self.name))
        framework = self.handle.framework
        assert isinstance(framework, Framework)
        # A profile without it does not care about room.
        fit: _JudgesRoom | None = next((plugin for plugin in framework.filter if plugin.name == _FIT), None)  # type: ignore[assignment]
        lacks = None if fit is None else fit.judge_resize(pod, row, ())
        if fit is None or lacks is None:
            return ResizeVerdict(unresolvable(FITS).with_plugin(self.name))
        lacks = lacks.with_plugin(_FIT)
        preempts = any(plugin.name == _PREEMPTION for plugin in framework.post_filter)
        if lacks.code != Code.Unschedulable or not preempts:
            return ResizeVerdict(lacks)
        if self.handle.metrics is not None and not asking:
            self.handle.metrics.preemption_attempts_total.inc()
        never = pod.pod.spec.preemption_policy == "Never"
        return ResizeVerdict(lacks, None if never else self._plan(fit, pod, row))

    def _plan(self, fit: _JudgesRoom, pod: PodInfo, row: int) -> EvictionPlan | None:
        """Whom to evict from the node: as few and as unimportant pods as possible; None if that does not help."""
        units = sorted((unit for unit in self._units(row) if unit.priority < pod.priority), key=Unit.importance)

        def fits_without(gone: Sequence[Unit]) -> bool:
            return fit.judge_resize(pod, row, list(_on_row(gone, pod.pod.spec.node_name))) is None

        if not units or not fits_without(units):
            return None
        exceeding = violating_units(self.handle.cluster.objects, [unit.pods for unit in units], all_pods=True)
        counts = dict(zip(units, exceeding, strict=True))
        gone = list(units)
        for unit in sorted(units, key=lambda unit: not counts[unit]):
            gone.remove(unit)
            if not fits_without(gone):
                gone.append(unit)
        victims = tuple(info for unit in units if unit in gone for info in unit.pods)
        violations = sum(counts[unit] for unit in gone)
        return EvictionPlan(
            preemptor=pod,
            node_name=pod.pod.spec.node_name,
            victims=victims,
            plugin=_PREEMPTION,
            pdb_violations=violations,
        )

    def _units(self, row: int) -> list[Unit]:
        """What may be evicted: pods on the node, and groups as a whole that have some there."""
        cluster = self.handle.cluster
        if not self.handle.features.enabled("GenericWorkload"):
            infos = cluster.row_pods[row]
            return [Unit([info], info.priority, i, all_starts=True) for i, info in enumerate(infos)]
        name = cluster.table.names[row]
        return [unit for unit in units_of(cluster, but=None, by_group=True) if any(_on_row([unit], name))]

    # -- events -------------------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            on(NODE, Action.UpdateNodePreemptionPolicy, self._after_node_change),
            on(NODE, Action.Add, self._after_node_change),
        )

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        own = self._acts_on(pod) and pod.pod.spec.node_name == new.metadata.name
        return queue_if(own and not _disables(new) and (old is None or _disables(old)))


def _disables(node: Node) -> bool:
    policy = node.spec.pod_preemption_policy
    return policy is not None and bool(policy.disable_resize_preemption)


def _on_row(units: Sequence[Unit], node_name: str) -> Iterator[PodInfo]:
    return (info for unit in units for info in unit.pods if info.node_name == node_name)
