"""Avoid nodes whose pods may use more than there is: by their limits, and by measured load.

The risk of limits is the share of what lies above capacity in what lies above requests. The risk of load is the
probability that the measured load exceeds what is requested, with a beta distribution of its average and deviation,
under the condition that it does not exceed the limits. Both are weighted; the worse of cpu and memory counts.

Upstream: pkg/trimaran/lowriskovercommitment in scheduler-plugins.
"""

import math
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from stowplan.plugins import (
    MAX_SCORE,
    CycleState,
    Ints,
    Nodes,
    PodInfo,
    PreScorePlugin,
    Reads,
    Status,
)
from stowplan.plugins.arguments import FLOAT64, INT64, FeatureGates, Map, Struct, documented, kind
from stowplan_scheduler_plugins.beta_distribution import fitted, probability_below
from stowplan_scheduler_plugins.load import (
    SOURCE_FIELDS,
    Floats,
    LoadArgs,
    LoadPlugin,
    any_metric,
    pod_amounts,
    resource_stats,
)
from stowplan_scheduler_plugins.load_sources import CPU, MEMORY
from stowplan_scheduler_plugins.scores import rounded

#: The deviation is kept this close to the largest one that a beta distribution can have.
_MAX_VARIANCE = 0.99


class LowRiskOverCommitmentArgs(LoadArgs, frozen=True):
    schema: ClassVar[Struct] = kind(
        "LowRiskOverCommitmentArgs",
        **SOURCE_FIELDS,
        smoothingWindowSize=documented(INT64, "Number of measurements that an average is made of."),
        riskLimitWeights=documented(Map(FLOAT64), "By resource, what the risk of limits counts; the rest is load's."),
    )

    smoothing_window_size: int = 0
    risk_limit_weights: dict[str, float] = msgspec.field(default_factory=dict)

    def completed(self, features: FeatureGates) -> "LowRiskOverCommitmentArgs":
        weights = self.risk_limit_weights or {"cpu": 0.5, "memory": 0.5}
        return msgspec.structs.replace(
            self,
            metric_provider=self.completed_provider(),
            smoothing_window_size=self.smoothing_window_size if self.smoothing_window_size > 0 else 5,
            risk_limit_weights={name: weight if 0 <= weight <= 1 else 0.5 for name, weight in weights.items()},
        )


class Totals(NamedTuple):
    """Requests and limits of the pods of a node, in milli-CPU or bytes; limits are at least the requests."""

    requests: Ints
    limits: Ints


class LowRiskOverCommitment(PreScorePlugin, LoadPlugin):
    name = "LowRiskOverCommitment"
    short_name = "low risk"
    args_type = LowRiskOverCommitmentArgs
    reads = Reads.NODE_PODS

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        # The reference computes the pod's requests here; `pod_amounts` keeps them for all equal pods.
        return None

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        own = _requests_and_limits(pod)
        if not any(own):
            return np.zeros(len(nodes), np.int64)
        cpu, memory = _totals(nodes)
        of_cpu = self._risks(nodes, CPU, cpu, (own[0], own[2]))
        of_memory = self._risks(nodes, MEMORY, memory, (own[1], own[3]))
        _, measured = self._measurements.column(nodes, any_metric)
        return np.where(measured, rounded((1 - np.maximum(of_cpu, of_memory)) * MAX_SCORE), 0)

    def _risks(self, nodes: Nodes, type_: str, others: Totals, own: tuple[int, int]) -> Floats:
        resource = "cpu" if type_ == CPU else "memory"
        capacity = nodes.allocatable(nodes.table.resources[resource])
        limits = others.limits + own[1]
        over, span = (limits - capacity).astype(np.float64), limits - np.minimum(others.requests + own[0], capacity)
        of_limits = np.where(over > 0, over / np.where(span != 0, span, 1), 0.0)
        weight = self.args.risk_limit_weights.get(resource, 0.5)
        of_load = self._risks_of_load(nodes, type_, others, capacity)
        risks: Floats = np.clip(weight * of_limits + (1 - weight) * of_load, 0.0, 1.0)
        return risks

    def _risks_of_load(self, nodes: Nodes, type_: str, others: Totals, capacity: Ints) -> Floats:
        stats = resource_stats(self._measurements, nodes, type_, 0)
        means, deviations = stats.mean_and_deviation()
        deviations = deviations * self.args.smoothing_window_size**0.5
        deviations = np.minimum(deviations, np.sqrt(means * (1 - means) * _MAX_VARIANCE))
        requests = np.minimum(others.requests, capacity)
        risks = np.zeros(len(nodes))
        # A distribution per node, for those that were measured.
        for i in np.flatnonzero(stats.known):
            share = Shares(int(requests[i]), int(others.limits[i]), int(capacity[i]))
            risks[i] = 1 - probability_within(float(means[i]), float(deviations[i]), share)
        return risks


class Shares(NamedTuple):
    requests: int
    limits: int
    capacity: int


def probability_within(mean: float, deviation: float, node: Shares) -> float:
    """The probability that the load stays within the requests, given that it stays within the limits."""
    threshold = min(max(_ratio(node.requests, node.capacity), 0.0), 1.0)
    distribution = None if mean == 0 or deviation == 0 else fitted(mean, deviation)
    if mean == 0 or (deviation == 0 and mean <= threshold):
        probability = 1.0
    else:
        probability = 0.0 if distribution is None else probability_below(threshold, *distribution)
    if not (node.limits < node.capacity and node.requests <= node.limits):
        return probability
    limit = _ratio(node.limits, node.capacity)
    if limit == 0:
        return 1.0
    within_limits = 0.0 if distribution is None else probability_below(limit, *distribution)
    return min(max(probability / within_limits, 0.0), 1.0) if within_limits > 0 else probability


def _ratio(amount: int, capacity: int) -> float:
    if capacity:
        return amount / capacity
    return math.inf if amount else math.nan


def _requests_and_limits(pod: PodInfo) -> tuple[int, int, int, int]:
    """Requests of cpu and memory, and limits, which are at least the requests."""
    cpu, memory = pod_amounts(pod, "requests")
    cpu_limit, memory_limit = pod_amounts(pod, "limits")
    return cpu, memory, max(cpu, cpu_limit), max(memory, memory_limit)


def _totals(nodes: Nodes) -> tuple[Totals, Totals]:
    """Of cpu and of memory, per node."""
    found = np.zeros((4, len(nodes)), np.int64)
    for i in np.flatnonzero(nodes.take(nodes.table.valid)).tolist():
        pods = nodes.pods(i)
        if pods:
            found[:, i] = np.sum([_requests_and_limits(pod) for pod in pods], axis=0)
    return Totals(found[0], found[2]), Totals(found[1], found[3])
