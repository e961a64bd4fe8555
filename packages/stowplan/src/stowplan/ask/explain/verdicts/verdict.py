"""A verdict: the results of every plugin on every node, and rejected nodes by reason.

A `Verdict` is made from one full evaluation in which nothing is placed. It is a snapshot, which later changes do not
affect. What is computed from the cluster on demand (suggestions, details on a page) raises `StaleVerdictError` once the
cluster has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from stowplan.ask.explain.verdicts.advice import Advice, Suggestion
from stowplan.kube.api.types import PodGroup
from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.engine.decision.questions import Judgement
from stowplan.scheduler.engine.groups.group_questions import DomainJudgement
from stowplan.scheduler.framework.diagnosis import Diagnosis, Entry
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.explanations.preemption import Preemption
from stowplan.scheduler.framework.explanations.remedy import Refusal, classes, split
from stowplan.scheduler.framework.status import Code, Reason, Status
from stowplan.scheduler.inspection import records
from stowplan.scheduler.inspection.frames import to_frame as frame_of
from stowplan.scheduler.inspection.records import ConditionRecord, GroupRefusalRecord

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.state import ClusterState


class StaleVerdictError(RuntimeError):
    """The cluster has changed since the verdict; says whose verdict it is, and what to do."""


@dataclass(kw_only=True, repr=False)
class Verdict(Judgement):
    """The scheduler's verdict on one pod for every node.

    Notebooks show it as tables. `to_dict` and `to_frame` return the data, `suggestions` what would help.

    Examples:
        >>> verdict = cluster.explain("shop/db-0")
        >>> verdict.node_name, verdict.to_dict()["scores"]["node-a1"]["TaintToleration"]
        ('node-a1', 300)
        >>> cluster.explain("ml/notebook").suggestions()[0].text
        'tolerate nvidia.com/gpu:NoSchedule to gain 2 nodes (gpu-a1, gpu-b1)'
    """

    #: The result of preemption; None if it was not evaluated.
    preemption: Preemption | None = None
    #: Whether the error is that no profile of the configuration schedules the pod.
    without_profile: bool = False
    #: Computes advice on demand, because that takes many evaluations (see `suggestions.advise`).
    adviser: Callable[[Verdict], Advice] | None = None

    @property
    def key(self) -> str:
        return self.pod.key

    def __repr__(self) -> str:
        return f"<Verdict: {self.in_words()}>"

    @property
    def present_state(self) -> str:
        """Where the pod is, whatever the verdict says."""
        node = self.pod.pod.spec.node_name
        return f"runs on {node}" if node else "is pending"

    @property
    def unanswered(self) -> bool:
        """Whether an error keeps the pod from being judged, as of a plugin or of missing objects."""
        return self.error is not None and not self.without_profile

    def in_words(self) -> str:
        """The verdict in one line."""
        if self.without_profile and self.error is not None:
            return f"{self.key} {self.present_state}: not scheduled here: {self.error.message}"
        if self.error is not None:
            return f"{self.key} cannot be judged: {self.error.message}"
        if self.gated is not None:
            return f"{self.key} is gated: {self.gated.message}"
        if not self.node_name:
            return f"{self.key} goes nowhere: {self.full_message}"
        would = f"{int(self.feasible.sum()):,} of {count(len(self.names), 'node')} would take it"
        return f"{self.key} goes to {self.node_name}: {would}"

    def _repr_html_(self) -> str:
        """The score matrix and the refusals, for notebooks."""
        from stowplan.ask.explain.verdicts.verdict_html import verdict_html

        return verdict_html(self)

    def to_frame(self) -> Any:
        """A data frame with one row per node: whether it is feasible, scores by plugin, or who rejected it and why.

        Uses pandas or polars, whichever is installed.
        """
        return frame_of(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `to_frame` as dicts, one per node; the best node first, rejected ones last."""
        if self.error is not None or self.gated is not None:
            return []
        record = self.record()
        points: dict[str, int | None] = dict.fromkeys(self.scores)
        nothing = {"refused_by": "", "reason": ""}
        found: list[dict[str, Any]] = [
            {"node": name, "feasible": True, "total": record.totals[name], **points, **record.scores[name], **nothing}
            for name in (self.names[row] for row in self.ranked())
        ]
        for name, status in record.rejected.items():
            refusal = {"refused_by": status.plugin, "reason": "; ".join(status.reasons)}
            found.append({"node": name, "feasible": False, "total": None, **points, **refusal})
        return found

    @cached_property
    def advice(self) -> Advice | None:
        """What would help an unschedulable pod; None if unknown or not needed."""
        return self.adviser(self) if self.adviser is not None and not self.node_name else None

    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes that would make the pod schedulable, each verified on all nodes; the smallest first.

        Computed on first access, and included in `to_dict` from then on. Raises StaleVerdictError if the cluster has
        changed since the verdict.
        """
        return self.advice.suggestions if self.advice is not None else ()

    def check_current(self, state: ClusterState) -> None:
        """Raise StaleVerdictError if the cluster has changed since the verdict."""
        if state.version != self.version:
            raise StaleVerdictError(
                f'the verdict on pod "{self.key}" is of an earlier state of the cluster, which has changed since: '
                "explain the pod again and ask the new verdict"
            )

    def ranked(self) -> list[int]:
        """Feasible rows, best first; ties in row order."""
        rows = np.flatnonzero(self.feasible)
        order = np.argsort(-self.totals[rows], kind="stable") if len(self.totals) else np.arange(len(rows))
        ranked: list[int] = rows[order].tolist()
        return ranked

    def to_dict(self) -> dict[str, Any]:
        """The `record` as JSON-able data."""
        return records.document(self.record())

    def record(self, *, most: int | None = None) -> records.VerdictRecord:
        """The verdict as a record. Suggestions are included once they were computed, as they cost many times the rest.

        `most`: only list this many of the feasible nodes, the best ones, and no rejected ones; None: all.
        """
        advice: Advice | None = self.__dict__.get("advice")
        advised: dict[str, Any] = {} if advice is None else advice.fields()
        nominated_node = self.pod.pod.status.nominated_node_name
        if self.gated is not None:
            return records.VerdictRecord(
                kind="Explain", pod=self.key, error="gated", absent_nodes_status=_status(self.gated), **advised
            )
        if self.error is not None:
            results = self._extender_results()
            return records.VerdictRecord(
                kind="Explain", pod=self.key, error=self.error.message, nominated_node=nominated_node, extenders=results
            )
        fields: dict[str, Any] = {"node": self.node_name, "nominated": self.nominated}
        fields |= {"nominated_node": nominated_node, "feasible_nodes": int(self.feasible.sum())}
        fields["current_node"] = self.current_node
        if self.diagnosis is not None:
            fields |= self._refusals(self.diagnosis)
            fields["rejected"] = self._rejected(self.diagnosis) if most is None else {}
        if self.feasible.any():
            fields |= self._scores(np.flatnonzero(self.feasible).tolist() if most is None else self.ranked()[:most])
        else:
            fields |= {"message": self.message, "full_message": self.full_message}
            fields |= {"preemption": self._preemption(), **advised}
        fields |= {"extenders": self._extender_results(), "not_asked": dict(self.not_asked)}
        return records.VerdictRecord(kind="Explain", pod=self.key, **fields)

    def _extender_results(self) -> tuple[records.ExtenderResultRecord, ...]:
        return tuple(
            records.ExtenderResultRecord(
                extender=word.extender,
                verb=word.verb,
                asked=word.asked,
                refused=dict(word.refused),
                points=dict(word.points),
                failed=word.failed,
            )
            for word in self.extenders
        )

    def _refusals(self, diagnosis: Diagnosis) -> dict[str, Any]:
        return {
            "pre_filter_message": diagnosis.pre_filter_message,
            "absent_nodes_status": _status(diagnosis.absent) if diagnosis.absent.shown_reasons else None,
            "unschedulable_plugins": tuple(sorted(diagnosis.unschedulable_plugins)),
        }

    def _rejected(self, diagnosis: Diagnosis) -> dict[str, records.StatusRecord]:
        rows = np.flatnonzero(diagnosis.valid & diagnosis.examined)
        statuses = ((row, diagnosis.status(row)) for row in rows.tolist())
        return {self.names[row]: _status(status) for row, status in statuses if status is not None}

    def _scores(self, rows: Sequence[int]) -> dict[str, Any]:
        return {
            "feasible": tuple(self.names[row] for row in rows),
            "scores": {self.names[row]: {p: int(of[row]) for p, of in self.scores.items()} for row in rows},
            "totals": {self.names[row]: int(self.totals[row]) for row in rows},
        }

    def _preemption(self) -> records.PreemptionRecord | None:
        found = self.preemption
        if found is None:
            return None
        return records.PreemptionRecord(
            plugin=found.plugin,
            eligible=not found.ineligible_reason,
            reason=found.ineligible_reason,
            candidates={
                name: records.CandidateRecord(victims=tuple(v.key for v in c.victims), pdb_violations=c.pdb_violations)
                for name, c in found.candidates.items()
            },
            selected=found.best,
        )


def _status(status: Status) -> records.StatusRecord:
    return records.StatusRecord(plugin=status.plugin, code=status.code.name, reasons=tuple(status.shown_reasons))


def refusals(diagnosis: Diagnosis) -> list[Refusal]:
    """All rejected nodes, the largest group first."""
    filtered = _filtered(diagnosis)
    found = [*_absent(diagnosis), *_nominated(diagnosis, filtered), *filtered]
    return sorted(found, key=lambda refusal: (-len(refusal.rows), refusal.plugin, refusal.text))


def for_nominated(diagnosis: Diagnosis) -> list[int]:
    """Rows that are infeasible because of the pods nominated to them, and for no other reason."""
    return [row for row in diagnosis.nominated if not any(found.mask[row] for _, found in diagnosis.filtered)]


def _filtered(diagnosis: Diagnosis) -> list[Refusal]:
    by_plugin: dict[str, tuple[list[Entry], Mask]] = {}
    for plugin, entry, hit in diagnosis.entries():
        by_plugin.setdefault(plugin, ([], hit))[0].append(entry)
    found = []
    for plugin, (entries, hit) in by_plugin.items():
        rows = np.flatnonzero(hit)
        covered = [entry.mask[rows] for entry in entries]
        for part in split(np.arange(len(rows)), classes(covered, len(rows))):
            holding = [entry for entry, mask in zip(entries, covered, strict=True) if mask[part[0]]]
            code = max((entry.code for entry in holding), default=Code.Unschedulable)
            found.append(Refusal(plugin, code, tuple(entry.reason for entry in holding), rows[part]))
    return found


def _nominated(diagnosis: Diagnosis, filtered: list[Refusal]) -> list[Refusal]:
    """Nodes that were judged with the pods nominated to them; those refused without them, too, join their group."""
    alone = set(for_nominated(diagnosis))
    groups: dict[tuple[str, Code, tuple[Reason, ...]], list[int]] = {}
    same = {(refusal.plugin, refusal.code, refusal.reasons): at for at, refusal in enumerate(filtered)}
    for row, status in diagnosis.nominated.items():
        key = (status.plugin, status.code, _reasons(status))
        at = None if row in alone else same.get(key)
        if at is None:
            groups.setdefault(key, []).append(row)
        else:
            filtered[at] = replace(filtered[at], rows=np.sort(np.append(filtered[at].rows, row)))
    return [Refusal(*key, np.array(rows, np.intp)) for key, rows in groups.items()]


def _absent(diagnosis: Diagnosis) -> list[Refusal]:
    """Nodes on which Filter did not run."""
    rows = np.flatnonzero(diagnosis.valid & ~diagnosis.examined)
    if not len(rows) or not diagnosis.absent.shown_reasons:
        return []
    plugin = diagnosis.absent.plugin or ", ".join(sorted(diagnosis.pre_filter_plugins))
    return [Refusal(plugin, diagnosis.absent.code, _reasons(diagnosis.absent), rows)]


def _reasons(status: Status) -> tuple[Reason, ...]:
    return status.records or tuple(Reason("PluginReason", text) for text in status.shown_reasons)


#: Its name since 1.37, and the one before.
CONDITIONS = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
#: Maximum number of pod names that are listed; there may be thousands, and their number is reported anyway.
_NAMED = 20


def refusals_of(domain: DomainJudgement) -> tuple[GroupRefusalRecord, ...]:
    """Pods without a node in a domain, by message; the largest group first."""
    by_message: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for refused in domain.refused:
        by_message.setdefault((refused.reason, refused.message, refused.plugins), []).append(refused.pod.key)
    records = (
        GroupRefusalRecord(reason=reason, message=message, plugins=plugins, pods=len(keys), names=tuple(keys[:_NAMED]))
        for (reason, message, plugins), keys in by_message.items()
    )
    return tuple(sorted(records, key=lambda one: (-one.pods, one.message)))


def nodes_of_placed(domain: DomainJudgement) -> dict[str, list[str]]:
    """Node -> the pods placed on it, in order."""
    found: dict[str, list[str]] = {}
    for placed in domain.placed:
        found.setdefault(placed.node, []).append(placed.pod.key)
    return found


def victims_of(domain: DomainJudgement) -> list[str]:
    """Pods to evict first, for single pods of the group or for all of it."""
    of_pods = (victim for placed in domain.placed for victim in placed.victims)
    return list(dict.fromkeys((*domain.victims, *of_pods)))


def condition_of(group: PodGroup | None) -> ConditionRecord | None:
    """The condition that the cluster's scheduler reported for a group."""
    for one in () if group is None else group.status.conditions:
        if one.type in CONDITIONS:
            since = one.last_transition_time or ""
            return ConditionRecord(status=one.status, reason=one.reason, message=one.message, since=since)
    return None
