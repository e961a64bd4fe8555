"""Arguments of the in-tree plugins.

The values a plugin receives are complete: what the file leaves out is filled by the defaults written here, and by
`defaults.py` where the default depends on a feature gate or on another field.

Upstream: pkg/scheduler/apis/config/types_pluginargs.go, v1/defaults.go.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from stowplan.api.durations import Duration
from stowplan.api.types import NodeAffinity, TopologySpreadConstraint

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"

SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"

#: The best score of a utilization shape point; plugins scale it to their own maximum.
MAX_CUSTOM_PRIORITY_SCORE = 10


class Args(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Arguments of one plugin; the class name is the `kind`."""


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    weight: int = 0


class UtilizationShapePoint(msgspec.Struct, frozen=True, rename="camel"):
    utilization: int = 0  #: percent
    score: int = 0  #: 0..10


class RequestedToCapacityRatioParam(msgspec.Struct, frozen=True, rename="camel"):
    shape: tuple[UtilizationShapePoint, ...] = ()


#: What the resource plugins weigh when nobody says otherwise.
DEFAULT_RESOURCES = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(Args, frozen=True):
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DynamicResourcesArgs(Args, frozen=True):
    filter_timeout: Duration | None = None  #: zero = no limit
    binding_timeout: Duration | None = None


class InterPodAffinityArgs(Args, frozen=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Args, frozen=True):
    added_affinity: NodeAffinity | None = None


class NodeResourcesBalancedAllocationArgs(Args, frozen=True):
    resources: tuple[ResourceSpec, ...] = ()


class NodeResourcesFitArgs(Args, frozen=True):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(LEAST_ALLOCATED, DEFAULT_RESOURCES)


class PodTopologySpreadArgs(Args, frozen=True):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = ""


class VolumeBindingArgs(Args, frozen=True):
    bind_timeout_seconds: int = 600
    #: None = absent, which validation tells from empty.
    shape: tuple[UtilizationShapePoint, ...] | None = None


#: Plugin name to the kind of its arguments.
ARGS_KINDS: Mapping[str, type[Args]] = MappingProxyType(
    {
        kind.__name__.removesuffix("Args"): kind
        for kind in (
            DefaultPreemptionArgs,
            DynamicResourcesArgs,
            InterPodAffinityArgs,
            NodeAffinityArgs,
            NodeResourcesBalancedAllocationArgs,
            NodeResourcesFitArgs,
            PodTopologySpreadArgs,
            VolumeBindingArgs,
        )
    }
)
