"""Completion indexes of Indexed Jobs: in a status (`0,2-5,9`), on pods, and which of them is next.

Upstream: pkg/controller/job/indexed_job_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import groupby

from stowplan.kube.api.whole_numbers import whole_number
from stowplan_cluster.reconcile.pods import Pod

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Pod, completions: int) -> int | None:
    """The pod's index; None if it has none, or one that is no longer below completions."""
    return whole_number(pod.metadata.annotations.get(COMPLETION_INDEX, ""), completions - 1)


def parse_indexes(text: str, completions: int) -> set[int]:
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is not None and high is not None:
            indexes.update(range(low, min(high + 1, completions)))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Format indexes; runs of three or more become ranges."""
    return ",".join(_run(first, last) for first, last in _runs(indexes))


def _runs(indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    for _, group in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        yield run[0], run[-1]


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


class Indexes:
    """Which indexes of a Job are completed, in use by a pod, and next. Each operation takes logarithmic time."""

    def __init__(self, completions: int, completed: set[int] | None = None, used: Iterable[int] = ()) -> None:
        self.completions = completions
        self.completed: set[int] = completed or set()
        self._used = set(used)
        #: A heap of indexes below `_next` that were released; all from there on were not looked at yet.
        self._free: list[int] = []
        self._next = 0

    def complete(self, index: int) -> None:
        self._used.discard(index)
        if index < self.completions:
            self.completed.add(index)

    def release(self, index: int) -> None:
        """Its pod is gone."""
        if index in self._used:
            self._used.remove(index)
            if index < self._next:
                heappush(self._free, index)

    def take(self, count: int) -> list[int]:
        """Use the first indexes that are neither completed nor in use, at most this many."""
        taken: list[int] = []
        while len(taken) < count and (self._free or self._next < self.completions):
            if self._free:
                index = heappop(self._free)
            else:
                index = self._next
                self._next += 1
            if index < self.completions and index not in self.completed and index not in self._used:
                self._used.add(index)
                taken.append(index)
        return taken

    def resize(self, completions: int) -> None:
        """Change the number of completions; completed indexes beyond it are forgotten."""
        self.completions = completions
        self.completed = {index for index in self.completed if index < completions}
        self._free.clear()
        self._next = 0
