"""Go's sort.Slice order, including the order of equal elements.

The reference sorts preemption victims with an unstable sort. Which of two equally important pods is tried first, and
thereby which one is evicted, depends on the algorithm: a pattern-defeating quicksort (Orson Peters' pdqsort) with Go's
constants. Up to 12 elements it is an insertion sort, which is stable; beyond that, equal elements are shuffled in a
deterministic way. This is that algorithm for a list and a `less`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

#: Up to this many elements the sort is stable.
INSERTION_LIMIT = 12
_NINTHER_FROM = 50
_SHIFT_FROM = 50
_PARTIAL_STEPS = 5
_MAX_SWAPS = 12
_WORD = (1 << 64) - 1


class _Hint(Enum):
    UNKNOWN = 0
    INCREASING = 1
    DECREASING = 2


def go_sort(items: list[Any], less: Callable[[Any, Any], bool]) -> None:
    """Sort in place like sort.Slice."""
    _Sorter(items, less).sort(0, len(items), len(items).bit_length())


class _Sorter:
    def __init__(self, items: list[Any], less: Callable[[Any, Any], bool]) -> None:
        self._items = items
        self._compare = less

    def _less(self, i: int, j: int) -> bool:
        return self._compare(self._items[i], self._items[j])

    def _swap(self, i: int, j: int) -> None:
        self._items[i], self._items[j] = self._items[j], self._items[i]

    def sort(self, a: int, b: int, limit: int) -> None:
        balanced = partitioned = True
        while b - a > INSERTION_LIMIT:
            if limit == 0:
                self._heap_sort(a, b)
                return
            if not balanced:
                self._break_patterns(a, b)
                limit -= 1
            pivot, hint = self._choose_pivot(a, b)
            if hint is _Hint.DECREASING:
                self._items[a:b] = self._items[a:b][::-1]
                pivot, hint = (b - 1) - (pivot - a), _Hint.INCREASING
            if balanced and partitioned and hint is _Hint.INCREASING and self._partial_insertion_sort(a, b):
                return
            if a > 0 and not self._less(a - 1, pivot):
                a = self._partition_equal(a, b, pivot)
                continue
            middle, partitioned = self._partition(a, b, pivot)
            left, right, least = middle - a, b - middle, (b - a) // 8
            balanced = min(left, right) >= least
            if left < right:
                self.sort(a, middle, limit)
                a = middle + 1
            else:
                self.sort(middle + 1, b, limit)
                b = middle
        self._insertion_sort(a, b)

    def _insertion_sort(self, a: int, b: int) -> None:
        for i in range(a + 1, b):
            j = i
            while j > a and self._less(j, j - 1):
                self._swap(j, j - 1)
                j -= 1

    def _sift_down(self, low: int, high: int, first: int) -> None:
        root = low
        while (child := 2 * root + 1) < high:
            if child + 1 < high and self._less(first + child, first + child + 1):
                child += 1
            if not self._less(first + root, first + child):
                return
            self._swap(first + root, first + child)
            root = child

    def _heap_sort(self, a: int, b: int) -> None:
        length = b - a
        for i in range((length - 1) // 2, -1, -1):
            self._sift_down(i, length, a)
        for i in range(length - 1, -1, -1):
            self._swap(a, a + i)
            self._sift_down(0, i, a)

    def _partition(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        """Move the pivot to its final position, smaller elements before it; return whether all were in place."""
        self._swap(a, pivot)
        i, j = self._skip(a, a + 1, b - 1)
        if i > j:
            self._swap(j, a)
            return j, True
        while i <= j:
            self._swap(i, j)
            i, j = self._skip(a, i + 1, j - 1)
        self._swap(j, a)
        return j, False

    def _skip(self, pivot: int, i: int, j: int) -> tuple[int, int]:
        """Skip elements that are on the correct side of the pivot."""
        while i <= j and self._less(i, pivot):
            i += 1
        while i <= j and not self._less(j, pivot):
            j -= 1
        return i, j

    def _partition_equal(self, a: int, b: int, pivot: int) -> int:
        """Move elements equal to the pivot to the front; return where the greater ones begin."""
        self._swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not self._less(a, i):
                i += 1
            while i <= j and self._less(a, j):
                j -= 1
            if i > j:
                return i
            self._swap(i, j)
            i, j = i + 1, j - 1

    def _partial_insertion_sort(self, a: int, b: int) -> bool:
        """Try to finish a nearly sorted range in a few steps."""
        i = a + 1
        for _ in range(_PARTIAL_STEPS):
            while i < b and not self._less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < _SHIFT_FROM:
                return False
            self._swap(i, i - 1)
            if i - a >= 2:
                self._shift_down(i)
            if b - i >= 2:
                self._shift_up(i, b)
        return False

    def _shift_down(self, i: int) -> None:
        for j in range(i - 1, 0, -1):
            if not self._less(j, j - 1):
                return
            self._swap(j, j - 1)

    def _shift_up(self, i: int, b: int) -> None:
        for j in range(i + 1, b):
            if not self._less(j, j - 1):
                return
            self._swap(j, j - 1)

    def _break_patterns(self, a: int, b: int) -> None:
        """Scatter three elements, with a generator that is seeded with the length."""
        length = b - a
        if length < 8:
            return
        state = length
        index = a + (length // 4) * 2 - 1
        for i in range(3):
            state ^= (state << 13) & _WORD
            state ^= state >> 7
            state ^= (state << 17) & _WORD
            other = state & ((1 << length.bit_length()) - 1)
            if other >= length:
                other -= length
            self._swap(index - 1 + i, a + other)

    def _choose_pivot(self, a: int, b: int) -> tuple[int, _Hint]:
        length = b - a
        quarter = length // 4
        i, j, k = a + quarter, a + quarter * 2, a + quarter * 3
        swaps = 0
        if length >= _NINTHER_FROM:
            i, by_i = self._median(i - 1, i, i + 1)
            j, by_j = self._median(j - 1, j, j + 1)
            k, by_k = self._median(k - 1, k, k + 1)
            swaps = by_i + by_j + by_k
        j, more = self._median(i, j, k)
        swaps += more
        if swaps == 0:
            return j, _Hint.INCREASING
        return j, _Hint.DECREASING if swaps == _MAX_SWAPS else _Hint.UNKNOWN

    def _median(self, a: int, b: int, c: int) -> tuple[int, int]:
        """The index of the median of three, and the number of swaps needed."""
        swaps = 0
        if self._less(b, a):
            a, b, swaps = b, a, swaps + 1
        if self._less(c, b):
            b, c, swaps = c, b, swaps + 1
        if self._less(b, a):
            a, b, swaps = b, a, swaps + 1
        return b, swaps
