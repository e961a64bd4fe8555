"""Tables of workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs, their autoscalers and usage.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.quantity import Format, format_quantity, parse_quantity
from stowplan_cluster.apiserver.objects import JsonObject, is_true
from stowplan_cluster.apiserver.selection import format_selector
from stowplan_cluster.apiserver.tables.cells import (
    AGE,
    NAME,
    NONE,
    TEMPLATE,
    UNSET,
    WIDE,
    Cell,
    Printer,
    boolean,
    format_labels,
    is_terminating,
    number,
    or_else,
    part,
    selector_cell,
    template_cells,
    text,
    time_since,
)

_UNKNOWN = "<unknown>"
_SHOWN_METRICS = 2
_SELECTOR = text("Selector", "Which pods belong to it.", priority=WIDE)
_READY = text("Ready", "How many pods are ready, of how many wanted.")
_JOB_STATUSES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _template(obj: JsonObject) -> JsonObject:
    return part(obj, "spec", "template")


def _counts(counts: JsonObject, *names: str) -> list[Cell]:
    return [counts.get(name) or 0 for name in names]


def _deployment(obj: JsonObject, _now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    try:
        selector = format_selector(spec.get("selector"))
    except ValueError:
        selector = "<invalid>"
    return [
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        *_counts(status, "updatedReplicas", "availableReplicas"),
        *template_cells(_template(obj)),
        selector,
    ]


def _replicas(obj: JsonObject) -> list[Cell]:
    return [*_counts(part(obj, "spec"), "replicas"), *_counts(part(obj, "status"), "replicas", "readyReplicas")]


def _replica_set(obj: JsonObject, _now: float) -> list[Cell]:
    selector = selector_cell(part(obj, "spec").get("selector"))
    return [*_replicas(obj), *template_cells(_template(obj)), selector]


def _replication_controller(obj: JsonObject, _now: float) -> list[Cell]:
    selector = format_labels(part(obj, "spec").get("selector"))
    return [*_replicas(obj), *template_cells(_template(obj)), selector]


def _stateful_set(obj: JsonObject, _now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [ready, *template_cells(_template(obj))]


def _daemon_set(obj: JsonObject, _now: float) -> list[Cell]:
    return [
        *_counts(
            part(obj, "status"),
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ),
        format_labels(part(_template(obj), "spec").get("nodeSelector")),
        *template_cells(_template(obj)),
        selector_cell(part(obj, "spec").get("selector")),
    ]


def _job_status(obj: JsonObject) -> str:
    for type, shown in _JOB_STATUSES:
        if is_true(part(obj, "status"), type) if type else is_terminating(obj):
            return shown
    return "Running"


def _job_completions(obj: JsonObject) -> str:
    spec, succeeded = part(obj, "spec"), part(obj, "status").get("succeeded") or 0
    if (completions := spec.get("completions")) is not None:
        return f"{succeeded}/{completions}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: JsonObject, now: float) -> str:
    status = part(obj, "status")
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return time_since(start, parse_timestamp(end)) if end else time_since(start, now)


def _job(obj: JsonObject, now: float) -> list[Cell]:
    return [
        _job_status(obj),
        _job_completions(obj),
        _job_duration(obj, now),
        *template_cells(_template(obj)),
        selector_cell(part(obj, "spec").get("selector")),
    ]


def _controller_revision(obj: JsonObject, _now: float) -> list[Cell]:
    owners = part(obj, "metadata").get("ownerReferences") or []
    owner = next((owner for owner in owners if owner.get("controller")), None)
    return [_owner_cell(owner) if owner else NONE, obj.get("revision") or 0]


def _owner_cell(owner: JsonObject) -> str:
    group, _, version = owner.get("apiVersion", "").rpartition("/")
    kind = f"{owner.get('kind', '')}.{group}" if version and group else owner.get("kind", "")
    return f"{kind.lower()}/{owner.get('name', '')}"


_REPLICAS = (
    NAME,
    number("Desired", "How many pods are wanted."),
    number("Current", "How many pods there are."),
    number("Ready", "How many pods are ready."),
    AGE,
    *TEMPLATE,
    _SELECTOR,
)


def _cron_job(obj: JsonObject, now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    job = part(spec, "jobTemplate", "spec")
    last = status.get("lastScheduleTime")
    return [
        spec.get("schedule") or "",
        or_else(spec.get("timeZone"), NONE),
        str(bool(spec.get("suspend"))),
        len(status.get("active") or ()),
        time_since(last, now) if last else NONE,
        *template_cells(part(job, "template")),
        selector_cell(job.get("selector")),
    ]


def _autoscaler(obj: JsonObject, _now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    target = part(spec, "scaleTargetRef")
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec, status),
        str(spec.get("minReplicas", UNSET)),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
    ]


def _metrics(spec: JsonObject, status: JsonObject) -> str:
    """What is measured, and the targets."""
    percentage = spec.get("targetCPUUtilizationPercentage")
    used = status.get("currentCPUUtilizationPercentage")
    found = [] if percentage is None else [f"cpu: {_UNKNOWN if used is None else f'{used}%'}/{percentage}%"]
    statuses = status.get("currentMetrics") or ()
    for index, metric in enumerate(spec.get("metrics") or ()):
        found.append(_metric(metric, statuses[index] if index < len(statuses) else {}))
    rest = f" + {len(found) - _SHOWN_METRICS} more..." if len(found) > _SHOWN_METRICS else ""
    return ", ".join(found[:_SHOWN_METRICS]) + rest if found else NONE


def _metric(metric: JsonObject, status: JsonObject) -> str:
    kind = metric.get("type") or ""
    name = kind[:1].lower() + kind[1:]
    source = part(metric, name)
    target, current = part(source, "target"), part(part(status, name), "current")
    average = target.get("averageValue")
    measured = current.get("averageValue" if average else "value", _UNKNOWN)
    if kind in ("Resource", "ContainerResource"):
        if average:
            return f"{source.get('name')}: {measured}/{average}"
        percentage, used = target.get("averageUtilization"), current.get("averageUtilization")
        wanted = "<auto>" if percentage is None else f"{percentage}%"
        return f"{source.get('name')}: {_UNKNOWN if used is None else f'{used}%'}/{wanted}"
    if kind == "Pods":
        return f"{measured}/{average or target.get('value')}"
    return f"{measured}/{average} (avg)" if average else f"{measured}/{target.get('value')}"


def _measured_node(obj: JsonObject, _now: float) -> list[Cell]:
    return _measured(obj, part(obj, "usage"))


def _measured_pod(obj: JsonObject, _now: float) -> list[Cell]:
    usages = [part(container, "usage") for container in obj.get("containers") or ()]
    nano = {name: sum(parse_quantity(usage.get(name, 0)) for usage in usages) for name in ("cpu", "memory")}
    memory = format_quantity(nano["memory"], Format.BINARY_SI)
    return _measured(obj, {"cpu": format_quantity(nano["cpu"]), "memory": memory})


def _measured(obj: JsonObject, usage: JsonObject) -> list[Cell]:
    return [usage.get("cpu", "0"), usage.get("memory", "0"), obj.get("window", "")]


DEPLOYMENTS = Printer(
    (
        NAME,
        _READY,
        text("Up-to-date", "How many pods follow the present template."),
        text("Available", "How many pods have been ready for long enough."),
        AGE,
        *TEMPLATE,
        _SELECTOR,
    ),
    _deployment,
)
REPLICA_SETS = Printer(_REPLICAS, _replica_set)
REPLICATION_CONTROLLERS = Printer(_REPLICAS, _replication_controller)
STATEFUL_SETS = Printer((NAME, _READY, AGE, *TEMPLATE), _stateful_set)
DAEMON_SETS = Printer(
    (
        NAME,
        number("Desired", "How many nodes should run its pod."),
        number("Current", "How many of those nodes have one."),
        number("Ready", "How many of those nodes have a ready one."),
        number("Up-to-date", "How many nodes have a pod of the present template."),
        number("Available", "How many nodes have a pod that has been ready for long enough."),
        text("Node Selector", "Labels of the nodes that may run its pod."),
        AGE,
        *TEMPLATE,
        _SELECTOR,
    ),
    _daemon_set,
)
JOBS = Printer(
    (
        NAME,
        text("Status", "How far the job is."),
        text("Completions", "How many pods succeeded, of how many wanted."),
        text("Duration", "How long the job took, or has been running."),
        AGE,
        *TEMPLATE,
        _SELECTOR,
    ),
    _job,
)
CONTROLLER_REVISIONS = Printer(
    (
        NAME,
        text("Controller", "Whose history it belongs to."),
        text("Revision", "Its place in that history."),
        AGE,
    ),
    _controller_revision,
)
CRON_JOBS = Printer(
    (
        NAME,
        text("Schedule", "When jobs start, in cron's notation."),
        text("Timezone", "The time zone of the schedule."),
        boolean("Suspend", "Whether no jobs are started."),
        number("Active", "Jobs that are running."),
        text("Last Schedule", "How long ago a job was started."),
        AGE,
        *TEMPLATE,
        text("Selector", "Which pods belong to its jobs.", priority=WIDE),
    ),
    _cron_job,
)
AUTOSCALERS = Printer(
    (
        NAME,
        text("Reference", "What is scaled."),
        text("Targets", "What is measured and wanted."),
        text("MinPods", "The least number of pods."),
        text("MaxPods", "The largest number of pods."),
        text("Replicas", "Pods that there are."),
        AGE,
    ),
    _autoscaler,
)
_MEASURED = (
    NAME,
    text("cpu", "The usage of cpu."),
    text("memory", "The usage of memory."),
    text("Window", "The time over which it was measured."),
)
NODE_METRICS = Printer(_MEASURED, _measured_node)
POD_METRICS = Printer(_MEASURED, _measured_pod)
