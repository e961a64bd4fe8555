"""The rules that select one candidate, in order.

Upstream: pickOneNodeForPreemption in pkg/scheduler/framework/preemption/preemption.go.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Rows
from stowplan.scheduler.cluster.pod_table import PodTable


def best_of(pods: PodTable, slots: Ints, starts: Rows, violations: Ints) -> Rows:
    """Indexes of the best candidates: each rule keeps those with the lowest value.

    `slots` are the victims of all candidates, grouped by candidate, most important first; `starts` has the index of
    each candidate's first victim.
    """
    left = np.arange(len(starts))
    if len(left) <= 1:
        return left
    for values in _rules(pods, slots, starts, violations):
        of_left = values[left]
        left = left[of_left == of_left.min()]
        if len(left) == 1:
            break
    return left


def _rules(pods: PodTable, slots: Ints, starts: Rows, violations: Ints) -> Iterator[Ints]:
    """Budget violations, highest priority, sum of priorities, number of victims, latest of the earliest start times."""
    yield violations
    priorities = pods.priority[slots]
    yield priorities[starts]
    yield np.add.reduceat(priorities + (1 << 31), starts)
    counts = np.diff(np.append(starts, len(slots)))
    yield counts
    highest = np.repeat(priorities[starts], counts)
    of_highest = np.where(priorities == highest, pods.start_time[slots], np.iinfo(np.int64).max)
    yield -np.minimum.reduceat(of_highest, starts)
