"""HorizontalPodAutoscalers: the number of replicas that the usage of a workload's pods asks for.

A look at a HorizontalPodAutoscaler comes fifteen seconds after it was created and after each look. It compares what was
measured with the targets (`replica_counts`), takes the highest number, and follows it as fast as is allowed
(`scaling_rates`). A metric without a number only prevents scaling down.

Left out: metrics of types Pods, Object and External, whose APIs are not served: they fail as they do on a cluster
without an adapter; scaling to zero (gate HPAScaleToZero).

Upstream: pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import field

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.label_selectors import Selector
from stowplan.kube.api.meta import ApiStruct, LabelSelector, QuantityValue, timestamp
from stowplan.kube.api.quantity import NANO, Format, format_quantity, milli_value, parse_quantity
from stowplan_cluster.reconcile.pods import Encoded
from stowplan_cluster.reconcile.replica_counts import (
    Count,
    CountError,
    Measured,
    ScaledPod,
    Target,
    Tolerances,
    count_for,
)
from stowplan_cluster.reconcile.scaling_rates import Behavior, Limits, Memory, ScalingRules, Why, paced
from stowplan_cluster.reconcile.views import JsonObject, Workload

STORAGE = "horizontalpodautoscalers.autoscaling"
#: Seconds between two looks.
PERIOD_SECONDS = 15.0
TOLERANCE = 0.1

ABLE, ACTIVE, LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
RESOURCE, CONTAINER_RESOURCE = "Resource", "ContainerResource"


class TargetReference(ApiStruct, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class MetricTarget(ApiStruct, frozen=True, kw_only=True):
    type: str = ""
    value: QuantityValue | None = None
    average_value: QuantityValue | None = None
    average_utilization: int | None = None


class ResourceMetric(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    container: str = ""
    target: MetricTarget = MetricTarget()


class MetricIdentifier(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    selector: LabelSelector | None = None


class OtherMetric(ApiStruct, frozen=True, kw_only=True):
    """Of an API that is not served."""

    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()
    described_object: TargetReference = TargetReference()


class Metric(ApiStruct, frozen=True, kw_only=True):
    type: str = RESOURCE
    resource: ResourceMetric | None = None
    container_resource: ResourceMetric | None = None
    pods: OtherMetric = OtherMetric()
    object: OtherMetric = OtherMetric()
    external: OtherMetric = OtherMetric()


class AutoscalerSpec(ApiStruct, frozen=True, kw_only=True):
    target: TargetReference = field(name="scaleTargetRef", default=TargetReference())
    min_replicas: int = 1
    max_replicas: int = 0
    metrics: tuple[Metric, ...] = ()
    behavior: Behavior | None = None


class HorizontalPodAutoscaler(Workload, frozen=True, kw_only=True):
    spec: AutoscalerSpec = AutoscalerSpec()


def decode_autoscaler(stored: Encoded) -> HorizontalPodAutoscaler:
    return decode_json(stored.data, HorizontalPodAutoscaler)


class Scale(NamedTuple):
    """The scale of the target, and its pods."""

    replicas: int
    #: "" if it has none, which is an error.
    selector: str = ""
    pods: Sequence[ScaledPod] = ()
    measured: Mapping[str, Measured] = {}
    #: Autoscalers whose targets select some of these pods, too: `namespace/name`.
    rivals: Collection[str] = ()


class Warned(NamedTuple):
    """A warning event."""

    reason: str
    message: str


class Decision(NamedTuple):
    #: As it is if the change of the scale succeeds.
    status: JsonObject
    warnings: Sequence[Warned]
    before: int = 0
    #: The new number of replicas; None: it stays.
    replicas: int | None = None
    #: Why it changes.
    reason: str = ""

    @property
    def event(self) -> str:
        """The message of the event SuccessfulRescale."""
        return f"New size: {self.replicas}; reason: {self.reason}"

    def failed(self, error: str, earlier: JsonObject, now: float) -> tuple[JsonObject, Warned]:
        """The status if the scale could not be changed, and the warning."""
        conditions = _Conditions(self.status["conditions"], now)
        message = f"the HPA controller was unable to update the target scale: {error}"
        conditions.set(ABLE, "False", Why("FailedUpdateScale", message))
        status = {**self.status, "desiredReplicas": earlier.get("desiredReplicas", 0), "conditions": conditions.found}
        if "lastScaleTime" in earlier:
            status["lastScaleTime"] = earlier["lastScaleTime"]
        else:
            status.pop("lastScaleTime", None)
        return status, Warned("FailedRescale", f"{self.event}; error: {error}")


def without_scale(autoscaler: HorizontalPodAutoscaler, error: str, now: float) -> Decision:
    """The target, or its scale, is missing."""
    conditions = _Conditions(autoscaler.status.get("conditions") or (), now)
    message = f"the HPA controller was unable to get the target's current scale: {error}"
    conditions.set(ABLE, "False", Why("FailedGetScale", message))
    return Decision({**autoscaler.status, "conditions": conditions.found}, [Warned("FailedGetScale", error)])


def decide(autoscaler: HorizontalPodAutoscaler, scale: Scale, memory: Memory, now: float) -> Decision:
    """Compute the next number of replicas; `memory` takes note of the recommendation."""
    return _Look(autoscaler, scale, memory, now).decide()


class _Look:
    def __init__(self, autoscaler: HorizontalPodAutoscaler, scale: Scale, memory: Memory, now: float) -> None:
        self._autoscaler = autoscaler
        self._spec = autoscaler.spec
        self._scale = scale
        self._memory = memory
        self._now = now
        self._conditions = _Conditions(autoscaler.status.get("conditions") or (), now)
        self._warnings: list[Warned] = []
        self._metrics: list[JsonObject] = []

    def decide(self) -> Decision:
        current, spec = self._scale.replicas, self._spec
        found = "the HPA controller was able to get the target's current scale"
        self._conditions.set(ABLE, "True", Why("SucceededGetScale", found))
        self._memory.begin(current, self._now)
        if not current:
            disabled = "scaling is disabled since the replica count of the target is zero"
            self._conditions.set(ACTIVE, "False", Why("ScalingDisabled", disabled))
            return self._decision(0, "", rescale=False)
        if current > spec.max_replicas:
            return self._decision(spec.max_replicas, "Current number of replicas above Spec.MaxReplicas")
        if current < spec.min_replicas:
            return self._decision(spec.min_replicas, "Current number of replicas below Spec.MinReplicas")
        return self._by_metrics(current)

    def _by_metrics(self, current: int) -> Decision:
        try:
            recommended, metric = self._recommended()
        except CountError as error:
            desired = self._autoscaler.status.get("desiredReplicas", 0)
            self._warnings.append(Warned("FailedComputeMetricsReplicas", str(error)))
            return Decision(self._status(desired, rescale=False), self._warnings, current)
        limits = Limits(self._spec.min_replicas, self._spec.max_replicas)
        pace = paced(self._spec.behavior, self._memory, current, recommended, limits, self._now)
        self._conditions.set(ABLE, "True", pace.able)
        self._conditions.set(LIMITED, str(pace.is_limited), pace.limit)
        reason = f"{metric} above target" if recommended > current else ""
        if recommended < current:
            reason = "All metrics below target"
        return self._decision(pace.replicas, reason, rescale=pace.replicas != current)

    def _recommended(self) -> tuple[int, str]:
        """The highest number, and the metric that asks for it."""
        self._check_selector()
        counts: list[tuple[int, str]] = []
        failures: list[tuple[Why, str]] = []
        for metric in self._spec.metrics:
            # Parity: the status of a metric without a number has no type.
            status: JsonObject = {"type": ""}
            try:
                count, name, status = self._count(metric)
                counts.append((count.replicas, name))
            except _MetricError as error:
                failures.append((error.why, str(error)))
                self._warnings.append(Warned(error.why.reason, error.cause))
            self._metrics.append(status)
        # Parity: of equal numbers the first, and a later metric if all before asked for none.
        best = (0, "")
        for one in counts:
            if not best[0] or one[0] > best[0]:
                best = one
        if failures and (not counts or best[0] < self._scale.replicas):
            self._conditions.set(ACTIVE, "False", failures[0][0])
            number = f"{len(failures)} invalid out of {len(self._spec.metrics)}"
            raise CountError(f"invalid metrics ({number}), first error is: {failures[0][1]}")
        valid = f"the HPA was able to successfully calculate a replica count from {best[1]}"
        self._conditions.set(ACTIVE, "True", Why("ValidMetricFound", valid))
        return best

    def _check_selector(self) -> None:
        if not self._scale.selector:
            missing = "the HPA target's scale is missing a selector"
            self._warnings.append(Warned("SelectorRequired", "selector is required"))
            self._conditions.set(ACTIVE, "False", Why("InvalidSelector", missing))
            raise CountError("selector is required")
        if self._scale.rivals:
            mine = f"{self._autoscaler.metadata.namespace}/{self._autoscaler.metadata.name}"
            everybody = " ".join(sorted({mine, *self._scale.rivals}))
            message = f"pods by selector {self._scale.selector} are controlled by multiple HPAs: [{everybody}]"
            self._warnings.append(Warned("AmbiguousSelector", message))
            self._conditions.set(ACTIVE, "False", Why("AmbiguousSelector", message))
            raise CountError(message)

    def _count(self, metric: Metric) -> tuple[Count, str, JsonObject]:
        """(number, name of the metric, its status)"""
        source = metric.resource if metric.type == RESOURCE else metric.container_resource
        if metric.type not in (RESOURCE, CONTAINER_RESOURCE) or source is None:
            raise _unserved(metric, self._autoscaler.metadata.namespace)
        target = _target(source)
        tolerances = _tolerances(self._spec.behavior)
        scale = self._scale
        try:
            count = count_for(target, scale.replicas, scale.pods, scale.measured, tolerances, self._now)
        except CountError as error:
            what = "usage" if target.average is not None else "utilization"
            cause = str(error)
            if not cause.startswith("invalid resource metric source"):
                cause = f"failed to get {source.name} {what}: {cause}"
            about = f"{source.container} container" if source.container else f"{source.name} resource"
            raise _MetricError(f"FailedGet{metric.type}Metric", cause, f"failed to get {about} metric value") from None
        return count, _name(source, target), _metric_status(metric, source, count)

    def _decision(self, replicas: int, reason: str, *, rescale: bool = True) -> Decision:
        current = self._scale.replicas
        if not rescale:
            return Decision(self._status(current, rescale=False), self._warnings, current)
        updated = f"the HPA controller was able to update the target scale to {replicas}"
        self._conditions.set(ABLE, "True", Why("SucceededRescale", updated))
        return Decision(self._status(replicas, rescale=True), self._warnings, current, replicas, reason)

    def _status(self, desired: int, *, rescale: bool) -> JsonObject:
        last = timestamp(self._now) if rescale else self._autoscaler.status.get("lastScaleTime")
        return {
            **({"lastScaleTime": last} if last is not None else {}),
            "currentReplicas": self._scale.replicas,
            "desiredReplicas": desired,
            "currentMetrics": self._metrics or None,
            "conditions": self._conditions.found,
        }


class _MetricError(Exception):
    """A metric without a number."""

    def __init__(self, reason: str, cause: str, about: str) -> None:
        super().__init__(f"{about}: {cause}")
        self.cause = cause
        self.why = Why(reason, f"the HPA was unable to compute the replica count: {cause}")


def _target(source: ResourceMetric) -> Target:
    wanted = source.target
    average = None if wanted.average_value is None else milli_value(parse_quantity(wanted.average_value))
    return Target(source.name, source.container, wanted.average_utilization if average is None else None, average)


def _name(source: ResourceMetric, target: Target) -> str:
    if target.average is not None:
        return f"{source.name} resource"
    of_container = "container " if source.container else ""
    return f"{source.name} {of_container}resource utilization (percentage of request)"


def _metric_status(metric: Metric, source: ResourceMetric, count: Count) -> JsonObject:
    # As metrics-server formats them.
    format = Format.BINARY_SI if source.name == "memory" else Format.DECIMAL_SI
    current: JsonObject = {"averageValue": format_quantity(count.average * (NANO // 1000), format)}
    if count.utilization is not None:
        current = {"averageUtilization": count.utilization, **current}
    container = {"container": source.container} if source.container else {}
    part = metric.type[0].lower() + metric.type[1:]
    return {"type": metric.type, part: {"name": source.name, **container, "current": current}}


def _tolerances(behavior: Behavior | None) -> Tolerances:
    if behavior is None:
        return Tolerances(TOLERANCE, TOLERANCE)
    return Tolerances(_tolerance(behavior.scale_down), _tolerance(behavior.scale_up))


def _tolerance(rules: ScalingRules) -> float:
    return TOLERANCE if rules.tolerance is None else parse_quantity(rules.tolerance) / NANO


_NO_CUSTOM_METRICS = (
    "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
)


def _unserved(metric: Metric, namespace: str) -> _MetricError:
    """What a cluster without an adapter for such metrics says."""
    if metric.type == "Pods":
        cause = f"unable to get metric {metric.pods.metric.name}: {_NO_CUSTOM_METRICS}"
        return _MetricError("FailedGetPodsMetric", cause, "failed to get pods metric value")
    if metric.type == "Object":
        name, of = metric.object.metric.name, metric.object.described_object
        cause = f"unable to get metric {name}: {of.kind} on {namespace} {of.name}/{_NO_CUSTOM_METRICS}"
        about = "failed to get object metric value"
        if metric.object.target.average_value is not None:
            about += f": failed to get {name} object metric"
        return _MetricError("FailedGetObjectMetric", cause, about)
    name = metric.external.metric.name
    cause = (
        f"unable to get external metric {namespace}/{name}/{_go_selector(metric.external.metric.selector)}: unable to "
        "fetch metrics from external metrics API: the server could not find the requested resource "
        f"(get {name}.external.metrics.k8s.io)"
    )
    average = metric.external.target.average_value is not None
    about = f"failed to get {name} external metric" if average else f"failed to get external metric {name}"
    return _MetricError("FailedGetExternalMetric", cause, f"failed to get {name} external metric value: {about}")


def _go_selector(selector: LabelSelector | None) -> str:
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}"
    )


class _Conditions:
    """The conditions of a status; the time of one changes with its status only."""

    def __init__(self, present: Sequence[Mapping[str, Any]], now: float) -> None:
        self.found: list[JsonObject] = [dict(one) for one in present]
        self._now = now

    def set(self, type_: str, status: str, why: Why) -> None:
        condition = next((one for one in self.found if one["type"] == type_), None)
        if condition is None:
            condition = {"type": type_}
            self.found.append(condition)
        if condition.get("status") != status:
            condition["lastTransitionTime"] = timestamp(self._now)
        condition.update(status=status, reason=why.reason, message=why.message)


def rivals(
    autoscaler: HorizontalPodAutoscaler, labels: Sequence[Mapping[str, str]], others: Mapping[str, Selector]
) -> set[str]:
    """Autoscalers of the same namespace, by name, whose targets select some of the pods with these labels."""
    namespace = autoscaler.metadata.namespace
    return {f"{namespace}/{name}" for name, one in others.items() if any(one.matches(label) for label in labels)}
