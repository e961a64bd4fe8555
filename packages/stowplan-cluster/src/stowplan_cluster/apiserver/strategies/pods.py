"""Pods: initial status, matchLabelKeys, and the fields that each subresource may change.

Upstream: pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.kube.api.affinity import PREFERRED_TERMS, REQUIRED_TERMS
from stowplan.kube.api.container_totals import qos_class
from stowplan.kube.api.meta import timestamp
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, keep, metadata_of, set_condition

_NOT_OF_SUBRESOURCES = ("deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences")
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def prepare_new_pod(pod: JsonObject, now: float) -> None:
    spec = pod["spec"]
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        set_condition(pod["status"], dict(_GATED), now=timestamp(now), probed=True)
    if spec.get("affinity") or spec.get("topologySpreadConstraints"):
        _apply_label_keys(spec, metadata_of(pod).get("labels") or {})


def _apply_label_keys(spec: JsonObject, labels: dict[str, str]) -> None:
    for term in (*_affinity_terms(spec.get("affinity") or {}), *(spec.get("topologySpreadConstraints") or ())):
        selector = term.get("labelSelector")
        if selector is None:
            continue
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in term.get(field) or ():
                if key in labels:
                    requirement = {"key": key, "operator": operator, "values": [labels[key]]}
                    selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), requirement]


def _affinity_terms(affinity: JsonObject) -> Iterator[JsonObject]:
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        yield from ((weighted.get("podAffinityTerm") or {}) for weighted in terms.get(PREFERRED_TERMS) or ())
        yield from terms.get(REQUIRED_TERMS) or ()


def prepare_update(pod: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        _complete_status(pod.setdefault("status", {}), old.get("status") or {})
    elif subresource == "ephemeralcontainers":
        _keep_all_but_ephemeral_containers(pod, old)
    elif subresource == "resize":
        _keep_all_but_resources(pod, old)


def _complete_status(status: JsonObject, old: JsonObject) -> None:
    """Keep fields that older kubelets omit, and sync podIP with podIPs if only one of them was set."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]
    for name in ("qosClass", "observedGeneration"):
        if not status.get(name) and old.get(name):
            status[name] = old[name]
    for condition in status.get("conditions") or ():
        known = condition_of(old, condition.get("type", "")) or {}
        if not condition.get("observedGeneration") and known.get("observedGeneration"):
            condition["observedGeneration"] = known["observedGeneration"]


def _keep_all_but_ephemeral_containers(pod: JsonObject, old: JsonObject) -> None:
    added = pod["spec"].get("ephemeralContainers")
    pod["spec"] = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
    if added:
        pod["spec"]["ephemeralContainers"] = added
    keep(metadata_of(pod), metadata_of(old), *_NOT_OF_SUBRESOURCES)


def _keep_all_but_resources(pod: JsonObject, old: JsonObject) -> None:
    spec, old_spec = pod["spec"], old["spec"]
    kept = dict(old_spec)
    for name in ("containers", "initContainers"):
        new_containers, old_containers = spec.get(name) or [], old_spec.get(name) or []
        if [entry.get("name") for entry in new_containers] != [entry.get("name") for entry in old_containers]:
            return  # Validation rejects this.
        if old_containers:
            kept[name] = [_resized(*pair) for pair in zip(old_containers, new_containers, strict=True)]
    if "resources" in spec:
        kept["resources"] = spec["resources"]
    pod["spec"] = kept
    keep(metadata_of(pod), metadata_of(old), *_NOT_OF_SUBRESOURCES)


def _resized(old: JsonObject, new: JsonObject) -> JsonObject:
    changed = {name: new[name] for name in ("resources", "resizePolicy") if name in new}
    return {name: value for name, value in old.items() if name not in ("resources", "resizePolicy")} | changed
