"""How much of a node's free GPUs is of no use to typical pods, and what a placement does to that.

For a typical pod, everything that a node's GPUs have free is a fragment if the pod cannot run there; if it can, what
is free on the GPUs that are too full for it. Fragmentation is the mean over the typical pods, weighted by how often
each comes, in thousandths of a GPU. Pods without GPU need none of it: to them all of it is a fragment.

What is not a fragment is *useful*. Weights are counts here, not shares, and so all sums are integers below 2⁵³, exact
in whatever order: a placement that changes nothing scores the same on every node and on every machine, and a change by
one thousandth is not lost. Sums in units of count x milli are called scaled.

Arrays: typical pods (T) first, then GPUs (G), nodes last.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil, exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_sharing.request import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, order=True)
class PodKind:
    """What tells pods apart when typical ones are looked for; in the order in which equally frequent ones rank."""

    cpu_milli: int
    gpu_milli: int
    gpu_count: int
    #: The models that will do, joined by "|", as written; "": any.
    models: str = ""


def typical_kinds(kinds: Iterable[PodKind], *, cover: float = 0.95) -> list[tuple[PodKind, int]]:
    """The most frequent kinds, with their numbers, that together make up at least this share of the pods."""
    counted = sorted(Counter(kinds).items(), key=lambda item: (item[1], item[0]), reverse=True)
    wanted, found = cover * sum(count for _, count in counted), 0
    for i, (_, count) in enumerate(counted):
        if found >= wanted:
            return counted[:i]
        found += count
    return counted


class Rooms(NamedTuple):
    """What the free GPUs of nodes offer each typical pod, shape (T, nodes)."""

    #: GPUs that have room for it; 0 where it may not use the node's model.
    gpus: Ints
    #: What these GPUs have free together.
    milli: Ints


class TypicalPods:
    """Kinds of pods with their weights, asked what free GPUs are worth to them."""

    def __init__(self, kinds: Sequence[tuple[PodKind, int]]) -> None:
        if not kinds:
            raise ValueError("no typical pods: fragmentation is measured by them")
        # Those without GPU find nothing useful, but they count.
        self.weight = sum(count for _, count in kinds)
        with_gpu = [(kind, count) for kind, count in kinds if kind.gpu_count * kind.gpu_milli]
        self._counts = np.array([count for _, count in with_gpu], np.int64)
        self._cpu, self._milli, self._number = (
            np.array([getattr(kind, name) for kind, _ in with_gpu], np.int64)[:, None]
            for name in ("cpu_milli", "gpu_milli", "gpu_count")
        )
        self._models = [frozenset(model for model in kind.models.split("|") if model) for kind, _ in with_gpu]
        self._bounds = np.array([_least_gain(score, self.weight) for score in range(1, 100)], np.int64)

    def allowed(self, models: Sequence[str]) -> Bools:
        """Which of these models each typical pod takes, shape (T, models)."""
        if not any(self._models):
            return np.ones((len(self._models), len(models)), np.bool_)
        return np.array([[not wanted or model in wanted for model in models] for wanted in self._models], np.bool_)

    def rooms(self, free: Ints, allowed: Bools) -> Rooms:
        """What free GPUs offer; `allowed` has a column per node."""
        room = (free >= self._milli[:, None]) & allowed[:, None]
        return Rooms(np.add.reduce(room, axis=1), np.add.reduce(room * free, axis=1))

    def useful(self, cpu: Ints, rooms: Rooms) -> Ints:
        """What of the free GPUs is useful on each node with so much free CPU, scaled."""
        return self._sum(cpu >= self._cpu, *rooms)

    def useful_after_whole(self, cpu: Ints, rooms: Rooms, taken: Ints) -> Ints:
        """The same once so many of each node's wholly free GPUs are gone. `cpu` is what is left then."""
        return self._sum(cpu >= self._cpu, rooms.gpus - taken, rooms.milli - WHOLE * taken)

    def useful_after_share(self, cpu: Ints, rooms: Rooms, free: Ints, milli: int) -> tuple[Ints, Ints, Ints]:
        """The same once a GPU by itself has given that much: GPUs that have it, their nodes, what is useful then.

        `cpu` is what is left then.
        """
        gpus, nodes = (free >= milli).nonzero()
        before = free[gpus, nodes]
        after = before - milli
        had, has = before >= self._milli, after >= self._milli
        number = rooms.gpus.take(nodes, axis=1) + has - had
        amount = rooms.milli.take(nodes, axis=1) + has * after - had * before
        return gpus, nodes, self._sum(cpu.take(nodes) >= self._cpu, number, amount)

    def _sum(self, fits: Bools, gpus: Ints, milli: Ints) -> Ints:
        return self._counts @ (fits * (gpus >= self._number) * milli)

    def scores(self, gains: Ints) -> Ints:
        """Scores of what placements take off the fragmentation, scaled: 100 / (1 + exp(-gain / GPU)), cut."""
        return self._bounds.searchsorted(gains, side="right")


def _least_gain(score: int, weight: int) -> int:
    """The smallest scaled gain that has this score."""
    bound = ceil(1000 * weight * log(score / (100 - score)))
    # The logarithm is rounded: step to where the formula itself changes.
    while _score(bound - 1, weight) >= score:
        bound -= 1
    while _score(bound, weight) < score:
        bound += 1
    return bound


def _score(gain: int, weight: int) -> int:
    return int(100 / (1 + exp(-gain / weight / 1000)))
