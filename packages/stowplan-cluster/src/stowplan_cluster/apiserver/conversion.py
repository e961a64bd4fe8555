"""Convert objects between the storage version and the requested version.

Events of the core group and of events.k8s.io share a storage but name their fields differently. Both kinds have fields
that are always encoded, even when empty; the storage version drops those, so that reading and writing back changes
nothing.

HorizontalPodAutoscalers are stored as v2. v1 has one metric only; the other fields are carried in annotations, so that
a v1 client loses nothing by writing back what it read.

PodGroups and Workloads are stored in the one version that a cluster serves, and converted if a state file is of a
cluster of another version. v1alpha2 has a name in place of the object `disruptionMode`, calls the reference to a
Workload otherwise, and lacks `preemptionPolicy`.

Everything else differs by apiVersion only; of custom resources, conversion strategy None is supported.

Upstream: pkg/apis/events/v1/conversion.go, pkg/apis/autoscaling/v1/conversion.go,
apiextensions-apiserver/pkg/apiserver/conversion/nop_converter.go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import Resource

_CORE_EVENT = "v1"
_STORED_EVENT = "events.k8s.io/v1"

#: Field name in the core kind -> field name in events.k8s.io, the storage version.
EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_FIELDS = {stored: core for core, stored in EVENT_FIELDS.items()}
#: Fields that are always encoded, with their zero values.
_ALWAYS_WRITTEN: dict[str, JsonObject] = {
    _CORE_EVENT: {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    _STORED_EVENT: {
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
}
#: The same fields of both kinds, by their name in the storage version.
_DROPPED_WHEN_EMPTY = {EVENT_FIELDS.get(name, name) for written in _ALWAYS_WRITTEN.values() for name in written}


GROUPS_V1ALPHA2 = "scheduling.k8s.io/v1alpha2"
GROUP_STORAGES = ("podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io")
_SINCE_V1BETA1 = frozenset(
    {"disruptionMode", "preemptionPolicy", "parentCompositePodGroupName", "compositePodGroupTemplates"}
)
_MODES = {"Pod": "single", "PodGroup": "all"}

_AUTOSCALER_V1 = "autoscaling/v1"
_CPU_TARGET, _CPU_USED = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
#: Annotation in which v1 carries the metrics of v2. Unlike upstream, they are in v2 form.
METRICS_OF_V2 = "autoscaling.alpha.kubernetes.io/metrics"
_CARRIED = {name: f"autoscaling.alpha.kubernetes.io/{name}" for name in ("metrics", "behavior")}


def to_storage(resource: Resource, obj: JsonObject, *, stored_as: Resource | None = None) -> JsonObject:
    """The object in its storage version; `stored_as` is `Catalogue.of_storage(resource.storage)`."""
    if resource.storage == "events":
        return _stored_event(obj)
    api_version = (stored_as or resource).api_version
    if obj.get("apiVersion") == _AUTOSCALER_V1:
        obj = _stored_autoscaler(obj)
    elif obj.get("apiVersion") == GROUPS_V1ALPHA2 != api_version:
        obj = _newer_group(obj)
    return _with_api_version(obj, api_version)


def from_storage(resource: Resource, obj: JsonObject) -> JsonObject:
    """The object in the version of this resource."""
    if resource.storage == "events":
        return _read_event(obj, resource.api_version)
    if resource.api_version == _AUTOSCALER_V1:
        obj = _read_autoscaler(obj)
    elif resource.api_version == GROUPS_V1ALPHA2:
        obj = _older_group(obj)
    elif obj.get("apiVersion") == GROUPS_V1ALPHA2:
        obj = _newer_group(obj)
    return _with_api_version(obj, resource.api_version)


def core_event(event: JsonObject) -> JsonObject:
    """Convert an event of either kind to the core field names."""
    return event if event.get("apiVersion") == _CORE_EVENT else _renamed(event, _CORE_FIELDS, _CORE_EVENT)


def _stored_event(event: JsonObject) -> JsonObject:
    renamed = _renamed(event, EVENT_FIELDS, _STORED_EVENT)
    return {key: value for key, value in renamed.items() if value or key not in _DROPPED_WHEN_EMPTY}


def _read_event(event: JsonObject, api_version: str) -> JsonObject:
    read = core_event(event) if api_version == _CORE_EVENT else _with_api_version(event, api_version)
    missing = {name: value for name, value in _ALWAYS_WRITTEN[api_version].items() if name not in read}
    return {**read, **{name: {} if value == {} else value for name, value in missing.items()}}


def _renamed(event: JsonObject, names: Mapping[str, str], api_version: str) -> JsonObject:
    if event.get("apiVersion") == api_version:
        return dict(event)
    return {names.get(key, key): value for key, value in event.items()} | {"apiVersion": api_version}


def _with_api_version(obj: JsonObject, api_version: str) -> JsonObject:
    return obj if obj.get("apiVersion") == api_version else {**obj, "apiVersion": api_version}


def _stored_autoscaler(scaler: JsonObject) -> JsonObject:
    spec = dict(scaler.get("spec") or {})
    metadata = dict(scaler.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    carried = {name: _decoded(annotations.pop(key)) for name, key in _CARRIED.items() if key in annotations}
    percentage = spec.pop(_CPU_TARGET, None)
    metrics = [] if percentage is None else [_cpu_metric(percentage)]
    others = carried.pop("metrics", None)
    metrics += others if isinstance(others, list) else []
    spec |= {name: value for name, value in carried.items() if isinstance(value, dict)}
    if metrics:
        spec["metrics"] = metrics
    return {**scaler, "metadata": _annotated(metadata, annotations), "spec": spec}


def _read_autoscaler(scaler: JsonObject) -> JsonObject:
    spec = dict(scaler.get("spec") or {})
    metadata = dict(scaler.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    metrics = spec.pop("metrics", None) or []
    cpu = next((metric for metric in metrics if _percentage(metric) is not None), None)
    if cpu is not None:
        spec[_CPU_TARGET] = _percentage(cpu)
    carried = {"metrics": [metric for metric in metrics if metric is not cpu], "behavior": spec.pop("behavior", None)}
    annotations |= {_CARRIED[name]: msgspec.json.encode(value).decode() for name, value in carried.items() if value}
    present = scaler.get("status") or {}
    status = {name: value for name, value in present.items() if name in _V1_STATUS}
    used: JsonObject = next((one["resource"] for one in present.get("currentMetrics") or () if _is_of_cpu(one)), {})
    if (percentage := (used.get("current") or {}).get("averageUtilization")) is not None:
        status[_CPU_USED] = percentage
    return {**scaler, "metadata": _annotated(metadata, annotations), "spec": spec, "status": status}


_V1_STATUS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")


def _annotated(metadata: JsonObject, annotations: JsonObject) -> JsonObject:
    others = {key: value for key, value in metadata.items() if key != "annotations"}
    return others | {"annotations": annotations} if annotations else others


def _cpu_metric(percentage: object) -> JsonObject:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _percentage(metric: JsonObject) -> object:
    return (metric["resource"].get("target") or {}).get("averageUtilization") if _is_of_cpu(metric) else None


def _is_of_cpu(metric: JsonObject) -> bool:
    return (metric.get("resource") or {}).get("name") == "cpu"


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _newer_group(obj: JsonObject) -> JsonObject:
    spec = _with_mode_object(obj.get("spec") or {})
    reference = spec.pop("podGroupTemplateRef", None)
    if reference is not None:
        workload = reference.get("workload") or {}
        names = {"workloadName": "workloadName", "podGroupTemplateName": "templateName"}
        spec["workloadRef"] = {new: workload[old] for old, new in names.items() if old in workload}
    if "podGroupTemplates" in spec:
        spec["podGroupTemplates"] = [_with_mode_object(template) for template in spec["podGroupTemplates"]]
    return {**obj, "spec": spec}


def _with_mode_object(spec: JsonObject) -> JsonObject:
    mode = spec.get("disruptionMode")
    return {**spec, "disruptionMode": {_MODES[mode]: {}}} if mode in _MODES else dict(spec)


def _older_group(obj: JsonObject) -> JsonObject:
    spec = _with_mode_name(obj.get("spec") or {})
    reference = spec.pop("workloadRef", None)
    if reference is not None:
        names = {"workloadName": "workloadName", "templateName": "podGroupTemplateName"}
        workload = {old: reference[new] for new, old in names.items() if new in reference}
        spec["podGroupTemplateRef"] = {"workload": workload}
    if "podGroupTemplates" in spec:
        spec["podGroupTemplates"] = [_with_mode_name(template) for template in spec["podGroupTemplates"]]
    return {**obj, "spec": spec}


def _with_mode_name(spec: JsonObject) -> JsonObject:
    others = {name: value for name, value in spec.items() if name not in _SINCE_V1BETA1}
    mode = spec.get("disruptionMode")
    if isinstance(mode, dict):
        mode = next((name for name, key in _MODES.items() if key in mode), None)
    return others if mode is None else others | {"disruptionMode": mode}
