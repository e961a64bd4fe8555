"""StorageCapacityScoring.

Nodes on which the pod would get the same volumes, or the same shares of capacity, have equal scores: each distinct
combination is scored once.

Upstream: Score of volumebinding/volume_binding.go and buildScorerFunction of volumebinding/scorer.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stowplan.kube.api.quantity import parse_quantity, value
from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.in_tree.common.args import UtilizationShapePoint
from stowplan.scheduler.in_tree.common.shape_score import ShapePoints
from stowplan.scheduler.in_tree.volume_binding.claims import DelayedClaim
from stowplan.scheduler.in_tree.volume_binding.judging import ClaimJudgement
from stowplan.scheduler.in_tree.volume_binding.provisioning import Room
from stowplan.scheduler.in_tree.volume_binding.volumes import NONE, Volumes


class _Use(NamedTuple):
    """The requested and available amounts of one class."""

    requested: int = 0
    capacity: int = 0


class Scorer:
    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._points = ShapePoints.scaled(shape)

    def scores(self, claims: Sequence[DelayedClaim], judgement: ClaimJudgement, volumes: Volumes) -> Ints:
        """The score of every row; arbitrary for rejected rows."""
        columns: list[Ints] = []
        matched, provided = list(judgement.matched), []
        columns += [judgement.matched[i] for i in matched]
        for i, provision in judgement.provisions.items():
            if provision.room is not None:
                provided.append((i, provision.room))
                columns.append(np.where(provision.rows, provision.room.first, NONE))
        if not columns:
            return np.zeros(judgement.n, np.int64)
        combinations, rows = np.unique(np.stack(columns), axis=1, return_inverse=True)
        worth = [self._worth(claims, matched, provided, c, volumes) for c in combinations.T.tolist()]
        return np.array(worth, np.int64)[rows.reshape(-1)]

    def _worth(
        self,
        claims: Sequence[DelayedClaim],
        matched: list[int],
        provided: list[tuple[int, Room]],
        combination: list[int],
        volumes: Volumes,
    ) -> int:
        static = [(i, volumes.known[id]) for i, id in zip(matched, combination, strict=False) if id in volumes.known]
        uses: dict[str, _Use] = defaultdict(_Use)
        for i, volume in static:
            use = uses[volume.spec_class]
            uses[volume.spec_class] = _Use(use.requested + _size(claims[i]), use.capacity + value(volume.size))
        if not static:
            for (i, room), first in zip(provided, combination[len(matched) :], strict=True):
                if first != NONE:
                    use = uses[claims[i].spec_class]
                    # Parity: the capacity counts once per class, and is not summed.
                    capacity = value(parse_quantity(room.capacities[first].capacity or 0))
                    uses[claims[i].spec_class] = _Use(use.requested + _size(claims[i]), capacity)
        if not uses:
            return 0
        total = sum(self._of_class(use) for use in uses.values())
        # Halves are rounded away from zero, as in Go.
        return int(total / len(uses) + 0.5)

    def _of_class(self, use: _Use) -> int:
        full = use.capacity == 0 or use.requested > use.capacity
        utilization = 100 if full else use.requested * 100 // use.capacity
        return int(self._points(np.array([utilization], np.int64))[0])


def _size(claim: DelayedClaim) -> int:
    return value(claim.wanted.size or 0)
