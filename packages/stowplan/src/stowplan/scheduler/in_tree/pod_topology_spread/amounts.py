"""Score: the number of matching pods by domain, weighted by the number of domains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.scheduler.in_tree.pod_topology_spread.constraints import Constraint, Prepared


class Part(PlainStruct, frozen=True, eq=False):
    """One soft constraint's scores: by domain code if there are codes, otherwise by row."""

    codes: npt.NDArray[np.intp] | None
    amounts: npt.NDArray[np.float64]


def ignored_rows(prepared: Sequence[Prepared], candidates: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | None:
    """Rows that lack a key; None when no candidate does."""
    lacking: npt.NDArray[np.bool_] | None = None
    for part in prepared:
        missing = part.domains.missing
        if missing is not None:
            lacking = missing if lacking is None else lacking | missing
    return lacking if lacking is not None and bool((lacking & candidates).any()) else None


def rounded_sum(parts: Sequence[Part]) -> npt.NDArray[np.int64]:
    """The rounded sum of the parts, added in the order of the constraints."""
    total: npt.NDArray[np.float64] | None = None
    for part in parts:
        amounts = part.amounts if part.codes is None else part.amounts[part.codes]
        total = amounts if total is None else total + amounts
    assert total is not None
    return rounded(total)


def weighted_counts(counts: npt.NDArray[Any], domains: int, constraint: Constraint) -> npt.NDArray[np.float64]:
    """Counts weighted by the number of domains."""
    found: npt.NDArray[np.float64] = counts * math.log(domains + 2) + float(constraint.max_skew - 1)
    return found


def rounded(amounts: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Round half away from zero; no value is negative."""
    rounded: npt.NDArray[np.int64] = np.floor(amounts + 0.5).astype(np.int64)
    return rounded


def by_difference(raw: npt.NDArray[np.int64], low: int, high: int) -> npt.NDArray[np.int64]:
    """Normalize: fewer pods score higher, in proportion to the maximum."""
    if high <= 0:
        return np.full(len(raw), 100, np.int64)
    return 100 * (high + low - raw) // high


def registered_sums(
    present: npt.NDArray[np.intp], sums: npt.NDArray[np.int64], *, system: bool
) -> tuple[npt.NDArray[np.int64], int]:
    """Matching pods by domain, for domains with a candidate; and the number of these domains.

    With system defaults, nodes without the label share a domain, which counts as one although it is not scored.
    """
    registered = np.zeros_like(sums)
    registered[present] = sums.take(present)
    without = len(present) and not present.item(0)
    return registered, len(present) - int(without and not system)
