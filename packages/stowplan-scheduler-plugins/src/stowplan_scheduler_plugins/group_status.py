"""The status of a PodGroup, and of an ElasticQuota, as their controller writes it: what pods do, as of now.

Functions of JSON objects, which know no API server.

Parity: a group's pods are those with its label in all namespaces, and counters appear with the third reconciliation of
a new group.

Upstream: pkg/controllers in scheduler-plugins.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stowplan.plugins.objects import QuantityValue, parse_quantity, parse_timestamp, sum_text
from stowplan_scheduler_plugins.coscheduling import LABEL

Json = Any
_SLOWEST_START = 48 * 3600
TIMEOUT = "Warning Timeout schedule time longer than 48 hours"


class Reconciled(NamedTuple):
    """The new status, and events as `type reason note`."""

    status: dict[str, Json]
    events: tuple[str, ...] = ()


def reconciled_group(group: Json, pods: Sequence[Json]) -> Reconciled:
    """`pods` are all of the cluster."""
    status = dict(group.get("status") or {})
    phase = status.get("phase") or ""
    if phase in ("Finished", "Failed"):
        return Reconciled(status)
    if phase in ("Scheduling", "Pending") and not status.get("running") and _starts_too_slowly(group, status):
        return Reconciled(status, (TIMEOUT,))
    wanted = int((group.get("spec") or {}).get("minMember") or 0)
    own = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(LABEL) == group["metadata"]["name"]]
    if phase == "":
        return Reconciled(status | {"phase": "Pending"})
    if phase == "Pending":
        if len(own) < wanted:
            return Reconciled(status)
        return Reconciled(status | {"phase": "Scheduling"} | _occupied_by(own))
    return Reconciled(status | _counted(own, wanted, phase))


def _starts_too_slowly(group: Json, status: Json) -> bool:
    started = status.get("scheduleStartTime")
    if not started:
        return False
    return parse_timestamp(started) - parse_timestamp(group["metadata"]["creationTimestamp"]) > _SLOWEST_START


def _occupied_by(pods: Sequence[Json]) -> dict[str, str]:
    """The owners of the first pod in the order in which an API server lists them."""
    listed = sorted((pod["metadata"] for pod in pods), key=lambda one: (one.get("namespace", ""), one["name"]))
    first = listed[0] if listed else {}
    owners = sorted(f"{first.get('namespace', '')}/{owner['name']}" for owner in first.get("ownerReferences") or ())
    return {"occupiedBy": ",".join(owners)} if owners else {}


def _counted(pods: Sequence[Json], wanted: int, phase: str) -> dict[str, Json]:
    phases = [(pod.get("status") or {}).get("phase") for pod in pods]
    running, succeeded, failed = (phases.count(one) for one in ("Running", "Succeeded", "Failed"))
    if len(pods) < wanted:
        phase = "Pending"
    else:
        phase = "Running" if succeeded + running >= wanted else "Scheduling"
        if failed and failed + running + succeeded >= wanted:
            phase = "Failed"
        if succeeded >= wanted:
            phase = "Finished"
    return {"phase": phase, "running": running, "succeeded": succeeded, "failed": failed}


def reconciled_quota(quota: Json, pods: Sequence[Json]) -> Reconciled:
    """What running pods of the quota's namespace use. Parity: without their overhead."""
    spec, namespace = quota.get("spec") or {}, quota["metadata"].get("namespace", "")
    used: dict[str, list[QuantityValue]] = {name: [] for name in (*(spec.get("min") or {}), *(spec.get("max") or {}))}
    for pod in pods:
        if pod["metadata"].get("namespace") == namespace and (pod.get("status") or {}).get("phase") == "Running":
            for name, amount in _requested(pod["spec"]).items():
                used.setdefault(name, []).append(amount)
    status = {"used": {name: sum_text(listed) for name, listed in used.items()}}
    before = (quota.get("status") or {}).get("used")
    if before is not None and _amounts(before) == _amounts(status["used"]):
        return Reconciled(quota["status"])
    name = quota["metadata"]["name"]
    return Reconciled(status, (f"Normal Synced Elastic Quota {namespace}/{name} synced successfully",))


def _requested(spec: Json) -> dict[str, QuantityValue]:
    """Containers summed, or the largest init container."""
    listed: dict[str, list[QuantityValue]] = {}
    for container in spec.get("containers") or ():
        for name, amount in _requests(container).items():
            listed.setdefault(name, []).append(amount)
    total: dict[str, QuantityValue] = {name: sum_text(amounts) for name, amounts in listed.items()}
    for container in spec.get("initContainers") or ():
        for name, amount in _requests(container).items():
            if parse_quantity(amount) > parse_quantity(total.get(name, 0)):
                total[name] = amount
    return total


def _requests(container: Json) -> Mapping[str, QuantityValue]:
    return (container.get("resources") or {}).get("requests") or {}


def _amounts(resources: Mapping[str, QuantityValue]) -> dict[str, int]:
    return {name: parse_quantity(amount) for name, amount in resources.items()}
