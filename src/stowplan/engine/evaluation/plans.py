"""What of a kept evaluation can move while only pods come and go, worked out once for all equal pods that follow.

Most plugins' answers hang on node objects, or were skipped. A plan lists the others: the plugins that count pods
anywhere, which say themselves whether their answers hold, and the columns of those that read sums of a node's pods
(`node_sums.py`). If the counters hold, the few rows whose pods changed are looked up in these columns, and that is all
there is to do. Where a plugin takes part that cannot be listed so, there is no plan: then each plugin is looked at.

A plan is good until plugins begin or cease to take part: `Filtering` and `Scoring` make it again after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stowplan.framework.interface import CountsPods, Reads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.evaluation.node_sums import RefusedColumn, ScoredColumn
    from stowplan.engine.evaluation.score import Score
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.interface import FilterPlugin, Plugin, ScorePlugin
    from stowplan.framework.rejections import Rejections
    from stowplan.framework.runtime import Framework


class FilterPlan(NamedTuple):
    """Of PreFilter and Filter."""

    counters: tuple[CountsPods, ...]
    #: By the plugin's name.
    columns: tuple[tuple[str, RefusedColumn], ...]

    @classmethod
    def of(
        cls,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        answers: Mapping[str, Rejections | None],
        column: Callable[[FilterPlugin, PodInfo], RefusedColumn],
    ) -> FilterPlan | None:
        """`answers`: of the plugins that take part; `column`: a plugin's."""
        active = framework.active_filters(state)
        counters = _counters(framework.asked(state, pod).moving_pre_filters)
        if counters is None or not _listable(active, answers):
            return None
        by_sums = (plugin for plugin in active if plugin.reads is Reads.NODE_SUMS)
        return cls(counters, tuple((plugin.name, column(plugin, pod)) for plugin in by_sums))


class ScorePlan(NamedTuple):
    """Of PreScore and Score."""

    counters: tuple[CountsPods, ...]
    columns: tuple[tuple[Score, ScoredColumn], ...]
    #: What other feasible nodes may change as well.
    normalized: tuple[Score, ...]

    @classmethod
    def of(
        cls,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        scores: Mapping[str, Score],
        column: Callable[[ScorePlugin, PodInfo], ScoredColumn],
    ) -> ScorePlan | None:
        active = framework.active_scores(state)
        counters = _counters(framework.moving_pre_scores)
        if counters is None or not _listable(active, scores):
            return None
        by_sums = [plugin for plugin in active if plugin.reads is Reads.NODE_SUMS]
        if any(plugin.normalizes or not plugin.in_range for plugin in by_sums):
            return None
        columns = tuple((scores[plugin.name], column(plugin, pod)) for plugin in by_sums)
        return cls(counters, columns, tuple(part for part in scores.values() if part.plugin.normalizes))


def _listable(active: Collection[FilterPlugin | ScorePlugin], known: Mapping[str, object]) -> bool:
    """Whether these are the plugins with known results, and none of them reads single pods of a node."""
    if any(plugin.reads in (Reads.NODE_PODS, Reads.ANYTHING) for plugin in active):
        return False
    return {plugin.name for plugin in active} == known.keys()


def _counters(moving: Sequence[Plugin]) -> tuple[CountsPods, ...] | None:
    """The plugins that say whether their answers hold; None if some do not say."""
    found = tuple(plugin for plugin in moving if isinstance(plugin, CountsPods))
    return found if len(found) == len(moving) else None
