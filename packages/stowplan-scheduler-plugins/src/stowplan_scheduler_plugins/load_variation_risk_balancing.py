"""Balance load and its variation: the risk of a node is the mean of average and deviation of its measured load.

The pod's requests are added to the average. The deviation is raised to 1/sensitivity and multiplied by a margin first.
Of cpu and memory, the worse one counts, if both were measured.

Upstream: pkg/trimaran/loadvariationriskbalancing in scheduler-plugins.
"""

from typing import ClassVar

import msgspec
import numpy as np

from stowplan.plugins import (
    MAX_SCORE,
    CycleState,
    Ints,
    Nodes,
    PodInfo,
    Reads,
)
from stowplan.plugins.arguments import FLOAT64, FeatureGates, Pointer, Struct, documented, kind, not_omitted
from stowplan_scheduler_plugins.load import (
    SOURCE_FIELDS,
    Floats,
    LoadArgs,
    LoadPlugin,
    ResourceStats,
    any_metric,
    pod_amounts,
    resource_stats,
)
from stowplan_scheduler_plugins.load_sources import CPU, MEMORY
from stowplan_scheduler_plugins.scores import rounded


class LoadVariationRiskBalancingArgs(LoadArgs, frozen=True):
    schema: ClassVar[Struct] = kind(
        "LoadVariationRiskBalancingArgs",
        **SOURCE_FIELDS,
        safeVarianceMargin=documented(not_omitted(Pointer(FLOAT64)), "What the deviation is multiplied by."),
        safeVarianceSensitivity=documented(
            not_omitted(Pointer(FLOAT64)), "Its inverse is the power that the deviation is raised to."
        ),
    )

    safe_variance_margin: float = 1.0
    safe_variance_sensitivity: float = 1.0

    def completed(self, features: FeatureGates) -> "LoadVariationRiskBalancingArgs":
        margin, sensitivity = self.safe_variance_margin, self.safe_variance_sensitivity
        return msgspec.structs.replace(
            self,
            metric_provider=self.completed_provider(),
            safe_variance_margin=1.0 if margin < 0 else margin,
            safe_variance_sensitivity=1.0 if sensitivity < 0 else sensitivity,
        )


class LoadVariationRiskBalancing(LoadPlugin):
    name = "LoadVariationRiskBalancing"
    short_name = "variation"
    args_type = LoadVariationRiskBalancingArgs
    reads = Reads.NODES

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        milli_cpu, memory = pod_amounts(pod, "requests")
        cpu = resource_stats(self._measurements, nodes, CPU, milli_cpu)
        mem = resource_stats(self._measurements, nodes, MEMORY, memory)
        of_cpu, of_memory = self._of_resource(cpu), self._of_resource(mem)
        both = np.where(cpu.known & mem.known, np.minimum(of_cpu, of_memory), np.maximum(of_cpu, of_memory))
        _, measured = self._measurements.column(nodes, any_metric)
        return np.where(measured, rounded(both), 0)

    def _of_resource(self, stats: ResourceStats) -> Floats:
        mean, deviation = stats.within_capacity().mean_and_deviation()
        sensitivity = self.args.safe_variance_sensitivity
        power = 1 / sensitivity if sensitivity else np.inf
        risk = (mean + np.clip(deviation**power * self.args.safe_variance_margin, 0.0, 1.0)) / 2
        return np.where(stats.known & (stats.capacity > 0), (1.0 - risk) * MAX_SCORE, 0.0)
