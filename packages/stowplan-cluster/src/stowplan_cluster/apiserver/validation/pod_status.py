"""Validate pod status updates by kubelets and the scheduler.

Left out: users and allocated devices in container statuses, and statuses of extended-resource claims.

Upstream: pkg/apis/core/validation (ValidatePodStatusUpdate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.changes import check_immutable
from stowplan_cluster.apiserver.validation.fields import Errors, check_texts, duplicate, forbidden, invalid
from stowplan_cluster.apiserver.validation.ip_addresses import check_ip, is_dual_stack

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_AN_INTEGER = "must be a non-negative integer"


def check_pod_status_update(errors: Errors, pod: JsonObject, old: JsonObject) -> None:
    status, old_status = pod.get("status") or {}, old.get("status") or {}
    spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    _check_conditions(errors, status.get("conditions") or [])
    if spec.get("nodeName", "") != old_spec.get("nodeName", ""):
        errors.append(forbidden("status.nodeName", "may not be changed directly"))
    _check_nomination(errors, status, old_status, bound=bool(old_spec.get("nodeName")))
    if (generation := status.get("observedGeneration", 0)) < 0:
        errors.append(invalid("status.observedGeneration", generation, _NOT_AN_INTEGER))
    check_immutable(errors, "status.qosClass", status.get("qosClass", ""), old_status.get("qosClass", ""))
    for name in ("containerStatuses", "initContainerStatuses"):
        if statuses := status.get(name):
            _check_not_restarted(errors, f"status.{name}", statuses, old_status.get(name) or [], old_spec)
    _check_claims(errors, status.get("resourceClaimStatuses") or [], spec.get("resourceClaims") or [])
    _check_addresses(errors, "status.podIPs", status.get("podIPs") or [])
    if hosts := status.get("hostIPs"):
        if status.get("hostIP", "") != hosts[0].get("ip", ""):
            errors.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`"))
        _check_addresses(errors, "status.hostIPs", hosts)


def _check_conditions(errors: Errors, conditions: list[JsonObject]) -> None:
    for index, condition in enumerate(conditions):
        at, kind = f"status.conditions[{index}]", condition.get("type", "")
        if (generation := condition.get("observedGeneration", 0)) < 0:
            errors.append(invalid(f"{at}.observedGeneration", generation, _NOT_AN_INTEGER))
        if kind not in _SYSTEM_CONDITIONS:
            # Parity: the path says "Type".
            check_texts(errors, f"{at}.Type", kind, is_qualified_name_errors(kind))


def _check_nomination(errors: Errors, status: JsonObject, old: JsonObject, *, bound: bool) -> None:
    path, node = "status.nominatedNodeName", status.get("nominatedNodeName", "")
    if not node or node == old.get("nominatedNodeName", ""):
        return
    check_texts(errors, path, node, names.dns_subdomain(node))
    if bound:
        errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))


def _check_not_restarted(
    errors: Errors, path: str, new: list[JsonObject], old: list[JsonObject], spec: JsonObject
) -> None:
    """Check that no terminated container restarts against its restart policy."""
    policy = spec.get("restartPolicy")
    if policy == "Always" or _has_own_policies(spec):
        return
    now = {status.get("name"): status.get("state") or {} for status in new}
    for index, status in enumerate(old):
        ended = (status.get("state") or {}).get("terminated")
        if ended is None or (policy == "OnFailure" and ended.get("exitCode", 0) != 0):
            continue
        state = now.get(status.get("name"))
        if state is not None and state.get("terminated") is None:
            errors.append(forbidden(f"{path}[{index}].state", "may not be transitioned to non-terminated state"))


def _has_own_policies(spec: JsonObject) -> bool:
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return any("restartPolicy" in container for container in containers)


def _check_claims(errors: Errors, statuses: list[JsonObject], claims: list[JsonObject]) -> None:
    known, seen = {claim.get("name") for claim in claims}, set()
    for index, status in enumerate(statuses):
        at, name = f"status.resourceClaimStatuses[{index}]", status.get("name", "")
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{at}.name", name, detail))
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
        if (claim := status.get("resourceClaimName")) is not None:
            check_texts(errors, f"{at}.resourceClaimName", claim, names.dns_subdomain(claim))


def _check_addresses(errors: Errors, path: str, addresses: list[JsonObject]) -> None:
    texts = [address.get("ip", "") for address in addresses]
    for index, text in enumerate(texts):
        check_ip(errors, f"{path}[{index}]", text)
    if len(texts) > 1 and (len(texts) > 2 or not is_dual_stack(texts)):
        errors.append(invalid(path, addresses, "may specify no more than one IP for each IP family"))
