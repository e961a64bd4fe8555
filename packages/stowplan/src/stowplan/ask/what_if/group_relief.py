"""Suggestions for an unschedulable pod group, each tried on the whole group.

These are: more nodes in the domain that comes closest; what is suggested for the first pod without a node there,
applied to all pods of the group; a smaller minimum; and spreading over several domains. No pod is evicted, and
everything is undone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec.structs import replace

from stowplan.ask.explain.verdicts.advice import Suggestion
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.offline import Cluster
from stowplan.ask.what_if.hypothetical_nodes import NodeTemplate, kinds_among, node_named
from stowplan.kube.api.workloads import PodGroup, PodGroupSpec
from stowplan.scheduler.engine.groups.group_questions import DomainJudgement
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.inspection.records import ReliefRecord

#: Number of kinds of nodes that are tried, and of successive changes of the pods.
_KINDS, _ROUNDS = 2, 4
_RECREATE = "the spec of a PodGroup cannot be changed: create another one"


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
        for kind in kinds_among(nodes)[:_KINDS]:
            template = NodeTemplate.of(self._cluster, kind.like)
            if self._with_nodes(template, most):
                yield self._fewest(template, most)

    def _fewest(self, template: NodeTemplate, most: int) -> ReliefRecord:
        fewest = bisect_left(range(most), True, 1, key=lambda nodes: self._with_nodes(template, nodes) > 0)
        like = template.node.metadata.name
        change = {"kind": "addNodes", "nodes": fewest, "like": like}
        placed = self._with_nodes(template, fewest)
        return ReliefRecord(text=f"add {count(fewest, 'node')} like {like}", pods=placed, changes=(change,))

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
            yield from self._with_spec(group, spec, f"lower its minCount to {fitting:,}", change)
        if verdict.topology_key:
            spec = replace(group.spec, scheduling_constraints=None)
            change = {"kind": "dropTopology", "key": verdict.topology_key}
            text = f"let it spread over several values of {verdict.topology_key}"
            yield from self._with_spec(group, spec, text, change)

    def _with_spec(
        self, group: PodGroup, spec: PodGroupSpec, text: str, change: dict[str, object]
    ) -> Iterator[ReliefRecord]:
        with self._cluster.transaction():
            self._cluster.add(replace(group, spec=spec))
            placed = self.places()
        if placed:
            yield ReliefRecord(text=text, pods=placed, changes=(change,), note=_RECREATE)
