"""How many of the wanted pods the ResourceQuotas of their namespace allow to be created.

What is used is in a quota's status; without one, as in manifests, it is counted from the pods.

Left out: the deadlines of pods, so quotas of scope Terminating are not asked, and those of NotTerminating always are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stowplan.ask.loading.workloads import workload_of
from stowplan.ask.offline import Cluster
from stowplan.ask.what_if.hypothetical_changes import Change, Scale
from stowplan.ask.what_if.hypothetical_pods import pods_of
from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.quotas import CountedPod, CountedQuota
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct


class QuotaLimit(PlainStruct, frozen=True):
    """A quota that does not allow all the wanted pods."""

    allowed: int
    text: str
    #: The one of the wanted pods that it is about.
    pod: Pod


def quota_limits(
    cluster: Cluster, quotas: Sequence[Mapping[str, Any]], wanted: Iterable[tuple[Pod, int]]
) -> list[QuotaLimit]:
    """`quotas`: all there are, as decoded JSON; `wanted`: pods, and how many more of each, created in this order."""
    counted = [(_namespace_of(quota), _counted(cluster, quota)) for quota in quotas]
    limits = []
    for pod, more in wanted:
        there = [quota for namespace, quota in counted if namespace == (pod.metadata.namespace or "default")]
        copy = CountedPod({**to_dict(pod), "status": {}})
        allowed = [(found[0], quota, found[1]) for quota in there if (found := quota.more(copy)) is not None]
        limits += [_limit(pod, number, more, quota, why) for number, quota, why in allowed if number < more]
        created = min((number for number, _, _ in allowed), default=more)
        for quota in there:
            quota.take(copy, min(created, more))
    return limits


def scaled_up(cluster: Cluster, changes: Iterable[Change]) -> Iterator[tuple[Pod, int]]:
    """The pods that `Scale` adds."""
    for change in changes:
        if isinstance(change, Scale):
            mine = pods_of(cluster.state, change.kind, change.namespace, change.name)
            model = mine[0].pod if mine else change.template
            if model is not None and change.replicas > len(mine):
                yield model, change.replicas - len(mine)


def _namespace_of(quota: Mapping[str, Any]) -> str:
    return quota["metadata"].get("namespace") or "default"


def _counted(cluster: Cluster, quota: Mapping[str, Any]) -> CountedQuota:
    counted = CountedQuota(dict(quota))
    used = (quota.get("status") or {}).get("used")
    if used is not None:
        counted.used.update({name: parse_quantity(amount) for name, amount in used.items() if name in counted.hard})
        return counted
    for info in (*cluster.state.placed_pods(), *cluster.state.pending.values()):
        if info.namespace == _namespace_of(quota):
            counted.count(info.key, CountedPod(to_dict(info.pod)))
    return counted


def _limit(pod: Pod, allowed: int, more: int, quota: CountedQuota, why: str) -> QuotaLimit:
    name = " ".join(workload_of(pod) or ("pod", pod.metadata.name))
    whose = f"the quota {quota.name} of namespace {pod.metadata.namespace or 'default'}"
    return QuotaLimit(allowed, f"{whose} allows only {allowed:,} of {more:,} more like {name} ({why})", pod)
