"""What a workload wants, and what there is of it.

The pods that a controller could not create are nowhere among the pods: only the workload's own numbers, conditions and
Events tell of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stowplan.ask.explain.reported_events import last_reported_time
from stowplan.kube.api.types import Event, Pod
from stowplan.scheduler.inspection.records import WorkloadRecord

#: Kinds without pods of their own.
_WITHOUT_PODS = ("CronJob",)


def workload_record(manifest: Mapping[str, Any], pods: Sequence[Pod], events: Iterable[Event] = ()) -> WorkloadRecord:
    """`pods`: the unfinished ones that belong to it; `events`: about it, and others."""
    kind, metadata = str(manifest.get("kind")), manifest.get("metadata") or {}
    remaining = sum(pod.metadata.deletion_timestamp is None for pod in pods)
    wanted = _wanted(manifest, remaining)
    missing = 0 if metadata.get("deletionTimestamp") else max(0, wanted - remaining)
    why = _of_a_file(manifest) or _ordered(manifest, pods) if missing else ""
    reason, message, since = (_failure(manifest, events) if missing else None) or ("", why, "")
    status = _fields(manifest, "status")
    return WorkloadRecord(
        kind=kind,
        workload=f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}",
        wanted=wanted,
        existing=len(pods),
        missing=missing,
        reason=reason,
        message=message,
        since=since,
        succeeded=_number(status, "succeeded"),
        failed=_number(status, "failed"),
        notes=tuple(_notes(manifest, wanted)),
    )


def _fields(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = manifest.get(name)
    return found if isinstance(found, dict) else {}


def _number(fields: Mapping[str, Any], name: str, otherwise: int = 0) -> int:
    found = fields.get(name)
    return found if isinstance(found, int) else otherwise


def _wanted(manifest: Mapping[str, Any], remaining: int) -> int:
    """The number of pods that its controller would now have."""
    kind, spec, status = manifest.get("kind"), _fields(manifest, "spec"), _fields(manifest, "status")
    match kind:
        case "DaemonSet":
            # Only the controller knows, and a file may be without its status.
            return _number(status, "desiredNumberScheduled", remaining)
        case "Job":
            return _wanted_of_job(spec, status)
        case "CronJob":
            return remaining
    return _number(spec, "replicas", 1)


def _wanted_of_job(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    if spec.get("suspend") or _condition(status, "Complete") or _condition(status, "Failed"):
        return 0
    parallelism, succeeded = _number(spec, "parallelism", 1), _number(status, "succeeded")
    if spec.get("completions") is None:
        # A work queue: the first success ends it.
        return 0 if succeeded else parallelism
    return max(0, min(parallelism, _number(spec, "completions") - succeeded))


def _condition(status: Mapping[str, Any], type_: str, value: str = "True") -> Mapping[str, Any] | None:
    conditions = status.get("conditions")
    found = (one for one in conditions if isinstance(one, dict)) if isinstance(conditions, list) else ()
    return next((one for one in found if one.get("type") == type_ and one.get("status") == value), None)


def _failure(manifest: Mapping[str, Any], events: Iterable[Event]) -> tuple[str, str, str] | None:
    """Why pods cannot be created, since or at which time: the condition, or the last Event of kinds without one."""
    condition = _condition(_fields(manifest, "status"), "ReplicaFailure")
    if condition is not None:
        told = (condition.get(name) or "" for name in ("reason", "message", "lastTransitionTime"))
        reason, message, since = map(str, told)
        return reason, message, since
    own = [event for event in events if _is_about(event, manifest)]
    last = max(own, key=last_reported_time, default=None)
    if last is None or last.type != "Warning":
        return None
    return last.reason, last.note, last_reported_time(last)


def _is_about(event: Event, manifest: Mapping[str, Any]) -> bool:
    uid = (manifest.get("metadata") or {}).get("uid")
    return bool(uid) and event.regarding.uid == uid


def _of_a_file(manifest: Mapping[str, Any]) -> str:
    if (manifest.get("metadata") or {}).get("uid"):
        return ""
    return "no controller has seen this manifest; `stowplan what-if --apply FILE` shows where all its pods would go"


def _ordered(manifest: Mapping[str, Any], pods: Iterable[Pod]) -> str:
    """A StatefulSet that waits for one of its pods before it creates the next."""
    if manifest.get("kind") != "StatefulSet" or _fields(manifest, "spec").get("podManagementPolicy") == "Parallel":
        return ""
    waits_for = next((pod.metadata.name for pod in pods if not _is_ready(pod)), "")
    return f"it creates one pod after the other (OrderedReady), and {waits_for} is not Ready" if waits_for else ""


def _is_ready(pod: Pod) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


def _notes(manifest: Mapping[str, Any], wanted: int) -> Iterable[str]:
    """What else its controller does, or does not."""
    spec, status = _fields(manifest, "spec"), _fields(manifest, "status")
    if (manifest.get("metadata") or {}).get("deletionTimestamp"):
        yield "it is being deleted"
    if spec.get("suspend"):
        yield "it is suspended" + (": no further Job is created" if manifest.get("kind") in _WITHOUT_PODS else "")
    if spec.get("paused"):
        yield "it is paused: changes of its template are not rolled out"
    for type_ in ("Complete", "Failed"):
        if (condition := _condition(status, type_)) is not None:
            message = condition.get("message")
            yield f"{type_}: {message}" if message else type_
    updated = status.get("updatedReplicas")
    if manifest.get("kind") == "Deployment" and isinstance(status.get("replicas"), int):
        updated = _number(status, "updatedReplicas")
        if updated < min(wanted, status["replicas"]):
            yield f"rollout: {updated} of {wanted} have the newest template"
        if (condition := _condition(status, "Progressing", "False")) is not None:
            yield f"rollout: {condition.get('message') or condition.get('reason')}"
