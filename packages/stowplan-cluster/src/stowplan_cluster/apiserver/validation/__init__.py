"""Validate objects before they are stored; each error names the field.

All kinds share the metadata rules and have one rule for names; each kind has a function for creates and one for
updates. They run after defaults and strategies. For custom resources only metadata is validated here, the rest by their
schema; of kinds that nothing acts on, only metadata.

Upstream: pkg/apis/*/validation, called by pkg/registry/*/strategy.go.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.kube.api.api_errors import FieldError
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.rbac import GROUP
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.validation import (
    access,
    autoscalers,
    claims,
    core,
    definitions,
    device_claims,
    device_slices,
    jobs,
    metadata,
    names,
    pod_updates,
    pods,
    quotas,
    scheduling,
    storage,
    workloads,
)
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.names import NameRule

Check = Callable[[Errors, JsonObject], None]
#: (errors, new, old, subresource)
CheckUpdate = Callable[[Errors, JsonObject, JsonObject, str], None]

__all__ = ["validate_create", "validate_update"]


class _Rules(PlainStruct, frozen=True):
    check: Check
    check_update: CheckUpdate
    name: NameRule = names.dns_subdomain
    #: Whether generateName is validated.
    judge_prefix: bool = True
    #: Whether finalizers without a domain must be known ones; later kinds do not check.
    known_finalizers: bool = True


def _accept(errors: Errors, obj: JsonObject) -> None:
    """Nothing beyond metadata."""


def _accept_update(errors: Errors, obj: JsonObject, old: JsonObject, subresource: str) -> None:
    """Nothing beyond metadata."""


_CUSTOM = _Rules(_accept, _accept_update, known_finalizers=False)
#: Names follow the most permissive rule of these kinds.
_STORED_ONLY = _Rules(_accept, _accept_update, names.path_segment, known_finalizers=False)

_CORE = {
    "configmaps": _Rules(core.check_config_map, core.check_config_map_update),
    "namespaces": _Rules(quotas.check_namespace, quotas.check_namespace_update, names.dns_label),
    "nodes": _Rules(core.check_node, core.check_node_update),
    "persistentvolumeclaims": _Rules(claims.check_claim, claims.check_claim_update),
    "persistentvolumes": _Rules(storage.check_volume, storage.check_volume_update),
    "pods": _Rules(pods.check_new_pod, pod_updates.check_pod_update),
    "replicationcontrollers": _Rules(
        workloads.check_controller, workloads.check_controller_update, names.long_name, judge_prefix=False
    ),
    "resourcequotas": _Rules(quotas.check_quota, quotas.check_quota_update),
    "limitranges": _Rules(quotas.check_limit_range, quotas.check_limit_range_update),
    "runtimeclasses.node.k8s.io": _Rules(quotas.check_runtime_class, quotas.check_runtime_class_update),
    "secrets": _Rules(core.check_secret, core.check_secret_update),
    "serviceaccounts": _Rules(_accept, _accept_update),
    "services": _Rules(core.check_service, core.check_service_update, names.dns_label),
}
_WORKLOADS = {
    "controllerrevisions.apps": _Rules(workloads.check_revision, workloads.check_revision_update),
    "daemonsets.apps": _Rules(workloads.check_daemon_set, workloads.check_daemon_set_update),
    "deployments.apps": _Rules(workloads.check_deployment, workloads.check_deployment_update),
    "replicasets.apps": _Rules(workloads.check_replica_set, workloads.check_replica_set_update),
    "statefulsets.apps": _Rules(workloads.check_stateful_set, workloads.check_stateful_set_update, names.dns_label),
    "jobs.batch": _Rules(jobs.check_job, jobs.check_job_update),
    "cronjobs.batch": _Rules(jobs.check_cron_job, jobs.check_cron_job_update),
    "horizontalpodautoscalers.autoscaling": _Rules(autoscalers.check_autoscaler, autoscalers.check_autoscaler_update),
}
_STORAGE = {
    "csidrivers.storage.k8s.io": _Rules(storage.check_csi_driver, storage.check_csi_driver_update),
    "csinodes.storage.k8s.io": _Rules(storage.check_csi_node, storage.check_csi_node_update),
    "csistoragecapacities.storage.k8s.io": _Rules(storage.check_capacity, storage.check_capacity_update),
    "storageclasses.storage.k8s.io": _Rules(storage.check_class, storage.check_class_update),
    "volumeattachments.storage.k8s.io": _Rules(storage.check_attachment, storage.check_attachment_update),
}
_SCHEDULING = {
    "poddisruptionbudgets.policy": _Rules(
        scheduling.check_budget, scheduling.check_budget_update, names.path_segment, known_finalizers=False
    ),
    "priorityclasses.scheduling.k8s.io": _Rules(
        scheduling.check_priority_class, scheduling.check_priority_class_update
    ),
    "workloads.scheduling.k8s.io": _Rules(scheduling.check_workload, scheduling.check_workload_update),
    "podgroups.scheduling.k8s.io": _Rules(scheduling.check_pod_group, scheduling.check_pod_group_update),
    "compositepodgroups.scheduling.k8s.io": _Rules(
        scheduling.check_composite_group, scheduling.check_composite_group_update
    ),
    "leases.coordination.k8s.io": _Rules(scheduling.check_lease, scheduling.check_lease_update, known_finalizers=False),
    "leasecandidates.coordination.k8s.io": _Rules(
        scheduling.check_candidate, scheduling.check_candidate_update, names.config_key, known_finalizers=False
    ),
}
_DEVICES = {
    "deviceclasses.resource.k8s.io": _Rules(
        device_claims.check_class, device_claims.check_class_update, names.long_name, judge_prefix=False
    ),
    "resourceclaims.resource.k8s.io": _Rules(device_claims.check_claim, device_claims.check_claim_update),
    "resourceclaimtemplates.resource.k8s.io": _Rules(device_claims.check_template, device_claims.check_template_update),
    "resourceslices.resource.k8s.io": _Rules(device_slices.check_slice, device_slices.check_slice_update),
    "devicetaintrules.resource.k8s.io": _Rules(device_slices.check_taint_rule, device_slices.check_taint_rule_update),
}
_ACCESS = {
    f"{plural}.{GROUP}": _Rules(check, check_update, names.path_segment)
    for plural, check, check_update in (
        ("clusterrolebindings", access.check_cluster_role_binding, access.check_cluster_role_binding_update),
        ("clusterroles", access.check_cluster_role, access.check_cluster_role_update),
        ("rolebindings", access.check_role_binding, access.check_role_binding_update),
        ("roles", access.check_role, access.check_role_update),
    )
}
_EVENTS = {
    "events": _Rules(core.check_core_event, core.check_core_event_update, names.path_segment, known_finalizers=False),
    "events.events.k8s.io": _Rules(core.check_event, core.check_event_update),
}
_RULES = {
    **_CORE,
    **_WORKLOADS,
    **_STORAGE,
    **_SCHEDULING,
    **_DEVICES,
    **_ACCESS,
    **_EVENTS,
    "customresourcedefinitions.apiextensions.k8s.io": _Rules(
        definitions.check_definition, definitions.check_definition_update, known_finalizers=False
    ),
}


def _rules_of(resource: Resource) -> _Rules | None:
    if resource.custom:
        return _CUSTOM
    return _RULES.get(resource.qualified, _STORED_ONLY if resource.stored_only else None)


def validate_create(resource: Resource, obj: JsonObject) -> list[FieldError]:
    """Validate a new object, without changing it."""
    errors = Errors()
    rules = _rules_of(resource)
    if rules is None:
        # Reviews and bindings are not stored.
        return errors
    metadata.check_metadata(
        errors,
        obj.get("metadata") or {},
        namespaced=resource.namespaced,
        name_rule=rules.name,
        judge_prefix=rules.judge_prefix,
    )
    if rules.known_finalizers:
        metadata.check_known_finalizers(errors, obj.get("metadata") or {})
    rules.check(errors, obj)
    return _distinct(errors)


def validate_update(resource: Resource, obj: JsonObject, old: JsonObject, *, subresource: str = "") -> list[FieldError]:
    """Validate an updated object and its differences from the stored one."""
    errors = Errors()
    rules = _rules_of(resource)
    if rules is None:
        return errors
    metadata.check_metadata_update(errors, obj.get("metadata") or {}, old.get("metadata") or {})
    if rules.known_finalizers:
        metadata.check_known_finalizers(errors, obj.get("metadata") or {})
    rules.check_update(errors, obj, old, subresource)
    return _distinct(errors)


def _distinct(errors: Errors) -> list[FieldError]:
    return list(dict.fromkeys(errors)) if len(errors) > 1 else errors
