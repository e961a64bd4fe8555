"""Disruption budgets during a drain.

A budget's status has the number of allowed disruptions. If there is none, as in manifests, it is computed from the
matching pods. An evicted pod counts against its budgets until its replacement has a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.label_selectors import SelectorError, compile_label_selector
from stowplan.api.policy import PodDisruptionBudgetStatus
from stowplan.api.types import PodDisruptionBudget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.api.label_selectors import Selector
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.offline import Cluster

_UNKNOWN = PodDisruptionBudgetStatus()


class Budgets:
    def __init__(self, cluster: Cluster) -> None:
        #: Budgets whose status was computed here.
        self.worked_out: list[str] = []
        self._known: list[tuple[str, str, Selector]] = []
        self._left: dict[str, int] = {}
        for budget, selector in _readable(cluster):
            name = f"{budget.metadata.namespace or 'default'}/{budget.metadata.name}"
            self._known.append((name, budget.metadata.namespace or "default", selector))
            self._left[name] = self._allowed(cluster, name, budget, selector)

    def _allowed(self, cluster: Cluster, name: str, budget: PodDisruptionBudget, selector: Selector) -> int:
        if budget.status != _UNKNOWN:
            return budget.status.disruptions_allowed
        self.worked_out.append(name)
        namespace = budget.metadata.namespace or "default"
        healthy = sum(_matches(info, namespace, selector) for info in cluster.state.placed_pods())
        waiting = sum(_matches(info, namespace, selector) for info in cluster.state.pending.values())
        spec, expected = budget.spec, healthy + waiting
        if spec.max_unavailable is not None:
            return healthy - (expected - _share(spec.max_unavailable, expected))
        return healthy - _share(1 if spec.min_available is None else spec.min_available, expected)

    def of(self, info: PodInfo) -> list[str]:
        """The budgets that cover a pod."""
        return [name for name, namespace, selector in self._known if _matches(info, namespace, selector)]

    def refusal(self, info: PodInfo) -> tuple[str, str] | None:
        """(the budget, why it does not allow the eviction)."""
        found = self.of(info)
        if len(found) > 1:
            return ", ".join(found), "a pod with more than one disruption budget cannot be evicted"
        for name in found:
            if self._left[name] <= 0:
                return name, "the budget allows no disruption now"
        return None

    def evicted(self, pod: PodInfo) -> None:
        for name in self.of(pod):
            self._left[name] -= 1

    def back(self, pod: PodInfo) -> None:
        """The recreated pod has a node: return its disruption to its budgets."""
        for name in self.of(pod):
            self._left[name] += 1


def _readable(cluster: Cluster) -> Iterator[tuple[PodDisruptionBudget, Selector]]:
    """Budgets with a selector. Unlike in preemption, an empty one selects every pod of its namespace."""
    for budget in cluster.state.objects.all(PodDisruptionBudget):
        try:
            selector = compile_label_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.nothing:
            yield budget, selector


def _matches(info: PodInfo, namespace: str, selector: Selector) -> bool:
    return info.namespace == namespace and selector.matches(info.shape.labels)


def _share(number: int | str, of: int) -> int:
    """A number, or a percentage rounded up, as in the disruption controller."""
    if isinstance(number, int):
        return number
    return -(-int(number.removesuffix("%")) * of // 100) if number.removesuffix("%").isdigit() else 0
