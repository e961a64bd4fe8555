"""Tables of inert kinds that have columns of their own; the others show name and age.

Upstream: pkg/printers/internalversion/printers.go, kube-aggregator/pkg/registry/apiservice/etcd.
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
    from collections.abc import Iterable

    from stowplan_cluster.apiserver.objects import JsonObject

_UNKNOWN = "<unknown>"
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_SHOWN = 3
_SHOWN_METRICS = 2


def _network_policy(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), selector_cell(part(obj, "spec", "podSelector")), age_of(obj, now)]


def _ingress(obj: JsonObject, now: float) -> list[Cell]:
    spec = part(obj, "spec")
    balanced = part(obj, "status", "loadBalancer").get("ingress") or ()
    return [
        name_of(obj),
        or_else(spec.get("ingressClassName"), NONE),
        _hosts(spec.get("rules") or ()),
        ",".join(sorted({one.get("ip") or one.get("hostname") or "" for one in balanced} - {""})),
        "80, 443" if spec.get("tls") else "80",
        age_of(obj, now),
    ]


def _hosts(rules: Iterable[JsonObject]) -> str:
    listed = list(rules)
    hosts = [rule["host"] for rule in listed[:_SHOWN] if rule.get("host")]
    return _with_rest(",".join(hosts), len(listed), _SHOWN) if hosts else "*"


def _with_rest(shown: str, number: int, most: int) -> str:
    return f"{shown} + {number - most} more..." if number > most else shown


def _ingress_class(obj: JsonObject, now: float) -> list[Cell]:
    default = part(obj, "metadata", "annotations").get(_DEFAULT_CLASS) == "true"
    spec = part(obj, "spec")
    return [
        f"{name_of(obj)} (default)" if default else name_of(obj),
        spec.get("controller") or "",
        _parameters(part(spec, "parameters")),
        age_of(obj, now),
    ]


def _parameters(parameters: JsonObject) -> str:
    if not parameters:
        return NONE
    group = parameters.get("apiGroup")
    return f"{parameters.get('kind')}{f'.{group}' if group else ''}/{parameters.get('name')}"


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
    return _with_rest(", ".join(found[:_SHOWN_METRICS]), len(found), _SHOWN_METRICS) if found else NONE


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


def _webhooks(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), len(obj.get("webhooks") or ()), age_of(obj, now)]


def _endpoints(obj: JsonObject, now: float) -> list[Cell]:
    found = [
        f"[{ip}]{suffix}" if ":" in ip and suffix else f"{ip}{suffix}"
        for subset in obj.get("subsets") or ()
        for suffix in [f":{port.get('port')}" for port in subset.get("ports") or ()] or [""]
        for ip in (address.get("ip") or "" for address in subset.get("addresses") or ())
    ]
    return [name_of(obj), _with_rest(",".join(found[:_SHOWN]), len(found), _SHOWN) or NONE, age_of(obj, now)]


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


def _runtime_class(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), obj.get("handler") or "", age_of(obj, now)]


def _api_service(obj: JsonObject, now: float) -> list[Cell]:
    service = part(obj, "spec", "service")
    conditions = part(obj, "status").get("conditions") or ()
    available: JsonObject = next((one for one in conditions if one.get("type") == "Available"), {})
    status, reason = available.get("status") or "Unknown", available.get("reason")
    return [
        name_of(obj),
        f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local",
        f"{status} ({reason})" if reason and status != "True" else status,
        age_of(obj, now),
    ]


NETWORK_POLICIES = Printer((NAME, text("Pod-Selector", "Which pods it is about."), AGE), _network_policy)
INGRESSES = Printer(
    (
        NAME,
        text("Class", "The class, which says who implements it."),
        text("Hosts", "Hosts that it has rules for."),
        text("Address", "Where the load balancer listens."),
        text("Ports", "Ports that are open."),
        AGE,
    ),
    _ingress,
)
INGRESS_CLASSES = Printer(
    (
        NAME,
        text("Controller", "Who implements ingresses of the class."),
        text("Parameters", "An object with more configuration."),
        AGE,
    ),
    _ingress_class,
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
WEBHOOKS = Printer((NAME, number("Webhooks", "How many webhooks it has."), AGE), _webhooks)
ENDPOINTS = Printer((NAME, text("Endpoints", "Addresses behind the service."), AGE), _endpoints)
QUOTAS = Printer(
    (NAME, text("Request", "Requests used and allowed."), text("Limit", "Limits used and allowed."), AGE), _quota
)
RUNTIME_CLASSES = Printer((NAME, text("Handler", "The runtime that runs the pods."), AGE), _runtime_class)
API_SERVICES = Printer(
    (
        NAME,
        text("Service", "The service that answers for the group and version."),
        text("Available", "Whether it answers."),
        AGE,
    ),
    _api_service,
)
