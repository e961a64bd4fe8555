"""The arguments of NodeResourceTopologyMatch."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from stowplan.plugins.arguments import (
    BOOL,
    INT64,
    Args,
    FeatureGates,
    Pointer,
    Slice,
    Struct,
    documented,
    invalid,
    kind,
    named_string,
    not_omitted,
    struct,
)
from stowplan_scheduler_plugins.topology_caches import ALL, AUTODETECT, ONLY_EXCLUSIVE, ONLY_RESOURCES
from stowplan_scheduler_plugins.weighted_resources import RESOURCE, WeightedResource

LEAST_NUMA_NODES = "LeastNUMANodes"
_STRATEGIES = ("MostAllocated", "BalancedAllocation", "LeastAllocated", LEAST_NUMA_NODES)


class ScoringStrategy(msgspec.Struct, frozen=True):
    type: str = ""
    resources: tuple[WeightedResource, ...] = ()


class CacheSettings(msgspec.Struct, frozen=True, rename="camel"):
    foreign_pods_detect: str = ALL
    resync_method: str = AUTODETECT
    informer_mode: str = "Dedicated"
    resync_scope: str | None = None


_SCORING = struct(
    "ScoringStrategy",
    type=documented(named_string("v1.ScoringStrategyType"), "How cells are scored.", choices=_STRATEGIES),
    resources=documented(Slice(RESOURCE), "Weights of resources."),
)
_CACHE = struct(
    "NodeResourceTopologyCache",
    foreignPodsDetect=documented(
        Pointer(named_string("v1.ForeignPodsDetectMode")),
        "Which pods of other schedulers make a node unknown.",
        choices=("None", ALL, ONLY_EXCLUSIVE),
    ),
    resyncMethod=documented(
        Pointer(named_string("v1.CacheResyncMethod")),
        "Which pods a fingerprint is made of.",
        choices=(AUTODETECT, ALL, ONLY_EXCLUSIVE),
    ),
    informerMode=documented(
        Pointer(named_string("v1.CacheInformerMode")),
        "Whether pods count that are not running.",
        choices=("Shared", "Dedicated"),
    ),
    resyncScope=documented(
        Pointer(named_string("v1.CacheResyncScope")),
        "Whether changed settings of a kubelet are followed.",
        choices=(ALL, ONLY_RESOURCES),
    ),
)


class NodeResourceTopologyMatchArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "NodeResourceTopologyMatchArgs",
        scoringStrategy=documented(Pointer(_SCORING), "Which nodes are better."),
        cacheResyncPeriodSeconds=documented(
            not_omitted(Pointer(INT64)), "How often what was placed is compared with what agents publish; 0: never."
        ),
        discardReservedNodes=documented(BOOL, "Do not use nodes with pods that are about to be bound."),
        cache=documented(Pointer(_CACHE), "Details of the comparison."),
        preemptionMode=documented(
            Pointer(named_string("v1.PreemptionMode")),
            "Whether preemption counts what victims would free in their cells.",
            choices=("Enabled", "Disabled"),
        ),
    )

    scoring_strategy: ScoringStrategy | None = None
    cache_resync_period_seconds: int = 0
    discard_reserved_nodes: bool = False
    cache: CacheSettings = CacheSettings()
    preemption_mode: str = "Disabled"

    def completed(self, features: FeatureGates) -> "NodeResourceTopologyMatchArgs":
        given = ScoringStrategy("LeastAllocated") if self.scoring_strategy is None else self.scoring_strategy
        resources = given.resources or (WeightedResource("cpu", 1), WeightedResource("memory", 1))
        weighted = tuple(WeightedResource(one.name, one.weight or 1) for one in resources)
        return msgspec.structs.replace(self, scoring_strategy=ScoringStrategy(given.type, weighted))

    def validate_at_build(self) -> Iterator[str]:
        strategy = self.scoring_strategy
        if strategy is not None and strategy.type not in _STRATEGIES:
            yield invalid("scoringStrategy.type", strategy.type, "invalid ScoringStrategyType")
        if self.preemption_mode not in ("Enabled", "Disabled"):
            yield invalid("preemptionMode", self.preemption_mode, "invalid PreemptionMode")
