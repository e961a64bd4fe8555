"""Disruption budgets while pods leave and return.

A budget's status has the number of allowed disruptions. If there is none, as in manifests, it is computed from the
matching pods. An evicted pod counts against its budgets until its replacement has a node.

Preemption reads the status as well, so `AllowedDisruptions` keeps it as the disruption controller would.

Pods that are not Ready are evicted without counting if the budget's policy is AlwaysAllow, or the budget is met.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stowplan.ask.offline import Cluster
from stowplan.kube.api.label_selectors import Selector, SelectorError, compile_label_selector
from stowplan.kube.api.policy import PodDisruptionBudgetStatus, budget_status
from stowplan.kube.api.types import PodDisruptionBudget
from stowplan.scheduler.cluster.object_dependencies import key_of
from stowplan.scheduler.cluster.pod_info import PodInfo

_UNKNOWN = PodDisruptionBudgetStatus()


class Budgets:
    def __init__(self, cluster: Cluster) -> None:
        #: Budgets whose status was computed here.
        self.worked_out: list[str] = []
        self._known: list[tuple[str, str, Selector]] = []
        self._left: dict[str, int] = {}
        #: Budgets that do not count pods that are not Ready.
        self._lets_unhealthy_go: set[str] = set()
        for budget, selector in _readable(cluster):
            name = f"{budget.metadata.namespace or 'default'}/{budget.metadata.name}"
            self._known.append((name, budget.metadata.namespace or "default", selector))
            if budget.status == _UNKNOWN:
                self.worked_out.append(name)
                status = _computed_status(cluster, budget, selector)
            else:
                status = budget.status
            self._left[name] = status.disruptions_allowed
            met = status.current_healthy >= status.desired_healthy > 0
            if met or budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
                self._lets_unhealthy_go.add(name)

    def of(self, info: PodInfo) -> list[str]:
        """The budgets that cover a pod."""
        return [name for name, namespace, selector in self._known if _matches(info, namespace, selector)]

    def refusal(self, info: PodInfo) -> tuple[str, str] | None:
        """(the budget, why it does not allow the eviction)."""
        found = self.of(info)
        if len(found) > 1:
            return ", ".join(found), "a pod with more than one disruption budget cannot be evicted"
        for name in found:
            if self._left[name] <= 0 and not self._goes_uncounted(name, info):
                return name, "the budget allows no disruption now"
        return None

    def _goes_uncounted(self, name: str, info: PodInfo) -> bool:
        return name in self._lets_unhealthy_go and not _is_healthy(info)

    def evicted(self, pod: PodInfo) -> None:
        for name in self.of(pod):
            self._left[name] -= not self._goes_uncounted(name, pod)

    def mark_recreated(self, pod: PodInfo) -> None:
        """The recreated pod has a node: return its disruption to its budgets."""
        for name in self.of(pod):
            self._left[name] += not self._goes_uncounted(name, pod)


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
        pods: dict[str, list[PodInfo]] = {}
        for info in self._cluster.state.placed_pods() if self._known else ():
            if _is_healthy(info):
                pods.setdefault(info.namespace, []).append(info)
        return [
            sum(selector.matches(info.shape.labels) for info in pods.get(key.partition("/")[0], ()))
            for key, selector, _ in self._known
        ]


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
    healthy = sum(_is_healthy(info) for info in state.placed_pods() if _matches(info, namespace, selector))
    expected = sum(_matches(info, namespace, selector) for info in (*state.placed_pods(), *state.pending.values()))
    return budget_status(budget.spec, expected=expected, healthy=healthy)


def _is_healthy(info: PodInfo) -> bool:
    """Whether a placed pod is Ready; one without the condition, as in manifests, counts as if it were."""
    return all(condition.status == "True" for condition in info.pod.status.conditions if condition.type == "Ready")


def _matches(info: PodInfo, namespace: str, selector: Selector) -> bool:
    return info.namespace == namespace and selector.matches(info.shape.labels)
