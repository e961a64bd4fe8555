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
from typing import TYPE_CHECKING

import numpy as np

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


class TypicalPods:
    """Kinds of pods with their weights, asked what free GPUs are worth to them."""

    def __init__(self, kinds: Sequence[tuple[PodKind, int]]) -> None:
        if not kinds:
            raise ValueError("no typical pods: fragmentation is measured by them")
        # Those without GPU find nothing useful, but they count.
        self.weight = sum(count for _, count in kinds)
        with_gpu = [(kind, count) for kind, count in kinds if kind.gpu_count * kind.gpu_milli]
        self._counts = np.array([count for _, count in with_gpu], np.int64)
        self._cpu = np.array([kind.cpu_milli for kind, _ in with_gpu], np.int64)[:, None]
        self._milli = np.array([kind.gpu_milli for kind, _ in with_gpu], np.int64)
        self._number = np.array([kind.gpu_count for kind, _ in with_gpu], np.int64)[:, None]
        self._models = [frozenset(model for model in kind.models.split("|") if model) for kind, _ in with_gpu]
        # Each size of request is compared with the GPUs once: there are fewer sizes than kinds.
        self._sizes, self._size_of = np.unique(self._milli, return_inverse=True)
        self._bounds = np.array([_least_gain(score, self.weight) for score in range(1, 100)], np.int64)

    def allowed(self, models: Sequence[str]) -> Bools:
        """Which of these models each typical pod takes, shape (T, models)."""
        if not any(self._models):
            return np.ones((len(self._models), len(models)), np.bool_)
        return np.array([[not wanted or model in wanted for model in models] for wanted in self._models], np.bool_)

    def useful(self, cpu: Ints, free: Ints, allowed: Bools) -> Ints:
        """What of the free GPUs is useful on each node, scaled; `allowed` has a column per node."""
        fits, enough, sums = self._fitting(cpu, free, allowed)
        return self._counts @ (fits * (enough >= self._number) * sums)

    def fragments(self, cpu: Ints, free: Ints, allowed: Bools) -> Ints:
        """The fragmentation of each node, scaled."""
        return self.weight * np.add.reduce(free, axis=0) - self.useful(cpu, free, allowed)

    def useful_after_share(self, cpu: Ints, free: Ints, milli: int, allowed: Bools) -> tuple[Ints, Ints, Ints]:
        """What is useful once a GPU by itself has given that much, scaled, of each GPU that has it.

        GPUs and nodes come first, as `nonzero` gives them. `cpu` is what is left then.
        """
        fits, enough, sums = self._fitting(cpu, free, allowed)
        gpus, nodes = (free >= milli).nonzero()
        sizes, before = self._sizes[:, None], free[gpus, nodes]
        after = before - milli
        had, has = before >= sizes, after >= sizes
        count = (has.astype(np.int64) - had).take(self._size_of, axis=0) + enough.take(nodes, axis=1)
        amount = (has * after - had * before).take(self._size_of, axis=0) + sums.take(nodes, axis=1)
        useful = self._counts @ (fits.take(nodes, axis=1) * (count >= self._number) * amount)
        return gpus, nodes, useful

    def _fitting(self, cpu: Ints, free: Ints, allowed: Bools) -> tuple[Bools, Ints, Ints]:
        """Where CPU and model suit each typical pod; how many GPUs have room for it, and what these have free."""
        room = free >= self._sizes[:, None, None]
        enough, sums = np.add.reduce(room, axis=1), np.add.reduce(room * free, axis=1)
        fits = allowed & (cpu >= self._cpu)
        return fits, enough.take(self._size_of, axis=0), sums.take(self._size_of, axis=0)

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
