"""Group rejected nodes, and what a trial of a pod group rejected, by reason."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stowplan.kube.api.types import PodGroup
from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.engine.groups.group_questions import DomainJudgement
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.explanations.grouping import Refusal, classes, split
from stowplan.scheduler.framework.rejections import Entry
from stowplan.scheduler.framework.status import Code, Reason, Status
from stowplan.scheduler.inspection.records import ConditionRecord, GroupRefusalRecord


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
