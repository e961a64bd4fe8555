"""Pods and their use, as Prometheus has them from kube-state-metrics and kubelets.

Pods with their times, requests and owners become rows of a CSV trace. Their use, as a share of requests and by hour of
the day, becomes the `usage` of the workload. Metrics have no affinity, tolerations, claims or pod groups.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from statistics import fmean
from typing import Any, NamedTuple

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan_lab.traces.trace import TraceError

#: Sends parameters to a path of Prometheus' API, and returns the answer.
Ask = Callable[[str, Mapping[str, str]], Awaitable[Any]]
Samples = Iterator[tuple[Mapping[str, str], list[tuple[float, float]]]]

HOUR, DAY = 3600, 86_400
#: A pod that was not seen for so long is gone.
_UNSEEN = 300
_POD = "namespace, pod, uid"
_TIMES = {
    "created": "max_over_time(kube_pod_created[{window}])",
    "scheduled": "max_over_time(kube_pod_status_scheduled_time[{window}])",
    "completed": "max_over_time(kube_pod_completion_time[{window}])",
    "seen": "max_over_time(timestamp(kube_pod_created)[{window}:1m])",
}
_REQUESTS = (
    f"sum by ({_POD}, resource) (max by ({_POD}, container, resource) "
    "(max_over_time(kube_pod_container_resource_requests[{window}])))"
)
_OWNERS = f"max by ({_POD}, owner_kind, owner_name) (max_over_time(kube_pod_owner[{{window}}]))"
_USED = {
    "cpu": 'rate(container_cpu_usage_seconds_total{container!=""}[1h])',
    "memory": 'avg_over_time(container_memory_working_set_bytes{container!=""}[1h])',
}
_RUNNING = 'max by (namespace, pod) (kube_pod_status_phase{phase="Running"} == 1)'
#: Of the names that ReplicaSets and CronJobs give.
_HASHED = {"ReplicaSet": re.compile(r"-[a-z0-9]{1,10}$"), "Job": re.compile(r"-\d+$")}


class Key(NamedTuple):
    namespace: str
    pod: str
    uid: str


class Measured(PlainStruct, frozen=True, kw_only=True):
    #: Of the trace, with a header; ordered by time.
    rows: list[list[str]]
    #: Resource -> column.
    resources: dict[str, str]
    #: As a scenario has it; empty if nothing is measured.
    usage: dict[str, Any]
    notes: list[str]


async def measured(ask: Ask, begin: float, end: float, known: Collection[str]) -> Measured:
    """The pods of a window of whole hours. `known`: resources of nodes, whose names metrics have in another form.

    Raises TraceError.
    """
    window, notes = f"{end - begin:.0f}s", list[str]()

    async def vector(query: str) -> Samples:
        return _samples(await ask("query", {"query": query.format(window=window), "time": f"{end:.0f}"}))

    times = {
        name: {_key(labels): points[-1][1] for labels, points in await vector(f"max by ({_POD}) ({query})")}
        for name, query in _TIMES.items()
    }
    owners = {_key(labels): labels for labels, _ in await vector(_OWNERS)}
    names = {re.sub(r"[^a-zA-Z0-9_]", "_", name): name for name in known} | {"cpu": "cpu", "memory": "memory"}
    requests, unknown = defaultdict[Key, dict[str, str]](dict), set[str]()
    for labels, points in await vector(_REQUESTS):
        name = names.get(labels.get("resource", ""))
        if name is None:
            unknown.add(labels.get("resource", ""))
        else:
            requests[_key(labels)][name] = _quantity(name, points[-1][1])
    if unknown:
        notes.append(f"requests of {', '.join(sorted(unknown))} are left out: no node has them")
    # Finished pods stay for a while.
    there = [key for key in times["created"] if times["completed"].get(key, end) > begin]
    pods = [key for key in there if owners.get(key, {}).get("owner_kind") != "DaemonSet"]
    daemons = len(there) - len(pods)
    if daemons:
        notes.append(f"{count(daemons, 'pod')} of DaemonSets left out: add the DaemonSets as workloads")
    if not pods:
        raise TraceError("Prometheus has no kube_pod_created of that time: is kube-state-metrics scraped?")
    resources = sorted({name for key in pods for name in requests[key]})
    rows = [["time", "lifetime", "name", "namespace", "owner", *resources]]
    named: Counter[str] = Counter()
    for key in sorted(pods, key=lambda key: (times["created"][key], key)):
        at, lifetime = _interval({name: of[key] for name, of in times.items() if key in of}, begin, end)
        name = f"{key.namespace}-{key.pod}"
        named[name] += 1
        name = name if named[name] == 1 else f"{name}-{named[name]}"
        amounts = [requests[key].get(resource, "") for resource in resources]
        rows.append([f"{at:g}", lifetime, name, key.namespace, _owner(owners.get(key, {}), key.pod), *amounts])
    return Measured(
        rows=rows, resources={name: name for name in resources}, usage=await _usage(ask, begin, end), notes=notes
    )


def _samples(answer: Any) -> Samples:
    """Labels and (time, value) of a vector or a matrix."""
    try:
        for one in answer["data"]["result"]:
            points = one["values"] if "values" in one else [one["value"]]
            yield one["metric"], [(float(at), float(value)) for at, value in points]
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"the answer is not Prometheus': {error!r}") from None


def _key(labels: Mapping[str, str]) -> Key:
    return Key(*(labels.get(name, "") for name in Key._fields))


def _quantity(resource: str, amount: float) -> str:
    return f"{round(amount * 1000)}m" if resource == "cpu" else f"{round(amount)}"


def _owner(labels: Mapping[str, str], pod: str) -> str:
    """The Deployment or CronJob, as far as names tell."""
    name = labels.get("owner_name") or pod
    hashed = _HASHED.get(labels.get("owner_kind", ""))
    return hashed.sub("", name) if hashed else name


def _interval(times: Mapping[str, float], begin: float, end: float) -> tuple[float, str]:
    """Arrival since the beginning, and how long it ran; "" if to the end."""
    gone = times.get("completed", times.get("seen", end))
    came = max(times["created"], begin)
    if "completed" not in times and end - gone < _UNSEEN:
        return came - begin, ""
    return came - begin, f"{max(gone - max(times.get('scheduled', came), begin), 0):g}"


async def _usage(ask: Ask, begin: float, end: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for resource, used in _USED.items():
        asked = f'kube_pod_container_resource_requests{{resource="{resource}"}}'
        query = f"sum({used}) / sum({asked} * on (namespace, pod) group_left () {_RUNNING})"
        window = {"start": f"{begin + HOUR:.0f}", "end": f"{end:.0f}", "step": f"{HOUR}"}
        hours = defaultdict[int, list[float]](list)
        for _, points in _samples(await ask("query_range", {"query": query, **window})):
            for at, share in points:
                # Of the hour that ends then.
                hours[round((at - begin) // HOUR - 1) % 24].append(share)
        if hours:
            points_of_day = [[f"{hour}h", f"{100 * fmean(hours[hour]):.1f}%"] for hour in sorted(hours)]
            found[resource] = {"each": points_of_day, "every": "24h"}
    return found
