"""What a cluster autoscaler asks a scheduler, between its steps: would pods fit on a new node, or without one of these?

The scheduler's own filters answer; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from stowplan.ask.what_if.node_shares import requested_shares
from stowplan.kube.api.eviction_outcomes import belongs_to_node
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.pod_info import PodInfo, uid_of
from stowplan.scheduler.engine.engine import Engine


class NodeTrials:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def accepted(self, node: Node, pods: Iterable[PodInfo]) -> set[str]:
        """UIDs of the pods that pass the filters on a new node."""
        state, name = self._engine.state, node.metadata.name
        verdicts: dict[Any, bool] = {}
        accepted = set()
        with state.transaction():
            state.add_node(node)
            row = state.table.row_of[name]
            for info in pods:
                known = verdicts.get(info.shape)
                if known is None:
                    feasible = self._feasible(info)
                    known = verdicts[info.shape] = feasible is not None and bool(feasible[row])
                if known:
                    accepted.add(info.uid)
        return accepted

    def accepted_pods(self, node: Node, pods: Sequence[Pod]) -> set[str]:
        return self.accepted(node, map(self._engine.state.pod_info, pods))

    def refusals(self, node: Node, pods: Sequence[Pod]) -> dict[str, Sequence[str]]:
        """UID -> why the filters keep the pod off a new node, in the scheduler's words."""
        state = self._engine.state
        reasons: dict[Any, Sequence[str]] = {}
        found = {}
        with state.transaction():
            state.add_node(node)
            row = state.table.row_of[node.metadata.name]
            for info in map(state.pod_info, pods):
                if info.shape not in reasons:
                    reasons[info.shape] = self._reasons(info, row)
                found[info.uid] = reasons[info.shape]
        return found

    def _reasons(self, info: PodInfo, row: int) -> Sequence[str]:
        framework = self._engine.framework_for(info)
        if framework is None:
            return ()
        evaluation, outcome = self._engine.algorithm.filtered(framework, info)
        status = outcome.error or outcome.ended_early
        if status is None:
            status = (outcome.diagnosis or evaluation.diagnosis(outcome.refused)).status(row)
        return () if status is None else status.shown_reasons

    def fit_elsewhere(self, node: str, pods: Sequence[Pod]) -> bool:
        """Whether there is room for all of a node's pods on others, one after the other."""
        state = self._engine.state
        if node not in state.table.row_of:
            return False
        with state.transaction():
            for pod in pods:
                state.remove_pod(uid_of(pod))
            for pod in pods:
                info = state.pod_info(replace(pod, spec=replace(pod.spec, node_name="")))
                feasible = self._feasible(info)
                if feasible is None:
                    return False
                feasible[state.table.row_of[node]] = False
                if not feasible.any():
                    return False
                state.assume(info, state.table.names[int(feasible.argmax())])
        return True

    def _feasible(self, info: PodInfo) -> Any:
        """A mask of nodes, or None."""
        framework = self._engine.framework_for(info)
        if framework is None:
            return None
        _, outcome = self._engine.algorithm.filtered(framework, info)
        return None if outcome.error is not None else np.array(outcome.feasible)

    def shares(self, nodes: Sequence[str]) -> Mapping[str, float]:
        """The larger share of cpu and memory that is requested, of the nodes that the scheduler knows."""
        table = self._engine.state.table
        names = [name for name in nodes if name in table.row_of]
        if not names:
            return {}
        shares = requested_shares(table, [table.row_of[name] for name in names]).max(axis=0)
        return dict(zip(names, shares.tolist(), strict=True))

    def is_wanted(self, node: str) -> bool:
        """Whether pods that do not belong to the node are assigned to it, bound or being bound."""
        state = self._engine.state
        row = state.table.row_of.get(node)
        return row is not None and any(not belongs_to_node(info.pod) for info in state.row_pods[row])
