"""The verdict on a pod group: which members fit together, where, and why the others do not.

A `GroupVerdict` is a snapshot of one trial of the group in every possible domain.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from stowplan.ask.explain.verdicts.verdict import condition_of, refusals_of
from stowplan.scheduler.engine.groups.group_questions import DomainJudgement, GroupJudgement
from stowplan.scheduler.framework.explanations.formatting import amount, count
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.inspection.frames import to_frame as frame_of
from stowplan.scheduler.inspection.records import GroupDomainRecord, GroupPodRecord, GroupVerdictRecord, document


@dataclass(kw_only=True, repr=False)
class GroupVerdict(GroupJudgement):
    """The scheduler's verdict on one pod group.

    Examples:
        >>> verdict = groups.explain_group("too-large")
        >>> verdict.fits, verdict.best.name, verdict.lacking(verdict.best)
        (False, 'b', 2)
    """

    @property
    def min_count(self) -> int | None:
        """The number of pods that a gang needs; None for other groups."""
        gang = None if self.pod_group is None else self.pod_group.spec.scheduling_policy.gang
        return None if gang is None else gang.min_count

    @property
    def topology_key(self) -> str:
        """The node label that must be equal for the nodes of all pods; "" if there is none."""
        constraints = None if self.pod_group is None else self.pod_group.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""

    @property
    def fits(self) -> bool:
        """Whether the group would be scheduled now."""
        return self.status.code == Code.Success and not self.gated

    @property
    def total(self) -> int:
        return len(self.pods) + len(self.staying) + len(self.left_out)

    @property
    def left_out(self) -> list[str]:
        """Pods that PreEnqueue gates while others are tried."""
        tried = {info.key for info in self.pods}
        return [key for key in self.gated if key not in tried]

    @property
    def ranked(self) -> list[DomainJudgement]:
        """The selected domain, then the others by how close they come."""
        return sorted(self.domains, key=lambda one: (not one.chosen, not one.works, one.waiting, -len(one.placed)))

    @property
    def best(self) -> DomainJudgement | None:
        return self.ranked[0] if self.domains else None

    def lacking(self, domain: DomainJudgement) -> int:
        """The number of additional pods that the group needs there: up to minCount, or all of them."""
        if self.min_count is None:
            return len(domain.refused)
        return max(0, self.min_count - len(self.staying) - len(domain.placed))

    def lacking_resources(self, domain: DomainJudgement) -> dict[str, str]:
        """The total requests of the pods that are lacking there, counted from the first one without a node."""
        total: Counter[str] = Counter()
        for refused in domain.refused[: self.lacking(domain)]:
            total.update(refused.pod.shape.requests)
        return {resource: amount(resource, number) for resource, number in total.items() if number}

    # -- text ----------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<GroupVerdict: {self.in_words()}>"

    def in_words(self) -> str:
        """The verdict in one line."""
        best = self.best
        if best is None:
            return f"{self.group} cannot be judged: {self.status.message}"
        where = f" in {best.name}" if best.name else ""
        if best.works and not self.gated:
            what = "would fit after evicting other pods" if best.waiting else "fits"
            return f"{self.group} {what}{where}: {self._share(best)}"
        if self.gated and not self.left_out:
            return f"{self.group} is held back: {next(iter(self.gated.values())).message}"
        return f"{self.group} does not fit: {self._share(best)}{where}, {self.needed(best)}"

    def _share(self, domain: DomainJudgement) -> str:
        running = f", {len(self.staying):,} more have a node" if self.staying else ""
        return f"{len(domain.placed):,} of {count(len(self.pods), 'pod')} fit together{running}"

    def needed(self, domain: DomainJudgement) -> str:
        lacking = self.lacking(domain)
        if self.min_count is not None and self.total < self.min_count:
            return f"the gang needs {self.min_count:,} pods and has {self.total:,}"
        if lacking:
            return f"{lacking:,} more {'pod is' if lacking == 1 else 'pods are'} needed"
        return domain.status.message

    def _repr_html_(self) -> str:
        from stowplan.ask.explain.verdicts.verdict_html import group_html

        return group_html(self)

    # -- data ----------------------------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """A pandas or polars data frame of `rows`."""
        return frame_of(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Per domain, how many pods fit and why the others do not; the best domain first."""
        return [
            {
                "domain": domain.name,
                "fits": domain.works,
                "chosen": domain.chosen,
                "nodes": len(domain.nodes),
                "placed": len(domain.placed),
                "lacking": self.lacking(domain),
                "why": "" if domain.works else "; ".join(refusal.reason for refusal in refusals_of(domain)),
            }
            for domain in self.ranked
        ]

    def to_dict(self) -> dict[str, Any]:
        """The `record` as JSON-able data."""
        return document(self.record())

    def record(self) -> GroupVerdictRecord:
        best = self.best
        return GroupVerdictRecord(
            kind="ExplainGroup",
            pod_group=self.group,
            policy="" if self.pod_group is None else "basic" if self.min_count is None else "gang",
            min_count=self.min_count or 0,
            topology_key=self.topology_key,
            fits=self.fits,
            waits_for_preemption=self.waiting,
            code=self.status.code.name,
            message=self.status.message,
            pods=tuple(info.key for info in self.pods),
            judged_as_pending=self.judged_as_pending,
            have_node={info.key: info.node_name for info in self.staying},
            held_back={key: status.message for key, status in self.gated.items()},
            domain=best.name if best is not None and best.chosen else "",
            domains=tuple(self._domain(one) for one in self.ranked),
            condition=condition_of(self.pod_group),
            not_asked=dict(self.not_asked),
        )

    def _domain(self, domain: DomainJudgement) -> GroupDomainRecord:
        return GroupDomainRecord(
            name=domain.name,
            nodes=len(domain.nodes),
            fits=domain.works,
            chosen=domain.chosen,
            lacking=self.lacking(domain),
            lacking_resources={} if domain.works else self.lacking_resources(domain),
            placed=tuple(GroupPodRecord(pod=p.pod.key, node=p.node, victims=p.victims) for p in domain.placed),
            refused=refusals_of(domain),
            victims=domain.victims,
        )
