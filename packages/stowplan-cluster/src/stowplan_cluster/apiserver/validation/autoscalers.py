"""Validate HorizontalPodAutoscalers of both versions.

Upstream: pkg/apis/autoscaling/validation.
"""

from __future__ import annotations

from typing import NamedTuple

from stowplan.kube.api.quantity import parse_quantity
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import NOT_POSITIVE, Errors
from stowplan_cluster.apiserver.validation.resources import check_container_resource_name, check_not_negative_quantity

# Validate references to objects of any kind.
#
# Upstream: pkg/apis/networking/validation, pkg/apis/autoscaling/validation.


def check_kind_and_name(errors: Errors, path: str, reference: JsonObject) -> None:
    for field in ("kind", "name"):
        value = reference.get(field, "")
        if not value:
            errors.required(f"{path}.{field}")
        else:
            errors.check_texts(f"{path}.{field}", value, names.path_segment(value))


_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800
_SELECTS, _POLICIES = ("Disabled", "Max", "Min"), ("Percent", "Pods")
_TARGETS = ("Utilization", "Value", "AverageValue")


class _Source(NamedTuple):
    """What one kind of metric needs."""

    field: str
    #: Of its target: fields of which one has to be there.
    one_of: tuple[str, ...]
    otherwise: str
    #: (a field that excludes another, the error message)
    not_both: tuple[str, str] | None = None


_RESOURCE = (
    ("averageUtilization", "averageValue"),
    "must set either a target raw value or a target utilization",
    ("averageValue", "may not set both a target raw value and a target utilization"),
)
_SOURCES = {
    "Object": _Source("object", ("averageValue", "value"), "must set either a target value or averageValue"),
    "External": _Source(
        "external",
        ("averageValue", "value"),
        "must set either a target value for metric or a per-pod target",
        ("value", "may not set both a target value for metric and a per-pod target"),
    ),
    "Pods": _Source("pods", ("averageValue",), "must specify a positive target averageValue"),
    "Resource": _Source("resource", *_RESOURCE),
    "ContainerResource": _Source("containerResource", *_RESOURCE),
}


def check_autoscaler(errors: Errors, autoscaler: JsonObject) -> None:
    _check_spec(errors, autoscaler.get("spec") or {}, {})


def check_autoscaler_update(errors: Errors, autoscaler: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        _check_spec(errors, autoscaler.get("spec") or {}, old.get("spec") or {})


def _check_spec(errors: Errors, spec: JsonObject, old: JsonObject) -> None:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    lowest = 0 if old.get("minReplicas") == 0 else 1
    if least is not None and least < lowest:
        errors.invalid("spec.minReplicas", least, f"must be greater than or equal to {lowest}")
    if most == 0:
        errors.required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        errors.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    _check_target_reference(errors, "spec.scaleTargetRef", spec.get("scaleTargetRef") or {}, old)
    metrics = spec.get("metrics") or []
    for index, metric in enumerate(metrics):
        _check_metric(errors, f"spec.metrics[{index}]", metric)
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.forbidden("spec.metrics", detail)
    # v1 has a single metric, in a separate field.
    if (utilization := spec.get("targetCPUUtilizationPercentage")) is not None:
        _check_utilization(errors, "spec.metrics[0].resource.target", utilization)
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            _check_rules(errors, f"spec.behavior.{direction}", rules)


def _check_target_reference(errors: Errors, path: str, reference: JsonObject, old: JsonObject) -> None:
    check_kind_and_name(errors, path, reference)
    before = old.get("scaleTargetRef") or {}
    if before and all(before.get(key) == reference.get(key) for key in ("apiVersion", "kind")):
        return
    _check_api_version(errors, path, reference, needs_group=reference.get("kind") != "ReplicationController")


def _check_api_version(errors: Errors, path: str, reference: JsonObject, *, needs_group: bool) -> None:
    version = reference.get("apiVersion", "")
    group = version.partition("/")[0] if "/" in version else ""
    if version.count("/") > 1:
        errors.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif needs_group and not group:
        errors.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _check_rules(errors: Errors, path: str, rules: JsonObject) -> None:
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and window < 0:
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window is not None and window > _LONGEST_WINDOW:
        detail = f"must be less than or equal to {_LONGEST_WINDOW}"
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, detail)
    if select is not None and select not in _SELECTS:
        errors.not_supported(f"{path}.selectPolicy", select, _SELECTS)
    policies = rules.get("policies") or []
    if not policies:
        errors.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        _check_policy(errors, f"{path}.policies[{index}]", policy)
    if (tolerance := rules.get("tolerance")) is not None:
        check_not_negative_quantity(errors, f"{path}.tolerance", tolerance)


def _check_policy(errors: Errors, path: str, policy: JsonObject) -> None:
    kind, value, period = policy.get("type", ""), policy.get("value", 0), policy.get("periodSeconds", 0)
    if kind not in _POLICIES:
        errors.not_supported(f"{path}.type", kind, _POLICIES)
    if value <= 0:
        errors.invalid(f"{path}.value", value, NOT_POSITIVE)
    if period <= 0:
        errors.invalid(f"{path}.periodSeconds", period, NOT_POSITIVE)
    if period > _LONGEST_PERIOD:
        errors.invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}")


def _check_metric(errors: Errors, path: str, metric: JsonObject) -> None:
    kind = metric.get("type", "")
    if not kind:
        errors.required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        errors.not_supported(f"{path}.type", kind, sorted(_SOURCES))
    given = [name for name, source in _SOURCES.items() if metric.get(source.field) is not None]
    for name in given[:1]:
        source = _SOURCES[name]
        _check_source(errors, f"{path}.{source.field}", name, metric[source.field])
    if kind in _SOURCES and kind not in given:
        errors.required(f"{path}.{_SOURCES[kind].field}", "must populate information for the given metric source")
    if len(given) != 1:
        for name in given:
            if name != kind:
                field = _SOURCES[name].field
                errors.forbidden(f"{path}.{field}", "must populate the given metric source only")


def _check_source(errors: Errors, path: str, kind: str, given: JsonObject) -> None:
    source, target = _SOURCES[kind], given.get("target") or {}
    if kind == "Object":
        reference = given.get("describedObject") or {}
        check_kind_and_name(errors, f"{path}.describedObject", reference)
        _check_api_version(errors, f"{path}.describedObject", reference, needs_group=False)
    if kind in ("Resource", "ContainerResource"):
        _check_resource(errors, path, kind, given)
    else:
        name = (given.get("metric") or {}).get("name", "")
        if not name:
            errors.required(f"{path}.metric.name", "must specify a metric name")
        else:
            errors.check_texts(f"{path}.metric.name", name, names.path_segment(name))
    _check_target(errors, f"{path}.target", target)
    there = [field for field in source.one_of if target.get(field) is not None]
    if not there:
        errors.required(f"{path}.target.{source.one_of[0]}", source.otherwise)
    elif len(there) > 1 and source.not_both is not None:
        field, detail = source.not_both
        errors.forbidden(f"{path}.target.{field}", detail)


def _check_resource(errors: Errors, path: str, kind: str, given: JsonObject) -> None:
    name = given.get("name", "")
    if not name:
        errors.required(f"{path}.name", "must specify a resource name")
    if kind == "Resource":
        return
    if name:
        check_container_resource_name(errors, f"{path}.name", name)
    container = given.get("container", "")
    if not container:
        errors.required(f"{path}.container", "must specify a container")
    else:
        errors.check_texts(f"{path}.container", container, names.dns_label(container))


def _check_target(errors: Errors, path: str, target: JsonObject) -> None:
    kind, utilization = target.get("type", ""), target.get("averageUtilization")
    if not kind:
        errors.required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        errors.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if (value := target.get(field)) is not None and parse_quantity(value) <= 0:
            errors.invalid(f"{path}.{field}", value, "must be positive")
    if utilization is not None:
        _check_utilization(errors, path, utilization)


def _check_utilization(errors: Errors, path: str, utilization: int) -> None:
    if utilization < 1:
        errors.invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")
