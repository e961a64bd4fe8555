"""Validate ResourceSlices (a driver's devices and the nodes that can use them) and DeviceTaintRules.

Left out: request policies of consumable capacity, and mappings to node-allocatable resources.

Upstream: pkg/apis/resource/validation (validateResourceSliceSpec, validateDevice, validateDeviceTaintRuleSpec).
"""

from __future__ import annotations

from stowplan.kube.api.labels import label_key_errors, label_value_errors
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.device_claims import (
    EFFECTS,
    check_binding_conditions,
    check_list,
    check_map,
    check_pool_name,
    check_qualified,
    check_request_name,
    check_set,
)
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.metadata import check_conditions
from stowplan_cluster.apiserver.validation.selectors import check_node_selector
from stowplan_cluster.apiserver.validation.volumes import check_csi_driver_name

_MAX_DEVICES, _MAX_ADVANCED_DEVICES = 128, 64
_MAX_COUNTER_SETS, _MAX_COUNTERS, _MAX_CONSUMPTIONS = 8, 32, 2
_MAX_ATTRIBUTES, _MAX_ATTRIBUTE_VALUES, _MAX_VALUE, _MAX_TAINTS = 32, 48, 64, 16
_MAX_CONDITIONS, _MAX_GROUPS = 8, 2
_PREPARE, _UNPREPARE, _ALL_OPERATIONS = "NodePrepareResources", "NodeUnprepareResources", "*"
_NO_LIMIT = 1 << 30
_SCALARS, _LISTS = ("bool", "int", "string", "version"), ("bools", "ints", "strings", "versions")


def check_slice(errors: Errors, resource_slice: JsonObject) -> None:
    spec = resource_slice.get("spec") or {}
    check_csi_driver_name(errors, "spec.driver", spec.get("driver", ""))
    _check_pool(errors, "spec.pool", spec.get("pool") or {})
    _check_nodes(errors, spec)
    devices = spec.get("devices") or []
    if "sharedCounters" in spec and "devices" in spec:
        errors.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    _check_operations(errors, "spec.skipNodeOperations", spec.get("skipNodeOperations") or [])
    per_device = bool(spec.get("perDeviceNodeSelection"))

    def check_one(errors: Errors, path: str, device: JsonObject) -> None:
        _check_device(errors, path, device, per_device=per_device)

    limit = _MAX_ADVANCED_DEVICES if any(map(_is_advanced, devices)) else _MAX_DEVICES
    check_set(errors, "spec.devices", devices, limit, check_one, lambda device: device.get("name", ""))
    counters = spec.get("sharedCounters")
    check_set(
        errors, "spec.sharedCounters", counters, _MAX_COUNTER_SETS, _check_counter_set, lambda c: c.get("name", "")
    )


def _check_operations(errors: Errors, path: str, operations: list[str]) -> None:
    def check(errors: Errors, at: str, operation: str) -> None:
        errors.check_enum(at, operation, (_ALL_OPERATIONS, _PREPARE, _UNPREPARE))

    check_set(errors, path, operations, _NO_LIMIT, check, lambda operation: operation)
    if _PREPARE in operations and not {_UNPREPARE, _ALL_OPERATIONS} & set(operations):
        errors.invalid(path, operations, f"{_PREPARE} requires {_UNPREPARE}")


def _is_advanced(device: JsonObject) -> bool:
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(name in attribute for attribute in (device.get("attributes") or {}).values() for name in _LISTS)


def _check_pool(errors: Errors, path: str, pool: JsonObject) -> None:
    check_pool_name(errors, f"{path}.name", pool.get("name", ""))
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errors.invalid(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        errors.invalid(f"{path}.generation", generation, "must be greater than or equal to zero")


_SLICE_CHOICES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_CHOICES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
    "is set to true in the ResourceSlice spec"
)


def _check_nodes(errors: Errors, spec: JsonObject) -> None:
    chosen = _chosen_nodes(errors, "spec", spec, empty="must be either unset or set to a non-empty string")
    if (selector := spec.get("nodeSelector")) is not None:
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            path = "spec.nodeSelector.nodeSelectorTerms"
            errors.invalid(path, terms or None, "must have exactly one node selector term")
    each = spec.get("perDeviceNodeSelection")
    if each:
        chosen.append("`perDeviceNodeSelection`")
    elif each is not None:
        errors.invalid("spec.perDeviceNodeSelection", False, "must be either unset or set to true")
    if not chosen:
        errors.required("spec", _SLICE_CHOICES)
    elif len(chosen) > 1:
        detail = f"{_SLICE_CHOICES}, but multiple fields are set"
        errors.invalid("spec", f"{{{', '.join(chosen)}}}", detail)


def _chosen_nodes(errors: Errors, path: str, holder: JsonObject, *, empty: str) -> list[str]:
    chosen = []
    node, selector, everywhere = (holder.get(name) for name in ("nodeName", "nodeSelector", "allNodes"))
    if node:
        chosen.append("`nodeName`")
        errors.check_texts(f"{path}.nodeName", node, names.dns_subdomain(node))
    elif node is not None:
        errors.invalid(f"{path}.nodeName", node, empty)
    if selector is not None:
        chosen.append("`nodeSelector`")
        check_node_selector(errors, f"{path}.nodeSelector", selector)
    if everywhere:
        chosen.append("`allNodes`")
    elif everywhere is not None:
        errors.invalid(f"{path}.allNodes", False, "must be either unset or set to true")
    return chosen


def _check_device(errors: Errors, path: str, device: JsonObject, *, per_device: bool) -> None:
    name = device.get("name", "")
    errors.check_texts(f"{path}.name", name, names.dns_label(name))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    _check_sizes(errors, path, attributes, len(attributes) + len(capacity))
    check_map(errors, f"{path}.attributes", attributes, _NO_LIMIT, check_qualified, _check_attribute)
    shared = bool(device.get("allowMultipleAllocations"))

    def check_capacity(errors: Errors, at: str, entry: JsonObject) -> None:
        if not shared and entry.get("requestPolicy") is not None:
            errors.forbidden(f"{at}.requestPolicy", "allowMultipleAllocations must be true")

    check_map(errors, f"{path}.capacity", capacity, _NO_LIMIT, check_qualified, check_capacity)
    check_list(errors, f"{path}.taints", device.get("taints"), _MAX_TAINTS, _check_taint)
    consumed, at = device.get("consumesCounters"), f"{path}.consumesCounters"
    check_set(errors, at, consumed, _MAX_CONSUMPTIONS, _check_consumption, lambda c: c.get("counterSet", ""))
    _check_device_nodes(errors, path, device, per_device=per_device)
    check_binding_conditions(errors, path, device)


def _check_sizes(errors: Errors, path: str, attributes: dict[str, JsonObject], entries: int) -> None:
    if entries > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        errors.invalid(path, entries, detail)
    values = sum(max(1, sum(len(entry.get(name) or ()) for name in _LISTS)) for entry in attributes.values())
    if values > _MAX_ATTRIBUTE_VALUES:
        detail = f"the total number of attribute values must not exceed {_MAX_ATTRIBUTE_VALUES}"
        errors.invalid(path, values, detail)


def _check_attribute(errors: Errors, path: str, attribute: JsonObject) -> None:
    given = [name for name in (*_SCALARS, *_LISTS) if name in attribute]
    for name in ("string", "version"):
        if name in attribute:
            _check_text(errors, f"{path}.{name}", attribute[name], is_version=name == "version")
    for name in _LISTS:
        if name in attribute and not attribute[name]:
            errors.invalid(f"{path}.{name}", [], "must not be empty if specified")
    for name in ("strings", "versions"):
        for index, text in enumerate(attribute.get(name) or ()):
            _check_text(errors, f"{path}.{name}[{index}]", text, is_version=name == "versions")
    if len(given) != 1:
        errors.invalid(path, attribute if given else "", "exactly one value must be specified")


def _check_text(errors: Errors, path: str, text: str, *, is_version: bool) -> None:
    if is_version and names.parse(text) is None:
        errors.invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    errors.check_length(path, text, _MAX_VALUE)


def _check_taint(errors: Errors, path: str, taint: JsonObject) -> None:
    key, value = taint.get("key", ""), taint.get("value", "")
    errors.check_texts(f"{path}.key", key, label_key_errors(key))
    errors.check_texts(f"{path}.value", value, label_value_errors(value))
    errors.check_enum(f"{path}.effect", taint.get("effect"), EFFECTS)


def _check_counter_set(errors: Errors, path: str, counter_set: JsonObject) -> None:
    check_request_name(errors, f"{path}.name", counter_set.get("name", ""))
    _check_counters(errors, f"{path}.counters", counter_set.get("counters") or {})


def _check_consumption(errors: Errors, path: str, consumption: JsonObject) -> None:
    check_request_name(errors, f"{path}.counterSet", consumption.get("counterSet", ""))
    _check_counters(errors, f"{path}.counters", consumption.get("counters") or {})
    groups = consumption.get("compatibilityGroups")
    check_set(errors, f"{path}.compatibilityGroups", groups, _MAX_GROUPS, check_request_name, lambda group: group)


def _check_counters(errors: Errors, path: str, counters: dict[str, JsonObject]) -> None:
    if not counters:
        errors.required(path)
    check_map(errors, path, counters, _MAX_COUNTERS, check_request_name)


def _check_device_nodes(errors: Errors, path: str, device: JsonObject, *, per_device: bool) -> None:
    if not per_device:
        if any(device.get(name) is not None for name in ("nodeName", "nodeSelector", "allNodes")):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
                "is set to true in the ResourceSlice spec"
            )
            errors.invalid(path, None, detail)
        return
    chosen = _chosen_nodes(errors, path, device, empty="must not be empty")
    if not chosen:
        errors.required(path, _DEVICE_CHOICES)
    elif len(chosen) > 1:
        errors.invalid(path, f"{{{', '.join(chosen)}}}", _DEVICE_CHOICES)


def check_slice_update(errors: Errors, resource_slice: JsonObject, old: JsonObject, subresource: str) -> None:
    check_slice(errors, resource_slice)
    spec, old_spec = resource_slice.get("spec") or {}, old.get("spec") or {}
    pool, old_pool = spec.get("pool") or {}, old_spec.get("pool") or {}
    errors.check_immutable("spec.pool.name", pool.get("name", ""), old_pool.get("name", ""))
    errors.check_immutable("spec.driver", spec.get("driver", ""), old_spec.get("driver", ""))
    errors.check_immutable("spec.nodeName", spec.get("nodeName"), old_spec.get("nodeName"))


def check_taint_rule(errors: Errors, rule: JsonObject) -> None:
    spec = rule.get("spec") or {}
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    if "driver" in selector:
        check_csi_driver_name(errors, f"{path}.driver", selector["driver"])
    if "pool" in selector:
        check_pool_name(errors, f"{path}.pool", selector["pool"])
    if "device" in selector:
        errors.check_texts(f"{path}.device", selector["device"], names.dns_label(selector["device"]))
    _check_taint(errors, "spec.taint", spec.get("taint") or {})


def check_taint_rule_update(errors: Errors, rule: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource != "status":
        check_taint_rule(errors, rule)
        return
    conditions, path = (rule.get("status") or {}).get("conditions") or [], "status.conditions"
    check_conditions(errors, path, conditions)
    if len(conditions) > _MAX_CONDITIONS:
        errors.too_many(path, len(conditions), _MAX_CONDITIONS)
