"""Suggestions for many pending pods, each tried on all of them together, and for a pod group, tried on the group.

What is suggested for one pod is applied to all pods with the same rejections, or to the nodes, and the scheduler then
places what it can; the result is the number of placed pods. In addition, more nodes of the existing kinds are tried, as
many as needed to place all pods that such nodes can fit. No pod is evicted, and everything is undone.

For a group, these are: more nodes in the domain that comes closest; what is suggested for the first pod without a node
there, applied to all pods of the group; a smaller minimum; and spreading over several domains.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from stowplan.ask.explain.verdicts.advice import Suggestion
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.offline import Cluster
from stowplan.ask.what_if.hypothetical_claims import release_claims
from stowplan.ask.what_if.hypothetical_nodes import NodeTemplate, kinds_among, kinds_of, node_named
from stowplan.ask.what_if.settling import put_back
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.types import Pod
from stowplan.kube.api.workloads import PodGroup, PodGroupSpec
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.declared_groups import is_declared
from stowplan.scheduler.engine.decision.questions import is_interested
from stowplan.scheduler.engine.groups.group_questions import DomainJudgement
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.inspection.records import ReliefRecord

if TYPE_CHECKING:
    from stowplan.ask.explain.text.overview import Group

#: Number of suggestions tried per group, and in total.
_OF_GROUP, _TRIED = 3, 12
#: Number of kinds of nodes that are tried, and of those that are looked at for them, with the first pods of groups.
_KINDS, _MAX_KINDS, _FIRSTS = 3, 30, 5
#: Number of pods that each change is tried on; the first ones.
_PODS = 500
#: Maximum number of pods that are placed together.
_TOGETHER = 2000


class _Candidate(PlainStruct):
    suggestion: Suggestion
    #: Keys of the pods for which it was made.
    keys: list[str] = field(default_factory=list)
    #: Whether it is among the first suggestions for some of them.
    is_tried: bool = False


def relief(cluster: Cluster, groups: Sequence[Group]) -> list[ReliefRecord]:
    """Suggestions for groups without a feasible node, each tried with all their pods; those that place most first."""
    refused = [group for group in groups if group.is_refused]
    keys = [key for group in refused for key in group.keys][:_PODS]
    if not keys:
        return []
    candidates = _candidates(refused)
    keep, give_up = (
        [_tried(cluster, candidate, keys) for candidate in candidates if candidate.suggestion.gives_up is gives_up]
        for gives_up in (False, True)
    )
    # Extenders cannot be asked about nodes that do not exist.
    ours = [key for key in keys if not _interests_an_extender(cluster, key)]
    firsts = [group.verdict.key for group in refused if group.verdict.key in ours][:_FIRSTS]
    more_nodes = [_more_nodes(cluster, template, ours) for template in _templates(cluster, firsts)]
    found = [one for one in (*keep, *more_nodes, *give_up) if one is not None and one.pods > 0]
    # Of those that place as many, what a pod asks for is given up last.
    return sorted(found, key=lambda one: -one.pods)


def more_nodes(cluster: Cluster, group: Group) -> tuple[ReliefRecord, ...]:
    """Numbers of nodes, of kinds that exist, that would take equal pods."""
    return tuple(one for one in relief(cluster, [group]) if one.changes[0]["kind"] == "addNodes")


def together(cluster: Cluster, groups: Sequence[Group]) -> int | None:
    """How many of the pods that would each get a node now get one if all are scheduled; None if they are too many.

    Each verdict is about one pod alone.
    """
    keys = [key for group in groups if group.state == "placeable" for key in group.keys]
    if len(keys) > _TOGETHER:
        return None
    if len(keys) < 2:
        return len(keys)
    with cluster.transaction():
        return _placed(cluster, [cluster.pod(key).pod for key in keys])


def _candidates(groups: Iterable[Group]) -> list[_Candidate]:
    """Equal changes are merged; those for most pods come first."""
    found: dict[str, _Candidate] = {}
    for group in groups:
        for place, suggestion in enumerate(group.verdict.suggestions()):
            data = json.dumps(suggestion.changes_data, sort_keys=True)
            candidate = found.setdefault(data, _Candidate(suggestion))
            candidate.keys.extend(group.keys)
            candidate.is_tried |= place < _OF_GROUP
    tried = (candidate for candidate in found.values() if candidate.is_tried)
    return sorted(tried, key=lambda one: -len(one.keys))[:_TRIED]


def _tried(cluster: Cluster, candidate: _Candidate, keys: Sequence[str]) -> ReliefRecord | None:
    suggestion = candidate.suggestion
    meant, moved = frozenset(candidate.keys), []
    with cluster.transaction():
        for change in suggestion.changes:
            for name in change.nodes:
                if change.on_node is not None:
                    cluster.add(change.on_node(node_named(cluster, name)))
            for info in change.leaving:
                if cluster.state.placed(info.uid) is not None:
                    cluster.evict(info.key)
                    moved += [info.pod] if eviction_outcome(info.pod) is EvictionOutcome.RECREATED else []
            release_claims(cluster, (info.pod for info in change.leaving))
            for obj in change.objects:
                cluster.add(obj)
        pods = [cluster.pod(key).pod for key in keys]
        changed = (
            suggestion.applied_to(pod) if f"{pod.metadata.namespace}/{pod.metadata.name}" in meant else pod
            for pod in pods
        )
        placed = _placed(cluster, changed)
        # Those that were moved come next, and may be of the same workload.
        placed -= sum(1 for decision in cluster.places(put_back(cluster, moved)) if not decision.node_name)
    return ReliefRecord(text=suggestion.deed, pods=placed, changes=suggestion.changes_data, note=suggestion.note)


def _placed(cluster: Cluster, pods: Iterable[Pod]) -> int:
    """The number of pods placed, in order of priority; none is evicted."""
    keys = []
    for pod in pods:
        meek = replace(pod, spec=replace(pod.spec, preemption_policy="Never"))
        cluster.add(meek)
        keys.append(cluster.pod(meek).key)
    keys.sort(key=lambda key: -cluster.pod(key).priority)
    return sum(1 for decision in cluster.places(keys) if decision.node_name)


# -- more nodes -------------------------------------------------------------------------------------------------------


def _templates(cluster: Cluster, keys: Sequence[str]) -> list[NodeTemplate]:
    """The most frequent kinds of nodes that take one of these pods."""
    kinds = (NodeTemplate.of(cluster, kind.like) for kind in kinds_of(cluster, _MAX_KINDS))
    return list(islice((template for template in kinds if _placed_with(cluster, template, 1, keys)), _KINDS))


def _interests_an_extender(cluster: Cluster, key: str) -> bool:
    pod = cluster.pod(key)
    framework = cluster.engine.framework_for(pod)
    return framework is not None and any(is_interested(extender, pod) for extender in framework.handle.extenders())


def _more_nodes(cluster: Cluster, template: NodeTemplate, keys: Sequence[str]) -> ReliefRecord | None:
    """The lowest number of nodes that places as many pods as any number would; each number is tried."""
    most = _placed_with(cluster, template, len(keys), keys)
    if not most:
        return None

    def suffice(nodes: int) -> bool:
        return _placed_with(cluster, template, nodes, keys) == most

    return _added(template, bisect_left(range(len(keys)), True, 1, key=suffice), pods=most)


def _added(template: NodeTemplate, nodes: int, *, pods: int) -> ReliefRecord:
    like = template.node.metadata.name
    change = {"kind": "addNodes", "nodes": nodes, "like": like}
    return ReliefRecord(text=f"add {count(nodes, 'node')} like {like}", pods=pods, changes=(change,))


def _placed_with(cluster: Cluster, template: NodeTemplate, nodes: int, keys: Sequence[str]) -> int:
    with cluster.transaction():
        template.add_to(cluster, nodes)
        return _placed(cluster, (cluster.pod(key).pod for key in keys))


# Groups.

#: Number of kinds of nodes that are tried, and of successive changes of the pods.
_KINDS_FOR_GROUP, _ROUNDS = 2, 4
_RECREATE = "the spec of a PodGroup cannot be changed: create another one"
#: Since v1beta1, minCount can be changed.
_IMMUTABLE_GANGS = ("scheduling.k8s.io/v1alpha2",)


def group_relief(cluster: Cluster, verdict: GroupVerdict) -> list[ReliefRecord]:
    """Suggestions for a group that does not fit, given its verdict; those that place most pods first.

    Extenders are skipped.

    Examples:
        >>> group_relief(groups, groups.explain_group("too-large"))[0].text
        'add 1 node like b1'
    """
    best = verdict.best
    if best is None or verdict.pod_group is None or verdict.judged_as_pending or (best.works and not best.waiting):
        return []
    if verdict.min_count is not None and verdict.total < verdict.min_count:
        # Pods of the gang are missing; it does not wait for room.
        return []
    relief = _Relief(cluster, verdict.group)
    if verdict.status.code == Code.Error or relief.places():
        # It does not lack room: something fails, or an extender rejects.
        return []
    found = [*relief.more_nodes(verdict, best), *relief.other_pods(), *relief.other_group(verdict, best)]
    return sorted(found, key=lambda one: -one.pods)


class _Relief:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group

    def places(self) -> int:
        """The number of pods that can be placed at once; 0 if the group does not fit, or only after evictions."""
        best = self._cluster.explain_group(self._group, extenders=False).best
        return len(best.placed) if best is not None and best.works and not best.waiting else 0

    # -- nodes --------------------------------------------------------------------------------------------------------

    def more_nodes(self, verdict: GroupVerdict, best: DomainJudgement) -> Iterator[ReliefRecord]:
        most = verdict.lacking(best) or len(best.refused)
        nodes = [node_named(self._cluster, name) for name in best.nodes]
        for kind in kinds_among(nodes)[:_KINDS_FOR_GROUP]:
            template = NodeTemplate.of(self._cluster, kind.like)
            if self._with_nodes(template, most):
                yield self._fewest(template, most)

    def _fewest(self, template: NodeTemplate, most: int) -> ReliefRecord:
        fewest = bisect_left(range(most), True, 1, key=lambda nodes: self._with_nodes(template, nodes) > 0)
        return _added(template, fewest, pods=self._with_nodes(template, fewest))

    def _with_nodes(self, template: NodeTemplate, nodes: int) -> int:
        with self._cluster.transaction():
            template.add_to(self._cluster, nodes)
            return self.places()

    # -- pods ---------------------------------------------------------------------------------------------------------

    def other_pods(self) -> Iterator[ReliefRecord]:
        """Apply what helps one pod to all, until the group fits or nothing more is known."""
        made: dict[tuple[str, ...], Suggestion] = {}
        with self._cluster.transaction():
            for _ in range(_ROUNDS):
                verdict = self._cluster.explain_group(self._group, extenders=False)
                suggestion = self._for_first_refused(verdict)
                if suggestion is None:
                    return
                made[suggestion.kinds] = suggestion
                for info in verdict.pods:
                    self._cluster.add(suggestion.applied_to(self._cluster.pod(info.key).pod))
                if placed := self.places():
                    text = " and ".join(one.deed for one in made.values())
                    changes = tuple(change for one in made.values() for change in one.changes_data)
                    yield ReliefRecord(text=f"of all its pods, {text}", pods=placed, changes=changes)
                    return

    def _for_first_refused(self, verdict: GroupVerdict) -> Suggestion | None:
        """A change of the pod itself that gains a node next to the pods of its group that fit."""
        best = verdict.best
        if best is None or not best.refused:
            return None
        cluster, names = self._cluster, frozenset(best.nodes)
        with cluster.transaction():
            for placed in best.placed:
                if not placed.victims:
                    cluster.place(placed.pod.key, placed.node)
            for name in [name for name in cluster.state.table.row_of if name not in names]:
                cluster.remove(node_named(cluster, name))
            found = cluster.explain(best.refused[0].pod.key).suggestions()
        for suggestion in found:
            if all(change.on_pod is not None for change in suggestion.changes):
                return suggestion
        return None

    # -- the group ----------------------------------------------------------------------------------------------------

    def other_group(self, verdict: GroupVerdict, best: DomainJudgement) -> Iterator[ReliefRecord]:
        group = verdict.pod_group
        assert group is not None
        fitting = len(best.placed) + len(verdict.staying)
        policy = group.spec.scheduling_policy
        if policy.gang is not None and not best.works and 0 < fitting < policy.gang.min_count:
            gang = replace(policy.gang, min_count=fitting)
            spec = replace(group.spec, scheduling_policy=replace(policy, gang=gang))
            change = {"kind": "minCount", "value": fitting}
            note = _RECREATE if group.api_version in _IMMUTABLE_GANGS else ""
            field = "minimum of pods" if is_declared(group) else "minCount"
            yield from self._with_spec(group, spec, f"lower its {field} to {fitting:,}", change, note)
        if verdict.topology_key:
            spec = replace(group.spec, scheduling_constraints=None)
            change = {"kind": "dropTopology", "key": verdict.topology_key}
            text = f"let it spread over several values of {verdict.topology_key}"
            yield from self._with_spec(group, spec, text, change, _RECREATE)

    def _with_spec(
        self, group: PodGroup, spec: PodGroupSpec, text: str, change: dict[str, object], note: str
    ) -> Iterator[ReliefRecord]:
        with self._cluster.transaction():
            self._cluster.add(replace(group, spec=spec))
            placed = self.places()
        if placed:
            yield ReliefRecord(text=text, pods=placed, changes=(change,), note=note)
