"""What of a kept evaluation can move while only pods come and go, worked out once for all equal pods that follow.

Most plugins' answers hang on node objects, or were skipped. A plan lists the others: the plugins that count pods
anywhere, which say themselves whether their answers hold, and what those that read sums of a node's pods say together
(`joint_sums.py`). If the counters hold, the rows that the latter says something else of are all there is to look at.
Where a plugin takes part that cannot be listed so, there is no plan: then each plugin is looked at.

A plan is good until plugins begin or cease to take part: `Filtering` and `Scoring` make it again after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stowplan.engine.evaluation.joint_sums import JointRefusals, JointScores
from stowplan.framework.interface import CountsPods, Reads

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.evaluation.node_sums import NodeSums
    from stowplan.engine.evaluation.score import Score
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.interface import FilterPlugin, PreFilterPlugin, PreScorePlugin, ScorePlugin
    from stowplan.framework.rejections import Rejections
    from stowplan.framework.runtime import Framework


class FilterPlan(NamedTuple):
    """Of PreFilter and Filter."""

    #: Each as what it is for the plan and for the framework.
    counters: tuple[tuple[CountsPods, PreFilterPlugin], ...]
    #: Those that read sums, and what they say together.
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
        """`answers`: of the plugins that take part."""
        active = framework.active_filters(state)
        moving = framework.asked(state, pod).moving_pre_filters
        counters = tuple((plugin, plugin) for plugin in moving if isinstance(plugin, CountsPods))
        if len(counters) < len(moving) or not _listable(active, answers):
            return None
        by_sums = tuple(plugin for plugin in active if plugin.reads is Reads.NODE_SUMS)
        columns = tuple(sums.refused(plugin, pod) for plugin in by_sums)
        names = frozenset(plugin.name for plugin in by_sums)
        return cls(counters, by_sums, names, JointRefusals.of(sums, columns))


class ScorePlan(NamedTuple):
    """Of PreScore and Score."""

    counters: tuple[tuple[CountsPods, PreScorePlugin], ...]
    #: Those that read sums, and what they are worth together.
    by_sums: tuple[Score, ...]
    worth: JointScores
    #: What other feasible nodes may change as well.
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

    def worth_of_parts(self, rows: int) -> npt.NDArray[np.int64]:
        """What the single scores by sums are worth together."""
        worth = np.zeros(rows, np.int64)
        for part in self.by_sums:
            worth += part.weighted
        return worth


def _listable(active: Collection[FilterPlugin | ScorePlugin], known: Mapping[str, object]) -> bool:
    """Whether these are the plugins with known results, and none of them reads single pods of a node."""
    if any(plugin.reads in (Reads.NODE_PODS, Reads.ANYTHING) for plugin in active):
        return False
    return {plugin.name for plugin in active} == known.keys()
