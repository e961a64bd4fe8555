"""The arguments of a policy's plugins: fields, defaults, and what is wrong with them beyond their types.

Upstream: types.go, defaults.go and validation.go of each folder in descheduler's pkg/framework/plugins.
"""

from collections.abc import Iterator
from typing import Annotated, Self

import msgspec

from stowplan.kube.api.durations import parse_duration
from stowplan.kube.api.label_selectors import (
    EVERYTHING,
    SelectorError,
    compile_label_selector,
)
from stowplan.kube.api.meta import Int32, LabelSelector
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.api.policy import SYSTEM_PRIORITIES
from stowplan.kube.api.selector_text import parse_label_selector
from stowplan.kube.config.typed_documents import Problem

#: What a recording does not contain.
_CONTAINERS, _FINISHED = "status.containerStatuses of pods", "pods that have finished"
#: uint in Go.
Natural = Annotated[int, msgspec.Meta(ge=0)]

BOTH = "only one of include and exclude can be set"
_INCLUSION = "only exclude can be set"


class PolicyFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a policy; unknown fields are errors."""


class Requirement(PolicyFields, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class SelectorFields(PolicyFields, frozen=True, kw_only=True):
    """A LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def problems(self, *path: str) -> Iterator[Problem]:
        try:
            compile_label_selector(self.selector)
        except SelectorError as error:
            yield path, str(error)

    @property
    def selector(self) -> LabelSelector:
        return msgspec.convert(msgspec.to_builtins(self), LabelSelector)


class Namespaces(PolicyFields, frozen=True, kw_only=True):
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        return (not self.include or name in self.include) and name not in self.exclude

    def problems(self, *path: str) -> Iterator[Problem]:
        if self.include and self.exclude:
            yield path, BOTH


class GoDuration(str):
    """A duration in Go's format, as in `1h30m`."""

    __slots__ = ()

    @classmethod
    def read(cls, value: object) -> Self:
        if not isinstance(value, str):
            raise ValueError("want a duration such as 1h30m")
        parse_duration(value)
        return cls(value)

    @property
    def seconds(self) -> float:
        return parse_duration(self).seconds


class Arguments(PolicyFields, frozen=True, kw_only=True):
    """Those of a plugin, and what it reads with them beyond what the scheduler reads."""

    api_version: str = ""
    kind: str = ""

    def problems(self) -> Iterator[Problem]:
        """What is wrong with the values."""
        yield from ()

    def unrecorded(self) -> Iterator[str]:
        """What the plugin reads and a recording, which has what the scheduler reads, does not contain."""
        yield from ()


class StrategyArguments(Arguments, frozen=True, kw_only=True):
    """Those of a plugin that selects pods by their namespaces and labels."""

    namespaces: Namespaces = Namespaces()
    label_selector: SelectorFields | None = None

    def problems(self) -> Iterator[Problem]:
        yield from self.namespaces.problems("namespaces")
        if self.label_selector is not None:
            yield from self.label_selector.problems("labelSelector")

    def takes(self, namespace: str, labels: dict[str, str]) -> bool:
        return self.namespaces.takes(namespace) and selects(self.label_selector, labels)


def selects(selector: SelectorFields | None, labels: dict[str, str]) -> bool:
    """Whether a selector takes these labels; one that is not set takes all."""
    found = EVERYTHING if selector is None else compile_label_selector(selector.selector)
    return found.matches(labels)


# -- the evictor ------------------------------------------------------------------------------------------------------

LOCAL_STORAGE, DAEMON_SETS = "PodsWithLocalStorage", "DaemonSetPods"
SYSTEM_CRITICAL, FAILED_BARE = "SystemCriticalPods", "FailedBarePods"
WITH_CLAIMS, WITHOUT_BUDGET, RESOURCE_CLAIMS = "PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims"
DEFAULT_PROTECTIONS = (LOCAL_STORAGE, SYSTEM_CRITICAL, FAILED_BARE, DAEMON_SETS)
EXTRA_PROTECTIONS = (WITH_CLAIMS, WITHOUT_BUDGET, RESOURCE_CLAIMS)
#: Pods with this priority or a higher one are critical for the system.
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
MANDATORY = "Mandatory"


class PriorityThreshold(PolicyFields, frozen=True, kw_only=True):
    value: Int32 | None = None
    name: str = ""


class ProtectedStorageClass(PolicyFields, frozen=True, kw_only=True):
    name: str


class ClaimsConfig(PolicyFields, frozen=True, kw_only=True):
    protected_storage_classes: tuple[ProtectedStorageClass, ...] = ()


class ProtectionsConfig(PolicyFields, frozen=True, kw_only=True):
    pods_with_claims: ClaimsConfig = msgspec.field(name="PodsWithPVC", default=ClaimsConfig())


class PodProtections(PolicyFields, frozen=True, kw_only=True):
    extra_enabled: tuple[str, ...] = ()
    default_disabled: tuple[str, ...] = ()
    config: ProtectionsConfig = ProtectionsConfig()

    def problems(self) -> Iterator[Problem]:
        for name, given, known in (
            ("extraEnabled", self.extra_enabled, EXTRA_PROTECTIONS),
            ("defaultDisabled", self.default_disabled, DEFAULT_PROTECTIONS),
        ):
            for index, one in enumerate(given):
                path = ("podProtections", name, index)
                if one not in known:
                    yield path, f'there is no "{one}" here; there are {", ".join(known)}'
                elif one in given[:index]:
                    yield path, f"{one} is given twice"
        for index, storage_class in enumerate(self.config.pods_with_claims.protected_storage_classes):
            if not storage_class.name:
                at = ("podProtections", "config", "PodsWithPVC", "protectedStorageClasses", index)
                yield at, "the name is empty"


class DefaultEvictor(Arguments, frozen=True, kw_only=True):
    """Which pods may be evicted at all."""

    node_selector: str = ""
    label_selector: SelectorFields | None = None
    namespace_label_selector: SelectorFields | None = None
    priority_threshold: PriorityThreshold = PriorityThreshold()
    node_fit: bool = False
    min_replicas: Natural = 0
    min_pod_age: GoDuration | None = None
    no_eviction_policy: str = ""
    pod_protections: PodProtections = PodProtections()
    # The older form of `podProtections`.
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = msgspec.field(name="ignorePodsWithoutPDB", default=False)
    evict_failed_bare_pods: bool = False

    @property
    def protections(self) -> frozenset[str]:
        given = self.pod_protections
        if given.extra_enabled or given.default_disabled:
            return frozenset(DEFAULT_PROTECTIONS).difference(given.default_disabled).union(given.extra_enabled)
        left_out = {
            LOCAL_STORAGE: self.evict_local_storage_pods,
            DAEMON_SETS: self.evict_daemon_set_pods,
            SYSTEM_CRITICAL: self.evict_system_critical_pods,
            FAILED_BARE: self.evict_failed_bare_pods,
            WITH_CLAIMS: not self.ignore_pvc_pods,
            WITHOUT_BUDGET: not self.ignore_pods_without_pdb,
        }
        return frozenset(name for name, out in left_out.items() if not out)

    def unrecorded(self) -> Iterator[str]:
        if self.priority_threshold.name and self.priority_threshold.name not in SYSTEM_PRIORITIES:
            yield "PriorityClasses, for priorityThreshold.name"
        if self.min_replicas > 1:
            yield f"{_FINISHED}, which minReplicas counts"

    def problems(self) -> Iterator[Problem]:
        yield from selector_problems(self.node_selector, "nodeSelector")
        for name in ("label_selector", "namespace_label_selector"):
            selector: SelectorFields | None = getattr(self, name)
            if selector is not None:
                yield from selector.problems("labelSelector" if name == "label_selector" else "namespaceLabelSelector")
        if self.priority_threshold.value is not None and self.priority_threshold.name:
            yield ("priorityThreshold",), "only one of value and name can be set"
        if (self.priority_threshold.value or 0) > SYSTEM_CRITICAL_PRIORITY:
            yield ("priorityThreshold", "value"), f"want at most {SYSTEM_CRITICAL_PRIORITY}"
        if self.no_eviction_policy not in ("", "Preferred", MANDATORY):
            yield ("noEvictionPolicy",), f'want Preferred or Mandatory, got "{self.no_eviction_policy}"'
        older = (
            ("evictLocalStoragePods", self.evict_local_storage_pods),
            ("evictDaemonSetPods", self.evict_daemon_set_pods),
            ("evictSystemCriticalPods", self.evict_system_critical_pods),
            ("ignorePvcPods", self.ignore_pvc_pods),
            ("ignorePodsWithoutPDB", self.ignore_pods_without_pdb),
            ("evictFailedBarePods", self.evict_failed_bare_pods),
        )
        if self.pod_protections.extra_enabled or self.pod_protections.default_disabled:
            for field, given in older:
                if given:
                    yield (field,), "cannot be set together with podProtections, which replaces it"
        yield from self.pod_protections.problems()


def selector_problems(text: str | None, *path: str) -> Iterator[Problem]:
    try:
        parse_label_selector(text or "")
    except SelectorError as error:
        yield path, str(error)


# -- strategies -------------------------------------------------------------------------------------------------------


class RemoveDuplicates(Arguments, frozen=True, kw_only=True):
    namespaces: Namespaces = Namespaces()
    exclude_owner_kinds: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from self.namespaces.problems("namespaces")


class RemovePodsViolatingNodeTaints(StrategyArguments, frozen=True, kw_only=True):
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] | None = None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.excluded_taints and self.included_taints:
            yield ("includedTaints",), "only one of includedTaints and excludedTaints can be set"


class RemovePodsViolatingNodeAffinity(StrategyArguments, frozen=True, kw_only=True):
    node_affinity_type: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if not self.node_affinity_type:
            yield ("nodeAffinityType",), "is missing"


class RemovePodsViolatingInterPodAntiAffinity(StrategyArguments, frozen=True, kw_only=True):
    pass


class RemovePodsViolatingTopologySpreadConstraint(StrategyArguments, frozen=True, kw_only=True):
    constraints: tuple[str, ...] = ("DoNotSchedule",)
    topology_balance_node_fit: bool = True

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for index, one in enumerate(self.constraints):
            if one not in ("DoNotSchedule", "ScheduleAnyway"):
                yield ("constraints", index), f'want DoNotSchedule or ScheduleAnyway, got "{one}"'


class RemovePodsHavingTooManyRestarts(StrategyArguments, frozen=True, kw_only=True):
    pod_restart_threshold: Int32 = 0
    including_init_containers: bool = False
    states: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.pod_restart_threshold < 1:
            yield ("podRestartThreshold",), "want 1 or more"
        yield from _unknown_states(self.states, ("Running", "CrashLoopBackOff"))

    def unrecorded(self) -> Iterator[str]:
        yield _CONTAINERS


class RemoveFailedPods(StrategyArguments, frozen=True, kw_only=True):
    exclude_owner_kinds: tuple[str, ...] = ()
    min_pod_lifetime_seconds: Natural | None = 3600
    reasons: tuple[str, ...] = ()
    exit_codes: tuple[Int32, ...] = ()
    including_init_containers: bool = False

    def unrecorded(self) -> Iterator[str]:
        yield _FINISHED


class OwnerKinds(PolicyFields, frozen=True, kw_only=True):
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class ConditionFilter(PolicyFields, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: Natural | None = None


_UNFINISHED = ("Running", "Pending", "Unknown")
_PHASES = (*_UNFINISHED, *FINISHED)
_STATES = (
    *_PHASES,
    *("NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"),
    *("PodInitializing", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"),
    *("ErrImagePull", "CreateContainerError", "InvalidImageName"),
    *("OOMKilled", "Error", "Completed", "DeadlineExceeded", "Evicted", "ContainerCannotRun", "StartError"),
)


class PodLifeTime(StrategyArguments, frozen=True, kw_only=True):
    owner_kinds: OwnerKinds = OwnerKinds()
    max_pod_life_time_seconds: Natural | None = None
    states: tuple[str, ...] = ()
    conditions: tuple[ConditionFilter, ...] = ()
    exit_codes: tuple[Int32, ...] = ()
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.owner_kinds.include and self.owner_kinds.exclude:
            yield ("ownerKinds",), BOTH
        yield from _unknown_states(self.states, _STATES)
        for index, one in enumerate(self.conditions):
            if one == ConditionFilter():
                yield (
                    ("conditions", index),
                    f"set at least one of {', '.join(ConditionFilter.__struct_encode_fields__)}",
                )
        if self.max_pod_life_time_seconds is None and not (self.states or self.conditions or self.exit_codes):
            yield (), "set at least one of maxPodLifeTimeSeconds, states, conditions, exitCodes"

    def unrecorded(self) -> Iterator[str]:
        if not self.states or not set(self.states).issubset(_UNFINISHED):
            yield f"{_FINISHED}, unless states has {', '.join(_UNFINISHED)} alone"
        if self.exit_codes or not set(self.states).issubset(_PHASES):
            yield _CONTAINERS


def _unknown_states(given: tuple[str, ...], known: tuple[str, ...]) -> Iterator[Problem]:
    for index, one in enumerate(given):
        if one not in known:
            yield ("states", index), f'there is no state "{one}"; there are {", ".join(known)}'


#: The resource for whatever a Prometheus query tells of nodes.
METRIC_RESOURCE = "MetricResource"
KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"


class PrometheusQuery(PolicyFields, frozen=True, kw_only=True):
    query: str = ""


class MetricsUtilization(PolicyFields, frozen=True, kw_only=True):
    metrics_server: bool = False
    source: str = ""
    prometheus: PrometheusQuery | None = None

    @property
    def is_prometheus(self) -> bool:
        return self.source == PROMETHEUS

    def problems(self) -> Iterator[Problem]:
        path = ("metricsUtilization",)
        if self.source not in ("", KUBERNETES_METRICS, PROMETHEUS):
            yield (*path, "source"), f'want {KUBERNETES_METRICS} or {PROMETHEUS}, got "{self.source}"'
        elif not self.source and not self.metrics_server:
            yield path, "source is missing"
        if self.source == KUBERNETES_METRICS and self.metrics_server:
            yield (*path, "metricsServer"), f"cannot be set together with source: {KUBERNETES_METRICS}"
        if self.source == KUBERNETES_METRICS and self.prometheus is not None:
            yield (*path, "prometheus"), f"cannot be set together with source: {KUBERNETES_METRICS}"
        if self.is_prometheus and not (self.prometheus and self.prometheus.query):
            yield path, f"prometheus.query is missing, which source: {PROMETHEUS} needs"


class EvictionLimits(PolicyFields, frozen=True, kw_only=True):
    node: Natural | None = None


class _Utilization(Arguments, frozen=True, kw_only=True):
    thresholds: dict[str, float] = {}
    number_of_nodes: int = 0
    evictable_namespaces: Namespaces = Namespaces()

    def problems(self) -> Iterator[Problem]:
        if self.evictable_namespaces.include:
            yield ("evictableNamespaces", "include"), _INCLUSION
        yield from _threshold_problems(self.thresholds, "thresholds")


class LowNodeUtilization(_Utilization, frozen=True, kw_only=True):
    use_deviation_thresholds: bool = False
    target_thresholds: dict[str, float] = {}
    metrics_utilization: MetricsUtilization | None = None
    eviction_limits: EvictionLimits = EvictionLimits()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from _threshold_problems(self.target_thresholds, "targetThresholds")
        if set(self.thresholds) != set(self.target_thresholds):
            yield ("targetThresholds",), "want the same resources as in thresholds"
        elif not self.use_deviation_thresholds:
            for name, value in self.thresholds.items():
                if value > self.target_thresholds[name]:
                    yield ("thresholds", name), "is greater than in targetThresholds"
        if self.metrics_utilization is not None:
            yield from self.metrics_utilization.problems()
            if self.metrics_utilization.is_prometheus and set(self.thresholds) != {METRIC_RESOURCE}:
                yield ("thresholds",), f"with source: {PROMETHEUS}, want {METRIC_RESOURCE} and nothing else"

    def unrecorded(self) -> Iterator[str]:
        if self.metrics_utilization is not None:
            yield "measured use, for metricsUtilization"


class HighNodeUtilization(_Utilization, frozen=True, kw_only=True):
    eviction_modes: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for index, one in enumerate(self.eviction_modes):
            if one != "OnlyThresholdingResources":
                yield ("evictionModes", index), f'want OnlyThresholdingResources, got "{one}"'


def _threshold_problems(thresholds: dict[str, float], name: str) -> Iterator[Problem]:
    if not thresholds:
        yield (name,), "is missing"
    for resource, percent in thresholds.items():
        if not 0 <= percent <= 100:
            yield (name, resource), "want a percentage from 0 to 100"
