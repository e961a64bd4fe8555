"""Disruption budgets while pods leave and return.

A budget's status has the number of allowed disruptions. If there is none, as in manifests, it is computed from the
matching pods and their controllers; a controller that is not known wants the pods that it has. An evicted pod counts
against its budgets until its replacement has a node.

Preemption reads the status as well, so `AllowedDisruptions` keeps it as the disruption controller would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from stowplan.ask.offline import Cluster
from stowplan.kube.api import budgets
from stowplan.kube.api.label_selectors import Selector, SelectorError, compile_label_selector
from stowplan.kube.api.meta import OwnerReference, controller_of
from stowplan.kube.api.policy import PodDisruptionBudgetStatus
from stowplan.kube.api.types import PodDisruptionBudget
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.objects import key_of
from stowplan.scheduler.cluster.pod_info import PodInfo

_UNKNOWN = PodDisruptionBudgetStatus()


class _Budget(PlainStruct, eq=False):
    name: str
    namespace: str
    selector: Selector
    budget: PodDisruptionBudget
    #: What it allows now.
    left: int

    @property
    def spec(self) -> Any:
        return self.budget.spec

    @property
    def status(self) -> PodDisruptionBudgetStatus:
        return self.budget.status


class Budgets:
    def __init__(self, cluster: Cluster) -> None:
        #: Budgets whose status was computed here.
        self.worked_out: list[str] = []
        self._known: list[_Budget] = []
        for budget, selector in _readable(cluster):
            namespace = budget.metadata.namespace or "default"
            name = f"{namespace}/{budget.metadata.name}"
            if budget.status == _UNKNOWN:
                self.worked_out.append(name)
                budget = replace(budget, status=_computed_status(cluster, budget, selector))
            self._known.append(_Budget(name, namespace, selector, budget, budget.status.disruptions_allowed))

    def of(self, info: PodInfo) -> list[_Budget]:
        """The budgets that cover a pod."""
        return [one for one in self._known if _matches(info, one.namespace, one.selector)]

    def refusal(self, info: PodInfo) -> tuple[str, str] | None:
        """(the budget, why it does not allow the eviction)."""
        try:
            charged = _charged(info, self.of(info))
        except budgets.SeveralBudgetsError:
            names = ", ".join(one.name for one in self.of(info))
            return names, "a pod with more than one disruption budget cannot be evicted"
        if charged is not None and charged.left <= 0:
            return charged.name, "the budget allows no disruption now"
        return None

    def saved(self) -> list[int]:
        """What they allow now, to `restore` it."""
        return [one.left for one in self._known]

    def restore(self, saved: list[int]) -> None:
        for one, left in zip(self._known, saved, strict=True):
            one.left = left

    def evicted(self, pod: PodInfo) -> None:
        self._change(pod, -1)

    def mark_recreated(self, pod: PodInfo) -> None:
        """The recreated pod has a node: return its disruption to its budgets."""
        self._change(pod, 1)

    def _change(self, pod: PodInfo, by: int) -> None:
        # Deletions ignore budgets, and disrupt each of several.
        for one in self.of(pod):
            one.left += by if _charged(pod, [one]) is not None else 0


class AllowedDisruptions:
    """How many disruptions the budgets allow while pods come and go; for budgets with a status."""

    def __init__(self, cluster: Cluster) -> None:
        """Before anything changes."""
        self._cluster = cluster
        self._known = [
            (key_of(budget.metadata), selector, _slack(budget.status))
            for budget, selector in _readable(cluster)
            if budget.status != _UNKNOWN
        ]
        self._healthy = self._count()

    def follow(self) -> None:
        """Write what they allow now."""
        objects = self._cluster.state.objects
        for (key, _, slack), before, now in zip(self._known, self._healthy, self._count(), strict=True):
            budget = objects.get(PodDisruptionBudget, key)
            allowed = max(0, slack + now - before)
            if budget is not None and allowed != budget.status.disruptions_allowed:
                status = replace(budget.status, disruptions_allowed=allowed)
                self._cluster.add(replace(budget, status=status))

    def _count(self) -> list[int]:
        """The healthy pods of each budget."""
        found = [0] * len(self._known)
        by_namespace: dict[str, list[tuple[int, Selector]]] = {}
        for number, (key, selector, _) in enumerate(self._known):
            by_namespace.setdefault(key.partition("/")[0], []).append((number, selector))
        placed = self._cluster.state.placed_pods() if by_namespace else ()
        # Those of removed nodes are gone.
        for info in (info for info in placed if info.row >= 0):
            for number, selector in by_namespace.get(info.namespace, ()):
                # In this order: budgets select few pods, and conditions are slow to read.
                if selector.matches(info.shape.labels) and _budget_pod(info).healthy:
                    found[number] += 1
        return found


def _slack(status: PodDisruptionBudgetStatus) -> int:
    """Negative if more pods have to become healthy before one may be disrupted."""
    return status.disruptions_allowed or min(0, status.current_healthy - status.desired_healthy)


def _readable(cluster: Cluster) -> Iterator[tuple[PodDisruptionBudget, Selector]]:
    """Budgets with a selector. Unlike in preemption, an empty one selects every pod of its namespace."""
    for budget in cluster.state.objects.all(PodDisruptionBudget):
        try:
            selector = compile_label_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.nothing:
            yield budget, selector


def _computed_status(cluster: Cluster, budget: PodDisruptionBudget, selector: Selector) -> PodDisruptionBudgetStatus:
    """The status of a budget in files, as the disruption controller would compute it."""
    namespace, state = budget.metadata.namespace or "default", cluster.state
    pods = budgets.BudgetPods()
    for info in (*state.placed_pods(), *state.pending.values()):
        if _matches(info, namespace, selector):
            pods.put(info.key, _budget_pod(info))

    def scale_of(owner: OwnerReference) -> tuple[str, int]:
        replicas = budgets.replicas_of(owner, lambda kind, name: state.objects.get(kind, f"{namespace}/{name}"))
        return f"{owner.kind}/{owner.name}", pods.controllers[owner] if replicas is None else replicas

    try:
        expected = budgets.expected_pods(budget.spec, pods, scale_of)
    except budgets.ScaleError:
        return _UNKNOWN
    return budgets.budget_status(budget.spec, expected=expected, healthy=pods.healthy)


def _charged(info: PodInfo, guards: Sequence[_Budget]) -> _Budget | None:
    pod = info.pod
    terminating = pod.metadata.deletion_timestamp is not None
    return budgets.budget_to_charge(pod.status.phase, ready=_is_ready(info), terminating=terminating, guards=guards)


def _budget_pod(info: PodInfo) -> budgets.BudgetPod:
    metadata = info.pod.metadata
    terminating = metadata.deletion_timestamp is not None
    ready = bool(info.node_name) and _is_ready(info)
    return budgets.BudgetPod(ready=ready, terminating=terminating, controller=controller_of(metadata))


def _is_ready(info: PodInfo) -> bool:
    """Whether a placed pod is Ready; one without the condition, as in manifests, counts as if it were."""
    conditions = info.pod.status.conditions
    return all(one.status == "True" for one in conditions if one.type == "Ready")


def _matches(info: PodInfo, namespace: str, selector: Selector) -> bool:
    return info.namespace == namespace and selector.matches(info.shape.labels)
