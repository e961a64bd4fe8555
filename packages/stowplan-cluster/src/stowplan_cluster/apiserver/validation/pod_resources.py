"""Validate pod-level resources against those of the containers.

Upstream: pkg/apis/core/validation (validatePodResources, validatePodResourceConsistency).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.quantity import format_quantity, parse_quantity
from stowplan_cluster.apiserver.defaults.aggregates import container_totals
from stowplan_cluster.apiserver.validation.fields import Errors, forbidden, invalid
from stowplan_cluster.apiserver.validation.resources import check_pod_resource_name, check_requirements, is_hugepage

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def check_pod_resources(errors: Errors, path: str, spec: JsonObject, claims: frozenset[str]) -> None:
    resources, at = spec["resources"], f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        errors.append(forbidden(at, "may not be set for a windows pod"))
        return
    if resources.get("claims"):
        errors.append(forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level"))
    check_requirements(errors, at, resources, name_rule=check_pod_resource_name, claims=claims)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, total in container_totals(spec, "requests").items():
        if name in requests and total > parse_quantity(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {format_quantity(total)}"
            errors.append(invalid(f"{at}.requests[{name}]", requests[name], detail))
    for name, total in container_totals(spec, "limits").items():
        if is_hugepage(name) and name in limits and total > parse_quantity(limits[name]):
            detail = f"must be greater than or equal to aggregate container limits of {format_quantity(total)}"
            errors.append(invalid(f"{at}.limits[{name}]", limits[name], detail))
    _check_container_limits(errors, at, spec, limits)


def _check_container_limits(errors: Errors, path: str, spec: JsonObject, limits: JsonObject) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and parse_quantity(limit) > parse_quantity(limits[name]):
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", limit, detail))
