"""What can change in a cached evaluation while only pods change, computed once for all equal pods that follow.

Most plugins' results depend on node objects only, or were skipped. A plan lists the others: plugins that count pods on
any node, which report whether their results are valid, and the columns of those that read sums of a node's pods
(`node_sums.py`). If the counters are unchanged, the few rows whose pods changed are looked up in these columns, and
nothing else has to be done. If some plugin fits neither, there is no plan, and each plugin is checked.

A plan is valid until the set of participating plugins changes; `Filtering` and `Scoring` then create a new one.
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
    from stowplan.framework.runtime.framework import Framework


class FilterPlan(NamedTuple):
    """The plan for PreFilter and Filter."""

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
        """`answers`: results of the participating plugins; `column`: returns a plugin's column."""
        active = framework.active_filters(state)
        counters = _counters(framework.asked(state, pod).moving_pre_filters)
        if counters is None or not _listable(active, answers):
            return None
        by_sums = (plugin for plugin in active if plugin.reads is Reads.NODE_SUMS)
        return cls(counters, tuple((plugin.name, column(plugin, pod)) for plugin in by_sums))


class ScorePlan(NamedTuple):
    """The plan for PreScore and Score."""

    counters: tuple[CountsPods, ...]
    columns: tuple[tuple[Score, ScoredColumn], ...]
    #: Scores that also depend on the other feasible nodes.
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
    """The plugins that report whether their results are valid; None if some plugin cannot."""
    found = tuple(plugin for plugin in moving if isinstance(plugin, CountsPods))
    return found if len(found) == len(moving) else None
