"""Compute where equal pods are placed one after the other, without assuming any of them.

A pod changes the filters' and scores' results for its own node: each further pod takes that node to its next *level*.
If the participating plugins read nothing but node objects and the sums of a node's pods, the levels of all candidate
nodes can be computed in advance: the plugins evaluate hypothetical nodes with one, two, three more pods, many levels
per call. Then each pod takes the best total and advances one number.

Plugins that count pods on other nodes take part if they can tell what they will refuse, and how they will score
(`BatchState`), as topology spread and inter-pod affinity do.

A `BatchPlacement` yields the rows in the order in which pod-by-pod scheduling would choose them, until no more fit.

Upstream has no counterpart; each pod is judged from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.engine.evaluation.scoring import INFEASIBLE, Score, Scored
from stowplan.scheduler.framework.batch_state import BatchFilterState, BatchScoreState, BatchState
from stowplan.scheduler.framework.boundary import call, declares, nothing
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Plugin, Reads
from stowplan.scheduler.framework.interface import FilterPlugin
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status

_SUMS = Reads.NODE_SUMS
#: Results of these plugins cannot be computed from a node's level.
_OTHERWISE = (Reads.NODE_PODS, Reads.ANYTHING)

#: Minimum number of hypothetical nodes per call, if there are fewer rows.
_AT_ONCE = 2048


class Pick(NamedTuple):
    """The choice for one pod."""

    row: int
    #: Number of rows that it was made from.
    feasible: int


class BatchStart(PlainStruct, eq=False, kw_only=True):
    """The starting point of a batch: the evaluation of the first pod."""

    framework: Framework
    state: CycleState
    pod: PodInfo
    #: Rows that pass all filters except those with `ahead`.
    open: Mask
    scored: Scored
    #: Participating filters that read the sums of a node's pods.
    filters: list[FilterPlugin]
    #: Results of plugins that count pods on other nodes, by plugin.
    ahead: dict[str, BatchState]


class _PodsAdded(PlainStruct, eq=False):
    """The state of each place with a number of pods added; level 0 is the current state."""

    refused: list[list[bool]] = field(default_factory=list)
    #: The total of the scores that depend on sums.
    worth: list[list[int]] = field(default_factory=list)


class _Domains:
    """The refusals of one filter, by place."""

    def __init__(self, ahead: BatchFilterState, rows: Rows) -> None:
        self.place_pod = ahead.place
        self._ahead = ahead
        self._codes = ahead.codes.take(rows)
        self.refused: Mask = ahead.refused.take(self._codes)

    def renew(self) -> None:
        self.refused = self._ahead.refused.take(self._codes)


class _Scores:
    """One plugin's scores, by place."""

    def __init__(self, ahead: BatchScoreState, rows: Rows, weight: int, weighted: Ints) -> None:
        """`weighted`: the scores of the first pod, with their weight."""
        self._ahead = ahead
        self._weight = weight
        #: The scores of the next pod, with their weight.
        self.weighted = weighted
        self._classes = ahead.classes.take(rows)
        #: By class: the number of feasible places (None: not counted), and the score, with its weight.
        self._feasible: Ints | None = None
        self._by_class: Ints | None = None

    def place_pod(self, place: int, row: int) -> None:
        before = self._classes.item(place)
        now = self._ahead.place(row)
        if now == before:
            return
        self._classes[place], self._by_class = now, None
        if self._feasible is not None and self._ahead.size == len(self._feasible):
            self._feasible[before] -= 1
            self._feasible[now] += 1
        else:
            self._feasible = None

    def feasible_moved(self) -> None:
        self._feasible = None

    def renew(self, refused: Mask) -> bool:
        """Score the next pod; return whether that made a difference."""
        if self._feasible is None:
            self._feasible = np.bincount(self._classes[~refused], minlength=self._ahead.size)
        # Scores of classes without a feasible place may change although they do not matter.
        by_class = self._ahead.by_class(self._feasible) * (self._feasible > 0)
        if self._by_class is not None and not np.count_nonzero(by_class != self._by_class):
            return False
        self._by_class, self.weighted = by_class, (by_class * self._weight).take(self._classes)
        return True


class BatchPlacement:
    """Works on *places*: positions among the rows that are open at the start."""

    def __init__(self, start: BatchStart) -> None:
        self._start = start
        scores = [score for name, score in start.scored.parts.items() if not self._is_ahead(name)]
        self._by_sums = [score for score in scores if score.plugin.reads is _SUMS]
        self._rows: Rows = np.flatnonzero(start.open)
        #: Scores that change with the set of feasible nodes.
        self._relative = [score for score in scores if score.plugin.normalizes and not self._is_steady(score)]
        sums = start.scored.sums
        worth = np.zeros(len(self._rows), np.int64) if sums is None else sums.values.take(self._rows)
        for score in self._by_sums:
            worth += score.weighted.take(self._rows)
        #: Scores that depend on pods on other nodes.
        self._ahead = [
            _Scores(ahead.scores, self._rows, start.framework.weights.get(name, 1), self._weighted_of(name))
            for name, ahead in start.ahead.items()
            if ahead.scores is not None
        ]
        #: The totals without these scores, also of infeasible places.
        self._totals: Ints = start.scored.totals.take(self._rows)
        for each in self._ahead:
            self._totals -= each.weighted
        #: The part of these that does not depend on the pods of a place.
        self._fixed = self._totals - worth
        self._weighted = [score.weighted.take(self._rows) for score in self._relative]
        self._level = [0] * len(self._rows)
        self._levels = _PodsAdded([[False] * len(self._rows)], [worth.tolist()])
        #: Places without room for another pod.
        self._full: Mask = np.zeros(len(self._rows), np.bool_)
        self._domains = [_Domains(each, self._rows) for ahead in start.ahead.values() for each in ahead.refusals]
        #: Whether there is no room, or a filter refuses the place.
        self._refused: Mask
        #: Number of places that are not refused.
        self._left: int
        #: All scores, `INFEASIBLE` for refused places.
        self._ranked: Ints
        self._refuse()
        self._rank()

    def _is_ahead(self, name: str) -> bool:
        ahead = self._start.ahead.get(name)
        return ahead is not None and ahead.scores is not None

    def _weighted_of(self, name: str) -> Ints:
        """A plugin's part of the totals; 0 if it skipped the first pod."""
        score = self._start.scored.parts.get(name)
        return np.zeros(len(self._rows), np.int64) if score is None else score.weighted.take(self._rows)

    def _is_steady(self, score: Score) -> bool:
        """Whether any set of feasible nodes gives the same scores."""
        raw = score.raw.take(self._rows)
        return score.plugin.normalizes_by_bounds and (not len(raw) or int(raw.min()) == int(raw.max()))

    def _refuse(self) -> None:
        refused = self._full
        for domains in self._domains:
            refused = refused | domains.refused
        self._refused, self._left = refused, len(refused) - int(np.count_nonzero(refused))

    def _rank(self) -> None:
        totals = self._totals
        for each in self._ahead:
            totals = totals + each.weighted
        self._ranked = np.where(self._refused, INFEASIBLE, totals)

    def picks(self, count: int, best: Callable[[Ints], int]) -> list[Pick]:
        """The rows for this many pods, or for fewer if no more fit or the result is unknown.

        `best` chooses a place by its total.
        """
        found: list[Pick] = []
        rows = self._rows.tolist()
        while len(found) < count and self._left:
            # A single feasible node is chosen without scoring.
            place = int(self._ranked.argmax()) if self._left == 1 else best(self._ranked)
            found.append(Pick(rows[place], self._left))
            if len(found) < count and not self._take(place, rows[place]):
                break
        return found

    def _take(self, place: int, row: int) -> bool:
        """Add a pod to a place; False if the next pod's nodes are unknown."""
        level = self._level[place] = self._level[place] + 1
        if level == len(self._levels.refused) and not self._more_levels():
            return False
        self._totals[place] = self._fixed.item(place) + self._levels.worth[level][place]
        full = self._levels.refused[level][place]
        if full:
            self._full[place] = True
        moved = self._count(place, row)
        if moved is None:
            return False
        for domains in moved:
            domains.renew()
        if moved:
            self._refuse()
        elif full:
            self._refused[place] = True
            self._left -= 1
        scores_moved = self._score_again(feasible_moved=bool(moved) or full)
        if scores_moved is None:
            return False
        if moved or scores_moved:
            self._rank()
        elif full:
            self._ranked[place] = INFEASIBLE
        else:
            total = self._totals.item(place)
            self._ranked[place] = total + sum([each.weighted.item(place) for each in self._ahead])
        return True

    def _count(self, place: int, row: int) -> list[_Domains] | None:
        """Count the pod; the filters that now refuse other domains, None if a plugin failed."""
        return call(self._counted, place, row, check=None, failed=nothing)

    def _counted(self, place: int, row: int) -> list[_Domains]:
        for scores in self._ahead:
            scores.place_pod(place, row)
        return [domains for domains in self._domains if domains.place_pod(row)]

    def _more_levels(self) -> bool:
        """Compute the next levels; False if a plugin failed."""
        start, known = self._start, len(self._levels.refused)
        places = len(self._rows)
        added = max(1, _AT_ONCE // places)
        nodes = self._hypothetical(np.repeat(np.arange(known, known + added), places))
        refused = np.zeros(len(nodes), np.bool_)
        for plugin in start.filters:
            answer = start.framework.run_filter(plugin, start.state, start.pod, nodes)
            if isinstance(answer, Status):
                return False
            if answer is not None:
                refused |= answer.mask
        sums = start.scored.sums
        worth = np.zeros(len(nodes), np.int64) if sums is None else sums.ask(start.state, start.pod, nodes)
        if isinstance(worth, Status):
            return False
        for score in self._by_sums:
            raw = start.framework.run_score(score.plugin, start.state, start.pod, nodes)
            if not isinstance(raw, Status):
                raw = start.framework.normalize(score.plugin, start.state, start.pod, raw, ~refused)
            if isinstance(raw, Status):
                return False
            worth += raw * score.weight
        self._levels.refused += refused.reshape(added, places).tolist()
        self._levels.worth += worth.reshape(added, places).tolist()
        return True

    def _hypothetical(self, pods: Ints) -> HypotheticalNodes:
        """All places, once per level, with that many equal pods added."""
        cluster, shape = self._start.framework.handle.cluster, self._start.pod.shape
        nodes = HypotheticalNodes(cluster, np.tile(self._rows, len(pods) // len(self._rows)))
        requests = cluster.vector_of(shape)[:, None] * pods
        non_zero = np.array(shape.non_zero_used, np.int64)[:, None] * pods
        nodes.shift(np.arange(len(nodes)), requests, non_zero, 1, pods)
        return nodes

    def _score_again(self, *, feasible_moved: bool) -> bool | None:
        """Score the next pod; whether the scores of other places changed, None: a plugin failed."""
        if feasible_moved:
            for scores in self._ahead:
                scores.feasible_moved()
        if self._left < 2:
            return False
        moved: bool | None = self._normalize() if feasible_moved and self._relative else False
        if moved is not None:
            for scores in self._ahead:
                moved = scores.renew(self._refused) or moved
        return moved

    def _normalize(self) -> bool | None:
        """Score the feasible places after their set changed; whether that made a difference, None: a plugin failed."""
        start, moved = self._start, False
        feasible = np.zeros(len(start.open), np.bool_)
        feasible[self._rows] = ~self._refused
        for i, score in enumerate(self._relative):
            normal = start.framework.normalize(score.plugin, start.state, start.pod, score.raw, feasible)
            if isinstance(normal, Status):
                return None
            weighted = normal.take(self._rows) * score.weight
            change = weighted - self._weighted[i]
            if change.any():
                self._weighted[i], moved = weighted, True
                self._fixed += change
                self._totals += change
        return moved


def batch_states(
    framework: Framework, state: CycleState, pod: PodInfo, shapes: Collection[PodShape]
) -> dict[str, BatchState] | None:
    """By plugin, results for equal pods of these shapes that depend on where the pods before them went.

    Apart from those, a pod only changes the sums of its node. None: it may change more.

    Called after the pod was filtered and scored.
    """
    counters = framework.pod_counters
    for plugin in framework.cluster_dependent_pre_filters:
        counter = counters.get(plugin.name)
        if counter is None and not _ignores(plugin, shapes):
            return None
    if any(plugin.name not in counters for plugin in framework.cluster_dependent_pre_scores):
        return None
    if any(plugin.reads in _OTHERWISE for plugin in framework.active_filters(state)):
        return None
    scores = framework.active_scores(state)
    if any(plugin.reads in _OTHERWISE or (plugin.reads is _SUMS and plugin.normalizes) for plugin in scores):
        return None
    found: dict[str, BatchState] = {}
    # A plugin may be enabled at PreFilter or PreScore alone.
    filtering, scoring = ({plugin.name for plugin in plugins} for plugins in (framework.filter, framework.score))
    for name, counter in counters.items():
        if _ignores(counter, shapes):
            continue
        ahead = call(counter.batch_state, state, pod, shapes, check=None, failed=nothing)
        if ahead is None:
            return None
        refusals = ahead.refusals if name in filtering else ()
        left = BatchState(refusals, ahead.scores if name in scoring else None)
        if not left.changes_nothing:
            found[name] = left
    return found


def _ignores(plugin: Plugin, shapes: Collection[PodShape]) -> bool:
    return all(declares(plugin.ignores, shape) for shape in shapes)
