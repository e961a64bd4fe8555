"""What plugin arguments may say.

One function a kind: path and arguments in, messages out. All of them run on the whole file, enabled plugin or not,
except the one for NodeResourcesFit, which the reference runs only when it creates the plugin (see `build.py`).

Upstream: pkg/scheduler/apis/config/validation/validation_pluginargs.go.
"""

from collections.abc import Iterator, Sequence

from stowplan.api.durations import Duration
from stowplan.api.field_errors import child, not_supported
from stowplan.api.labels import label_key_errors
from stowplan.api.node_selectors import node_selector_errors, preferred_terms_errors
from stowplan.api.types import TopologySpreadConstraint
from stowplan.config.args import (
    LEAST_ALLOCATED,
    LIST_DEFAULTING,
    MAX_CUSTOM_PRIORITY_SCORE,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    SYSTEM_DEFAULTING,
    Args,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from stowplan.config.defaults import binding_timeout_enabled
from stowplan.config.errors import duplicate, forbidden, invalid, required
from stowplan.config.features import FeatureGates

_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_MAX_RESOURCE_WEIGHT = 100
_MIN_BINDING_TIMEOUT = Duration.of_seconds(1)


def args_errors(path: str, args: Args, features: FeatureGates) -> Iterator[str]:
    """Check the arguments that configuration validation looks at."""
    match args:
        case DefaultPreemptionArgs():
            return _default_preemption(path, args)
        case DynamicResourcesArgs():
            return _dynamic_resources(path, args, features)
        case InterPodAffinityArgs():
            return _inter_pod_affinity(path, args)
        case NodeAffinityArgs():
            return _node_affinity(path, args)
        case NodeResourcesBalancedAllocationArgs():
            return _balanced_allocation(path, args)
        case PodTopologySpreadArgs():
            return _pod_topology_spread(path, args)
        case VolumeBindingArgs():
            return _volume_binding(path, args, features)
        case _:
            return iter(())


def _default_preemption(path: str, args: DefaultPreemptionArgs) -> Iterator[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = child(path, "minCandidateNodesPercentage")
    absolute_path = child(path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == 0 == absolute:
        both = "cannot be zero at the same time as"
        yield invalid(percentage_path, percentage, f"{both} minCandidateNodesAbsolute")
        yield invalid(absolute_path, absolute, f"{both} minCandidateNodesPercentage")


def _dynamic_resources(path: str, args: DynamicResourcesArgs, features: FeatureGates) -> Iterator[str]:
    filter_path, binding_path = child(path, "filterTimeout"), child(path, "bindingTimeout")
    if args.filter_timeout is not None:
        if not features.enabled("DRASchedulerFilterTimeout"):
            # Parity: the reference misspells its own gate here.
            yield forbidden(filter_path, "DRASchedulingFilterTimeout feature gate is disabled")
        elif args.filter_timeout < 0:
            yield invalid(filter_path, args.filter_timeout, "must be zero or positive")
    if args.binding_timeout is not None:
        if not binding_timeout_enabled(features):
            gates = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"
            yield forbidden(binding_path, f"{gates} feature gate is disabled")
        elif args.binding_timeout < _MIN_BINDING_TIMEOUT:
            yield invalid(binding_path, args.binding_timeout, "must be at least 1 second")


def _inter_pod_affinity(path: str, args: InterPodAffinityArgs) -> Iterator[str]:
    weight = args.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        yield invalid(child(path, "hardPodAffinityWeight"), weight, "not in valid range [0, 100]")


def _node_affinity(path: str, args: NodeAffinityArgs) -> Iterator[str]:
    affinity = args.added_affinity
    if affinity is None:
        return
    path = child(path, "addedAffinity")
    required_terms = affinity.required_during_scheduling_ignored_during_execution
    if required_terms is not None:
        yield from node_selector_errors(required_terms, child(path, "requiredDuringSchedulingIgnoredDuringExecution"))
    preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
    yield from preferred_terms_errors(preferred, child(path, "preferredDuringSchedulingIgnoredDuringExecution"))


def _balanced_allocation(path: str, args: NodeResourcesBalancedAllocationArgs) -> Iterator[str]:
    seen = set()
    for i, resource in enumerate(args.resources):
        resource_path = f"{child(path, 'resources')}[{i}]"
        if resource.name in seen:
            yield duplicate(child(resource_path, "name"), resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(child(resource_path, "weight"), resource.weight, "must be 1")


# --- PodTopologySpread


def _pod_topology_spread(path: str, args: PodTopologySpreadArgs) -> Iterator[str]:
    yield from _defaulting_type(child(path, "defaultingType"), args)
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(args.default_constraints):
        constraint_path = f"{child(path, 'defaultConstraints')}[{i}]"
        yield from _constraint(constraint_path, constraint)
        identity = (constraint.topology_key, constraint.when_unsatisfiable)
        if identity in seen:
            yield duplicate(constraint_path, f"{{{', '.join(identity)}}}")
        seen.add(identity)


def _defaulting_type(path: str, args: PodTopologySpreadArgs) -> Iterator[str]:
    if args.defaulting_type not in {SYSTEM_DEFAULTING, LIST_DEFAULTING}:
        yield not_supported(path, args.defaulting_type, (SYSTEM_DEFAULTING, LIST_DEFAULTING))
    elif args.defaulting_type == SYSTEM_DEFAULTING and args.default_constraints:
        yield invalid(path, args.defaulting_type, "when .defaultConstraints are not empty")


def _constraint(path: str, constraint: TopologySpreadConstraint) -> Iterator[str]:
    if constraint.max_skew <= 0:
        yield invalid(child(path, "maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
    if constraint.topology_key:
        yield from _label_name(child(path, "topologyKey"), constraint.topology_key)
    else:
        yield required(child(path, "topologyKey"), "can not be empty")
    action_path = child(path, "whenUnsatisfiable")
    if not constraint.when_unsatisfiable:
        yield required(action_path, "can not be empty")
    elif constraint.when_unsatisfiable not in _ACTIONS:
        yield not_supported(action_path, constraint.when_unsatisfiable, _ACTIONS)
    if constraint.label_selector is not None:
        reason = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(child(path, "labelSelector"), reason)


# --- VolumeBinding


def _volume_binding(path: str, args: VolumeBindingArgs, features: FeatureGates) -> Iterator[str]:
    if args.bind_timeout_seconds < 0:
        reason = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(child(path, "bindTimeoutSeconds"), args.bind_timeout_seconds, reason)
    shape_path = child(path, "shape")
    if features.enabled("StorageCapacityScoring"):
        yield from _shape(shape_path, args.shape or ())
    elif args.shape is not None:
        points = [{"Utilization": point.utilization, "Score": point.score} for point in args.shape]
        reason = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid(shape_path, points, reason)


# --- NodeResourcesFit


def node_resources_fit_errors(path: str, args: NodeResourcesFitArgs) -> Iterator[str]:
    for i, name in enumerate(args.ignored_resources):
        yield from _label_name(f"{child(path, 'ignoredResources')}[{i}]", name)
    for i, group in enumerate(args.ignored_resource_groups):
        group_path = f"{child(path, 'ignoredResourceGroups')}[{i}]"
        if "/" in group:
            yield invalid(group_path, group, "resource group name can't contain '/'")
        yield from _label_name(group_path, group)
    yield from _scoring_strategy(child(path, "scoringStrategy"), args.scoring_strategy)


def _scoring_strategy(path: str, strategy: ScoringStrategy) -> Iterator[str]:
    if strategy.type not in _STRATEGIES:
        yield not_supported(child(path, "type"), strategy.type, _STRATEGIES)
    yield from _resources(child(path, "resources"), strategy.resources)
    ratio, ratio_path = strategy.requested_to_capacity_ratio, child(path, "requestedToCapacityRatio")
    if strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        yield from _capacity_ratio(ratio_path, ratio)
    elif ratio is not None:
        yield forbidden(ratio_path, "must be nil when type is not RequestedToCapacityRatio")


def _resources(path: str, resources: Sequence[ResourceSpec]) -> Iterator[str]:
    for i, resource in enumerate(resources):
        if not 0 < resource.weight <= _MAX_RESOURCE_WEIGHT:
            reason = f"resource weight of {resource.name} not in valid range (0, {_MAX_RESOURCE_WEIGHT}]"
            yield invalid(child(f"{path}[{i}]", "weight"), resource.weight, reason)


def _capacity_ratio(path: str, ratio: RequestedToCapacityRatioParam | None) -> Iterator[str]:
    if ratio is None:
        yield required(path, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from _shape(child(path, "shape"), ratio.shape)


# --- shared


def _label_name(path: str, name: str) -> Iterator[str]:
    for reason in label_key_errors(name):
        yield invalid(path, name, reason)


def _shape(path: str, shape: Sequence[UtilizationShapePoint]) -> Iterator[str]:
    if not shape:
        yield required(path, "at least one point must be specified")
    yield from _first_disorder(path, shape)
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid(child(f"{path}[{i}]", "utilization"), point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_CUSTOM_PRIORITY_SCORE:
            valid = f"not in valid range [0, {MAX_CUSTOM_PRIORITY_SCORE}]"
            yield invalid(child(f"{path}[{i}]", "score"), point.score, valid)


def _first_disorder(path: str, shape: Sequence[UtilizationShapePoint]) -> Iterator[str]:
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            reason = "values must be sorted in increasing order"
            yield invalid(child(f"{path}[{i}]", "utilization"), shape[i].utilization, reason)
            return
