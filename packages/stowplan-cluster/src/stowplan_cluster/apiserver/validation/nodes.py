"""Validate Nodes: taints, pod CIDRs and resource quantities.

Left out: configSource (nothing reads it any more) and the annotations that came before taints.

Upstream: pkg/apis/core/validation (ValidateNode, ValidateNodeUpdate).
"""

from __future__ import annotations

import re

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.labels import label_value_errors
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.names import MAX_SUBDOMAIN, check_network, is_dual_stack
from stowplan_cluster.apiserver.validation.placement import TAINT_EFFECTS
from stowplan_cluster.apiserver.validation.resources import check_resource_quantity
from stowplan_cluster.apiserver.validation.selectors import check_label_key

_FEATURE_RE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")


def check_node(errors: Errors, node: JsonObject) -> None:
    spec = node.get("spec") or {}
    _check_taints(errors, spec.get("taints") or [])
    _check_status(errors, node.get("status") or {})
    if ranges := spec.get("podCIDRs"):
        for index, text in enumerate(ranges):
            check_network(errors, f"spec.podCIDRs[{index}]", text)
        if len(ranges) > 1 and (len(ranges) > 2 or not is_dual_stack(ranges)):
            errors.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def check_node_update(errors: Errors, node: JsonObject, old: JsonObject, subresource: str) -> None:
    spec, old_spec, status = node.get("spec") or {}, old.get("spec") or {}, node.get("status") or {}
    if status != old.get("status"):
        _check_status(errors, status)
        _check_addresses(errors, status.get("addresses") or [])
    if subresource == "status":
        return
    old_ranges = old_spec.get("podCIDRs")
    if old_ranges and old_ranges != spec.get("podCIDRs"):
        errors.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    old_provider = old_spec.get("providerID")
    if old_provider and old_provider != spec.get("providerID"):
        errors.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    _check_taints(errors, spec.get("taints") or [])
    if spec.get("externalID", "") != old_spec.get("externalID", ""):
        errors.forbidden("spec.externalID", "may not be updated")


def _check_taints(errors: Errors, taints: list[JsonObject]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        # Parity: the reference's path puts taints into metadata.
        at, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        check_label_key(errors, f"{at}.key", key)
        if complaints := label_value_errors(taint.get("value", "")):
            errors.invalid(f"{at}.value", taint["value"], ";".join(complaints))
        errors.check_enum(f"{at}.effect", effect, TAINT_EFFECTS)
        if (key, effect) in seen:
            errors.duplicate(at, taint, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def _check_status(errors: Errors, status: JsonObject) -> None:
    for kind in ("capacity", "allocatable"):
        for name, value in (status.get(kind) or {}).items():
            check_resource_quantity(errors, f"status.{kind}.{name}", name, value)
    features = status.get("declaredFeatures") or []
    for index, feature in enumerate(features):
        at = f"status.declaredFeatures[{index}]"
        _check_feature(errors, at, feature)
        if index and feature == features[index - 1]:
            errors.duplicate(at, feature)
        elif index and feature < features[index - 1]:
            errors.invalid(at, feature, "list must be sorted alphabetically")


def _check_feature(errors: Errors, path: str, feature: str) -> None:
    if len(feature) > MAX_SUBDOMAIN:
        detail = f"must be no more than {MAX_SUBDOMAIN} characters"
    elif not _FEATURE_RE.fullmatch(feature):
        detail = (
            "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
            "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
        )
    else:
        return
    errors.invalid(path, feature, f"invalid feature name {go_quote(feature)}: {detail}")


def _check_addresses(errors: Errors, addresses: list[JsonObject]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(addresses):
        key = (address.get("type", ""), address.get("address", ""))
        if key in seen:
            errors.duplicate(f"status.addresses[{index}]", address)
        seen.add(key)
