"""Tables of PriorityClasses, PodDisruptionBudgets, Leases, PodGroups and device kinds.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject, condition_of
from stowplan_cluster.apiserver.tables.cells import (
    AGE,
    NAME,
    NONE,
    Cell,
    Printer,
    boolean,
    is_terminating,
    number,
    or_else,
    part,
    text,
    time_since,
)


def _priority_class(obj: JsonObject, _now: float) -> list[Cell]:
    return [
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        obj.get("preemptionPolicy") or "",
    ]


def _pod_disruption_budget(obj: JsonObject, _now: float) -> list[Cell]:
    spec = part(obj, "spec")
    return [
        or_else(spec.get("minAvailable"), "N/A"),
        or_else(spec.get("maxUnavailable"), "N/A"),
        part(obj, "status").get("disruptionsAllowed") or 0,
    ]


def _lease(obj: JsonObject, _now: float) -> list[Cell]:
    return [part(obj, "spec").get("holderIdentity") or ""]


def _lease_candidate(obj: JsonObject, _now: float) -> list[Cell]:
    spec = part(obj, "spec")
    versions = (spec.get("binaryVersion") or "", spec.get("emulationVersion") or "")
    return [spec.get("leaseName") or "", *versions]


def _pod_group_status(obj: JsonObject) -> str:
    status = part(obj, "status")
    if target := condition_of(status, "DisruptionTarget"):
        return target.get("reason") or ""
    scheduled = condition_of(status, "PodGroupInitiallyScheduled") or condition_of(status, "PodGroupScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


def _pod_group(obj: JsonObject, _now: float) -> list[Cell]:
    spec = part(obj, "spec")
    is_gang = part(spec, "schedulingPolicy").get("gang") is not None
    reference = spec.get("workloadRef") or part(spec, "podGroupTemplateRef").get("workload")
    return [
        "Gang" if is_gang else "Basic",
        NONE if reference is None else reference.get("workloadName") or "",
        _pod_group_status(obj),
    ]


def _composite_group(obj: JsonObject, now: float) -> list[Cell]:
    policy, workload, _ = _pod_group(obj, now)
    return [policy, workload, part(obj, "spec").get("parentCompositePodGroupName") or NONE]


def _claim_state(obj: JsonObject) -> str:
    status = part(obj, "status")
    states = ["deleted"] if is_terminating(obj) else []
    if status.get("allocation") is None:
        return ",".join(states or ["pending"])
    states.append("allocated")
    if status.get("reservedFor"):
        states.append("reserved")
    return ",".join(states)


def _resource_claim(obj: JsonObject, _now: float) -> list[Cell]:
    return [_claim_state(obj)]


def _resource_slice(obj: JsonObject, _now: float) -> list[Cell]:
    spec = part(obj, "spec")
    return [
        spec.get("nodeName") or "",
        spec.get("driver") or "",
        part(spec, "pool").get("name") or "",
    ]


def _device_taint_rule(obj: JsonObject, now: float) -> list[Cell]:
    taint = part(obj, "spec", "taint")
    added = taint.get("timeAdded")
    return [
        *(taint.get(field) or "" for field in ("key", "value", "effect")),
        time_since(added, now) if added else "",
    ]


PRIORITY_CLASSES = Printer(
    (
        NAME,
        number("Value", "The priority that pods of this class get."),
        boolean("Global-Default", "Whether pods without a class get this one."),
        AGE,
        text("PreemptionPolicy", "Whether its pods may push others out."),
    ),
    _priority_class,
)
POD_DISRUPTION_BUDGETS = Printer(
    (
        NAME,
        text("Min Available", "How many of its pods must stay."),
        text("Max Unavailable", "How many of its pods may be missing."),
        number("Allowed Disruptions", "How many of its pods may be evicted now."),
        AGE,
    ),
    _pod_disruption_budget,
)
LEASES = Printer((NAME, text("Holder", "Who holds the lease."), AGE), _lease)
LEASE_CANDIDATES = Printer(
    (
        NAME,
        text("LeaseName", "The lease it stands for."),
        text("BinaryVersion", "The version it is."),
        text("EmulationVersion", "The version it behaves as."),
        AGE,
    ),
    _lease_candidate,
)
POD_GROUPS = Printer(
    (
        NAME,
        text("Policy", "How its pods are scheduled together."),
        text("Workload", "The workload it was made for."),
        text("Status", "Whether its pods were placed."),
        AGE,
    ),
    _pod_group,
)
COMPOSITE_POD_GROUPS = Printer(
    (
        NAME,
        text("Policy", "How its groups are scheduled together."),
        text("Workload", "The workload it was made for."),
        text("Parent", "The group of groups that it belongs to."),
        AGE,
    ),
    _composite_group,
)
RESOURCE_CLAIMS = Printer(
    (NAME, text("State", "Whether it has devices, and whether pods use them."), AGE), _resource_claim
)
RESOURCE_SLICES = Printer(
    (
        NAME,
        text("Node", "The node that has the devices."),
        text("Driver", "The driver that manages them."),
        text("Pool", "The pool they belong to."),
        AGE,
    ),
    _resource_slice,
)
DEVICE_TAINT_RULES = Printer(
    (
        NAME,
        text("Key", "The key of the taint."),
        text("Value", "The value of the taint."),
        text("Effect", "What it does to pods whose claims do not tolerate it."),
        text("TimeAdded", "Since when the devices have the taint."),
        AGE,
    ),
    _device_taint_rule,
)
