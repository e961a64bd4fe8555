"""Disruption budgets: how many pods one expects, how many are healthy, and which pods may be evicted.

A pod is healthy if it is Ready and not being deleted. If minAvailable is a number, the pods that exist are expected;
otherwise as many as their controllers want.

Upstream: pkg/controller/disruption/disruption.go, pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import field

from stowplan.kube.api.meta import OwnerReference
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.api.policy import PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from stowplan.kube.api.types import ReplicaSet, ReplicationController, StatefulSet
from stowplan.kube.api.whole_numbers import share
from stowplan.kube.structs import PlainStruct

#: Built-in controllers of pods without a scale: budgets with a percentage or maxUnavailable fail for their pods.
_UNSCALED_KINDS = frozenset(("DaemonSet", "Job"))
_SCALED: dict[str, type[Any]] = {kind.__name__: kind for kind in (ReplicaSet, ReplicationController, StatefulSet)}
_UNGUARDED_PHASES = frozenset((*FINISHED, "Pending"))


class ScaleError(ValueError):
    """The number of pods that a controller wants is not known."""


def replicas_of(owner: OwnerReference, find: Callable[[type[Any], str], Any]) -> int | None:
    """The number of pods that a controller wants; None if it is not known. Raises ScaleError if it has none.

    `find`: the object of a kind by name, or None.
    """
    if owner.kind in _UNSCALED_KINDS:
        raise ScaleError(owner.kind)
    kind = _SCALED.get(owner.kind)
    found = None if kind is None else find(kind, owner.name)
    return None if found is None else found.spec.replicas


class BudgetPod(PlainStruct, frozen=True):
    ready: bool
    terminating: bool
    controller: OwnerReference | None

    @property
    def healthy(self) -> bool:
        return self.ready and not self.terminating


class BudgetPods(PlainStruct):
    """The pods that a budget selects, counted as they change."""

    pods: dict[str, BudgetPod] = field(default_factory=dict)
    healthy: int = 0
    #: Pods without a controller.
    unmanaged: int = 0
    #: Number of pods per controller.
    controllers: Counter[OwnerReference] = field(default_factory=Counter)

    def put(self, name: str, pod: BudgetPod) -> bool:
        """Add or replace a pod; return whether anything changed."""
        if self.pods.get(name) == pod:
            return False
        self.drop(name)
        self.pods[name] = pod
        self._count(pod, 1)
        return True

    def drop(self, name: str) -> bool:
        pod = self.pods.pop(name, None)
        if pod is not None:
            self._count(pod, -1)
        return pod is not None

    def _count(self, pod: BudgetPod, by: int) -> None:
        self.healthy += by if pod.healthy else 0
        if pod.controller is None:
            self.unmanaged += by
            return
        self.controllers[pod.controller] += by
        if not self.controllers[pod.controller]:
            del self.controllers[pod.controller]


def expects_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Whether the budget expects the pods that controllers want, not those that exist."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def expected_pods(
    spec: PodDisruptionBudgetSpec, pods: BudgetPods, scale_of: Callable[[OwnerReference], tuple[str, int]]
) -> int:
    """`scale_of` a controller: the uid and size of what scales it, such as a ReplicaSet's Deployment; may raise."""
    if not expects_scale(spec):
        return len(pods.pods)
    return sum(dict(map(scale_of, pods.controllers)).values())


def budget_status(spec: PodDisruptionBudgetSpec, *, expected: int, healthy: int) -> PodDisruptionBudgetStatus:
    """What the disruption controller writes for a budget that expects this many pods."""
    if spec.max_unavailable is not None:
        desired = max(0, expected - share(spec.max_unavailable, expected, round_up=True))
    elif spec.min_available is not None:
        desired = share(spec.min_available, expected, round_up=True)
    else:
        # Upstream expects no pods then, and allows no disruption.
        expected = desired = 0
    return PodDisruptionBudgetStatus(
        # While no pods are expected, none may go: they may be created before the budget is counted again.
        disruptions_allowed=max(0, healthy - desired) if expected else 0,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
    )


class Guard(Protocol):
    """A budget that selects a pod."""

    @property
    def spec(self) -> PodDisruptionBudgetSpec: ...

    @property
    def status(self) -> PodDisruptionBudgetStatus: ...


G = TypeVar("G", bound=Guard)


class SeveralBudgetsError(ValueError):
    """More than one budget selects the pod, so it cannot be evicted."""


def budget_to_charge(phase: str, *, ready: bool, terminating: bool, guards: Sequence[G]) -> G | None:
    """The budget that must allow a disruption if this pod is to be evicted; None: it may be evicted.

    Budgets do not protect pods that are pending, finished or already being deleted, nor, if their policy or their
    health allows it, those that are not Ready. Raises SeveralBudgetsError.
    """
    if phase in _UNGUARDED_PHASES or terminating or not guards:
        return None
    if len(guards) > 1:
        raise SeveralBudgetsError
    [guard] = guards
    return guard if ready or not _lets_unhealthy_go(guard) else None


def _lets_unhealthy_go(guard: Guard) -> bool:
    if guard.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return guard.status.current_healthy >= guard.status.desired_healthy > 0
