"""What can change in a cached evaluation while only pods change, computed once for all equal pods that follow.

Most plugins' results depend on node objects only, or were skipped. A plan lists the others: plugins that count pods on
any node, which report whether their results are valid and are called again one by one if not, and the joint result of
those that read sums of a node's pods (`joint_sums.py`), of which only the changed rows are read. If some plugin fits
neither, there is no plan, and each plugin is checked.

A plan is valid until the set of participating plugins changes; `Filtering` and `Scoring` then create a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stowplan.scheduler.engine.evaluation.joint_sums import JointRefusals, JointScores
from stowplan.scheduler.framework.interface import CountsPods, Reads

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy.typing as npt

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.evaluation.node_sums import NodeSums
    from stowplan.scheduler.engine.evaluation.score import Score
    from stowplan.scheduler.framework.cycle_state import CycleState
    from stowplan.scheduler.framework.interface import FilterPlugin, PreFilterPlugin, PreScorePlugin, ScorePlugin
    from stowplan.scheduler.framework.rejections import Rejections
    from stowplan.scheduler.framework.runtime.framework import Framework


class FilterPlan(NamedTuple):
    """The plan for PreFilter and Filter."""

    #: Each plugin in both of its roles.
    counters: tuple[tuple[CountsPods, PreFilterPlugin], ...]
    #: Plugins that read sums, their names, and their joint result.
    by_sums: tuple[FilterPlugin, ...]
    names: frozenset[str]
    refused: JointRefusals

    @classmethod
    def of(
        cls,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        answers: Mapping[str, Rejections | None],
        sums: NodeSums,
    ) -> FilterPlan | None:
        """`answers`: results of the participating plugins."""
        active = framework.active_filters(state)
        moving = framework.plugins_to_call(state, pod).moving_pre_filters
        counters = tuple((plugin, plugin) for plugin in moving if isinstance(plugin, CountsPods))
        if len(counters) < len(moving) or not _listable(active, answers):
            return None
        by_sums = tuple(plugin for plugin in active if plugin.reads is Reads.NODE_SUMS)
        columns = tuple(sums.refused(plugin, pod) for plugin in by_sums)
        names = frozenset(plugin.name for plugin in by_sums)
        return cls(counters, by_sums, names, JointRefusals.of(sums, columns))


class ScorePlan(NamedTuple):
    """The plan for PreScore and Score."""

    counters: tuple[tuple[CountsPods, PreScorePlugin], ...]
    #: Scores that read sums, and their joint result.
    by_sums: tuple[Score, ...]
    worth: JointScores
    #: Scores that also depend on the other feasible nodes.
    normalized: tuple[Score, ...]

    @classmethod
    def of(
        cls,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        scores: Mapping[str, Score],
        sums: NodeSums,
    ) -> ScorePlan | None:
        active, moving = framework.active_scores(state), framework.moving_pre_scores
        counters = tuple((plugin, plugin) for plugin in moving if isinstance(plugin, CountsPods))
        if len(counters) < len(moving) or not _listable(active, scores):
            return None
        by_sums = [plugin for plugin in active if plugin.reads is Reads.NODE_SUMS]
        if any(plugin.normalizes or not plugin.in_range for plugin in by_sums):
            return None
        parts = tuple(scores[plugin.name] for plugin in by_sums)
        columns = tuple(sums.scored(plugin, pod) for plugin in by_sums)
        worth = JointScores.of(sums, columns, tuple(part.weight for part in parts))
        return cls(counters, parts, worth, tuple(part for part in scores.values() if part.plugin.normalizes))

    def sum_of_parts(self, rows: int) -> npt.NDArray[np.int64]:
        """The sum of the single scores by sums."""
        worth = np.zeros(rows, np.int64)
        for part in self.by_sums:
            worth += part.weighted
        return worth


def _listable(active: Collection[FilterPlugin | ScorePlugin], known: Mapping[str, object]) -> bool:
    """Whether these are the plugins with known results, and none of them reads single pods of a node."""
    if any(plugin.reads in (Reads.NODE_PODS, Reads.ANYTHING) for plugin in active):
        return False
    return {plugin.name for plugin in active} == known.keys()
