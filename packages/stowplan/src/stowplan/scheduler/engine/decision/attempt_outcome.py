"""A decision as stored in stories: plain values, no arrays."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.inspection.stories import LONGEST_TEXT, AttemptOutcome

_MAX_VICTIMS = 10

#: Memo key for the story summary of a diagnosis.
_SUMMARY = "story"


def attempt_outcome(decision: Decision, *, time: float, attempt: int, seconds: float) -> AttemptOutcome:
    """`time` is seconds since the epoch; `attempt` counts from 1 and took `seconds`."""
    info = decision.pod
    name = info.pod.spec.scheduler_name
    if decision.node_name:
        return AttemptOutcome(time, info.key, info.uid, name, attempt, seconds, decision.node_name)
    return AttemptOutcome(
        time, info.key, info.uid, name, attempt, seconds, **_failure(decision), **_nomination(decision)
    )


def _failure(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = {
        # Thousands of equal pods have equal messages; share one string.
        "message": sys.intern(decision.message[:LONGEST_TEXT]),
        "code": "" if decision.status is None else decision.status.code.name,
    }
    diagnosis = decision.diagnosis
    if diagnosis is None:
        plugin = "" if decision.status is None else decision.status.plugin
        return found | ({"unschedulable_plugins": (plugin,)} if plugin else {})
    return found | _summary(diagnosis)


def _summary(diagnosis: Diagnosis) -> dict[str, Any]:
    """Computed once for all pods that fail for the same reasons."""
    known: dict[str, Any] | None = diagnosis.memos.memo(_SUMMARY, None)
    if known is None:
        known = {
            "unschedulable_plugins": tuple(sorted(diagnosis.unschedulable_plugins)),
            "pending_plugins": tuple(sorted(diagnosis.pending_plugins)),
            "refused": tuple(_refused(diagnosis)),
        }
        diagnosis.memos.remember(_SUMMARY, None, known)
    return known


def _refused(diagnosis: Diagnosis) -> Iterator[tuple[str, int]]:
    counts: Counter[str] = Counter(status.plugin for status in diagnosis.nominated.values())
    # A plugin's entries share the mask of rows that it was the first to reject.
    counts.update({plugin: int(np.count_nonzero(rows)) for plugin, _, rows in diagnosis.entries()})
    absent = diagnosis.nodes - diagnosis.evaluated
    if absent:
        counts[diagnosis.absent.plugin or ", ".join(sorted(diagnosis.pre_filter_plugins))] += absent
    yield from sorted(((p, n) for p, n in counts.items() if p and n), key=lambda found: (-found[1], found[0]))


def _nomination(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = {"nominated_node_name": decision.nominated_node_name}
    plan = decision.plan
    if plan is not None:
        found["victims"] = tuple(victim.key for victim in plan.victims[:_MAX_VICTIMS])
        found["victims_total"] = len(plan.victims)
        found["pdb_violations"] = plan.pdb_violations
    return found
