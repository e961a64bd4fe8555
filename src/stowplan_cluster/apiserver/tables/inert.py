"""Tables of kinds that are inert as yet; those that stay so show name and age.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.tables.cells import (
    AGE,
    NAME,
    NONE,
    TEMPLATE,
    UNSET,
    WIDE,
    Cell,
    Printer,
    age_of,
    boolean,
    name_of,
    number,
    or_else,
    part,
    selector_cell,
    template_cells,
    text,
)
from stowplan_cluster.apiserver.tables.durations import time_since

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_UNKNOWN = "<unknown>"
_SHOWN_METRICS = 2


def _cron_job(obj: JsonObject, now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    job = part(spec, "jobTemplate", "spec")
    last = status.get("lastScheduleTime")
    return [
        name_of(obj),
        spec.get("schedule") or "",
        or_else(spec.get("timeZone"), NONE),
        bool(spec.get("suspend")),
        len(status.get("active") or ()),
        time_since(last, now) if last else NONE,
        age_of(obj, now),
        *template_cells(part(job, "template")),
        selector_cell(job.get("selector")),
    ]


def _autoscaler(obj: JsonObject, now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    target = part(spec, "scaleTargetRef")
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec),
        str(spec.get("minReplicas", UNSET)),
        str(spec.get("maxReplicas", 0)),
        str(status.get("currentReplicas", 0)),
        age_of(obj, now),
    ]


def _metrics(spec: JsonObject) -> str:
    """The targets of an autoscaler; current metrics are unknown here."""
    percentage = spec.get("targetCPUUtilizationPercentage")
    found = [] if percentage is None else [f"cpu: {_UNKNOWN}/{percentage}%"]
    found += [_metric(metric) for metric in spec.get("metrics") or ()]
    rest = f" + {len(found) - _SHOWN_METRICS} more..." if len(found) > _SHOWN_METRICS else ""
    return ", ".join(found[:_SHOWN_METRICS]) + rest if found else NONE


def _metric(metric: JsonObject) -> str:
    kind = metric.get("type") or ""
    source = part(metric, kind[:1].lower() + kind[1:])
    target = part(source, "target")
    if kind in ("Resource", "ContainerResource"):
        percentage = target.get("averageUtilization")
        wanted = target.get("averageValue") or ("<auto>" if percentage is None else f"{percentage}%")
        return f"{source.get('name')}: {_UNKNOWN}/{wanted}"
    average = target.get("averageValue")
    return (
        f"{_UNKNOWN}/{average} (avg)" if average and kind != "Pods" else f"{_UNKNOWN}/{average or target.get('value')}"
    )


def _quota(obj: JsonObject, now: float) -> list[Cell]:
    status = part(obj, "status")
    hard, used = part(status, "hard"), part(status, "used")
    rows = {name: f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)}
    return [
        name_of(obj),
        ", ".join(row for name, row in rows.items() if not name.startswith("limits.")),
        ", ".join(row for name, row in rows.items() if name.startswith("limits.")),
        age_of(obj, now),
    ]


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
QUOTAS = Printer(
    (NAME, text("Request", "Requests used and allowed."), text("Limit", "Limits used and allowed."), AGE), _quota
)
