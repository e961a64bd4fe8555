"""ResourceClaims, their templates, and DeviceClasses.

CEL expressions are compiled, and rejected if their estimated cost is too high.

Upstream: pkg/apis/resource/validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from stowplan.kube.api.field_errors import go_json
from stowplan.kube.api.labels import label_key_errors, label_value_errors
from stowplan.kube.api.resource_names import is_extended
from stowplan.kube.cel.device_selectors import (
    MAX_COST,
    CompileError,
    DeviceSelector,
    compile_attribute,
    compile_selector,
)
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors, byte_length, same
from stowplan_cluster.apiserver.validation.metadata import check_template_metadata
from stowplan_cluster.apiserver.validation.selector_costs import most_cost
from stowplan_cluster.apiserver.validation.selectors import check_node_selector
from stowplan_cluster.apiserver.validation.volumes import check_csi_driver_name

# Lists and maps with a size limit; items are not validated if the limit is exceeded.
#
# Upstream: pkg/apis/resource/validation (validateSlice, validateSet, validateMap).

T = TypeVar("T")


def check_list(
    errors: Errors, path: str, items: Sequence[T] | None, limit: int, check: Callable[[Errors, str, T], None]
) -> None:
    items = items or []
    if len(items) > limit:
        errors.too_many(path, len(items), limit)
        return
    for index, item in enumerate(items):
        check(errors, f"{path}[{index}]", item)


def check_set(
    errors: Errors,
    path: str,
    items: Sequence[T] | None,
    limit: int,
    check: Callable[[Errors, str, T], None],
    key_of: Callable[[T], Hashable],
) -> None:
    """A list with unique keys."""
    check_list(errors, path, items, limit, check)
    if items is None or len(items) > limit:
        return
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        key = key_of(item)
        if key in seen:
            errors.duplicate(f"{path}[{index}]", key)
        seen.add(key)


def check_map(
    errors: Errors,
    path: str,
    entries: Mapping[str, T],
    limit: int,
    check_key: Callable[[Errors, str, str], None],
    check_value: Callable[[Errors, str, T], None] | None = None,
) -> None:
    if len(entries) > limit:
        errors.too_many(path, len(entries), limit)
        return
    for key, value in entries.items():
        check_key(errors, path, key)
        if check_value is not None:
            check_value(errors, f"{path}[{key}]", value)


MAX_ID = 32
EFFECTS = ("NoExecute", "NoSchedule", "None")

_MAX_REQUESTS = _MAX_CONSTRAINTS = _MAX_CONFIG = _MAX_SELECTORS = _MAX_RESULTS = 32
_MAX_ALTERNATIVES, _MAX_RESERVED, _MAX_CONDITIONS = 8, 256, 4
_MAX_EXPRESSION = _MAX_PARAMETERS = 10 * 1024
_MAX_DERIVED = 32
_MODES = ("All", "ExactCount")
_ATTRIBUTES = ("matchAttribute", "distinctAttribute")
_UID_RE = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

#: Names of a claim's requests -> names of their subrequests.
RequestNames = dict[str, set[str]]


def check_request_name(errors: Errors, path: str, name: str) -> None:
    if name:
        errors.check_texts(path, name, names.dns_label(name))
    else:
        errors.required(path)


def check_qualified(errors: Errors, path: str, name: str) -> None:
    """Check a qualified name: `domain/identifier`, or an identifier."""
    domain, slash, identifier = name.rpartition("/")
    if "/" in domain:
        return  # Parity: the reference accepts names with more than one slash.
    if slash:
        if domain:
            check_csi_driver_name(errors, path, domain)
        else:
            errors.invalid(path, "", "the domain must not be empty")
        if not identifier:
            errors.invalid(path, "", "the name must not be empty")
            return
    if len(identifier) > MAX_ID:
        errors.too_long(path, MAX_ID)
    errors.check_texts(path, identifier, names.c_identifier(identifier))


def _check_fully_qualified(errors: Errors, path: str, name: str) -> None:
    check_qualified(errors, path, name)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        errors.invalid(path, name, detail)


def check_pool_name(errors: Errors, path: str, name: str) -> None:
    if not name:
        errors.required(path)
        return
    if len(name) > names.MAX_SUBDOMAIN:
        errors.too_long(path, names.MAX_SUBDOMAIN)
    for part in name.split("/"):
        errors.check_texts(path, part, names.dns_subdomain(part))


def check_claim(errors: Errors, claim: JsonObject) -> None:
    _check_devices(errors, "spec.devices", (claim.get("spec") or {}).get("devices") or {})


def check_template(errors: Errors, template: JsonObject) -> None:
    spec = template.get("spec") or {}
    check_template_metadata(errors, "spec.metadata", spec.get("metadata") or {})
    _check_devices(errors, "spec.spec.devices", (spec.get("spec") or {}).get("devices") or {})


def check_template_update(errors: Errors, template: JsonObject, old: JsonObject, subresource: str) -> None:
    errors.check_immutable("spec", template.get("spec"), old.get("spec"))


def _request_names(devices: JsonObject) -> RequestNames:
    return {
        request.get("name", ""): {entry.get("name", "") for entry in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _check_devices(errors: Errors, path: str, devices: JsonObject) -> None:
    known = _request_names(devices)
    check_set(
        errors,
        f"{path}.requests",
        devices.get("requests"),
        _MAX_REQUESTS,
        _check_request,
        lambda request: request.get("name", ""),
    )

    def check_constraint(errors: Errors, at: str, constraint: JsonObject) -> None:
        _check_references(errors, f"{at}.requests", constraint.get("requests"), known)
        given = [name for name in _ATTRIBUTES if name in constraint]
        if given:
            _check_fully_qualified(errors, f"{at}.{given[0]}", constraint[given[0]])
        else:
            detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
            errors.required(at, detail)

    def check_configuration(errors: Errors, at: str, config: JsonObject) -> None:
        _check_references(errors, f"{at}.requests", config.get("requests"), known)
        _check_opaque(errors, at, config)

    used = {constraint.get(name) for constraint in devices.get("constraints") or () for name in _ATTRIBUTES}
    for index, request in enumerate(devices.get("requests") or ()):
        at, alternatives = f"{path}.requests[{index}]", request.get("firstAvailable") or ()
        _check_derived(errors, f"{at}.exactly", request.get("exactly") or {}, used)
        for place, alternative in enumerate(alternatives):
            _check_derived(errors, f"{at}.firstAvailable[{place}]", alternative, used)
    check_list(errors, f"{path}.constraints", devices.get("constraints"), _MAX_CONSTRAINTS, check_constraint)
    check_list(errors, f"{path}.config", devices.get("config"), _MAX_CONFIG, check_configuration)


def _check_derived(errors: Errors, path: str, request: JsonObject, used: set[str | None]) -> None:
    def check(errors: Errors, at: str, derived: JsonObject) -> None:
        name, expression = derived.get("name", ""), derived.get("expression", "")
        _check_fully_qualified(errors, f"{at}.name", name)
        if name not in used:
            errors.invalid(f"{at}.name", name, "must be used in a constraint")
        if not expression:
            errors.required(f"{at}.expression")
        elif byte_length(expression) > _MAX_EXPRESSION:
            errors.too_long(f"{at}.expression", _MAX_EXPRESSION)
        else:
            _check_expression(errors, f"{at}.expression", expression, compile_attribute)

    attributes = request.get("derivedAttributes")
    check_set(errors, f"{path}.derivedAttributes", attributes, _MAX_DERIVED, check, lambda one: one.get("name", ""))


def _check_references(errors: Errors, path: str, references: list[str] | None, known: RequestNames) -> None:
    def check(errors: Errors, at: str, name: str) -> None:
        _check_reference(errors, at, name, known)

    check_set(errors, path, references, _MAX_REQUESTS, check, lambda name: name)


def _check_reference(errors: Errors, path: str, name: str, known: RequestNames) -> None:
    segments = name.split("/")
    if len(segments) <= 2:
        for segment in segments:
            check_request_name(errors, path, segment)
        alternatives = known.get(segments[0])
        if alternatives is not None and (len(segments) == 1 or segments[1] in alternatives):
            return
    detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    errors.invalid(path, name, detail)


def _check_request(errors: Errors, path: str, request: JsonObject) -> None:
    check_request_name(errors, f"{path}.name", request.get("name", ""))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        errors.invalid(path, None, detail)
    elif exactly is not None:
        _check_exactly(errors, f"{path}.exactly", exactly)
    elif alternatives:
        check_set(
            errors,
            f"{path}.firstAvailable",
            alternatives,
            _MAX_ALTERNATIVES,
            _check_alternative,
            lambda entry: entry.get("name", ""),
        )
    else:
        errors.required(path, "exactly one of `exactly` or `firstAvailable` is required")


def _check_alternative(errors: Errors, path: str, request: JsonObject) -> None:
    check_request_name(errors, f"{path}.name", request.get("name", ""))
    _check_exactly(errors, path, request)


def _check_exactly(errors: Errors, path: str, request: JsonObject) -> None:
    if name := request.get("deviceClassName"):
        errors.check_texts(f"{path}.deviceClassName", name, names.dns_subdomain(name))
    else:
        errors.required(f"{path}.deviceClassName")
    check_list(errors, f"{path}.selectors", request.get("selectors"), _MAX_SELECTORS, _check_selector)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        errors.not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        errors.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        errors.invalid(f"{path}.count", count, "must be greater than zero")
    for index, toleration in enumerate(request.get("tolerations") or ()):
        _check_toleration(errors, f"{path}.tolerations[{index}]", toleration)


def _check_selector(errors: Errors, path: str, selector: JsonObject) -> None:
    cel = selector.get("cel")
    if cel is None:
        errors.required(f"{path}.cel")
    elif not cel.get("expression"):
        errors.required(f"{path}.cel.expression")
    elif byte_length(cel["expression"]) > _MAX_EXPRESSION:
        errors.too_long(f"{path}.cel.expression", _MAX_EXPRESSION)
    else:
        _check_expression(errors, f"{path}.cel.expression", cel["expression"])


def _check_expression(
    errors: Errors, path: str, expression: str, compiled: Callable[[str], DeviceSelector] = compile_selector
) -> None:
    try:
        selector = compiled(expression)
    except CompileError as error:
        errors.invalid(path, expression, str(error))
        return
    if most_cost(selector) > MAX_COST:
        errors.forbidden(path, "too complex, exceeds cost limit")


def _check_toleration(errors: Errors, path: str, toleration: JsonObject) -> None:
    key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
    if key:
        errors.check_texts(f"{path}.key", key, label_key_errors(key))
    if operator == "Exists":
        if value:
            errors.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        errors.check_texts(f"{path}.value", value, label_value_errors(value))
    else:
        errors.check_enum(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect := toleration.get("effect"):
        errors.check_enum(f"{path}.effect", effect, EFFECTS)


def _check_opaque(errors: Errors, path: str, config: JsonObject) -> None:
    opaque = config.get("opaque")
    if opaque is None:
        errors.required(f"{path}.opaque")
        return
    check_csi_driver_name(errors, f"{path}.opaque.driver", opaque.get("driver", ""))
    parameters, at = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        errors.required(at)
    elif not isinstance(parameters, dict):
        errors.invalid(at, "<value omitted>", "must be a valid JSON object")
    elif byte_length(go_json(parameters)) > _MAX_PARAMETERS:
        errors.too_long(at, _MAX_PARAMETERS)


def check_class(errors: Errors, device_class: JsonObject) -> None:
    spec = device_class.get("spec") or {}
    check_list(errors, "spec.selectors", spec.get("selectors"), _MAX_SELECTORS, _check_selector)
    check_list(errors, "spec.config", spec.get("config"), _MAX_CONFIG, _check_opaque)
    extended = spec.get("extendedResourceName")
    if extended is not None and not is_extended(extended):
        errors.invalid("spec.extendedResourceName", extended, "must be a valid extended resource name")


def check_class_update(errors: Errors, device_class: JsonObject, old: JsonObject, subresource: str) -> None:
    check_class(errors, device_class)


def check_claim_update(errors: Errors, claim: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource != "status":
        errors.check_immutable("spec", claim.get("spec"), old.get("spec"))
        return
    status, old_status = claim.get("status") or {}, old.get("status") or {}
    reserved, path = status.get("reservedFor") or [], "status.reservedFor"
    check_set(errors, path, reserved, _MAX_RESERVED, _check_consumer, lambda consumer: consumer.get("uid", ""))
    allocation, old_allocation = status.get("allocation"), old_status.get("allocation")
    _check_device_statuses(errors, status.get("devices") or [], allocation or {})
    if reserved and allocation is None:
        errors.forbidden(path, "may not be specified when `allocated` is not set")
    elif (claim.get("metadata") or {}).get("deletionTimestamp"):
        before = old_status.get("reservedFor") or []
        if any(consumer not in before for consumer in reserved):
            detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            errors.forbidden(path, detail)
    if allocation is None:
        return
    if old_allocation is None:
        known = _request_names((claim.get("spec") or {}).get("devices") or {})
        _check_allocation(errors, "status.allocation", allocation, known)
    elif not same(allocation, old_allocation):
        errors.invalid("status.allocation", allocation, "field is immutable")


def _check_consumer(errors: Errors, path: str, consumer: JsonObject) -> None:
    errors.check_required_fields(path, consumer, ("resource", "name", "uid"))


def _device_key(entry: JsonObject) -> tuple[str, str, str, str]:
    driver, pool, device, share = (entry.get(name, "") for name in ("driver", "pool", "device", "shareID"))
    return driver, pool, device, share


def _check_device_statuses(errors: Errors, devices: list[JsonObject], allocation: JsonObject) -> None:
    allocated = {_device_key(entry) for entry in (allocation.get("devices") or {}).get("results") or ()}
    seen: set[tuple[str, str, str, str]] = set()
    for index, device in enumerate(devices):
        at, key = f"status.devices[{index}]", _device_key(device)
        _check_device(errors, at, device)
        shown = "/".join(part for part in key if part)
        if key not in allocated:
            errors.invalid(at, shown, "must be an allocated device in the claim")
        if key in seen:
            errors.duplicate(at, shown)
        seen.add(key)


def _check_device(errors: Errors, path: str, device: JsonObject) -> None:
    check_csi_driver_name(errors, f"{path}.driver", device.get("driver", ""))
    check_pool_name(errors, f"{path}.pool", device.get("pool", ""))
    errors.check_texts(f"{path}.device", device.get("device", ""), names.dns_label(device.get("device", "")))
    share = device.get("shareID")
    if share is not None and not _UID_RE.fullmatch(share):
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters"
        )
        errors.invalid(f"{path}.shareID", share, detail)


def _check_allocation(errors: Errors, path: str, allocation: JsonObject, known: RequestNames) -> None:
    def check_result(errors: Errors, at: str, result: JsonObject) -> None:
        _check_reference(errors, f"{at}.request", result.get("request", ""), known)
        _check_device(errors, at, result)
        check_binding_conditions(errors, at, result)

    def check_configuration(errors: Errors, at: str, config: JsonObject) -> None:
        errors.check_enum(f"{at}.source", config.get("source"), ("FromClaim", "FromClass"))
        _check_references(errors, f"{at}.requests", config.get("requests"), known)
        _check_opaque(errors, at, config)

    devices = allocation.get("devices") or {}
    check_list(errors, f"{path}.devices.results", devices.get("results"), _MAX_RESULTS, check_result)
    check_list(errors, f"{path}.devices.config", devices.get("config"), 2 * _MAX_CONFIG, check_configuration)
    if (selector := allocation.get("nodeSelector")) is not None:
        check_node_selector(errors, f"{path}.nodeSelector", selector)


def check_binding_conditions(errors: Errors, path: str, device: JsonObject) -> None:
    """Check that binding conditions and binding failure conditions are set together."""
    good, bad = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    for name, conditions in (("bindingConditions", good), ("bindingFailureConditions", bad)):
        at = f"{path}.{name}"
        check_set(errors, at, conditions, _MAX_CONDITIONS, _check_condition, lambda condition: condition)
        other = "bindingFailureConditions" if name == "bindingConditions" else "bindingConditions"
        if not conditions and (bad if name == "bindingConditions" else good):
            errors.invalid(at, None, f"{name} are required to use {other}")
    for index, condition in enumerate(bad):
        if condition in good:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.invalid(f"{path}.bindingFailureConditions[{index}]", condition, detail)


def _check_condition(errors: Errors, path: str, condition: str) -> None:
    errors.check_texts(path, condition, label_key_errors(condition))
