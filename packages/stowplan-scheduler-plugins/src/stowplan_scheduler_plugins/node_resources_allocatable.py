"""Prefer nodes by the size of their allocatable resources, whatever is requested: the smallest, or the largest.

The raw score is a weighted mean of allocatable amounts (milli-CPU, bytes, counts), negative in mode Least. Resources
that are not counted per node, such as `pods`, contribute nothing, but their weight divides as well.

Upstream: pkg/noderesources in scheduler-plugins.
"""

from collections.abc import Iterator
from typing import ClassVar

import msgspec
import numpy as np

from stowplan.plugins import CycleState, Ints, Mask, Nodes, PodInfo, Reads, ReadsNoObjects, ScorePlugin, TemplateSigned
from stowplan.plugins.arguments import Args, FeatureGates, Slice, Struct, documented, invalid, kind, named_string
from stowplan_scheduler_plugins.scores import lowest_to_highest, truncated
from stowplan_scheduler_plugins.weighted_resources import RESOURCE, WeightedResource

LEAST, MOST = "Least", "Most"
#: A milli-CPU counts as much as a MiB.
_DEFAULT_RESOURCES = (WeightedResource("cpu", 1 << 20), WeightedResource("memory", 1))


class NodeResourcesAllocatableArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "NodeResourcesAllocatableArgs",
        resources=documented(Slice(RESOURCE), "The resources that count, with weights per milli-CPU, byte or unit."),
        mode=documented(
            named_string("v1.ModeType"), "Least prefers small nodes, Most large ones.", choices=(LEAST, MOST)
        ),
    )

    resources: tuple[WeightedResource, ...] = ()
    mode: str = LEAST

    def completed(self, features: FeatureGates) -> "NodeResourcesAllocatableArgs":
        return msgspec.structs.replace(self, resources=self.resources or _DEFAULT_RESOURCES, mode=self.mode or LEAST)

    def validate_at_build(self) -> Iterator[str]:
        for i, resource in enumerate(self.resources):
            if resource.weight <= 0:
                text = f"resource weight of {resource.name} should be a positive value, got :{resource.weight}"
                yield invalid(f"resources[{i}].weight", resource.weight, text)
        if self.mode not in (LEAST, MOST):
            yield invalid("mode", self.mode, "invalid support ModeType")


class NodeResourcesAllocatable(ScorePlugin, TemplateSigned, ReadsNoObjects):
    name = "NodeResourcesAllocatable"
    short_name = "allocatable"
    args_type = NodeResourcesAllocatableArgs
    reads = Reads.NODES
    normalizes_by_bounds = True

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        # A resource that is listed twice counts once, with its last weight.
        weights = {resource.name: resource.weight for resource in self.args.resources}
        total = np.zeros(len(nodes), np.int64)
        for name, weight in weights.items():
            column = nodes.table.resources.get(name)
            if column is not None:
                total += np.int64(weight) * nodes.allocatable(column)
        return truncated(total if self.args.mode == MOST else -total, sum(weights.values()))

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints:
        return lowest_to_highest(scores, feasible)
