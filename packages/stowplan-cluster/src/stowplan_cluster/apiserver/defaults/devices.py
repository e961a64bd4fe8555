"""Defaults of resource claims and slices.

`timeAdded` of taints is set by `strategies`, as defaults have no clock.

Upstream: pkg/apis/resource/v1/defaults.go.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject


def default_resource_claim(claim: JsonObject) -> None:
    _default_claim_spec(claim.get("spec") or {})
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        _default_tolerations(result)


def default_claim_template(template: JsonObject) -> None:
    _default_claim_spec((template.get("spec") or {}).get("spec") or {})


def _default_claim_spec(spec: JsonObject) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if (exactly := request.get("exactly")) is not None:
            _default_request(exactly)
        for alternative in request.get("firstAvailable") or ():
            _default_request(alternative)


def _default_request(request: JsonObject) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    _default_tolerations(request)


def _default_tolerations(holder: JsonObject) -> None:
    for toleration in holder.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def default_slice(resource_slice: JsonObject) -> None:
    for device in (resource_slice.get("spec") or {}).get("devices") or ():
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            if mapping.get("allocationMultiplier") is None:
                mapping["allocationMultiplier"] = "1"
