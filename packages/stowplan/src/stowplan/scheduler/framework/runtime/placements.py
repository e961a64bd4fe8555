"""Placements of a pod group: sets of nodes to try, and their scores.

A placement is a named set of nodes. At most one plugin generates placements for a group (for example one per rack);
without one, the only placement is the whole cluster. The scheduler tries the group in each placement. Among those in
which it fits, PlacementScore plugins choose the best, based on where the pods would go.

Upstream: pkg/scheduler/framework/runtime/framework.go; docs/reference/behaviour.md, Placements of pod groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.answers import out_of_range
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import (
    MAX_SCORE,
    MIN_SCORE,
    Placement,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupInfo,
)
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status, error, raised, unschedulable, wrapped

NO_PLACEMENTS = "no feasible placements found"


class PlacementScores(PlainStruct):
    """The scores of a placement."""

    placement: Placement
    #: Plugin -> its score, normalized and weighted.
    scores: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.scores.values())


def whole_cluster(cluster: ClusterState) -> Placement:
    """The unnamed placement with all nodes."""
    return Placement(Nodes(cluster, np.flatnonzero(cluster.table.valid[: cluster.table.n])))


def run_placement_generate(
    framework: Framework, group_state: CycleState, group: PodGroupInfo, parent: Placement | None = None
) -> Sequence[Placement] | Status:
    """The placements to try, or why there are none. `parent`: the nodes to choose from (None: all)."""
    parent = whole_cluster(framework.handle.cluster) if parent is None else parent
    # The configuration allows at most one such plugin.
    for plugin in framework.placement_generate:
        answer = _generated(plugin, group_state, group, parent)
        return answer.with_plugin(plugin.name) if isinstance(answer, Status) else answer
    return [parent]


def _generated(
    plugin: PlacementGeneratePlugin, group_state: CycleState, group: PodGroupInfo, parent: Placement
) -> Sequence[Placement] | Status:
    generate = plugin.generate_placements
    at = "PlacementGenerate", plugin
    found = call(generate, group_state, group, parent, check=_placements, required=True, failed=Raised, at=at)
    if isinstance(found, Raised):
        return wrapped(f'running PlacementGenerate plugin "{plugin.name}"', raised(found.cause, found.by))
    return found or unschedulable(NO_PLACEMENTS)


def _placements(answer: Any) -> list[Placement] | Status:
    if isinstance(answer, Status):
        return [] if answer.code == Code.Success else answer
    return list(answer)


def run_placement_score(
    framework: Framework, group_state: CycleState, group: PodGroupInfo, assignments: Sequence[PodGroupAssignments]
) -> list[PlacementScores] | Status:
    """The scores of each trial's placement, in the given order; an Error if some plugin fails."""
    results = [PlacementScores(trial.placement) for trial in assignments]
    for plugin in framework.placement_score:
        scores = _scored(plugin, group_state, group, assignments)
        if isinstance(scores, Status):
            return scores.with_plugin(plugin.name)
        weight = framework.placement_weights.get(plugin.name, 1)
        for result, score in zip(results, scores, strict=True):
            result.scores[plugin.name] = score * weight
    return results


def _scored(
    plugin: PlacementScorePlugin, group_state: CycleState, group: PodGroupInfo, trials: Sequence[PodGroupAssignments]
) -> Sequence[int] | Status:
    scores = []
    for trial in trials:
        at = "PlacementScore", plugin
        score = call(plugin.score_placement, group_state, group, trial, check=_score, required=True, at=at)
        if isinstance(score, Status):
            return wrapped(f'running PlacementScore plugins: plugin "{plugin.name}" failed with', score)
        scores.append(score)
    check, at = partial(_normalized, len(scores)), ("NormalizePlacements", plugin)
    normal = call(plugin.normalize_placements, group_state, group, scores, check=check, required=True, at=at)
    if isinstance(normal, Status):
        text = f'running NormalizePlacementScore on PlacementScore plugins: plugin "{plugin.name}" failed with'
        return wrapped(text, normal)
    wrong = next((score for score in normal if not MIN_SCORE <= score <= MAX_SCORE), None)
    return normal if wrong is None else out_of_range("PlacementScore", plugin.name, wrong)


def _score(answer: Any) -> int | Status:
    return answer if isinstance(answer, Status) else index(answer)


def _normalized(count: int, answer: Any) -> Sequence[int] | Status:
    if isinstance(answer, Status):
        return answer
    normal = [index(score) for score in answer]
    return normal if len(normal) == count else error(f"got {len(normal)} scores for {count} placements")
