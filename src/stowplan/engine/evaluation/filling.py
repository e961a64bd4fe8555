"""Compute where equal pods are placed one after the other, without assuming any of them.

A pod only changes the filters' and scores' results for its own node: each further pod takes that node to its next
*level*. If the participating plugins read nothing but node objects and the sums of a node's pods, the levels of all
candidate nodes can be computed in advance: the plugins evaluate hypothetical nodes with one, two, three more pods, many
levels per call. Then each pod takes the best total and advances one number.

A `Filling` yields the rows in the order in which pod-by-pod scheduling would choose them, until no more fit.

Upstream has no counterpart; each pod is judged from scratch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import field

from stowplan.cluster.hypothetical import HypotheticalNodes
from stowplan.engine.evaluation.scoring import INFEASIBLE
from stowplan.framework.interface import Reads
from stowplan.framework.status import Status, declares
from stowplan.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.engine.evaluation.scoring import Scored
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.interface import FilterPlugin
    from stowplan.framework.runtime.framework import Framework

    Mask = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]

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


class FillingStart(PlainStruct, eq=False, kw_only=True):
    """The starting point of a filling: the evaluation of the first pod."""

    framework: Framework
    state: CycleState
    pod: PodInfo
    feasible: Mask
    scored: Scored
    #: Participating filters that read the sums of a node's pods.
    filters: list[FilterPlugin]


class _Levels(PlainStruct, eq=False):
    """The state of each place with a number of pods added; level 0 is the current state."""

    refused: list[list[bool]] = field(default_factory=list)
    #: The total of the scores that depend on sums.
    worth: list[list[int]] = field(default_factory=list)


class Filling:
    """Works on *places*: positions among the rows that are feasible at the start."""

    def __init__(self, ground: FillingStart) -> None:
        self._ground = ground
        scores = ground.scored.parts.values()
        self._by_sums = [score for score in scores if score.plugin.reads is _SUMS]
        #: Scores that change when fewer nodes are feasible.
        self._relative = [score for score in scores if score.plugin.normalizes]
        self._rows: Rows = np.flatnonzero(ground.feasible)
        self._feasible = ground.feasible.copy()
        self._ranked: Ints = ground.scored.totals.take(self._rows)
        worth = np.zeros(len(self._rows), np.int64)
        for score in self._by_sums:
            worth += score.weighted.take(self._rows)
        #: The part of the totals that does not depend on the pods of a place.
        self._fixed: list[int] = (self._ranked - worth).tolist()
        self._weighted = [score.weighted.take(self._rows) for score in self._relative]
        self._level = [0] * len(self._rows)
        self._levels = _Levels([[False] * len(self._rows)], [worth.tolist()])

    def picks(self, count: int, best: Callable[[Ints], int]) -> list[Pick]:
        """The rows for this many pods, or for fewer if no more fit or the result is unknown.

        `best` chooses a place by its total.
        """
        found: list[Pick] = []
        left, rows = len(self._rows), self._rows.tolist()
        while len(found) < count and left:
            # A single feasible node is chosen without scoring.
            place = int(self._ranked.argmax()) if left == 1 else best(self._ranked)
            found.append(Pick(rows[place], left))
            level = self._level[place] = self._level[place] + 1
            if level == len(self._levels.refused) and not self._more_levels():
                break
            if not self._levels.refused[level][place]:
                self._ranked[place] = self._fixed[place] + self._levels.worth[level][place]
                continue
            self._ranked[place] = INFEASIBLE
            left -= 1
            if self._relative and left > 1 and not self._without(rows[place]):
                break
        return found

    def _more_levels(self) -> bool:
        """Compute the next levels; False if a plugin failed."""
        ground, known = self._ground, len(self._levels.refused)
        places = len(self._rows)
        added = max(1, _AT_ONCE // places)
        nodes = self._hypothetical(np.repeat(np.arange(known, known + added), places))
        refused = np.zeros(len(nodes), np.bool_)
        for plugin in ground.filters:
            answer = ground.framework.run_filter(plugin, ground.state, ground.pod, nodes)
            if isinstance(answer, Status):
                return False
            if answer is not None:
                refused |= answer.mask
        worth = np.zeros(len(nodes), np.int64)
        for score in self._by_sums:
            raw = ground.framework.run_score(score.plugin, ground.state, ground.pod, nodes)
            if not isinstance(raw, Status):
                raw = ground.framework.normalize(score.plugin, ground.state, ground.pod, raw, ~refused)
            if isinstance(raw, Status):
                return False
            worth += raw * score.weight
        self._levels.refused += refused.reshape(added, places).tolist()
        self._levels.worth += worth.reshape(added, places).tolist()
        return True

    def _hypothetical(self, pods: npt.NDArray[np.int64]) -> HypotheticalNodes:
        """All places, once per level, with that many equal pods added."""
        cluster, shape = self._ground.framework.handle.cluster, self._ground.pod.shape
        nodes = HypotheticalNodes(cluster, np.tile(self._rows, len(pods) // len(self._rows)))
        requests = cluster.vector_of(shape)[:, None] * pods
        non_zero = np.array(shape.non_zero_used, np.int64)[:, None] * pods
        nodes.shift(np.arange(len(nodes)), requests, non_zero, 1, pods)
        return nodes

    def _without(self, row: int) -> bool:
        """Score the remaining places after a row became infeasible; False if a plugin failed."""
        ground = self._ground
        self._feasible[row] = False
        for i, score in enumerate(self._relative):
            normal = ground.framework.normalize(score.plugin, ground.state, ground.pod, score.raw, self._feasible)
            if isinstance(normal, Status):
                return False
            weighted = normal.take(self._rows) * score.weight
            change = weighted - self._weighted[i]
            if change.any():
                self._weighted[i] = weighted
                self._fixed = [fixed + more for fixed, more in zip(self._fixed, change.tolist(), strict=True)]
                self._ranked[self._ranked != INFEASIBLE] += change[self._ranked != INFEASIBLE]
        return True


def affects_only_own_node(framework: Framework, state: CycleState, pod: PodInfo, shapes: Collection[PodShape]) -> bool:
    """Whether pods of these shapes change nothing for an equal pod but the sums of the nodes that they go to.

    Called after the pod was filtered and scored.
    """
    counters = framework.pod_counters
    for plugin in framework.moving_pre_filters:
        counter = counters.get(plugin.name)
        if counter is None and not declares(lambda plugin=plugin: all(plugin.skips(shape) for shape in shapes)):  # type: ignore[misc]
            return False
    if any(plugin.name not in counters for plugin in framework.moving_pre_scores):
        return False
    if any(plugin.reads in _OTHERWISE for plugin in framework.active_filters(state)):
        return False
    scores = framework.active_scores(state)
    if any(plugin.reads in _OTHERWISE or (plugin.reads is _SUMS and plugin.normalizes) for plugin in scores):
        return False
    return declares(lambda: all(counter.untouched_by(state, pod, shapes) for counter in counters.values()))
