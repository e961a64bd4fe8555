"""Tables for `kubectl get`: objects as rows of a meta.k8s.io/v1 Table.

The server computes columns and cells; kubectl only lays them out. A watch sends one table per row, with column
definitions in the first only.

Upstream: pkg/printers, apiserver/pkg/endpoints/handlers/response.go (asTable), apiserver/pkg/registry/rest/table.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from stowplan.kube.api.api_errors import BadRequest
from stowplan.kube.api.field_errors import go_quote
from stowplan_cluster.apiserver.tables import core, pods, scheduling, storage, workloads
from stowplan_cluster.apiserver.tables.cells import NAME, Cell, Column, Printer, part
from stowplan_cluster.apiserver.tables.custom import custom_printer

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

IncludeObject = Literal["Metadata", "Object", "None"]

_PRINTERS: dict[str, Printer] = {
    "pods": pods.PODS,
    "nodes": core.NODES,
    "namespaces": core.NAMESPACES,
    "services": core.SERVICES,
    "configmaps": core.CONFIG_MAPS,
    "secrets": core.SECRETS,
    "serviceaccounts": core.NAME_AND_AGE,
    "events": core.EVENTS,
    "events.events.k8s.io": core.EVENTS,
    "persistentvolumes": storage.PERSISTENT_VOLUMES,
    "persistentvolumeclaims": storage.PERSISTENT_VOLUME_CLAIMS,
    "replicationcontrollers": workloads.REPLICATION_CONTROLLERS,
    "deployments.apps": workloads.DEPLOYMENTS,
    "replicasets.apps": workloads.REPLICA_SETS,
    "statefulsets.apps": workloads.STATEFUL_SETS,
    "daemonsets.apps": workloads.DAEMON_SETS,
    "controllerrevisions.apps": workloads.CONTROLLER_REVISIONS,
    "jobs.batch": workloads.JOBS,
    "storageclasses.storage.k8s.io": storage.STORAGE_CLASSES,
    "csinodes.storage.k8s.io": storage.CSI_NODES,
    "csidrivers.storage.k8s.io": storage.CSI_DRIVERS,
    "volumeattachments.storage.k8s.io": storage.VOLUME_ATTACHMENTS,
    "poddisruptionbudgets.policy": scheduling.POD_DISRUPTION_BUDGETS,
    "priorityclasses.scheduling.k8s.io": scheduling.PRIORITY_CLASSES,
    "podgroups.scheduling.k8s.io": scheduling.POD_GROUPS,
    "compositepodgroups.scheduling.k8s.io": scheduling.COMPOSITE_POD_GROUPS,
    "workloads.scheduling.k8s.io": core.NAME_AND_AGE,
    "leases.coordination.k8s.io": scheduling.LEASES,
    "leasecandidates.coordination.k8s.io": scheduling.LEASE_CANDIDATES,
    "deviceclasses.resource.k8s.io": core.NAME_AND_AGE,
    "resourceclaims.resource.k8s.io": scheduling.RESOURCE_CLAIMS,
    "resourceclaimtemplates.resource.k8s.io": core.NAME_AND_AGE,
    "resourceslices.resource.k8s.io": scheduling.RESOURCE_SLICES,
    "devicetaintrules.resource.k8s.io": scheduling.DEVICE_TAINT_RULES,
    "clusterrolebindings.rbac.authorization.k8s.io": core.BINDINGS,
    "rolebindings.rbac.authorization.k8s.io": core.BINDINGS,
    "cronjobs.batch": workloads.CRON_JOBS,
    "horizontalpodautoscalers.autoscaling": workloads.AUTOSCALERS,
    "nodes.metrics.k8s.io": workloads.NODE_METRICS,
    "pods.metrics.k8s.io": workloads.POD_METRICS,
    "resourcequotas": core.QUOTAS,
    "limitranges": core.NAME_AND_AGE,
    "runtimeclasses.node.k8s.io": core.NAME_AND_AGE,
}


def _creation(obj: JsonObject, _now: float) -> list[Cell]:
    return [part(obj, "metadata").get("creationTimestamp") or "0001-01-01T00:00:00Z"]


#: Kinds without a printer: roles, capacities of CSI drivers, definitions of custom resources.
_PLAIN = Printer((NAME, Column("Created At", "date", "When the object was created.")), _creation)


def table_of(
    resource: Resource,
    objects: Sequence[JsonObject],
    *,
    now: float,
    include_object: str = "Metadata",
    version: str = "",
    continue_: str = "",
    remaining: int | None = None,
    headers: bool = True,
) -> JsonObject:
    """A Table of objects in the resource's apiVersion; `version`, `continue_` and `remaining` are the list's."""
    include = _checked(include_object)
    printer = _printer_of(resource)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": _list_metadata(version, continue_, remaining),
        "columnDefinitions": [column.to_dict() for column in printer.columns] if headers else None,
        "rows": [_row(printer, obj, now, include) for obj in objects],
    }


def _printer_of(resource: Resource) -> Printer:
    if resource.custom:
        return custom_printer(resource)
    return _PRINTERS.get(resource.qualified, core.NAME_AND_AGE if resource.stored_only else _PLAIN)


def _checked(include_object: str) -> IncludeObject:
    match include_object:
        case "" | "Metadata":
            return "Metadata"
        case "Object" | "None":
            return include_object
    raise BadRequest(f"unrecognized includeObject value: {go_quote(include_object)}")


def _list_metadata(version: str, continue_: str, remaining: int | None) -> JsonObject:
    metadata: JsonObject = {"resourceVersion": version, "continue": continue_, "remainingItemCount": remaining}
    return {key: value for key, value in metadata.items() if value not in ("", None)}


def _row(printer: Printer, obj: JsonObject, now: float, include: IncludeObject) -> JsonObject:
    row: JsonObject = {"cells": printer.cells(obj, now)}
    if printer.conditions is not None and (conditions := printer.conditions(obj)):
        row["conditions"] = conditions
    row["object"] = _included(obj, include)
    return row


def _included(obj: JsonObject, include: IncludeObject) -> JsonObject | None:
    if include == "None":
        return None
    return obj if include == "Object" else partial_object_metadata(obj)


def partial_object_metadata(obj: JsonObject) -> JsonObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata") or {},
    }
