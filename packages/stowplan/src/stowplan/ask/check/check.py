"""Would the pods of changed manifests fit into a cluster, and at whose cost?

The change is applied as by `kubectl apply`, in a transaction: pods of changed workloads are replaced, and everything
that waits is scheduled, with the change and without it. So nothing that would have happened anyway is blamed on the
change. Its findings are about the objects whose pods get no node, and about what others lose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from stowplan.ask.check.changed_files import ChangedFiles, Place
from stowplan.ask.check.finding_records import ERROR, NOTE, WARNING, CheckedRecord, CheckRecord, FindingRecord
from stowplan.ask.loading.workloads import belongs_to, workload_of
from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.what_if.answer_records import WhatIfRecord
from stowplan.ask.what_if.before_and_after import what_if
from stowplan.ask.what_if.budgets import Budgets
from stowplan.ask.what_if.hypothetical_changes import Put
from stowplan.ask.what_if.hypothetical_pods import pods_of
from stowplan.ask.what_if.quotas import quota_limits
from stowplan.ask.what_if.settling import no_scheduler_for
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.explanations.formatting import count, listed

#: Kind, namespace, name.
_Name = tuple[str, str, str]
_NAMED = 5
_LEVELS = (ERROR, WARNING, NOTE)


def check(cluster: Cluster, changed: ChangedFiles, quotas: Sequence[Mapping[str, Any]] = ()) -> CheckRecord:
    """Judge a change. `quotas`: the ResourceQuotas of the cluster, as decoded JSON."""
    put = Put(tuple(changed.loaded.objects), "the change", changed.loaded.workloads)
    after = _After(put)
    asked = _Asked(cluster, changed, put)
    record = what_if(cluster, put, look=after)
    findings = [
        *changed.findings,
        *asked.about_quotas(quotas),
        *(found for one in after.objects if (found := asked.about(one)) is not None),
        *asked.about_others(record),
    ]
    return CheckRecord(
        objects=tuple(asked.checked(one) for one in after.objects),
        findings=tuple(sorted(findings, key=lambda one: _LEVELS.index(one.level))),
        notes=(*changed.notes, *record.notes),
    )


class _Object(PlainStruct, frozen=True):
    """What becomes of the pods of an object."""

    name: _Name
    nodes: Counter[str]
    pending: int
    #: Why the first of them is pending, and what would help.
    why: str = ""
    remedies: tuple[str, ...] = ()
    without_profile: bool = False


class _After:
    """Looks at the cluster after the change; the first look is at that before."""

    def __init__(self, put: Put) -> None:
        self._pods = [_name_of(pod) for pod in _alone(put)]
        self._workloads = put.workloads
        self._looks = 0
        self.objects: list[_Object] = []

    def __call__(self, cluster: Cluster) -> None:
        self._looks += 1
        if self._looks == 2:
            self.objects = [_judged(cluster, name, pods_of(cluster.state, *name)) for name in self._workloads]
            found = ((name, _known(cluster, name)) for name in self._pods)
            self.objects += (_judged(cluster, name, [info]) for name, info in found if info is not None)


def _alone(put: Put) -> list[Pod]:
    """The pods of the change that belong to no workload."""
    return [obj for obj in put.objects if isinstance(obj, Pod) and workload_of(obj) is None]


def _name_of(pod: Pod) -> _Name:
    return "Pod", pod.metadata.namespace or "default", pod.metadata.name


def _known(cluster: Cluster, name: _Name) -> PodInfo | None:
    """A pod of the cluster; None if there is none, or it has finished."""
    _, namespace, pod = name
    with suppress(ClusterError):
        return cluster.pod(f"{namespace}/{pod}")
    return None


def _judged(cluster: Cluster, name: _Name, infos: Sequence[PodInfo]) -> _Object:
    nodes = Counter(info.node_name for info in infos if info.node_name)
    pending = [info for info in infos if not info.node_name]
    if not pending:
        return _Object(name, nodes, 0)
    first = pending[0]
    if cluster.engine.framework_for(first) is None:
        return _Object(name, nodes, len(pending), no_scheduler_for(first.pod), without_profile=True)
    verdict = cluster.explain(first.key)
    why = verdict.full_message
    if verdict.node_name:
        why = f"{first.key} waits for others: for earlier pods of its StatefulSet, or for its group"
    elif verdict.error is not None:
        why = verdict.error.message
    return _Object(name, nodes, len(pending), why, tuple(one.text for one in verdict.suggestions()))


class _Asked(PlainStruct, frozen=True):
    """Findings about a change, each at the place of its object."""

    cluster: Cluster
    changed: ChangedFiles
    put: Put

    def checked(self, one: _Object) -> CheckedRecord:
        place = self._place(one.name)
        return CheckedRecord(
            object=_shown(one.name),
            file=place.file,
            line=place.line,
            pods=one.nodes.total() + one.pending,
            nodes=dict(sorted(one.nodes.items())),
            pending=one.pending,
        )

    def about(self, one: _Object) -> FindingRecord | None:
        if not one.pending:
            return None
        pods = one.nodes.total() + one.pending
        if one.without_profile:
            return self._finding(NOTE, "not-scheduled", one.name, f"{count(pods, 'pod')}: {one.why}")
        what = f"{one.pending:,} of {count(pods, 'pod')} get no node: {one.why}"
        return self._finding(ERROR, "does-not-fit", one.name, what, one.remedies)

    def about_quotas(self, quotas: Sequence[Mapping[str, Any]]) -> Iterator[FindingRecord]:
        # In one go: they share their quotas.
        for limit in quota_limits(self.cluster, quotas, self._new_pods()):
            yield self._finding(ERROR, "over-quota", self._object_of(limit.pod), limit.text)

    def _new_pods(self) -> Iterator[tuple[Pod, int]]:
        """Pods, and how many more of each there will be."""
        for name in self.put.workloads:
            mine = [one for one in self.put.objects if isinstance(one, Pod) and _is_of(one, name)]
            more = len(mine) - len(pods_of(self.cluster.state, *name))
            if more > 0:
                yield mine[0], more
        for pod in _alone(self.put):
            if _known(self.cluster, _name_of(pod)) is None:
                yield pod, 1

    def about_others(self, record: WhatIfRecord) -> Iterator[FindingRecord]:
        there = {info.key: info for info in self.cluster.state.placed_pods()}
        pending = self.cluster.state.pending
        others = {
            key: node
            for key, node in record.displaced.items()
            if not self._is_changed(there.get(key) or pending.get(key))
        }
        evicted = {key: node for key, node in others.items() if key in there}
        waiting = [key for key in others if key not in there]
        budgets = Budgets(self.cluster)
        for key in evicted:
            refusal = budgets.refusal(there[key])
            budgets.evicted(there[key])
            if refusal is not None:
                budget, why = refusal
                yield self._finding(ERROR, "breaks-budget", self._first(), f"evicts {key}; {budget}: {why}")
        if evicted:
            left = frozenset(record.after.pending)
            where = [f"{key} ({_fate(node, waits=key in left)})" for key, node in evicted.items()]
            level = WARNING if all(evicted.values()) else ERROR
            what = f"evicts {count(len(evicted), 'pod')} of lower priority: {listed(where, _NAMED)}"
            yield self._finding(level, "evicts", self._first(), what)
        if waiting:
            what = f"takes the room of {count(len(waiting), 'pod')} that would get a node: {listed(waiting, _NAMED)}"
            yield self._finding(WARNING, "takes-room", self._first(), what)

    def _is_changed(self, info: PodInfo | None) -> bool:
        """Whether a pod is one that the change replaces."""
        if info is None:
            return False
        replaced = any(_name_of(pod) == _name_of(info.pod) for pod in _alone(self.put))
        return replaced or any(_is_of(info.pod, name) for name in self.put.workloads)

    def _first(self) -> _Name | None:
        """The object whose pods have the highest priority: it is they who evict others."""
        pods = [one for one in self.put.objects if isinstance(one, Pod)]
        if not pods:
            return None
        return self._object_of(max(pods, key=lambda pod: pod.spec.priority or 0))

    def _object_of(self, pod: Pod) -> _Name:
        """The workload of a pod in the change, or the pod itself."""
        return next((name for name in self.put.workloads if _is_of(pod, name)), None) or _name_of(pod)

    def _place(self, name: _Name) -> Place:
        return self.changed.places.get(name, Place("", 0))

    def _finding(
        self, level: str, rule: str, name: _Name | None, message: str, remedies: tuple[str, ...] = ()
    ) -> FindingRecord:
        place = Place("", 0) if name is None else self._place(name)
        return FindingRecord(
            level=level,
            rule=rule,
            message=message,
            file=place.file,
            line=place.line,
            object="" if name is None else _shown(name),
            remedies=remedies,
        )


def _fate(node: str, *, waits: bool) -> str:
    if node:
        return f"goes to {node}"
    return "finds no node" if waits else "no controller recreates it"


def _is_of(pod: Pod, name: _Name) -> bool:
    kind, namespace, workload = name
    return (pod.metadata.namespace or "default") == namespace and belongs_to(pod, kind, workload)


def _shown(name: _Name) -> str:
    kind, namespace, of = name
    return f"{kind} {namespace}/{of}"
