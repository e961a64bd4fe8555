"""NodeResourcesFit's declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.field_errors import child, not_supported
from stowplan.kube.config.config_errors import forbidden, invalid, required
from stowplan.kube.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import STRING, Pointer, Slice, Struct, documented, kind, named_string, struct
from stowplan.scheduler.in_tree.common.args import (
    DEFAULT_RESOURCES,
    RESOURCES,
    SHAPE,
    ResourceSpec,
    UtilizationShapePoint,
    completed_resources,
    label_name_errors,
    resources_errors,
    shape_errors,
)

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"

_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)


class RequestedToCapacityRatioParam(msgspec.Struct, frozen=True, rename="camel"):
    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


_CAPACITY_RATIO = struct(
    "RequestedToCapacityRatioParam",
    shape=SHAPE,
)
_SCORING_STRATEGY = struct(
    "ScoringStrategy",
    type=documented(
        named_string("v1.ScoringStrategyType"),
        "LeastAllocated prefers nodes with low utilization, MostAllocated nodes with high utilization, "
        "RequestedToCapacityRatio scores by its shape. Required in scoringStrategy.",
        choices=_STRATEGIES,
    ),
    resources=RESOURCES,
    requestedToCapacityRatio=documented(Pointer(_CAPACITY_RATIO), "Required with the strategy of that name."),
)


class NodeResourcesFitArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "NodeResourcesFitArgs",
        ignoredResources=documented(
            Slice(STRING), "Extended resources that the filter leaves out; an extender may count them."
        ),
        ignoredResourceGroups=documented(
            Slice(STRING), "Groups of such resources: example.com is for example.com/gpu and all others of it."
        ),
        scoringStrategy=documented(Pointer(_SCORING_STRATEGY), "Which nodes are better by what is requested on them."),
    )

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(LEAST_ALLOCATED, DEFAULT_RESOURCES)

    def completed(self, features: FeatureGates) -> "NodeResourcesFitArgs":
        strategy = self.scoring_strategy
        resources = completed_resources(strategy.resources)
        return replace(self, scoring_strategy=replace(strategy, resources=resources))

    def validate_at_build(self) -> Iterator[str]:
        for i, name in enumerate(self.ignored_resources):
            yield from label_name_errors(f"ignoredResources[{i}]", name)
        for i, group in enumerate(self.ignored_resource_groups):
            group_path = f"ignoredResourceGroups[{i}]"
            if "/" in group:
                yield invalid(group_path, group, "resource group name can't contain '/'")
            yield from label_name_errors(group_path, group)
        yield from _strategy_errors("scoringStrategy", self.scoring_strategy)

    def without_resources(self, names: tuple[str, ...]) -> "NodeResourcesFitArgs":
        """Ignore resources that extenders manage, in addition to those in the arguments."""
        return replace(self, ignored_resources=names)


def _strategy_errors(path: str, strategy: ScoringStrategy) -> Iterator[str]:
    if strategy.type not in _STRATEGIES:
        yield not_supported(child(path, "type"), strategy.type, _STRATEGIES)
    yield from resources_errors(child(path, "resources"), strategy.resources)
    ratio, ratio_path = strategy.requested_to_capacity_ratio, child(path, "requestedToCapacityRatio")
    if strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        yield from _ratio_errors(ratio_path, ratio)
    elif ratio is not None:
        yield forbidden(ratio_path, "must be nil when type is not RequestedToCapacityRatio")


def _ratio_errors(path: str, ratio: RequestedToCapacityRatioParam | None) -> Iterator[str]:
    if ratio is None:
        yield required(path, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from shape_errors(child(path, "shape"), ratio.shape)


DECLARATION = PluginDeclaration(
    name="NodeResourcesFit",
    points=frozenset({"preFilter", "filter", "preScore", "score", "placementScore"}),
    default=EnabledByDefault(order=80, weight=1),
    args_type=NodeResourcesFitArgs,
    replaces={
        "NodeResourcesLeastAllocated": f"its scoringStrategy of type {LEAST_ALLOCATED}",
        "NodeResourcesMostAllocated": f"its scoringStrategy of type {MOST_ALLOCATED}",
        "RequestedToCapacityRatio": f"its scoringStrategy of type {REQUESTED_TO_CAPACITY_RATIO}",
    },
)
