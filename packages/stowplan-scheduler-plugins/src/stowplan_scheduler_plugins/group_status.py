"""The status of a PodGroup, and of an ElasticQuota, as their controller writes it: what pods do, as of now.

Functions of JSON objects and pods, which know no API server.

Parity: a group's pods are those with its label in all namespaces, and counters appear with the third reconciliation of
a new group.

Upstream: pkg/controllers in scheduler-plugins.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from stowplan.controllers import NORMAL, WARNING, Event, ObjectIndex
from stowplan.plugins.objects import Pod, QuantityValue, parse_quantity, parse_timestamp, sum_text
from stowplan_scheduler_plugins.kinds import LABEL

Json = Any
_SLOWEST_START = 48 * 3600
TIMEOUT = Event(WARNING, "Timeout", "schedule time longer than 48 hours")

#: The pods of groups, by the groups' names.
MEMBERS = ObjectIndex("pod group", lambda pod: [pod.metadata.labels[LABEL]] if LABEL in pod.metadata.labels else [])


class Status(NamedTuple):
    """The new status, and events about the object."""

    status: dict[str, Json]
    events: tuple[Event, ...] = ()


def reconciled_group(group: Json, members: Collection[Pod]) -> Status:
    status = dict(group.get("status") or {})
    phase = status.get("phase") or ""
    if phase in ("Finished", "Failed"):
        return Status(status)
    if phase in ("Scheduling", "Pending") and not status.get("running") and _starts_too_slowly(group, status):
        return Status(status, (TIMEOUT,))
    wanted = int((group.get("spec") or {}).get("minMember") or 0)
    if phase == "":
        return Status(status | {"phase": "Pending"})
    if phase == "Pending":
        if len(members) < wanted:
            return Status(status)
        return Status(status | {"phase": "Scheduling"} | _occupied_by(members))
    return Status(status | _counted(members, wanted))


def _starts_too_slowly(group: Json, status: Json) -> bool:
    started = status.get("scheduleStartTime")
    if not started:
        return False
    return parse_timestamp(started) - parse_timestamp(group["metadata"]["creationTimestamp"]) > _SLOWEST_START


def _occupied_by(members: Iterable[Pod]) -> dict[str, str]:
    """The owners of the first pod in the order in which an API server lists them."""
    first = min((pod.metadata for pod in members), key=lambda one: (one.namespace, one.name), default=None)
    owners = () if first is None else sorted(f"{first.namespace}/{owner.name}" for owner in first.owner_references)
    return {"occupiedBy": ",".join(owners)} if owners else {}


def _counted(members: Collection[Pod], wanted: int) -> dict[str, Json]:
    phases = [pod.status.phase for pod in members]
    running, succeeded, failed = (phases.count(one) for one in ("Running", "Succeeded", "Failed"))
    if len(members) < wanted:
        phase = "Pending"
    else:
        phase = "Running" if succeeded + running >= wanted else "Scheduling"
        if failed and failed + running + succeeded >= wanted:
            phase = "Failed"
        if succeeded >= wanted:
            phase = "Finished"
    return {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}


def reconciled_quota(quota: Json, pods: Iterable[Pod]) -> Status:
    """What running pods use; `pods` are those of the quota's namespace. Parity: without their overhead."""
    spec, metadata = quota.get("spec") or {}, quota["metadata"]
    used: dict[str, list[QuantityValue]] = {name: [] for name in (*(spec.get("min") or {}), *(spec.get("max") or {}))}
    for pod in pods:
        if pod.status.phase == "Running":
            for name, amount in _requested(pod).items():
                used.setdefault(name, []).append(amount)
    status = {"used": {name: sum_text(listed) for name, listed in used.items()}}
    before = (quota.get("status") or {}).get("used")
    if before is not None and _amounts(before) == _amounts(status["used"]):
        return Status(quota["status"])
    note = f"Elastic Quota {metadata.get('namespace', '')}/{metadata['name']} synced successfully"
    return Status(status, (Event(NORMAL, "Synced", note),))


def _requested(pod: Pod) -> dict[str, QuantityValue]:
    """Containers summed, or the largest init container."""
    listed: dict[str, list[QuantityValue]] = {}
    for container in pod.spec.containers:
        for name, amount in container.resources.requests.items():
            listed.setdefault(name, []).append(amount)
    total: dict[str, QuantityValue] = {name: sum_text(amounts) for name, amounts in listed.items()}
    for container in pod.spec.init_containers:
        for name, amount in container.resources.requests.items():
            if parse_quantity(amount) > parse_quantity(total.get(name, 0)):
                total[name] = amount
    return total


def _amounts(resources: Mapping[str, QuantityValue]) -> dict[str, int]:
    return {name: parse_quantity(amount) for name, amount in resources.items()}
