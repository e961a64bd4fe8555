"""The Pareto front of two measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_lab.tuning.measures import MEASURES, sign

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def axes_of(terms: Iterable[str], found: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Two measures that differ between configurations: the objective's first; fewer if fewer differ."""
    # Waiting time is mostly traded for one of these.
    others = ("cost", "waits.mean", "fragmentation", "nodes.mean", "evictions", "utilization")
    differing = [
        measure
        for measure in dict.fromkeys((*terms, *others, *MEASURES))
        if len({round(values.get(measure, 0.0), 9) for values in found}) > 1
    ]
    return tuple(differing[:2])


def front(axes: Sequence[str], found: Mapping[int, Mapping[str, float]]) -> list[int]:
    """The keys of the undominated ones, from best to worst in the first axis."""
    if len(axes) < 2:
        return []
    points = sorted(
        ((sign(axes[0]) * values.get(axes[0], 0.0), sign(axes[1]) * values.get(axes[1], 0.0)), key)
        for key, values in found.items()
    )
    kept: list[int] = []
    lowest = float("inf")
    for (_, second), key in points:
        if second < lowest:
            kept.append(key)
            lowest = second
    return kept
