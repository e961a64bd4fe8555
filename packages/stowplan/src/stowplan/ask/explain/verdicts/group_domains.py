"""A group's trial in one topology domain: pods by node, pods by reason, victims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.scheduler.inspection.records import ConditionRecord, GroupRefusalRecord

if TYPE_CHECKING:
    from stowplan.kube.api.types import PodGroup
    from stowplan.scheduler.engine.groups.group_questions import DomainJudgement

CONDITION = "PodGroupScheduled"
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
        if one.type == CONDITION:
            since = one.last_transition_time or ""
            return ConditionRecord(status=one.status, reason=one.reason, message=one.message, since=since)
    return None
