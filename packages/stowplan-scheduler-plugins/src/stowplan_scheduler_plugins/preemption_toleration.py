"""Preemption that pods can tolerate for a while: the PriorityClass of a victim says against whom, and for how long.

As DefaultPreemption, but a pod of lower priority is exempt if its class has annotations: from preemptors whose priority
is below `minimum-preemptable-priority` (by default, the class's value plus one), until `toleration-seconds` after it
was scheduled (negative: forever). Profiles should disable DefaultPreemption, which otherwise preempts first.

All nodes are tried; the reference takes a random part of them if there are many candidates.

Upstream: pkg/preemptiontoleration in scheduler-plugins.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

from stowplan.plugins import CycleState, Diagnosis, PodInfo, Status, error
from stowplan.plugins.arguments import INT32, Args, Pointer, Struct, documented, invalid, kind
from stowplan.plugins.objects import PodDisruptionBudget, PriorityClass, parse_timestamp
from stowplan.plugins.preemption import Candidates, dry_run
from stowplan_scheduler_plugins.preempting import STILL_TERMINATING, PreemptingPlugin

PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
MINIMUM_PRIORITY, SECONDS = f"{PREFIX}minimum-preemptable-priority", f"{PREFIX}toleration-seconds"

_INTEGER = re.compile(r"[+-]?[0-9]+")


class PreemptionTolerationArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "PreemptionTolerationArgs",
        minCandidateNodesPercentage=documented(Pointer(INT32), "Without effect: all nodes are tried."),
        minCandidateNodesAbsolute=documented(Pointer(INT32), "Without effect: all nodes are tried."),
    )

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate_at_build(self) -> Iterator[str]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        # Parity: the reference's path is an empty list.
        if not 0 <= percentage <= 100:
            yield invalid("[].minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid("[].minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
        if percentage == 0 == absolute:
            both = "cannot be zero at the same time as"
            yield invalid("[].minCandidateNodesPercentage", percentage, f"{both} minCandidateNodesAbsolute")
            yield invalid("[].minCandidateNodesAbsolute", absolute, f"{both} minCandidateNodesPercentage")


class PreemptionToleration(PreemptingPlugin):
    name = "PreemptionToleration"
    args_type = PreemptionTolerationArgs
    reads_kinds = (PriorityClass, PodDisruptionBudget)
    reads_annotations = (MINIMUM_PRIORITY, SECONDS)

    def ineligible(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> str:
        node = self.nominated_node(pod, diagnosis)
        pods = () if node is None else node.pods
        leaving = any(other.priority < pod.priority and other.pod.metadata.deletion_timestamp for other in pods)
        return STILL_TERMINATING if leaving else ""

    def try_evictions(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Candidates:
        return dry_run(self.handle, state, pod, diagnosis, Toleration(self, pod, self.handle.wall_clock()))


class Toleration:
    """Which pods of lower priority may be evicted in favor of a pod, at a time."""

    def __init__(self, plugin: PreemptionToleration, preemptor: PodInfo, now: float) -> None:
        self._objects = plugin.handle.cluster.objects
        self._preemptor, self._now = preemptor, now

    def may_evict(self, victim: PodInfo) -> bool | Status:
        name = victim.pod.spec.priority_class_name
        if not name:
            return True
        found = self._objects.get(PriorityClass, name)
        if found is None:
            return error(f'priorityclass.scheduling.k8s.io "{name}" not found')
        minimum = _parsed(found.metadata.annotations.get(MINIMUM_PRIORITY), found.value + 1, bits=32)
        seconds = _parsed(found.metadata.annotations.get(SECONDS), 0, bits=64)
        if minimum is None or seconds is None or self._preemptor.priority >= minimum:
            return True
        return seconds >= 0 and not self._tolerates(victim, seconds)

    def _tolerates(self, victim: PodInfo, seconds: int) -> bool:
        scheduled = next((one for one in victim.pod.status.conditions if one.type == "PodScheduled"), None)
        if scheduled is None or scheduled.status != "True":
            return True
        since = parse_timestamp(scheduled.last_transition_time) if scheduled.last_transition_time else 0.0
        return since + seconds > self._now

    def no_victims(self, node_name: str) -> str:
        return f"No victims found on node {node_name} for preemptor pod {self._preemptor.name}"


def _parsed(text: str | None, default: int, *, bits: int) -> int | None:
    """The number in an annotation, None if it is none of this size."""
    if text is None:
        return default
    if not _INTEGER.fullmatch(text):
        return None
    limit = 1 << (bits - 1)
    return number if -limit <= (number := int(text)) < limit else None
