"""The disruption controller: counts the pods of each budget, and writes what it allows into its status.

Preemption reads that status, as on a cluster; drains ask here.

Upstream: pkg/controller/disruption.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stowplan.kube.api import budgets
from stowplan.kube.api.label_selectors import Selector, SelectorError, compile_label_selector
from stowplan.kube.api.meta import OwnerReference, controller_of
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.policy import PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import PodDisruptionBudget
from stowplan.scheduler.framework.requests import Update
from stowplan_lab.simulation.nodes.running_pods import Kubelets
from stowplan_lab.simulation.results.ledger import Entry, Owner
from stowplan_lab.simulation.simulation_context import SimulationContext


class _Budget:
    """Its pods are known by their UIDs."""

    def __init__(self, budget: PodDisruptionBudget, selector: Selector, controllers: _Controllers) -> None:
        self.name = budget.metadata.name
        self.namespace = budget.metadata.namespace
        self.spec: PodDisruptionBudgetSpec = budget.spec
        self.pods = budgets.BudgetPods()
        self._selector = selector
        self._controllers = controllers

    def selects(self, pod: Pod) -> bool:
        return pod.metadata.namespace == self.namespace and self._selector.matches(pod.metadata.labels)

    @property
    def status(self) -> PodDisruptionBudgetStatus:
        try:
            expected = budgets.expected_pods(self.spec, self.pods, self._scale_of)
        except budgets.ScaleError:
            return PodDisruptionBudgetStatus()
        return budgets.budget_status(self.spec, expected=expected, healthy=self.pods.healthy)

    def _scale_of(self, owner: OwnerReference) -> tuple[str, int]:
        return self._controllers.scale_of(owner, self.namespace) or (owner.uid, self.pods.controllers[owner])


class _Controllers:
    """How many pods controllers want."""

    def __init__(self, context: SimulationContext) -> None:
        self._store = context.store
        #: UID in the pods' references -> its model.
        self._models: dict[str, Owner] = {}

    def note(self, entry: Entry) -> None:
        reference = controller_of(entry.pod.metadata)
        if reference is not None and entry.origin.owner is not None:
            self._models[reference.uid] = entry.origin.owner

    def scale_of(self, owner: OwnerReference, namespace: str) -> tuple[str, int] | None:
        """UID and size; None if unknown, as for owners of the initial pods that are in no file."""
        model = self._models.get(owner.uid)
        replicas: int | None = getattr(model, "replicas", None)
        if replicas is not None:
            # Several ReplicaSets of a Deployment have one model.
            return str(id(model)), replicas
        replicas = budgets.replicas_of(owner, lambda kind, name: self._store.find(kind, namespace, name))
        return None if replicas is None else (owner.uid, replicas)


class BudgetController:
    """A `simulate.cluster.Watcher`; must come after the ledger."""

    def __init__(self, context: SimulationContext, kubelets: Kubelets) -> None:
        self._context = context
        self._kubelets = kubelets
        self._budgets: list[_Budget] = []
        self._controllers = _Controllers(context)
        self._outdated: dict[str, _Budget] = {}

    def changed(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        kind = type(new if old is None else old)
        if kind is PodDisruptionBudget:
            if old is None:
                self._add(new)
        elif kind is Pod and self._budgets:
            self._count(old if new is None else new, gone=new is None)

    def _add(self, given: PodDisruptionBudget) -> None:
        try:
            selector = compile_label_selector(given.spec.selector)
        except SelectorError as error:
            self._context.note(f"budget {given.metadata.namespace}/{given.metadata.name}: {error}")
            return
        if not self._budgets:
            self._kubelets.observers.append(self._readiness_changed)
        self._budgets.append(_Budget(given, selector, self._controllers))
        for pod in self._context.store.list(Pod, given.metadata.namespace):
            self._count(pod)
        self._write_soon(self._budgets[-1])

    def _readiness_changed(self, entry: Entry) -> None:
        metadata = entry.pod.metadata
        pod = self._context.store.find(Pod, metadata.namespace, metadata.name)
        if pod is not None:
            self._count(pod)

    def _count(self, pod: Pod, *, gone: bool = False) -> None:
        metadata = pod.metadata
        found: budgets.BudgetPod | None = None
        for budget in self._budgets:
            if gone or not budget.selects(pod):
                changed = budget.pods.drop(metadata.uid)
            else:
                found = found or self._budget_pod(pod)
                changed = budget.pods.put(metadata.uid, found)
            if changed:
                self._write_soon(budget)

    def _budget_pod(self, pod: Pod) -> budgets.BudgetPod:
        metadata = pod.metadata
        entry = self._context.ledger.of(metadata.uid)
        if entry is not None:
            self._controllers.note(entry)
        return budgets.BudgetPod(
            ready=entry is not None and entry.starts <= self._context.now,
            terminating=metadata.deletion_timestamp is not None,
            controller=controller_of(metadata),
        )

    def _write_soon(self, budget: _Budget) -> None:
        if not self._outdated:
            self._context.soon(self._write)
        self._outdated[f"{budget.namespace}/{budget.name}"] = budget

    def _write(self) -> None:
        for budget in self._outdated.values():
            found = self._context.store.find(PodDisruptionBudget, budget.namespace, budget.name)
            if found is not None and found.status != (status := budget.status):
                self._context.time.write(Update(obj=replace(found, status=status)))
        self._outdated.clear()

    def allows(self, entry: Entry) -> bool:
        """Whether the pod may be evicted now, as by the eviction API."""
        guards = [budget for budget in self._budgets if budget.selects(entry.pod)]
        if not guards:
            return True
        status = self._context.reported(entry.pod.metadata.name, entry.pod.metadata.uid)
        try:
            charged = budgets.budget_to_charge(
                status.phase, ready=status.ready, terminating=bool(entry.why), guards=guards
            )
        except budgets.SeveralBudgetsError:
            return False
        return charged is None or charged.status.disruptions_allowed > 0
