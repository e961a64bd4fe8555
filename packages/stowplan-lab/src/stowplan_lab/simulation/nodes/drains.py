"""Drain nodes: cordon them, evict pods subject to disruption budgets, and continue when none are left.

An eviction that a budget does not allow is retried every 5 seconds. Pods of DaemonSets stay. Budgets are kept as the
disruption controller does: a pod counts as healthy once it has a node and is not being deleted. Preemption reads the
allowance from the budget's status, as on a cluster; drains ask here.

Upstream: pkg/controller/disruption/disruption.go, k8s.io/kubectl/pkg/drain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from stowplan.ask.what_if.hypothetical_pods import EvictionOutcome, eviction_outcome
from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.label_selectors import Selector, SelectorError, compile_label_selector
from stowplan.kube.api.pod import FINISHED, Pod
from stowplan.kube.api.policy import budget_status
from stowplan.kube.api.port import Change
from stowplan.kube.api.taints import NO_SCHEDULE, UNSCHEDULABLE
from stowplan.kube.api.types import PodDisruptionBudget
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.requests import Update
from stowplan_lab.simulation.nodes.fleet import Fleet
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.simulation_context import SimulationContext


class _Budget:
    def __init__(self, budget: PodDisruptionBudget, selector: Selector) -> None:
        self.name = budget.metadata.name
        self.namespace = budget.metadata.namespace
        self.spec = budget.spec
        self._selector = selector
        self.healthy = 0
        self.expected = 0

    def matches(self, pod: Pod) -> bool:
        return pod.metadata.namespace == self.namespace and self._selector.matches(pod.metadata.labels)

    @property
    def allowed(self) -> int:
        return budget_status(self.spec, expected=self.expected, healthy=self.healthy).disruptions_allowed


class BudgetController:
    """A `simulate.cluster.Watcher`."""

    def __init__(self, context: SimulationContext) -> None:
        self._context = context
        self._budgets: list[_Budget] = []
        self._outdated: dict[str, _Budget] = {}

    def changed(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        kind = type(new if old is None else old)
        if kind is PodDisruptionBudget:
            if old is None:
                self._add(new)
        elif kind is Pod and self._budgets:
            for pod, sign in ((old, -1), (new, 1)):
                if pod is not None and pod.status.phase not in FINISHED:
                    self._count(pod, sign)

    def _add(self, given: PodDisruptionBudget) -> None:
        try:
            selector = compile_label_selector(given.spec.selector)
        except SelectorError as error:
            self._context.note(f"budget {given.metadata.namespace}/{given.metadata.name}: {error}")
            return
        budget = _Budget(given, selector)
        self._budgets.append(budget)
        for entry in self._context.ledger.entries():
            if budget.matches(entry.pod):
                budget.expected += 1
                budget.healthy += bool(entry.node)
        self._write_soon(budget)

    def _count(self, pod: Pod, sign: int) -> None:
        for budget in self._budgets:
            if budget.matches(pod):
                budget.expected += sign
                if pod.spec.node_name and not pod.metadata.deletion_timestamp:
                    budget.healthy += sign
                self._write_soon(budget)

    def _write_soon(self, budget: _Budget) -> None:
        if not self._outdated:
            self._context.soon(self._write)
        self._outdated[f"{budget.namespace}/{budget.name}"] = budget

    def _write(self) -> None:
        for budget in self._outdated.values():
            found = self._context.store.find(PodDisruptionBudget, budget.namespace, budget.name)
            if found is not None and found.status.disruptions_allowed != budget.allowed:
                status = replace(found.status, disruptions_allowed=budget.allowed)
                self._context.time.write(Update(obj=replace(found, status=status)))
        self._outdated.clear()

    def allows(self, entry: Entry) -> bool:
        """Whether the pod may be evicted now, as in the eviction API."""
        found = [budget for budget in self._budgets if budget.matches(entry.pod)]
        return not found or (len(found) == 1 and (found[0].allowed > 0 or not entry.node))


#: Seconds between retries of evictions, and until pods that leave are checked.
_AGAIN, _SOON = 5.0, 1.0


class _Drain(PlainStruct, eq=False):
    """A node being drained."""

    node: str
    why: str
    then: Callable[[], object]
    asks_budgets: bool


class Drains:
    def __init__(self, context: SimulationContext, fleet: Fleet, budgets: BudgetController) -> None:
        self._context = context
        self._fleet = fleet
        self._budgets = budgets

    def begin(self, node: str, why: str, then: Callable[[], object], *, asks_budgets: bool = True) -> None:
        """`why`: the reason recorded for its pods; `then` is called when they, or the node, are gone."""
        self._fleet.update(node, unschedulable=True)
        self._fleet.taint(node, Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE))
        self._evict(_Drain(node, why, then, asks_budgets))

    def _evict(self, drain: _Drain) -> None:
        if drain.node not in self._fleet.nodes:
            drain.then()
            return
        left = [
            entry
            for entry in self._context.entries_on(drain.node)
            if eviction_outcome(entry.pod) is not EvictionOutcome.BELONGS_TO_NODE
        ]
        for entry in left:
            if not entry.why and (not drain.asks_budgets or self._budgets.allows(entry)):
                self._context.delete(entry, drain.why)
        if left:
            # Pods that are terminating are gone soon.
            wait = _SOON if all(entry.why for entry in left) else _AGAIN
            self._context.later(wait, partial(self._evict, drain))
        else:
            drain.then()
