"""The Pod table: readiness, status, restarts and node.

The status column is computed: the phase, overridden by the pod's reason, then by the first incomplete init container or
else by the containers from last to first, and finally by deletion.

Upstream: pkg/printers/internalversion/printers.go, printPod.
"""

from __future__ import annotations

from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, is_true
from stowplan_cluster.apiserver.tables.cells import (
    AGE,
    NAME,
    NONE,
    WIDE,
    Cell,
    Printer,
    is_terminating,
    or_else,
    part,
    text,
    time_since,
)

_COMPLETED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


class _Restarts(PlainStruct):
    count: int = 0
    #: RFC 3339 in UTC, so that later is greater.
    last: str = ""

    def add(self, status: JsonObject) -> None:
        self.count += status.get("restartCount") or 0
        self.last = max(self.last, part(status, "lastState", "terminated").get("finishedAt") or "")

    def cell(self, now: float) -> str:
        return f"{self.count} ({time_since(self.last, now)} ago)" if self.count and self.last else str(self.count)


class _Summary(PlainStruct):
    reason: str
    total: int
    ready: int = 0
    restarts: _Restarts = field(default_factory=_Restarts)


def _summary(pod: JsonObject) -> _Summary:
    spec, status = part(pod, "spec"), part(pod, "status")
    summary = _Summary(status.get("reason") or status.get("phase") or "", len(spec.get("containers") or []))
    if (condition_of(status, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or []
        if container.get("restartPolicy") == "Always"
    }
    summary.total += len(sidecars)
    sidecar_restarts = _Restarts()
    initializing = _read_init_containers(summary, pod, sidecars, sidecar_restarts)
    if not initializing or is_true(status, "Initialized"):
        summary.restarts = sidecar_restarts
        _read_containers(summary, status)
    if is_terminating(pod):
        _read_deletion(summary, status)
    return summary


def _read_init_containers(summary: _Summary, pod: JsonObject, sidecars: set[str | None], own: _Restarts) -> bool:
    """Summarize init containers; return whether one has not completed yet."""
    total = len(part(pod, "spec").get("initContainers") or [])
    for index, status in enumerate(part(pod, "status").get("initContainerStatuses") or []):
        summary.restarts.add(status)
        is_sidecar = status.get("name") in sidecars
        if is_sidecar:
            own.add(status)
        terminated = part(status, "state").get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        summary.reason = "Init:" + (_init_reason(status) or f"{index}/{total}")
        return True
    return False


def _init_reason(status: JsonObject) -> str:
    terminated = part(status, "state").get("terminated")
    if terminated is not None:
        return _termination(terminated)
    waiting: str = part(status, "state", "waiting").get("reason") or ""
    return "" if waiting == "PodInitializing" else waiting


def _termination(terminated: JsonObject) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode') or 0}"


def _read_containers(summary: _Summary, status: JsonObject) -> None:
    has_running, error = False, ""
    for container in reversed(status.get("containerStatuses") or []):
        summary.restarts.add(container)
        state = part(container, "state")
        if reason := part(state, "waiting").get("reason"):
            summary.reason = reason
        elif (terminated := state.get("terminated")) is not None:
            summary.reason = _termination(terminated)
            error = summary.reason if terminated.get("exitCode") else error
        elif container.get("ready") and state.get("running") is not None:
            has_running = True
            summary.ready += 1
    if summary.reason == "Completed":
        summary.reason = _of_completed(status, has_running=has_running, error=error)


def _of_completed(status: JsonObject, *, has_running: bool, error: str) -> str:
    """The status of a pod with a completed container; others may still run."""
    if has_running and is_true(status, "Ready"):
        return "Running"
    return error or ("NotReady" if has_running else "Completed")


def _read_deletion(summary: _Summary, status: JsonObject) -> None:
    if status.get("reason") == "NodeLost":
        summary.reason = "Unknown"
    elif status.get("phase") not in _COMPLETED:
        summary.reason = "Terminating"


def _readiness_gates(pod: JsonObject) -> str:
    gates = part(pod, "spec").get("readinessGates") or []
    status = part(pod, "status")
    passed = sum(is_true(status, gate.get("conditionType", "")) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


def _cells(pod: JsonObject, now: float) -> list[Cell]:
    spec, status = part(pod, "spec"), part(pod, "status")
    summary = _summary(pod)
    addresses = status.get("podIPs") or [{}]
    return [
        f"{summary.ready}/{summary.total}",
        summary.reason,
        summary.restarts.cell(now),
        or_else(addresses[0].get("ip"), NONE),
        or_else(spec.get("nodeName"), NONE),
        or_else(status.get("nominatedNodeName"), NONE),
        _readiness_gates(pod),
    ]


def _conditions(pod: JsonObject) -> list[JsonObject]:
    phase = part(pod, "status").get("phase", "")
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]


PODS = Printer(
    (
        NAME,
        text("Ready", "How many of the pod's containers are ready, of how many."),
        text("Status", "What the pod's containers are up to, in one word."),
        text("Restarts", "How often the pod's containers were restarted, and when last."),
        AGE,
        text("IP", "The pod's first address.", priority=WIDE),
        text("Node", "The node the pod is bound to.", priority=WIDE),
        text("Nominated Node", "The node that preemption makes room on for this pod.", priority=WIDE),
        text("Readiness Gates", "How many of the pod's readiness gates are passed, of how many.", priority=WIDE),
    ),
    _cells,
    _conditions,
)
