"""Validate pod updates: few fields are mutable, some only through a subresource.

Upstream: pkg/apis/core/validation (ValidatePodUpdate, ValidatePodResize, ValidatePodEphemeralContainersUpdate).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.affinity import REQUIRED_TERMS
from stowplan.kube.api.container_totals import qos_class
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan.kube.api.meta import MAX_INT32
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors, between, difference, forbidden, same
from stowplan_cluster.apiserver.validation.names import check_ip, is_dual_stack
from stowplan_cluster.apiserver.validation.pods import MIRROR_ANNOTATION, check_pod

# Validate pod status updates by kubelets and the scheduler.
#
# Left out: users and allocated devices in container statuses, and statuses of extended-resource claims.
#
# Upstream: pkg/apis/core/validation (ValidatePodStatusUpdate).

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_AN_INTEGER = "must be a non-negative integer"


def check_pod_status_update(errors: Errors, pod: JsonObject, old: JsonObject) -> None:
    status, old_status = pod.get("status") or {}, old.get("status") or {}
    spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    _check_conditions(errors, status.get("conditions") or [])
    if spec.get("nodeName", "") != old_spec.get("nodeName", ""):
        errors.forbidden("status.nodeName", "may not be changed directly")
    _check_nomination(errors, status, old_status, bound=bool(old_spec.get("nodeName")))
    if (generation := status.get("observedGeneration", 0)) < 0:
        errors.invalid("status.observedGeneration", generation, _NOT_AN_INTEGER)
    errors.check_immutable("status.qosClass", status.get("qosClass", ""), old_status.get("qosClass", ""))
    for name in ("containerStatuses", "initContainerStatuses"):
        if statuses := status.get(name):
            _check_not_restarted(errors, f"status.{name}", statuses, old_status.get(name) or [], old_spec)
    _check_claims(errors, status.get("resourceClaimStatuses") or [], spec.get("resourceClaims") or [])
    _check_addresses(errors, "status.podIPs", status.get("podIPs") or [])
    if hosts := status.get("hostIPs"):
        if status.get("hostIP", "") != hosts[0].get("ip", ""):
            errors.invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`")
        _check_addresses(errors, "status.hostIPs", hosts)


def _check_conditions(errors: Errors, conditions: list[JsonObject]) -> None:
    for index, condition in enumerate(conditions):
        at, kind = f"status.conditions[{index}]", condition.get("type", "")
        if (generation := condition.get("observedGeneration", 0)) < 0:
            errors.invalid(f"{at}.observedGeneration", generation, _NOT_AN_INTEGER)
        if kind not in _SYSTEM_CONDITIONS:
            # Parity: the path says "Type".
            errors.check_texts(f"{at}.Type", kind, is_qualified_name_errors(kind))


def _check_nomination(errors: Errors, status: JsonObject, old: JsonObject, *, bound: bool) -> None:
    path, node = "status.nominatedNodeName", status.get("nominatedNodeName", "")
    if not node or node == old.get("nominatedNodeName", ""):
        return
    errors.check_texts(path, node, names.dns_subdomain(node))
    if bound:
        errors.forbidden(path, "may not be set on pods that are already bound to a node")


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
            errors.forbidden(f"{path}[{index}].state", "may not be transitioned to non-terminated state")


def _has_own_policies(spec: JsonObject) -> bool:
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return any("restartPolicy" in container for container in containers)


def _check_claims(errors: Errors, statuses: list[JsonObject], claims: list[JsonObject]) -> None:
    known, seen = {claim.get("name") for claim in claims}, set()
    for index, status in enumerate(statuses):
        at, name = f"status.resourceClaimStatuses[{index}]", status.get("name", "")
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.invalid(f"{at}.name", name, detail)
        if name in seen:
            errors.duplicate(f"{at}.name", name)
        seen.add(name)
        if (claim := status.get("resourceClaimName")) is not None:
            errors.check_texts(f"{at}.resourceClaimName", claim, names.dns_subdomain(claim))


def _check_addresses(errors: Errors, path: str, addresses: list[JsonObject]) -> None:
    texts = [address.get("ip", "") for address in addresses]
    for index, text in enumerate(texts):
        check_ip(errors, f"{path}[{index}]", text)
    if len(texts) > 1 and (len(texts) > 2 or not is_dual_stack(texts)):
        errors.invalid(path, addresses, "may specify no more than one IP for each IP family")


_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_RESIZABLE = ("cpu", "memory")


def check_pod_update(errors: Errors, pod: JsonObject, old: JsonObject, subresource: str) -> None:
    _check_annotations_kept(errors, pod, old)
    if subresource == "status":
        check_pod_status_update(errors, pod, old)
        return
    spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    if spec != old_spec or pod["metadata"].get("annotations") != old["metadata"].get("annotations"):
        # An unchanged spec was valid when it was stored.
        check_pod(errors, pod)
    if subresource == "ephemeralcontainers":
        _check_ephemeral_containers(errors, spec, old_spec)
    elif subresource == "resize":
        _check_resize(errors, pod, old)
    elif spec != old_spec:
        _check_spec_update(errors, spec, old_spec)


def _check_annotations_kept(errors: Errors, pod: JsonObject, old: JsonObject) -> None:
    new_value, old_value = _mirror(pod), _mirror(old)
    if new_value != old_value:
        what = "add" if old_value is None else "remove or update"
        errors.forbidden(f"metadata.annotations[{MIRROR_ANNOTATION}]", f"may not {what} mirror pod annotation")


def _mirror(pod: JsonObject) -> str | None:
    annotations: dict[str, str] = (pod.get("metadata") or {}).get("annotations") or {}
    return annotations.get(MIRROR_ANNOTATION)


def _check_spec_update(errors: Errors, spec: JsonObject, old: JsonObject) -> None:
    for name in ("containers", "initContainers"):
        new_containers, old_containers = spec.get(name) or [], old.get(name) or []
        if len(new_containers) != len(old_containers):
            errors.forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(new_containers):
            if not container.get("image"):
                errors.required(f"spec.{name}[{index}].image")
    if not _check_deadline(errors, spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")):
        return
    _check_tolerations_kept(errors, spec.get("tolerations") or [], old.get("tolerations") or [])
    _check_gates_only_removed(errors, spec.get("schedulingGates") or [], old.get("schedulingGates") or [])
    allowed = _with_what_may_change(errors, spec, old)
    if not same(spec, allowed):
        detail = f"pod updates may not change fields other than {_UPDATABLE}\n{difference(spec, allowed)}"
        errors.forbidden("spec", detail)


def _check_deadline(errors: Errors, new: int | None, old: int | None) -> bool:
    """Check a change of activeDeadlineSeconds; return whether to validate the rest."""
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            errors.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= new <= MAX_INT32:
        errors.invalid(path, new, between(0, MAX_INT32))
        return False
    if old is not None and old < new:
        errors.invalid(path, new, "must be less than or equal to previous value")
        return False
    return True


def _check_tolerations_kept(errors: Errors, new: Sequence[JsonObject], old: Sequence[JsonObject]) -> None:
    kept = [_without_seconds(toleration) for toleration in new]
    if all(_without_seconds(toleration) in kept for toleration in old):
        return
    detail = "existing toleration can not be modified except its tolerationSeconds"
    errors.forbidden("spec.tolerations", detail)


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds" and value}


def _check_gates_only_removed(errors: Errors, new: Sequence[JsonObject], old: Sequence[JsonObject]) -> None:
    known = {gate.get("name", "") for gate in old}
    for index, gate in enumerate(new):
        if (name := gate.get("name", "")) not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.forbidden(f"spec.schedulingGates[{index}].name", detail)


def _with_what_may_change(errors: Errors, spec: JsonObject, old: JsonObject) -> JsonObject:
    """The old spec with the new values of mutable fields; also checks what a gated pod may narrow."""
    allowed = dict(old)
    for name in ("containers", "initContainers"):
        if name in old:
            pairs = zip(old[name], spec.get(name) or [], strict=True)
            allowed[name] = [before | {"image": after.get("image", "")} for before, after in pairs]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        allowed[name] = spec.get(name)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        allowed["terminationGracePeriodSeconds"] = 1
    if old.get("schedulingGates"):
        allowed["nodeSelector"] = spec.get("nodeSelector")
        _check_node_selector_narrowed(errors, spec.get("nodeSelector") or {}, old.get("nodeSelector") or {})
        _allow_narrower_node_affinity(errors, allowed, spec)
    return allowed


def _check_node_selector_narrowed(errors: Errors, new: dict[str, str], old: dict[str, str]) -> None:
    if any(new.get(key) != value for key, value in old.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.invalid("spec.nodeSelector", new or None, detail)


def _allow_narrower_node_affinity(errors: Errors, allowed: JsonObject, spec: JsonObject) -> None:
    affinity = dict(allowed.get("affinity") or {})
    old, new = affinity.get("nodeAffinity"), (spec.get("affinity") or {}).get("nodeAffinity")
    if same(new, old):
        return
    _check_node_affinity_narrowed(errors, new or {}, old or {})
    affinity["nodeAffinity"] = new
    allowed["affinity"] = affinity


def _check_node_affinity_narrowed(errors: Errors, new: JsonObject, old: JsonObject) -> None:
    path = f"spec.affinity.nodeAffinity.{REQUIRED_TERMS}.nodeSelectorTerms"
    old_terms = (old.get(REQUIRED_TERMS) or {}).get("nodeSelectorTerms") or []
    new_terms = (new.get(REQUIRED_TERMS) or {}).get("nodeSelectorTerms") or []
    if old_terms and len(old_terms) != len(new_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.invalid(path, new_terms or None, detail)
        return
    for index, (after, before) in enumerate(zip(new_terms, old_terms, strict=False)):
        if not _has_only_additions(after, before):
            detail = "only additions are allowed (no mutations or deletions)"
            errors.invalid(f"{path}[{index}]", after, detail)


def _has_only_additions(new: JsonObject, old: JsonObject) -> bool:
    lists = [(new.get(name) or [], old.get(name) or []) for name in ("matchExpressions", "matchFields")]
    if not any(before for _, before in lists):
        # An empty term matches nothing, so any addition would widen the affinity.
        return not any(after for after, _ in lists)
    return all(same(after[: len(before)], before) for after, before in lists)


def _check_ephemeral_containers(errors: Errors, spec: JsonObject, old: JsonObject) -> None:
    path, new = (
        "spec.ephemeralContainers",
        {entry.get("name"): entry for entry in spec.get("ephemeralContainers") or ()},
    )
    for container in old.get("ephemeralContainers") or ():
        name = container.get("name", "")
        what = f"existing ephemeral containers {go_quote(name)} may not be"
        if name not in new:
            errors.forbidden(path, f"{what} removed\n")
        elif not same(new[name], container):
            errors.forbidden(path, f"{what} changed\n{difference(new[name], container)}")


def _check_resize(errors: Errors, pod: JsonObject, old: JsonObject) -> None:
    if MIRROR_ANNOTATION in ((old.get("metadata") or {}).get("annotations") or ()):
        errors[:] = [forbidden("", "static pods cannot be resized")]
        return
    spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    before = (old.get("status") or {}).get("qosClass") or qos_class(old_spec)
    if before != qos_class(spec):
        errors.invalid("spec", before, "Pod QOS Class may not change as a result of resizing")
    for name in ("containers", "initContainers"):
        if not _check_same_containers(errors, name, spec.get(name) or [], old_spec.get(name) or []):
            return
    found = len(errors)
    allowed = dict(old_spec)
    for name in ("containers", "initContainers"):
        if name in old_spec:
            allowed[name] = [
                _check_container_resize(errors, f"spec.{name}[{index}].resources", after, container)
                for index, (after, container) in enumerate(zip(spec.get(name) or [], old_spec[name], strict=True))
            ]
    if "resources" in spec:
        allowed["resources"] = _resized(spec["resources"], old_spec.get("resources") or {})
    if len(errors) == found and not same(spec, allowed):
        errors.forbidden("spec", "only cpu and memory resources are mutable")


def _check_same_containers(errors: Errors, what: str, new: Sequence[JsonObject], old: Sequence[JsonObject]) -> bool:
    path = f"spec.{what}"
    if len(new) != len(old):
        errors.forbidden(path, f"{what} may not be added or removed on resize")
        return False
    for index, (after, before) in enumerate(zip(new, old, strict=True)):
        if after.get("name") != before.get("name"):
            errors.forbidden(f"{path}[{index}].name", f"{what} may not be renamed or reordered on resize")
            return False
    return True


def _check_container_resize(errors: Errors, path: str, new: JsonObject, old: JsonObject) -> JsonObject:
    """The old container with the new values of the fields that a resize may change."""
    resources, before = new.get("resources") or {}, old.get("resources") or {}
    for kind in ("requests", "limits"):
        if set(before.get(kind) or ()) - set(resources.get(kind) or ()):
            errors.forbidden(f"{path}.{kind}", f"resource {kind} cannot be removed")
    return old | {"resources": _resized(resources, before), "resizePolicy": new.get("resizePolicy")}


def _resized(new: JsonObject, old: JsonObject) -> dict[str, Any]:
    resized = dict(old)
    for kind in ("requests", "limits"):
        amounts = {name: value for name, value in (new.get(kind) or {}).items() if name in _RESIZABLE}
        rest = {name: value for name, value in (old.get(kind) or {}).items() if name not in _RESIZABLE}
        resized[kind] = rest | amounts
    return resized
