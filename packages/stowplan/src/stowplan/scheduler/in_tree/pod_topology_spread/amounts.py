"""Score: the number of matching pods by domain, weighted by the number of domains."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes, Floats, Ints, Mask, Values
from stowplan.scheduler.in_tree.pod_topology_spread.constraints import Constraint, Prepared


class Part(PlainStruct, frozen=True, eq=False):
    """One soft constraint's scores: by domain code if there are codes, otherwise by row."""

    codes: Codes | None
    amounts: Floats


def ignored_rows(prepared: Sequence[Prepared], candidates: Mask) -> Mask | None:
    """Rows that lack a key; None when no candidate does."""
    lacking: Mask | None = None
    for part in prepared:
        missing = part.domains.missing
        if missing is not None:
            lacking = missing if lacking is None else lacking | missing
    return lacking if lacking is not None and bool((lacking & candidates).any()) else None


def rounded_sum(parts: Sequence[Part]) -> Ints:
    """The rounded sum of the parts, added in the order of the constraints."""
    total: Floats | None = None
    for part in parts:
        amounts = part.amounts if part.codes is None else part.amounts[part.codes]
        total = amounts if total is None else total + amounts
    assert total is not None
    return rounded(total)


def weighted_counts(counts: Values, domains: int, constraint: Constraint) -> Floats:
    """Counts weighted by the number of domains."""
    found: Floats = counts * math.log(domains + 2) + float(constraint.max_skew - 1)
    return found


def rounded(amounts: Floats) -> Ints:
    """Round half away from zero; no value is negative."""
    rounded: Ints = np.floor(amounts + 0.5).astype(np.int64)
    return rounded


def by_difference(raw: Ints, low: int, high: int) -> Ints:
    """Normalize: fewer pods score higher, in proportion to the maximum."""
    if high <= 0:
        return np.full(len(raw), 100, np.int64)
    return 100 * (high + low - raw) // high


def registered_sums(present: Codes, sums: Ints, *, system: bool) -> tuple[Ints, int]:
    """Matching pods by domain, for domains with a candidate; and the number of these domains.

    With system defaults, nodes without the label share a domain, which counts as one although it is not scored.
    """
    registered = np.zeros_like(sums)
    registered[present] = sums.take(present)
    without = len(present) and not present.item(0)
    return registered, len(present) - int(without and not system)
