"""How many more copies of a whole pod group fit.

Copies of the group and its pods are scheduled one after the other, as groups, until one does not fit as a whole. No pod
is evicted for them, and pending pods are not scheduled first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.assumptions import Provision, assumed
from stowplan.ask.what_if.added_nodes import nodes_record
from stowplan.ask.what_if.answer_records import GroupFitRecord, NodesToAddRecord
from stowplan.ask.what_if.fit import check_replicas
from stowplan.ask.what_if.hypothetical_claims import bind_claims_of, with_own_claims
from stowplan.ask.what_if.hypothetical_nodes import NodeTemplate, fewest_nodes, kinds_of, node_named
from stowplan.ask.what_if.hypothetical_pods import copy_of
from stowplan.kube.api.types import Pod, PodGroup, PodSchedulingGroup

if TYPE_CHECKING:
    from stowplan.ask.what_if.hypothetical_nodes import NodeKind

#: Maximum numbers of groups placed one after the other, and of nodes of a kind that are tried.
MOST_GROUPS, _MOST_NODES = 1_000, 1_000


def fit_group(
    cluster: Cluster, group: str, *, replicas: int | None = None, kinds: Sequence[NodeKind] | None = None
) -> GroupFitRecord:
    """How many more groups like this one fit as a whole, and which nodes to add for others.

    `replicas`: how many groups are wanted; None: as many as fit.

    `kinds` of nodes to add for those that do not fit; None: those of the cluster.

    Examples:
        >>> found = fit_group(groups, "too-large", replicas=1)
        >>> found.fits, found.nodes_to_add[0].count, found.nodes_to_add[0].like
        (0, 2, 'a1')
    """
    check_replicas(replicas, MOST_GROUPS)
    if not cluster.engine.schedules_groups:
        raise ClusterError("feature_gates: GenericWorkload is off, pods of groups are scheduled one by one")
    question = _Question(cluster, group)
    with cluster.transaction():
        fits, nodes = question.placed(MOST_GROUPS if replicas is None else replicas)
        whole = replicas is not None and fits == replicas
        why = "" if whole or fits == MOST_GROUPS else question.why_not()
        domains = question.domains_of(nodes)
    to_add = [] if replicas is None or whole else _nodes_to_add(cluster, question, replicas, kinds)
    notes = [*assumed(question.provisions)]
    if fits == MOST_GROUPS:
        notes.append(f"after {fits:,} groups no more were tried: there may be room for others")
    return GroupFitRecord(
        pod_group=question.key,
        pods_each=len(question.pods),
        wanted=replicas,
        fits=fits,
        per_node=dict(sorted(nodes.items())),
        per_domain=dict(sorted(domains.items())),
        limited_by=why,
        nodes_to_add=tuple(to_add),
        notes=tuple(notes),
    )


class _Question:
    """Evaluated within transactions of the caller."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.key = group if "/" in group else f"default/{group}"
        self._cluster = cluster
        found = cluster.state.objects.get(PodGroup, self.key)
        if found is None:
            raise ClusterError(f'pod group "{self.key}" not found')
        self._group = found
        groups = cluster.state.pod_groups
        self.pods = [info.pod for info in (*groups.placed(self.key), *groups.unscheduled(self.key))]
        if not self.pods:
            raise ClusterError(f'pod group "{self.key}" has no pods: nothing says how large they are')
        gang = found.spec.scheduling_policy.gang
        # Missing pods of a gang are assumed to be like its last one.
        self.pods += [self.pods[-1]] * (0 if gang is None else gang.min_count - len(self.pods))
        self._last = ""
        #: Volumes that provisioners have to create.
        self.provisions: set[Provision] = set()

    def placed(self, most: int) -> tuple[int, Counter[str]]:
        """How many whole groups fit, one after the other, and the nodes of their pods."""
        nodes: Counter[str] = Counter()
        for number in range(most):
            hosts = [decision.node_name for decision in self._cluster.schedule(self._copies(number + 1))]
            if not all(hosts):
                return number, nodes
            nodes.update(hosts)
        return most, nodes

    def _copies(self, number: int) -> list[Pod]:
        name = f"{self._group.metadata.name}-copy-{number}"
        metadata = replace(self._group.metadata, name=name, uid=f"{self.key}, copy {number}")
        group = replace(self._group, metadata=metadata, status=type(self._group.status)())
        self._cluster.add(group)
        self._last = f"{metadata.namespace or 'default'}/{name}"
        fresh = [self._member(pod, name, f"{name}-{i}") for i, pod in enumerate(self.pods)]
        self.provisions |= bind_claims_of(self._cluster, fresh)
        return fresh

    def _member(self, pod: Pod, group: str, name: str) -> Pod:
        fresh = with_own_claims(self._cluster, copy_of(pod, name), pod)
        return replace(fresh, spec=replace(fresh.spec, scheduling_group=PodSchedulingGroup(pod_group_name=group)))

    def why_not(self) -> str:
        """Why the last copy does not fit."""
        verdict = self._cluster.explain_group(self._last)
        best = verdict.best
        if best is None:
            return verdict.status.message
        text = verdict.in_words().partition(": ")[2]
        reason = best.refused[0].reason if best.refused else ""
        return f"{text}: {reason}" if reason else text

    def domains_of(self, nodes: Mapping[str, int]) -> Counter[str]:
        """Number of pods by value of the group's topology label; empty without one."""
        constraints = self._group.spec.scheduling_constraints
        domains: Counter[str] = Counter()
        if constraints is not None and constraints.topology:
            key = constraints.topology[0].key
            for name, pods in nodes.items():
                domains[node_named(self._cluster, name).metadata.labels.get(key, "")] += pods
        return domains


def _nodes_to_add(
    cluster: Cluster, question: _Question, wanted: int, kinds: Sequence[NodeKind] | None
) -> list[NodesToAddRecord]:
    """The lowest number of new nodes of each kind with which all groups fit; each number is tried."""
    found = []
    for kind in kinds_of(cluster) if kinds is None else kinds:
        template = NodeTemplate.of(cluster, kind.like)
        count = _count_to_add(cluster, question, template, wanted)
        if count is not None:
            found.append(nodes_record(kind, count))
    return sorted(found, key=lambda add: (add.price is None, add.price or 0.0, add.count, add.like))


def _count_to_add(cluster: Cluster, question: _Question, template: NodeTemplate, wanted: int) -> int | None:
    def all_fit(count: int) -> bool:
        with cluster.transaction():
            template.add_to(cluster, count)
            return question.placed(wanted)[0] == wanted

    # With more than that, each new node would have one pod.
    return fewest_nodes(all_fit, min(wanted * len(question.pods), _MOST_NODES))
