"""Suggestions for many pending pods, each tried on all of them together.

What is suggested for one pod is applied to all pods with the same rejections, or to the nodes, and the scheduler then
places what it can; the result is the number of placed pods. In addition, more nodes of the existing kinds are tried, as
many as needed to place all pods that such nodes can fit. No pod is evicted, and everything is undone.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from stowplan.ask.explain.verdicts.advice import Suggestion
from stowplan.ask.offline import Cluster
from stowplan.ask.what_if.hypothetical_claims import release_claims
from stowplan.ask.what_if.hypothetical_nodes import NodeTemplate, kinds_of, node_named
from stowplan.ask.what_if.settling import put_back
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.engine.decision.questions import is_interested
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.inspection.records import ReliefRecord

if TYPE_CHECKING:
    from stowplan.ask.explain.text.overview import Group

#: Number of suggestions used per group, and tried in total.
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
        for suggestion in group.verdict.suggestions()[:_OF_GROUP]:
            data = json.dumps(suggestion.changes_data, sort_keys=True)
            found.setdefault(data, _Candidate(suggestion)).keys.extend(group.keys)
    return sorted(found.values(), key=lambda one: -len(one.keys))[:_TRIED]


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

    fewest = bisect_left(range(len(keys)), True, 1, key=suffice)
    like = template.node.metadata.name
    return ReliefRecord(
        text=f"add {count(fewest, 'node')} like {like}",
        pods=most,
        changes=({"kind": "addNodes", "nodes": fewest, "like": like},),
    )


def _placed_with(cluster: Cluster, template: NodeTemplate, nodes: int, keys: Sequence[str]) -> int:
    with cluster.transaction():
        template.add_to(cluster, nodes)
        return _placed(cluster, (cluster.pod(key).pod for key in keys))
