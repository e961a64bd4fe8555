"""Preemption that pods can tolerate for a while: the PriorityClass of a victim says against whom, and for how long.

As DefaultPreemption, but a pod of lower priority is exempt if its class has annotations: from preemptors whose priority
is below `minimum-preemptable-priority` (by default, the class's value plus one), until `toleration-seconds` after it
was scheduled (negative: forever). Profiles should disable DefaultPreemption, which otherwise preempts first.

All nodes are tried; the reference takes a random part of them if there are many candidates.

Upstream: pkg/preemptiontoleration in scheduler-plugins.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from stowplan.plugins import (
    Code,
    CycleState,
    Diagnosis,
    EvictionPlan,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    Preemption,
    Status,
    error,
    eviction,
    unschedulable,
)
from stowplan.plugins.arguments import INT32, Args, Pointer, Struct, documented, invalid, kind
from stowplan.plugins.objects import PodDisruptionBudget, PriorityClass, parse_timestamp
from stowplan.plugins.preemption import Candidates, dry_run

PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
MINIMUM_PRIORITY, SECONDS = f"{PREFIX}minimum-preemptable-priority", f"{PREFIX}toleration-seconds"

NEVER = "not eligible due to preemptionPolicy=Never."
STILL_TERMINATING = "not eligible due to a terminating pod on the nominated node."
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


class Outcome(NamedTuple):
    """Why the pod may not preempt, or the result of the dry run."""

    ineligible: str = ""
    run: Candidates | None = None


class PreemptionToleration(PostFilterPlugin):
    name = "PreemptionToleration"
    args_type = PreemptionTolerationArgs
    reads_kinds = (PriorityClass, PodDisruptionBudget)
    reads_annotations = (MINIMUM_PRIORITY, SECONDS)
    effect_free = True

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        if self.handle.metrics is not None and not state.asking:
            self.handle.metrics.preemption_attempts_total.inc()
        reason = self._ineligible(pod, diagnosis)
        if reason:
            return PostFilterResult(unschedulable(reason), detail=Outcome(reason))
        run = dry_run(self.handle, state, pod, diagnosis, Toleration(self, pod, self.handle.wall_clock()))
        outcome = Outcome(run=run)
        if not len(run):
            if run.error is not None:
                return PostFilterResult(error(run.error.message), detail=outcome)
            return PostFilterResult(unschedulable(run.message), "", outcome)
        selected = run.candidate_on(self._chosen(state, run.best))
        plan = EvictionPlan(
            preemptor=pod,
            node_name=selected.node_name,
            victims=selected.victims,
            plugin=self.name,
            pdb_violations=selected.pdb_violations,
        )
        return PostFilterResult(Status(Code.Success), selected.node_name, outcome, plan)

    def _chosen(self, state: CycleState, best: list[str]) -> str:
        random = None if state.asking else self.handle.random
        return best[random.randrange(len(best)) if random is not None and len(best) > 1 else 0]

    def _ineligible(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        if pod.pod.spec.preemption_policy == "Never":
            return NEVER
        # A nomination in memory may not have reached the API server yet.
        name = self.handle.nominator.node_of(pod.uid) or pod.pod.status.nominated_node_name
        node = self.handle.node(name) if name else None
        if node is None:
            return ""
        status = diagnosis.status(self.handle.cluster.table.row_of[name])
        if status is not None and status.code == Code.UnschedulableAndUnresolvable:
            # The nominated node can no longer fit the pod: preempt elsewhere.
            return ""
        leaving = any(other.priority < pod.priority and other.pod.metadata.deletion_timestamp for other in node.pods)
        return STILL_TERMINATING if leaving else ""

    def preemption(self, result: PostFilterResult) -> Preemption:
        outcome: Outcome = result.detail
        if outcome.run is None:
            return Preemption(outcome.ineligible)
        run = outcome.run
        found = run.candidates.items()
        return Preemption(
            error="" if run.error is None else run.error.message,
            candidates={name: eviction(name, one.victims, one.pdb_violations) for name, one in found},
            best=tuple(run.best),
        )


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
